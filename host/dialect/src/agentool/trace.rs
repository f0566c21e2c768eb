use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use strum::IntoStaticStr;
use toolcell_spec::{Extra, TypedFields};

use super::call::present;
use super::{ToolCall, ToolResult};

/// `ReasoningTrace` (AO-RT-01..11): one execution of an agent.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReasoningTrace {
    pub trace_id: String,
    pub agent_id: String,
    pub session_id: String,
    pub started_at: String,
    /// Absent while the agent runs, as are `output` and `status`.
    pub finished_at: Option<String>,
    /// `null` if unknown.
    pub input: Value,
    #[serde(default, deserialize_with = "present")]
    pub output: Option<Value>,
    pub status: Option<TraceStatus>,
    pub steps: Vec<TraceStep>,
    pub metrics: TraceMetrics,
    #[serde(default)]
    pub metadata: Extra,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// `status` of a trace (AO-RS-01..06).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceStatus {
    Success,
    Error,
    LoopDetected,
    ContextOverflow,
    Timeout,
    Refusal,
}

/// `type` of a step (AO-ST-01..06).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum StepType {
    Reasoning,
    ToolCall,
    ToolResult,
    Handoff,
    MemoryRead,
    MemoryWrite,
}

impl StepType {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The type says which fields a step has; others may have any values.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceStep {
    pub step_id: String,
    #[serde(rename = "type")]
    pub kind: StepType,
    /// For logged calls, as `tool_result`: callers add no such steps.
    pub tool_call: Option<ToolCall>,
    pub tool_result: Option<ToolResult>,
    /// `content` and `context_tokens` of `reasoning`, `to_agent` and `message` of `handoff`, `query` and `results` of
    /// `memory_read`, `content` and `key` of `memory_write`, and unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
    pub timestamp: String,
}

impl TraceStep {
    pub(super) fn new(kind: StepType) -> Self {
        Self {
            step_id: String::new(),
            kind,
            tool_call: None,
            tool_result: None,
            extra: Extra::new(),
            timestamp: String::new(),
        }
    }

    pub(super) fn with_texts(kind: StepType, texts: [(&str, &str); 2]) -> Self {
        let mut step = Self::new(kind);
        step.extra
            .extend(texts.map(|(name, text)| (name.to_owned(), text.into())));
        step
    }

    /// Size of the model's context, in tokens.
    pub fn context_tokens(&self) -> Option<u64> {
        self.extra.get("context_tokens").and_then(Value::as_u64)
    }

    /// Reason why a posted step does not fit its type.
    pub(super) fn problem(&self) -> Option<String> {
        let is_text: fn(&Value) -> bool = Value::is_string;
        let (needed, optional, is_right, what) = match self.kind {
            StepType::Reasoning => (
                "content",
                "context_tokens",
                Value::is_u64 as _,
                "a whole number",
            ),
            StepType::Handoff => ("to_agent", "message", is_text, "a text"),
            StepType::MemoryRead => ("query", "query", is_text, "a text"),
            StepType::MemoryWrite => ("content", "key", is_text, "a text"),
            StepType::ToolCall | StepType::ToolResult => return None,
        };
        let text = self.extra.text(needed);
        if text.is_none_or(|text| text.is_empty() && self.kind == StepType::Handoff) {
            return Some(format!("it has no text `{needed}`"));
        }
        let given = self.extra.get(optional);
        let is_wrong = given.is_some_and(|value| !is_right(value));
        is_wrong.then(|| format!("`{optional}` is not {what}"))
    }
}

/// `metrics` of a trace (AO-RT-10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceMetrics {
    pub total_tokens: u64,
    pub total_cost_usd: Number,
    pub total_duration_ms: u64,
    pub step_count: usize,
    pub tool_call_count: usize,
    #[serde(flatten)]
    pub extra: Extra,
}
