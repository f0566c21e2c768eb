//! agentool: specifications of tools, calls, reasoning traces and registries (requirements 1.30, 1.31, 1.33).
//!
//! Unknown fields of every object survive, and change nothing. Numbers are kept as they were written.

mod builder;
mod call;
mod check;
mod post;
mod registry;
#[cfg(test)]
mod tests;
mod tool_spec;
mod trace;

pub use builder::{Detectors, TraceBuilder};
pub(super) use call::arguments;
pub use call::{CallExchange, ToolCall, ToolResult, call, result};
pub use post::{PostContent, TraceEnd, TracePost, TraceStart};
pub use registry::{
    Auth, RegistryEntry, RegistryOffer, RegistryQuery, ToolRegistry, is_named, query, registry,
};
pub use tool_spec::{Category, CostTier, SpecMetadata, ToolSpec, category, snake_case, spec};
pub use trace::{ReasoningTrace, StepType, TraceMetrics, TraceStatus, TraceStep};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A word of a list of the specification, or one that the list does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Word<T> {
    Known(T),
    Other(String),
}

impl<T: Copy> Word<T> {
    /// The word; `None` if it is not one of the known ones.
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Other(_) => None,
        }
    }
}

/// How a document of another program is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentReading {
    /// Every word has to be known, and every field to have its form.
    Strict,
    /// The required fields suffice.
    Lenient,
}

/// An object of the specification.
pub trait SpecDocument: DeserializeOwned {
    /// The first difference to what the specification says; `None` if there is none.
    fn problem(&self) -> Option<String>;
}

/// Reads a document.
///
/// # Errors
///
/// A required field is missing or has another type. If the reading is strict, also [`SpecDocument::problem`].
pub fn read<D: SpecDocument>(value: Value, reading: DocumentReading) -> Result<D, String> {
    let document: D = serde_json::from_value(value).map_err(|error| error.to_string())?;
    match (reading, document.problem()) {
        (DocumentReading::Strict, Some(problem)) => Err(problem),
        _ => Ok(document),
    }
}

/// Reads a present field, so that `null` differs from an absent field.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// `document` as JSON. Serializing one of these types cannot fail, because all keys are texts.
fn to_value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).unwrap_or_default()
}
