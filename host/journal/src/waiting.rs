//! The records of calls that wait for people: for an approval, or for an answer to their tool's question.

use std::io;

use serde::{Deserialize, Serialize};

use toolcell_policy::ApprovalScope;
use toolcell_spec::{
    Answer, Approval, ApprovalState, ErrorCode, InputMutation, PermissionDecision, Refusal,
    SessionRule, Suspension, SuspensionState, ToolEvent, ToolHook, ToolInvocation,
};

/// Why an operation of the store failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Its contents cannot be trusted or understood.
    #[error(
        "the journal's database is damaged: {0}; move journal.db away: the calls of the log are found again without it"
    )]
    Damaged(String),
    #[error(
        "the journal's database was written by a newer toolcell (format {found}, this one knows {known})"
    )]
    Newer { found: i64, known: i64 },
    #[error(
        "an earlier toolcell wrote the journal's database, and this one cannot read it; remove it: rm '{file}'*"
    )]
    /// `file` is escaped for single quotes. The star is for the files that SQLite keeps beside it.
    Older { file: String },
    /// No space, no permission, or a lock that is not released.
    #[error("the journal's database cannot be used: {0}")]
    Unavailable(String),
    #[error("{0} calls wait for an answer already; answer or deny some: toolcell approvals list")]
    Full(u32),
    #[error(
        "the calls that wait for an answer take all the room that they may; answer or deny some: toolcell approvals list"
    )]
    NoRoom,
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<StoreError> for Refusal {
    /// Fails closed: without a record of the question, no approver is asked and nothing runs.
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Damaged(_) => ErrorCode::ApprovalStoreDamaged,
            StoreError::Newer { .. } => ErrorCode::ApprovalStoreNewer,
            StoreError::Older { .. } => ErrorCode::ApprovalStoreOlder,
            StoreError::Unavailable(_) => ErrorCode::JournalUnavailable,
            StoreError::Full(_) | StoreError::NoRoom => ErrorCode::TooManyQuestions,
        };
        let message = match &error {
            StoreError::Damaged(_) => {
                "the approval store is damaged, so no call that needs an approval runs; move the folder `journal` \
                 of toolcell's data folder away to start a new one"
                    .to_owned()
            }
            StoreError::Unavailable(_) => {
                "the approval store cannot be used, so no call that needs an approval runs; `toolcell approvals \
                 list` says why"
                    .to_owned()
            }
            // The command names a path, which is for the operator alone.
            StoreError::Older { .. } => {
                "an earlier toolcell wrote the approval store, and this one cannot read it; `toolcell approvals list` \
                 prints the command that removes it"
                    .to_owned()
            }
            other => other.to_string(),
        };
        Refusal::new(code, message).detail(error.to_string())
    }
}

/// A role in a waiting call. Only one process at a time can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for the answer, and runs the call.
    Runner,
    /// Gives an answer from another process.
    Approver,
}

/// Maximum number of waiting calls: with more, a caller only tires the approver.
pub(crate) const WAITING_MAX: u32 = 200;

/// The records that a call produces, each list in its order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct History {
    pub decisions: Vec<PermissionDecision>,
    pub mutations: Vec<InputMutation>,
    pub hook_runs: Vec<ToolHook>,
    pub events: Vec<ToolEvent>,
}

impl History {
    /// Removes what may repeat the arguments of the call.
    pub fn hide_input(&mut self) {
        self.decisions
            .iter_mut()
            .for_each(PermissionDecision::hide_input);
        self.hook_runs.iter_mut().for_each(ToolHook::hide_input);
        self.events.iter_mut().for_each(ToolEvent::hide_input);
    }
}

/// A call for which an approval is about to be requested.
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    pub approval: Approval,
    pub invocation: ToolInvocation,
    pub history: History,
}

/// The result of giving an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The answer was accepted.
    Taken,
    /// The call no longer waits; this is its state.
    TooLate(ApprovalState),
    /// The approver is the caller, who cannot approve its own call.
    OwnCall,
    /// No approval was requested for such a call.
    Unknown,
}

/// The proof with which a run claims its approval.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The digest of what would run. An approval of anything else cannot be claimed.
    pub binding: String,
    pub invocation: ToolInvocation,
    pub history: History,
    /// The approver's permission for the rest of the session.
    pub always: Option<Allowance>,
}

/// An approval, its state, and its answer.
#[derive(Clone, Debug)]
pub struct ApprovalStanding {
    pub approval: Approval,
    pub state: ApprovalState,
    pub answer: Option<Answer>,
}

/// Everything that is stored about one call.
///
/// ```
/// use toolcell_journal::{Journal, StoreError, StoredApproval};
/// use toolcell_spec::{ApprovalState, InvocationId};
///
/// /// `true` if the call may be resumed with `Host::resume`.
/// async fn is_approved(journal: &Journal, id: InvocationId) -> Result<bool, StoreError> {
///     let kept: Option<StoredApproval> = journal.run(move |store| store.kept(id)).await?;
///     Ok(kept.is_some_and(|kept| kept.state == ApprovalState::Approved))
/// }
/// ```
#[derive(Clone, Debug)]
pub struct StoredApproval {
    /// The question, and the call that it is about.
    pub approval: Approval,
    /// The state of the question.
    pub state: ApprovalState,
    /// The approver's answer, if there is one.
    pub answer: Option<Answer>,
    /// The invocation, as it was last stored.
    pub invocation: ToolInvocation,
    /// The records that the call has produced so far.
    pub history: History,
    /// `true` if the call ran, and waits for an answer to its tool's question.
    pub is_suspended: bool,
    /// The result, byte for byte as it was stored.
    pub result: Option<String>,
}

/// A permission for the rest of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The subject of the approval.
    pub rule: SessionRule,
    /// The most that a later call may be able to do; `None` if it has to be exactly the capability of the rule.
    pub scope: Option<ApprovalScope>,
}

impl Allowance {
    /// `true` if a call that would need `asked` needs no approval. Both rules have the same subject.
    pub(crate) fn covers(&self, asked: &Self) -> bool {
        let scopes = self.scope.as_ref().zip(asked.scope.as_ref());
        self.rule == asked.rule
            || scopes.is_some_and(|(own, asked)| own.covers(asked))
            || !guard!("always_scope")
    }
}

/// A call that is about to wait for answers.
#[derive(Clone, Debug)]
pub struct SuspendRequest {
    pub suspension: Suspension,
    pub invocation: ToolInvocation,
    pub history: History,
}

/// Everything that is stored about a suspended call.
///
/// ```
/// use toolcell_journal::{Journal, StoreError, SuspendedCall};
/// use toolcell_spec::{InvocationId, SuspensionState};
///
/// /// `true` if the call may be resumed with `Host::resume_suspended`.
/// async fn waits(journal: &Journal, id: InvocationId) -> Result<bool, StoreError> {
///     let suspended: Option<SuspendedCall> = journal.run(move |store| store.suspended(id)).await?;
///     Ok(suspended.is_some_and(|suspended| suspended.state == SuspensionState::Waiting))
/// }
/// ```
#[derive(Clone, Debug)]
pub struct SuspendedCall {
    pub suspension: Suspension,
    pub state: SuspensionState,
    /// The invocation, as it was last stored.
    pub invocation: ToolInvocation,
    /// The records that the call has produced so far.
    pub history: History,
    /// The approval that the call has used, if it needed one.
    pub approval: Option<Approval>,
}
