use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr};

use super::{Binding, Content, InputResponses, InvocationId, Plan, Timestamp, Usage};

/// A call that waits for answers to its tool's questions, with what another process needs to go on with it. It is sealed
/// on disk: it has the arguments, the answers so far, and what the tool saved.
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
    /// The tool that asks.
    pub tool_id: String,
    /// The caller, if known.
    pub actor_ref: Option<String>,
    /// Identity of what ran so far. The call continues only if it is the same.
    pub binding: Binding,
    /// `true` if the call needed an approval and had one: its own, or its session's.
    pub is_approved: bool,
    /// `true` if the tool could make lasting changes before it asked.
    pub changes: bool,
    pub plan: Plan,
    /// The questions without an answer, in the tool's order.
    pub questions: Vec<OpenQuestion>,
    /// When the call stops waiting.
    pub expires_at: Timestamp,
    /// Number of rounds of questions that the client was shown before this one: its names of the answers depend on it.
    pub rounds: usize,
    /// Number of invalid answers in this round.
    pub unfit: usize,
    /// Number of times that the call, and those that it made, asked before this round.
    pub asked: usize,
    /// Number of calls of other tools that it may still make.
    pub calls_left: u32,
    /// The answers so far.
    pub responses: InputResponses,
    /// State saved by the tool, in base64.
    pub resume_state: String,
    /// Usage so far.
    pub spent: Usage,
    /// Bytes of the partial results so far.
    pub partial_bytes: u64,
    /// Output and logs of the tool so far.
    pub logs: Vec<Content>,
    /// `true` if a secret was removed from data that the tool received.
    pub redacted: bool,
}

/// A question of a tool, as its caller's user is asked it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenQuestion {
    pub key: String,
    /// Without deceptive characters, and redacted.
    pub message: String,
    /// JSON Schema of the answer.
    pub schema: Value,
    /// Why the last answer could not be used.
    pub problem: Option<String>,
}

/// State of a suspended call.
///
/// ```
/// use toolcell_spec::SuspensionState;
///
/// assert_eq!(SuspensionState::parse("waiting"), Some(SuspensionState::Waiting));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
pub enum SuspensionState {
    /// Its questions can be answered, and nothing has run since they were asked.
    #[strum(serialize = "waiting")]
    Waiting,
    /// A run with the answers has begun.
    #[strum(serialize = "running")]
    Claimed,
    /// The call was canceled, and cannot run any more.
    #[strum(serialize = "canceled")]
    Withdrawn,
}

impl SuspensionState {
    /// Returns the word of the state, as it is stored.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Parses the word of a state; `None` for any other word.
    pub fn parse(word: &str) -> Option<Self> {
        word.parse().ok()
    }
}
