use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr};

use super::{Binding, Content, InputResponses, InvocationId, Plan, Timestamp, Usage};

/// A waiting call, for another process to continue it. Sealed on disk: it has arguments, answers, and what the tool
/// saved.
///
/// ```
/// use toolcell_spec::{Suspension, Timestamp};
///
/// fn is_open(suspension: &Suspension) -> bool {
///     suspension.expires_at > Timestamp::now()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspension {
    pub invocation_id: InvocationId,
    pub tool_id: String,
    pub actor_ref: Option<String>,
    /// Identity of the earlier run; the call continues only if it is the same.
    pub binding: Binding,
    /// `true` if an approval was needed and given, for the call or its session.
    pub is_approved: bool,
    /// `true` if lasting changes were possible before the questions.
    pub changes: bool,
    pub plan: Plan,
    pub questions: Vec<OpenQuestion>,
    pub expires_at: Timestamp,
    /// Rounds shown before, on which the client's names of answers depend.
    pub rounds: usize,
    pub unfit: usize,
    /// Earlier questions, those of calls below included.
    pub asked: usize,
    pub calls_left: u32,
    pub responses: InputResponses,
    /// Saved by the tool, in base64.
    pub resume_state: String,
    pub spent: Usage,
    pub partial_bytes: u64,
    pub logs: Vec<Content>,
    /// `true` if a secret was removed from the tool's input.
    pub redacted: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenQuestion {
    pub key: String,
    /// Redacted, without deceptive characters.
    pub message: String,
    pub schema: Value,
    pub problem: Option<String>,
}

/// ```
/// use toolcell_spec::SuspensionState;
///
/// assert_eq!(SuspensionState::parse("waiting"), Some(SuspensionState::Waiting));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
pub enum SuspensionState {
    /// Nothing has run since the questions.
    #[strum(serialize = "waiting")]
    Waiting,
    #[strum(serialize = "running")]
    Claimed,
    #[strum(serialize = "canceled")]
    Withdrawn,
}

impl SuspensionState {
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub fn parse(word: &str) -> Option<Self> {
        word.parse().ok()
    }
}
