//! agentool: specifications of tools, calls, reasoning traces and registries (requirements 1.30, 1.31, 1.33).
//!
//! Unknown fields of posted steps and imported specifications are kept without effect.

mod builder;
mod call;
mod post;
mod registry;
#[cfg(test)]
mod tests;
mod tool_spec;
mod trace;

pub use builder::{Detectors, TraceBuilder, consequences, traceparent};
pub(super) use call::arguments;
pub use call::{ToolCall, ToolResult, result};
pub use post::{PostContent, TraceEnd, TracePost, TraceStart};
pub use registry::{
    Auth, RegistryEntry, RegistryOffer, RegistryQuery, ToolRegistry, is_named, query, registry,
};
pub use tool_spec::{Category, CostTier, SpecMetadata, ToolSpec, category, snake_case, spec};
pub use trace::{ReasoningTrace, StepType, TraceMetrics, TraceStatus, TraceStep};

use serde::Serialize;
use serde_json::Value;

/// Never fails for these types: all keys are texts.
fn to_value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).unwrap_or_default()
}
