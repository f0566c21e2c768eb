use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr};

use super::{Content, InvocationId, Timestamp, digest};

/// Only `pending` can be answered, and only `approved` can be claimed.
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
    Pending,
    /// Nothing has run yet.
    Approved,
    Rejected,
    /// Not answered, or not run, in time.
    Expired,
    Canceled,
    /// The one approved run has begun.
    Running,
    Finished,
}

impl ApprovalState {
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub fn parse(word: &str) -> Option<Self> {
        word.parse().ok()
    }
}

/// Digests of an approval's subject, never the parts themselves.
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
    pub component: String,
    /// Declaration, interface and both profiles.
    pub declaration: String,
    /// The effective capability and the limits.
    pub capability: String,
    /// The exact bytes of the input that would run.
    pub arguments: String,
    pub actor: String,
}

impl Binding {
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

/// It is stored before the approver is asked; its id is the invocation's.
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
    pub invocation_id: InvocationId,
    pub tool_id: String,
    pub binding: Binding,
    /// Never the approver.
    pub actor_ref: Option<String>,
    /// The session that an answer can be remembered for.
    pub session: Option<String>,
    /// Digest of the reasons: rules, hooks or profile, and their texts.
    pub question: String,
    pub asked_at: Timestamp,
    /// Without an answer by then, the call is rejected.
    pub expires_at: Timestamp,
    /// The exact content for the approver (AT-DEC-15).
    pub prompt: Vec<Content>,
    /// `true` if an approval must acknowledge that the prompt is not all of the call.
    pub cut: bool,
    pub plan: Plan,
}

/// Data for another process to continue the call.
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
    /// The name that the caller used.
    pub tool: String,
    /// A text, as its exact bytes count.
    pub model_input: String,
    pub permission_input: String,
    /// `permission_input` as it may be shown; `None` if all of it may be.
    pub shown_input: Option<String>,
    /// Keeps the concealed references of the call the same in every process.
    pub reference_key: Option<String>,
    /// The repeatable request, in the entry point's format; without it, only this process can run the call.
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
    pub approved: bool,
    /// The principal who answered.
    pub approver: String,
    /// `terminal`, `command`, or the name of another entry point.
    pub channel: String,
    /// Input text to run instead.
    pub edit: Option<String>,
    /// A note (AT-DEC-16).
    pub feedback: Option<String>,
    /// `true` for the same tool with the same capability in the rest of the session.
    pub always: bool,
    pub answered_at: Timestamp,
}

/// It covers one tool of one component, with one capability and one reason, and ends after [`SessionRule::LASTS`],
/// because a named session has no end of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRule {
    pub session: String,
    pub actor: String,
    pub tool_id: String,
    pub component: String,
    pub declaration: String,
    pub capability: String,
    pub question: String,
}

impl SessionRule {
    pub const LASTS: Duration = Duration::from_secs(12 * 3_600);

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

    pub fn is_about(&self, other: &Self) -> bool {
        *self
            == Self {
                capability: self.capability.clone(),
                ..other.clone()
            }
    }

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
