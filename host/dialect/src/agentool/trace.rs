use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use strum::IntoStaticStr;
use toolcell_spec::Extra;

use super::{ToolCall, ToolResult};

/// `ReasoningTrace` (AO-RT-01..11): the record of one execution of an agent.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReasoningTrace {
    pub trace_id: String,
    pub agent_id: String,
    pub session_id: String,
    pub started_at: String,
    /// Absent while the agent runs; so are `output` and `status`.
    pub finished_at: Option<String>,
    /// `null` if it is not known.
    pub input: Value,
    pub output: Option<Value>,
    pub status: Option<TraceStatus>,
    pub steps: Vec<TraceStep>,
    pub metrics: TraceMetrics,
    pub metadata: Extra,
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
    pub kind: StepType,
    /// Of `reasoning` and `memory_write`.
    pub content: Option<String>,
    /// Of `memory_write`.
    pub key: Option<String>,
    /// Of `reasoning`.
    pub context_tokens: Option<u64>,
    pub tool_call: Option<ToolCall>,
    pub tool_result: Option<ToolResult>,
    /// Of `handoff`; so is `message`.
    pub to_agent: Option<String>,
    pub message: Option<String>,
    /// Of `memory_read`; so is `results`.
    pub query: Option<String>,
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
            kind,
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

    /// The field that a step of its type must have, and this one does not.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let (name, is_there) = match self.kind {
            StepType::Reasoning | StepType::MemoryWrite => ("content", self.content.is_some()),
            StepType::ToolCall => ("tool_call", self.tool_call.is_some()),
            StepType::ToolResult => ("tool_result", self.tool_result.is_some()),
            StepType::Handoff => {
                let agent = self.to_agent.as_deref().unwrap_or_default();
                ("to_agent", !agent.is_empty())
            }
            StepType::MemoryRead => ("query", self.query.is_some()),
        };
        (!is_there).then_some(name)
    }
}

/// `metrics` of a trace (AO-RT-10).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceMetrics {
    pub total_tokens: u64,
    pub total_cost_usd: Number,
    pub total_duration_ms: u64,
    pub step_count: usize,
    pub tool_call_count: usize,
}
