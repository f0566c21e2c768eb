use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use strum::IntoStaticStr;
use toolcell_spec::Extra;

use super::{ToolCall, ToolResult, Word, present};

/// `ReasoningTrace` (AO-RT-01..11): the record of one execution of an agent.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReasoningTrace {
    pub trace_id: String,
    pub agent_id: String,
    pub session_id: String,
    pub started_at: String,
    /// Absent while the agent runs; so are `output` and `status`.
    pub finished_at: Option<String>,
    /// `null` if it is not known.
    pub input: Value,
    #[serde(default, deserialize_with = "present")]
    pub output: Option<Value>,
    pub status: Option<Word<TraceStatus>>,
    pub steps: Vec<TraceStep>,
    pub metrics: Option<TraceMetrics>,
    pub metadata: Option<Extra>,
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
    /// The word of the format.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One step. Its type says which of the other fields it has.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceStep {
    pub step_id: String,
    #[serde(rename = "type")]
    pub kind: Word<StepType>,
    /// Of `reasoning` and `memory_write`.
    #[serde(default, deserialize_with = "present")]
    pub content: Option<Value>,
    /// Of `memory_write`.
    #[serde(default, deserialize_with = "present")]
    pub key: Option<Value>,
    /// Of `reasoning`.
    pub context_tokens: Option<Number>,
    pub tool_call: Option<ToolCall>,
    pub tool_result: Option<ToolResult>,
    /// Of `handoff`; so is `message`.
    #[serde(default, deserialize_with = "present")]
    pub to_agent: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub message: Option<Value>,
    /// Of `memory_read`; so is `results`.
    #[serde(default, deserialize_with = "present")]
    pub query: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub results: Option<Value>,
    pub timestamp: String,
    #[serde(flatten)]
    pub extra: Extra,
}

impl TraceStep {
    /// A step without an id, a time and content.
    pub(super) fn new(kind: StepType) -> Self {
        Self {
            step_id: String::new(),
            kind: Word::Known(kind),
            content: None,
            key: None,
            context_tokens: None,
            tool_call: None,
            tool_result: None,
            to_agent: None,
            message: None,
            query: None,
            results: None,
            timestamp: String::new(),
            extra: Extra::new(),
        }
    }

    pub(super) fn is(&self, kind: StepType) -> bool {
        self.kind.known() == Some(kind)
    }
}

/// `metrics` of a trace (AO-RT-10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceMetrics {
    pub total_tokens: Number,
    pub total_cost_usd: Number,
    pub total_duration_ms: Number,
    pub step_count: Number,
    pub tool_call_count: Number,
    #[serde(flatten)]
    pub extra: Extra,
}
