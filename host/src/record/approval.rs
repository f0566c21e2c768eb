use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Content, InvocationId, Timestamp, digest};

macro_rules! approval_states {
    ($($(#[$doc:meta])* $name:ident = $word:literal),* $(,)?) => {
        /// Where an approval stands. Only `pending` can be answered, and only `approved` can be claimed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum ApprovalState {
            $($(#[$doc])* #[serde(rename = $word)] $name,)*
        }

        impl ApprovalState {
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// The state that `word` names; nothing for any other word.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$name),)* _ => None }
            }
        }
    };
}

approval_states! {
    /// Nobody has answered yet.
    Pending = "pending",
    /// Somebody said yes, and nothing has run.
    Approved = "approved",
    Rejected = "rejected",
    /// Nobody answered, or nobody ran it, in time.
    Expired = "expired",
    /// The call ended before it was run.
    Withdrawn = "withdrawn",
    /// The one run that was approved has begun.
    Claimed = "claimed",
    /// That run has its result.
    Done = "done",
}

impl fmt::Display for ApprovalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an approval is about: a digest for each part, so that a change can be named. Never the parts themselves.
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
    /// One digest of all parts.
    pub fn digest(&self) -> String {
        let Self { component, declaration, capability, arguments, actor } = self;
        digest([component, declaration, capability, arguments, actor].map(String::as_str).join("\n").as_bytes())
    }

    /// In plain words, what is not the same in `other`.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        [
            (self.component == other.component, "the component"),
            (self.declaration == other.declaration, "what the tool declares"),
            (self.capability == other.capability, "what the call would be able to do"),
            (self.arguments == other.arguments, "the arguments"),
            (self.actor == other.actor, "who calls"),
        ]
        .into_iter()
        .filter_map(|(same, part)| (!same).then_some(part))
        .collect()
    }
}

/// A call that somebody has to approve, as it is stored before anybody is asked. Its id is the invocation's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    pub invocation_id: InvocationId,
    pub tool_id: String,
    pub binding: Binding,
    /// Who calls, where that is known. Never who approves.
    pub actor_ref: Option<String>,
    /// The session that an answer can be remembered for.
    pub session: Option<String>,
    /// The digest of why it is asked: which rules, hooks or profile, and their words.
    pub question: String,
    pub asked_at: Timestamp,
    pub expires_at: Timestamp,
    /// Exactly what whoever is asked gets to see (AT-DEC-15).
    pub prompt: Vec<Content>,
    /// Whether the prompt shows a part of the call only: an approval then says that it knows.
    pub cut: bool,
    pub plan: Plan,
}

/// What it takes to go on with the same call in another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The tool, by the name that it was called by.
    pub tool: String,
    /// The texts, because their bytes count.
    pub model_input: String,
    pub permission_input: String,
    /// `permission_input` as it may be shown, where something in it must not be.
    pub shown_input: Option<String>,
    /// What conceals the references of such a call, so that they stay the same in another process.
    pub reference_key: Option<String>,
    /// How the door that took the call can make its request again: its own words. Without it only the process that
    /// asked can run the call.
    pub origin: Option<Value>,
}

/// What somebody who was asked said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    pub approved: bool,
    /// The principal who answered.
    pub approver: String,
    /// Where: `terminal`, `command`, or the name of another door.
    pub channel: String,
    /// The input that should run instead, as text.
    pub edit: Option<String>,
    pub feedback: Option<String>,
    /// Approve the same tool with the same capability for the rest of the session.
    pub always: bool,
    pub answered_at: Timestamp,
}

/// An approval that holds for the rest of a session: for one tool of one component, with exactly one capability, asked about
/// for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRule {
    pub session: String,
    pub actor: String,
    pub tool_id: String,
    pub component: String,
    pub declaration: String,
    pub capability: String,
    /// What was asked: another question is not answered by it.
    pub question: String,
}

impl SessionRule {
    /// The rule that an approval of `binding` in `session` can become, for the question with this digest.
    pub fn new(session: &str, tool_id: &str, binding: &Binding, question: &str) -> Self {
        let Binding { component, declaration, capability, actor, arguments: _ } = binding;
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

    /// Names the rule in records.
    pub fn reference(&self) -> String {
        let Self { session, actor, tool_id, component, declaration, capability, question } = self;
        let parts = [session, actor, tool_id, component, declaration, capability, question].map(String::as_str);
        format!("session:{}", digest(parts.join("\n").as_bytes()))
    }
}
