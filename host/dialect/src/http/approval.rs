use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use toolcell_spec::InvocationId;
use utoipa::ToSchema;

/// A question about a call.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ApprovalDocument {
    #[schema(value_type = String)]
    pub invocation_id: InvocationId,
    pub tool_id: String,
    /// `pending`, or what became of the question.
    #[schema(value_type = String)]
    pub state: Value,
    /// The caller.
    pub actor_ref: Option<String>,
    #[schema(value_type = String)]
    pub asked_at: Value,
    /// When the question closes; without an answer the call is rejected.
    #[schema(value_type = String)]
    pub expires_at: Value,
    /// The question, as a person reads it.
    pub prompt: String,
    /// The arguments, as JSON text, as far as they may be shown.
    pub arguments: String,
    /// `true` if the prompt omits a part of the call.
    pub cut: bool,
}

/// An answer to a question.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAnswer {
    /// `true` if the call may run, once.
    pub approved: bool,
    /// Approve although the prompt shows a part of the call only.
    #[serde(default)]
    pub accept_partial_view: bool,
    /// Run the call with these arguments instead.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub edit: Option<Box<RawValue>>,
    /// A note for the caller.
    pub feedback: Option<String>,
}

/// The state of a question after an answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ApprovalState {
    #[schema(value_type = String)]
    pub invocation_id: InvocationId,
    /// `approved` or `rejected`.
    pub state: &'static str,
}
