//! Reading the blocks of a result, for all dialects.

use serde_json::{Map, Value};
use toolcell_spec::{Content, PersistedRef, ToolResult, TypedFields};

/// Output blocks without the host's words for an empty output, and without the error's message, which is the last
/// block.
pub(super) fn output(result: &ToolResult) -> &[Content] {
    let blocks = result.model_facing_content.as_slice();
    match (&result.error, blocks.split_last()) {
        _ if result.empty_result => &[],
        (Some(error), Some((last, before))) if last.as_text() == Some(error.message.as_str()) => {
            before
        }
        _ => blocks,
    }
}

/// From hooks and approvers, for the model.
pub(super) fn context(result: &ToolResult) -> impl Iterator<Item = String> {
    result.additional_context.iter().map(|said| {
        said.as_str()
            .map_or_else(|| said.to_string(), str::to_owned)
    })
}

pub(super) fn persisted(block: &Content) -> (String, Option<PersistedRef>) {
    let preview = block.fields.text("preview").unwrap_or_default();
    let reference = block.fields.get("persisted_ref").cloned();
    let Some(reference) =
        reference.and_then(|found| serde_json::from_value::<PersistedRef>(found).ok())
    else {
        return (preview.to_owned(), None);
    };
    let of = block.fields.text("of").unwrap_or("output");
    let cut = format!(
        "[cut: {} bytes of {of} in all, in the resource {}]",
        reference.size_bytes, reference.uri
    );
    let text = if preview.is_empty() {
        cut
    } else {
        format!("{preview}\n{cut}")
    };
    (text, Some(reference))
}

/// Words for a proposed handoff; `None` if it names no agent.
pub(super) fn handoff(fields: &Map<String, Value>) -> Option<String> {
    let agent = fields.text("to_agent")?;
    let message = fields
        .text("message")
        .map(|message| format!(": {message}"))
        .unwrap_or_default();
    Some(format!(
        "the tool proposes to hand over to {agent:?}{message}"
    ))
}

/// In the block or its field `resource`.
pub(super) fn resource(fields: &Map<String, Value>) -> &Map<String, Value> {
    fields.fields("resource").unwrap_or(fields)
}

pub(super) fn decoded_bytes(data: &str) -> u64 {
    (data.trim_end_matches('=').len() * 3 / 4) as u64
}
