use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr};

use super::{Content, InvocationId, Timestamp, digest};

/// State of an approval. Only `pending` can be answered, and only `approved` can be claimed.
///
/// ```
/// use toolcell_spec::ApprovalState;
///
/// assert_eq!(ApprovalState::parse("running"), Some(ApprovalState::Running));
/// ```
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ApprovalState {
    /// Not answered yet.
    Pending,
    /// Approved, and nothing has run.
    Approved,
    /// Denied by the approver.
    Rejected,
    /// Not answered, or not run, in time.
    Expired,
    /// The call ended before it ran.
    Canceled,
    /// The one approved run has begun.
    Running,
    /// The approved run has its result.
    Finished,
}

impl ApprovalState {
    /// Returns the word of the state, as it is stored.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Parses the word of a state; `None` for any other word.
    pub fn parse(word: &str) -> Option<Self> {
        word.parse().ok()
    }
}

/// The subject of an approval: a digest of each part, to name a part that changed. Never the parts themselves.
///
/// ```
/// use toolcell_spec::Binding;
///
/// fn binding(component: &str) -> Binding {
///     let [declaration, capability, arguments, actor] = [const { String::new() }; 4];
///     Binding { component: component.to_owned(), declaration, capability, arguments, actor }
/// }
/// assert_eq!(binding("sha256:00").differences(&binding("sha256:01")), ["the component"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// The bytes of the component.
    pub component: String,
    /// Declaration, interface and both profiles.
    pub declaration: String,
    /// The effective capability and the limits.
    pub capability: String,
    /// The exact bytes of the input that would run.
    pub arguments: String,
    /// The caller.
    pub actor: String,
}

impl Binding {
    /// One digest of all parts.
    pub fn digest(&self) -> String {
        let Self {
            component,
            declaration,
            capability,
            arguments,
            actor,
        } = self;
        digest(
            [component, declaration, capability, arguments, actor]
                .map(String::as_str)
                .join("\n")
                .as_bytes(),
        )
    }

    /// Names the parts that differ in `other`, in plain words.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        [
            (self.component == other.component, "the component"),
            (
                self.declaration == other.declaration,
                "what the tool declares",
            ),
            (
                self.capability == other.capability,
                "what the call would be able to do",
            ),
            (self.arguments == other.arguments, "the arguments"),
            (self.actor == other.actor, "the caller"),
        ]
        .into_iter()
        .filter_map(|(same, part)| (!same).then_some(part))
        .collect()
    }
}

/// A call that needs an approval, as it is stored before the approver is asked. Its id is the invocation's.
///
/// ```
/// use toolcell_spec::Approval;
///
/// fn line(approval: &Approval) -> String {
///     format!("{} of {}, until {}", approval.invocation_id, approval.tool_id, approval.expires_at)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The call, and the name of the question.
    pub invocation_id: InvocationId,
    /// The tool that would run.
    pub tool_id: String,
    /// Subject of the answer.
    pub binding: Binding,
    /// The caller, if known. Never the approver.
    pub actor_ref: Option<String>,
    /// The session that an answer can be remembered for.
    pub session: Option<String>,
    /// The digest of the reason for the question: which rules, hooks or profile, and their texts.
    pub question: String,
    /// When the approver was first asked.
    pub asked_at: Timestamp,
    /// When the question closes; without an answer the call is rejected.
    pub expires_at: Timestamp,
    /// Exactly what the approver sees (AT-DEC-15).
    pub prompt: Vec<Content>,
    /// `true` if the prompt shows only part of the call: an approval must then acknowledge that.
    pub cut: bool,
    /// How the call can continue.
    pub plan: Plan,
}

/// Data for another process to continue the same call.
///
/// ```
/// use toolcell_spec::Plan;
///
/// /// `true` if another process can run the call.
/// fn can_move(plan: &Plan) -> bool {
///     plan.origin.is_some()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The tool, by the name that the caller used.
    pub tool: String,
    /// Texts, because their exact bytes count.
    pub model_input: String,
    /// The input that was decided on.
    pub permission_input: String,
    /// `permission_input` as it may be shown; `None` if all of it may be.
    pub shown_input: Option<String>,
    /// The key that conceals the references of the call, so that they stay the same in another process.
    pub reference_key: Option<String>,
    /// How the entry point that took the call can repeat its request, in a format of its own. Without it, only the
    /// process that asked can run the call.
    pub origin: Option<Value>,
}

/// The answer of an approver.
///
/// ```
/// use toolcell_spec::{Answer, Timestamp};
///
/// let denial = Answer {
///     approved: false,
///     approver: "ada".to_owned(),
///     channel: "chat".to_owned(),
///     edit: None,
///     feedback: Some("not on this branch".to_owned()),
///     always: false,
///     answered_at: Timestamp::now(),
/// };
/// assert_eq!(serde_json::to_value(&denial)?["channel"], "chat");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// `true` if the call may run.
    pub approved: bool,
    /// The principal who answered.
    pub approver: String,
    /// How the answer came: `terminal`, `command`, or the name of another entry point.
    pub channel: String,
    /// Text of the input that should run instead.
    pub edit: Option<String>,
    /// The approver's note (AT-DEC-16).
    pub feedback: Option<String>,
    /// `true` if the approval covers the same tool with the same capability for the rest of the session.
    pub always: bool,
    /// When the answer was given.
    pub answered_at: Timestamp,
}

/// An approval for the rest of a session: for one tool of one component, with one capability, asked about for one
/// reason. It ends after [`SessionRule::LASTS`], because a named session has no end of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRule {
    pub session: String,
    pub actor: String,
    pub tool_id: String,
    pub component: String,
    pub declaration: String,
    pub capability: String,
    /// The digest of the question: the rule does not answer another one.
    pub question: String,
}

impl SessionRule {
    /// Maximum lifetime of an approval for a session.
    pub const LASTS: Duration = Duration::from_secs(12 * 3_600);

    /// Creates the rule for an approval of `binding` in `session`, for the question with this digest.
    pub fn new(session: &str, tool_id: &str, binding: &Binding, question: &str) -> Self {
        let Binding {
            component,
            declaration,
            capability,
            actor,
            arguments: _,
        } = binding;
        Self {
            session: session.to_owned(),
            actor: actor.clone(),
            tool_id: tool_id.to_owned(),
            component: component.clone(),
            declaration: declaration.clone(),
            capability: capability.clone(),
            question: question.to_owned(),
        }
    }

    /// Returns whether `other` is for the same session, caller, tool and question, with any capability.
    pub fn is_about(&self, other: &Self) -> bool {
        *self
            == Self {
                capability: self.capability.clone(),
                ..other.clone()
            }
    }

    /// Reference to the rule in records.
    pub fn reference(&self) -> String {
        let Self {
            session,
            actor,
            tool_id,
            component,
            declaration,
            capability,
            question,
        } = self;
        let parts = [
            session,
            actor,
            tool_id,
            component,
            declaration,
            capability,
            question,
        ]
        .map(String::as_str);
        format!("session:{}", digest(parts.join("\n").as_bytes()))
    }
}
