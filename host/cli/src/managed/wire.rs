//! The wire forms of Anthropic's managed agents with self-hosted sandboxes. Written against the beta
//! `managed-agents-2026-04-01`, as the official SDKs have it (Python 2.14.0, TypeScript 1.14.0). Unknown fields and events are
//! passed over, because a beta grows.

use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) const BETA: &str = "managed-agents-2026-04-01";
/// Of the header `anthropic-version`.
pub(super) const VERSION: &str = "2026-10-21";
pub(super) const BASE_URL: &str = "https://api.anthropic.com";
/// `expected_last_heartbeat` of the first heartbeat.
pub(super) const NO_HEARTBEAT: &str = "NO_HEARTBEAT";
/// The API takes no longer one, in milliseconds.
pub(super) const POLL_BLOCK_MS: u32 = 999;
/// Of the list of events.
pub(super) const PAGE_EVENTS: u32 = 1000;

/// An item of an environment's work queue.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct WorkItem {
    pub(super) id: String,
    pub(super) data: WorkData,
    /// A payload with credentials for this item alone.
    #[serde(default)]
    secret: Option<Secret>,
    /// Some worker had it before.
    #[serde(default)]
    pub(super) latest_heartbeat_at: Option<String>,
}

impl WorkItem {
    /// Bearer of the calls for this item; `None`: the environment key.
    pub(super) fn sessions_token(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Payload {
            sessions_token: String,
        }
        let text = self.secret.as_ref()?.0.trim_end_matches('=');
        let bytes = data_encoding::BASE64URL_NOPAD.decode(text.as_bytes());
        let payload: Payload = serde_json::from_slice(&bytes.ok()?).ok()?;
        Some(payload.sessions_token).filter(|token| !token.is_empty())
    }
}

#[derive(Clone, Deserialize)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct WorkData {
    /// `session`; the queue also has others, such as `healthcheck`.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Of the session.
    #[serde(default)]
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Heartbeat {
    pub(super) last_heartbeat: String,
    pub(super) lease_extended: bool,
    pub(super) state: String,
    pub(super) ttl_seconds: u64,
}

impl Heartbeat {
    /// The worker may go on.
    pub(super) fn holds(&self) -> bool {
        self.lease_extended && !matches!(self.state.as_str(), "stopping" | "stopped")
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Session {
    pub(super) status: String,
    resources: Vec<Value>,
    agent: SessionAgent,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SessionAgent {
    skills: Vec<Value>,
}

impl Session {
    pub(super) fn has_terminated(&self) -> bool {
        self.status == "terminated"
    }

    /// Files, repositories, memory stores or skills, which the official worker puts into its folder.
    pub(super) fn has_mounts(&self) -> bool {
        !self.resources.is_empty() || !self.agent.skills.is_empty()
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct EventPage {
    #[serde(default)]
    pub(super) data: Vec<Value>,
    #[serde(default)]
    pub(super) next_page: Option<String>,
}

/// An event of a session, reduced to what a worker needs.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum Event {
    #[serde(rename = "agent.tool_use")]
    ToolUse(ToolUse),
    #[serde(rename = "agent.custom_tool_use")]
    CustomToolUse(ToolUse),
    #[serde(rename = "user.tool_result")]
    ToolResult { tool_use_id: String },
    #[serde(rename = "user.custom_tool_result")]
    CustomToolResult { custom_tool_use_id: String },
    #[serde(rename = "user.tool_confirmation")]
    Confirmation { tool_use_id: String, result: String },
    #[serde(rename = "user.interrupt")]
    Interrupt {
        #[serde(default)]
        session_thread_id: Option<String>,
    },
    #[serde(rename = "session.thread_status_terminated")]
    ThreadTerminated { session_thread_id: String },
    #[serde(rename = "session.status_idle")]
    Idle {
        #[serde(default)]
        stop_reason: Option<StopReason>,
    },
    #[serde(rename = "session.status_terminated", alias = "session.deleted")]
    Ended,
    #[serde(other)]
    Other,
}

impl Event {
    /// One whose fields cannot be read asks for nothing.
    pub(super) fn read(value: Value) -> Self {
        match serde_json::from_value(value) {
            Ok(Self::CustomToolUse(tool_use)) => Self::CustomToolUse(ToolUse {
                is_custom: true,
                ..tool_use
            }),
            Ok(event) => event,
            Err(_) => Self::Other,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ToolUse {
    pub(super) id: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) input: Map<String, Value>,
    /// `allow`, `ask` or `deny`.
    #[serde(default)]
    pub(super) evaluated_permission: Option<String>,
    #[serde(default)]
    pub(super) session_thread_id: Option<String>,
    #[serde(skip)]
    pub(super) is_custom: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct StopReason {
    #[serde(rename = "type")]
    kind: String,
}

impl StopReason {
    /// The agent waits for results or confirmations.
    pub(super) fn requires_action(&self) -> bool {
        self.kind == "requires_action"
    }
}

/// What a tool call answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    /// Blocks; never empty, and no text of them is.
    pub(super) content: Vec<Value>,
    pub(super) is_error: bool,
}

impl Answer {
    pub(super) fn text(text: &str) -> Self {
        let text = if text.trim().is_empty() {
            NO_OUTPUT
        } else {
            text
        };
        Self {
            content: vec![json!({ "type": "text", "text": text })],
            is_error: false,
        }
    }

    pub(super) fn error(text: &str) -> Self {
        Self {
            is_error: true,
            ..Self::text(text)
        }
    }

    /// The body that sends it as the result of `tool_use`.
    pub(super) fn event(&self, tool_use: &ToolUse) -> Value {
        let (kind, id) = if tool_use.is_custom {
            ("user.custom_tool_result", "custom_tool_use_id")
        } else {
            ("user.tool_result", "tool_use_id")
        };
        json!({ "events": [{
            "type": kind,
            id: tool_use.id,
            "content": self.content,
            "is_error": self.is_error,
        }] })
    }
}

/// The API refuses a block without text, and the session would wait for ever.
const NO_OUTPUT: &str = "(no output)";

/// Ids are parts of URLs and names of files.
pub(super) fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=100).contains(&text.len())
        && text.bytes().all(is_plain)
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Answer, Event, WorkItem, is_id};

    #[test]
    fn events_are_read_and_unknown_ones_passed_over() {
        let custom = json!({ "type": "agent.custom_tool_use", "id": "e1", "name": "jq__jq", "input": { "a": 1 },
            "processed_at": "2026-11-30T12:00:00Z", "new_field": [] });
        let Event::CustomToolUse(tool_use) = Event::read(custom) else {
            panic!("not a tool use")
        };
        assert!(tool_use.is_custom);
        let sent = Answer::text("  ").event(&tool_use);
        assert_eq!(
            sent["events"][0],
            json!({ "type": "user.custom_tool_result", "custom_tool_use_id": "e1", "is_error": false,
                "content": [{ "type": "text", "text": "(no output)" }] })
        );
        for other in [
            json!({ "type": "agent.telepathy" }),
            json!({ "type": "agent.tool_use" }),
            json!(7),
        ] {
            assert!(matches!(Event::read(other), Event::Other));
        }
    }

    #[test]
    fn a_secret_may_have_a_token_and_is_never_shown() {
        let item = |secret: &str| -> WorkItem {
            let item = json!({ "id": "work_1", "data": { "type": "session", "id": "s" }, "secret": secret });
            serde_json::from_value(item).unwrap()
        };
        let payload = |text: &str| data_encoding::BASE64URL.encode(text.as_bytes());
        let good = item(&payload(r#"{"sessions_token": "tok", "other": 1}"#));
        assert_eq!(good.sessions_token().as_deref(), Some("tok"));
        assert!(!format!("{good:?}").contains(&payload("{\"sessions")[..8]));
        for bad in [
            "",
            "%%",
            &payload("[]"),
            &payload(r#"{"sessions_token": ""}"#),
        ] {
            assert_eq!(item(bad).sessions_token(), None);
        }
    }

    #[test]
    fn ids_lead_nowhere() {
        assert!(is_id("sesn_01AbC-d"));
        for bad in ["", "..", "a/b", "-a", "_a", "a b", "é", &"a".repeat(101)] {
            assert!(!is_id(bad), "{bad}");
        }
    }
}
