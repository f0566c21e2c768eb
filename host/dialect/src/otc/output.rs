use serde_json::{Value, json};
use toolcell_spec::{ARTIFACT, Content, PersistedRef, ToolResult, TypedFields, is_uri};

use super::{OtcMode, OtcReply};

/// Marks an object made by toolcell as `wrapped` or `content`, because a value may be neither a list nor blocks (O-11).
pub(super) const MARK: &str = "$toolcell";
pub(super) const WRAPPED: &str = "wrapped";
pub(super) const CONTENT: &str = "content";
pub(super) const CONTEXT: &str = "additional_context";

/// `None` for the mode `null`.
pub(super) fn output(result: &ToolResult, reply: &OtcReply<'_>) -> Option<Value> {
    let blocks = result.model_facing_content.as_slice();
    let artifacts = || blocks.iter().filter_map(|block| artifact(block, reply));
    if reply.expects_artifact
        && let Some(artifact) = artifacts().next()
    {
        return Some(artifact_arm(artifact, reply.mode));
    }
    let context = result.additional_context.as_slice();
    let value = match (&result.structured_content, blocks) {
        _ if result.empty_result => Value::Null,
        (Some(value), _) => value.clone(),
        (None, []) => Value::Null,
        (None, [only]) if only.is_reference() && context.is_empty() => match artifacts().next() {
            Some(artifact) => return Some(artifact_arm(artifact, reply.mode)),
            None => return Some(json!({ "value": content(blocks, context) })),
        },
        (None, blocks) => {
            if blocks
                .iter()
                .all(|block| matches!(block.kind.as_str(), "text" | "diff"))
            {
                Value::String(result.text())
            } else {
                return Some(json!({ "value": content(blocks, context) }));
            }
        }
    };
    // Arcade has a value in every output.
    let is_silent = value.is_null() && context.is_empty();
    if is_silent && reply.mode != OtcMode::Arcade {
        None
    } else {
        Some(json!({ "value": fitted(value, context, reply.mode) }))
    }
}

/// A list, a value with hooks' context, and an object that has the mark itself become an object: the last would be
/// taken for the host's.
fn fitted(value: Value, context: &[Value], mode: OtcMode) -> Value {
    let fits = match &value {
        Value::Array(_) | Value::Null => mode == OtcMode::Arcade,
        Value::Object(fields) => !fields.contains_key(MARK),
        _ => true,
    };
    if fits && context.is_empty() {
        value
    } else {
        with_context(json!({ MARK: WRAPPED, "value": value }), context)
    }
}

fn content(blocks: &[Content], context: &[Value]) -> Value {
    with_context(json!({ MARK: CONTENT, "content": blocks }), context)
}

fn with_context(mut made: Value, context: &[Value]) -> Value {
    if let (Some(fields), false) = (made.as_object_mut(), context.is_empty()) {
        fields.insert(CONTEXT.to_owned(), json!(context));
    }
    made
}

/// Arcade's responses have no arm for an artifact.
fn artifact_arm(artifact: Value, mode: OtcMode) -> Value {
    match mode {
        OtcMode::Otc | OtcMode::OtcSeed => json!({ "artifact": artifact }),
        OtcMode::Arcade => json!({ "value": { "artifact": artifact } }),
    }
}

/// The artifact of a block (OTC-R-08).
fn artifact(block: &Content, reply: &OtcReply<'_>) -> Option<Value> {
    let text = |name: &str| block.fields.text(name);
    if block.is_persisted() {
        let reference = block.fields.get("persisted_ref").cloned();
        let reference: PersistedRef = serde_json::from_value(reference?).ok()?;
        let of = text("of").unwrap_or("output");
        let preview = text("preview").unwrap_or_default();
        return Some(json!({
            "url": address(&reference.uri, Some(&reference.digest), reply)?,
            "content_type": reference.media_type,
            "size": reference.size_bytes,
            "meta": { "description": format!("{of} that is too large for a response; it begins: {preview}") },
        }));
    }
    if block.kind != ARTIFACT {
        return None;
    }
    let description = ["description", "title", "name"]
        .into_iter()
        .find_map(text)
        .unwrap_or("an artifact of the tool");
    Some(json!({
        "url": address(text("uri")?, text("digest"), reply)?,
        "content_type": block.media_type().unwrap_or("application/octet-stream"),
        "size": block.fields.get("size_bytes").and_then(Value::as_u64)?,
        "meta": { "description": description },
    }))
}

fn address(uri: &str, digest: Option<&str>, reply: &OtcReply<'_>) -> Option<String> {
    match (reply.artifacts, digest) {
        (Some(base), Some(digest)) => Some(format!("{base}{digest}")),
        _ => is_uri(uri).then(|| uri.to_owned()),
    }
}
