use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use toolcell_spec as record;
use toolcell_spec::{
    Content, Extra, ResultStatus, ToolError, ToolInvocation, TypedFields, is_base64, media_type,
};

use super::{snake_case, to_value};
use crate::block;
use crate::parts::native_id;

/// For arguments that are not all recorded.
const CONCEALED: &str = "blake3-keyed:";

/// `tool_call` (AO-TC-01..05).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// An object.
    pub arguments: Value,
    /// The specification leaves it out in a step, which has its own time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// `tool_result` (AO-TR-01..05).
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The `id` of the call.
    pub call_id: String,
    pub output: Value,
    /// `class: message`; `Some(None)` after success. The specification leaves it out in a step, as `cost_tokens`.
    #[serde(default, deserialize_with = "present")]
    pub error: Option<Option<String>>,
    pub duration_ms: u64,
    pub cost_tokens: Option<u64>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolCall {
    /// The name is the last part of the tool's id; `tool_id` and `invocation_id` identify tool and call.
    pub fn from_invocation(invocation: &ToolInvocation) -> Self {
        let mut extra = Extra::new();
        extra.insert("tool_id".to_owned(), invocation.tool_id.as_str().into());
        extra.insert(
            "invocation_id".to_owned(),
            invocation.invocation_id.to_string().into(),
        );
        let arguments = match arguments(invocation) {
            arguments @ Value::Object(_) => arguments.clone(),
            // A caller sent something else, or the arguments are in no record.
            other => {
                extra.insert("arguments_sent".to_owned(), other.clone());
                Value::Object(Map::new())
            }
        };
        Self {
            id: native_id(invocation),
            name: bare_name(&invocation.tool_id),
            arguments,
            timestamp: Some(invocation.created_at().to_string()),
            extra,
        }
    }
}

impl ToolResult {
    /// The output as the caller got it, with previews.
    pub fn from_record(invocation: &ToolInvocation, result: &record::ToolResult) -> Self {
        let begun = invocation
            .started_at()
            .unwrap_or_else(|| invocation.created_at());
        let ended = invocation.ended_at().unwrap_or(result.created_at);
        let mut extra = Extra::new();
        if let Some(children) = invocation.extra.get("child_invocation_ids") {
            extra.insert("child_invocation_ids".to_owned(), children.clone());
        }
        Self {
            call_id: native_id(invocation),
            output: output(result),
            error: Some(result.error.as_ref().map(error_text)),
            duration_ms: ended.millis_since(begun),
            // No tool reports tokens yet, and none are invented.
            cost_tokens: Some(0),
            extra,
        }
    }
}

/// Tells a `null` from a field that is left out.
pub(super) fn present<'d, D: Deserializer<'d>, T: Deserialize<'d>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

pub fn result(invocation: &ToolInvocation, result: &record::ToolResult) -> Value {
    to_value(&ToolResult::from_record(invocation, result))
}

pub(super) fn is_concealed(invocation: &ToolInvocation) -> bool {
    invocation.model_input_ref.starts_with(CONCEALED)
}

pub(crate) fn arguments(invocation: &ToolInvocation) -> &Value {
    match &invocation.observable_input {
        Some(observable) if is_concealed(invocation) => observable,
        _ => &invocation.model_input,
    }
}

/// Without the namespace; the requested name for an unknown tool.
pub(super) fn bare_name(tool_id: &str) -> String {
    let requested = tool_id.strip_prefix("unresolved:");
    snake_case(
        requested.unwrap_or_else(|| tool_id.rsplit_once('.').map_or(tool_id, |(_, name)| name)),
    )
}

/// `class: message` for a model; developers' words stay in the record.
fn error_text(error: &ToolError) -> String {
    format!("{}: {}", error.error_class.as_str(), error.message)
}

/// Structured output, or else text; `null` without usable output.
fn output(result: &record::ToolResult) -> Value {
    let is_usable = !result.is_error || result.status == ResultStatus::PartialSucceeded;
    if !is_usable {
        return Value::Null;
    }
    if let Some(structured) = result
        .structured_content
        .as_ref()
        .filter(|_| !result.empty_result)
    {
        return structured.clone();
    }
    let blocks = block::output(result);
    let is_text = blocks
        .iter()
        .all(|block| block.as_text().is_some() || block.is_persisted());
    let parts: Vec<String> = blocks.iter().map(block_text).collect();
    match parts.as_slice() {
        [] => Value::Null,
        [one] => one.as_str().into(),
        _ if is_text => parts.join("\n").into(),
        _ => parts.into(),
    }
}

fn block_text(block: &Content) -> String {
    if let Some(text) = block
        .as_text()
        .or_else(|| block::resource(&block.fields).text("text"))
    {
        return text.to_owned();
    }
    if block.is_persisted() {
        return block::persisted(block).0;
    }
    uri(block)
        .or_else(|| block::handoff(&block.fields))
        .unwrap_or_else(|| serde_json::to_string(block).unwrap_or_default())
}

fn uri(block: &Content) -> Option<String> {
    let fields = block::resource(&block.fields);
    if let Some(uri) = fields.text("uri") {
        return Some(uri.to_owned());
    }
    let data = fields.text("data").filter(|data| is_base64(data))?;
    Some(format!(
        "data:{};base64,{data}",
        media_type(fields).unwrap_or("application/octet-stream")
    ))
}
