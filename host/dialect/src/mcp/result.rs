use std::string::FromUtf8Error;

use data_encoding::BASE64;
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorData, JsonObject, MetaObject, ProtocolVersion, Resource,
    ResourceContents,
};
use serde_json::{Value, json};
use toolcell_spec::{
    Content, PersistedRef, Refusal, ResultProvenance, ToolError, ToolResult, TypedFields,
};

use super::both::complete;
use super::content::blocks;
use super::{meta_of, workspace};
use crate::{block, hint, whole};

/// The answer to `tools/call` (requirements 3.3, 3.4). Every error is an `isError` result, for the model to read.
/// Content and structured content are each the whole answer; properties keep their names in `output_schema`.
pub fn call_result(
    result: &ToolResult,
    revision: &ProtocolVersion,
    output_schema: Option<&Value>,
) -> CallToolResult {
    let mut content: Vec<ContentBlock> = if result.empty_result {
        Vec::new()
    } else {
        result
            .model_facing_content
            .iter()
            .flat_map(blocks)
            .collect()
    };
    content.extend(block::context(result).map(ContentBlock::text));
    let mut answer = if result.is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    answer.structured_content = result
        .structured_content
        .clone()
        .filter(|value| structured_at(revision, value));
    answer.meta = Some(meta(result));
    let is_moved = |block: &Content| {
        block.is_persisted() && block.fields.text("of") == Some("structured_content")
    };
    complete(
        &mut answer,
        output_schema,
        result.content.iter().any(is_moved),
    );
    // They are for reading, and no part of the answer.
    answer.content.extend(workspace::links(result));
    answer
}

/// Any value since 2026-07-28, only an object before.
pub fn structured_at(revision: &ProtocolVersion, value: &Value) -> bool {
    value.is_object() || *revision >= ProtocolVersion::V_2026_07_28
}

pub fn refused(refusal: &Refusal) -> CallToolResult {
    let mut answer = CallToolResult::error(vec![ContentBlock::text(refusal.message.clone())]);
    let facts = error_facts(&refusal.to_error());
    answer.meta = Some(meta_of("toolcell/error", facts));
    answer
}

/// A JSON-RPC error with the result as data, for an unknown tool or arguments that are no object.
pub fn protocol_error(result: &ToolResult) -> ErrorData {
    let message = result.error.as_ref().map_or_else(
        || "the request is not valid".to_owned(),
        |error| error.message.clone(),
    );
    ErrorData::invalid_params(message, Some(whole(result)))
}

/// Names the code of [`protocol_error`] in the record (AT-ERR-06).
pub fn as_protocol_error(refusal: Refusal) -> Refusal {
    refusal.native(json!({ "jsonrpc_code": rmcp::model::ErrorCode::INVALID_PARAMS.0 }))
}

pub fn payload_link(reference: &PersistedRef) -> Resource {
    let hex = reference.digest.trim_start_matches("sha256:");
    let short: String = hex.chars().take(12).collect();
    let mut link = Resource::new(reference.uri.clone(), format!("output {short}"));
    link.mime_type = Some(reference.media_type.clone());
    link.size = Some(reference.size_bytes);
    link
}

pub fn payload(link: &Resource, bytes: Vec<u8>, provenance: &ResultProvenance) -> ResourceContents {
    let uri = link.uri.clone();
    let mime_type = link.mime_type.clone();
    let meta = Some(meta_of(PROVENANCE_KEY, json!(provenance)));
    match as_text(bytes) {
        Ok(text) => ResourceContents::TextResourceContents {
            uri,
            mime_type,
            text,
            meta,
        },
        Err(bytes) => {
            let blob = BASE64.encode(&bytes);
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                meta,
            }
        }
    }
}

/// Bytes that JSON would escape to more than base64 are no text for anybody, such as a file of zeros.
fn as_text(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    let escaped = bytes.iter().filter(|byte| **byte < 0x20);
    let plain = |byte: &&u8| matches!(**byte, b'\n' | b'\r' | b'\t');
    let odd = escaped.filter(|byte| !plain(byte)).count();
    if odd.saturating_mul(4) > bytes.len() {
        return Err(bytes);
    }
    String::from_utf8(bytes).map_err(FromUtf8Error::into_bytes)
}

pub fn payload_part(
    link: &Resource,
    offset: u64,
    bytes: Vec<u8>,
    provenance: &ResultProvenance,
) -> ResourceContents {
    let size = link.size.unwrap_or_default();
    let length = bytes.len() as u64;
    let end = offset.saturating_add(length);
    let mut part = json!({ "offset": offset, "length": length, "size": size });
    if let (Some(fields), true) = (part.as_object_mut(), end < size && length > 0) {
        fields.insert("next".to_owned(), format!("{}{PART}{end}", link.uri).into());
    }
    let mut contents = payload(link, bytes, provenance);
    if let ResourceContents::TextResourceContents { uri, meta, .. }
    | ResourceContents::BlobResourceContents { uri, meta, .. } = &mut contents
    {
        *uri = format!("{}{PART}{offset}", link.uri);
        meta.get_or_insert_default()
            .0
            .insert("toolcell/part".to_owned(), part);
    }
    contents
}

/// The payload's URI and the offset; `None` for a whole payload.
pub fn part_of(uri: &str) -> Option<(&str, u64)> {
    let (whole, offset) = uri.rsplit_once(PART)?;
    Some((whole, offset.parse().ok()?))
}

/// Precedes the offset in bytes.
const PART: &str = "?offset=";
pub(super) const PROVENANCE_KEY: &str = "toolcell/provenance";

fn meta(result: &ToolResult) -> MetaObject {
    let mut meta = JsonObject::new();
    let mut say = |key: &str, value: Value| _ = meta.insert(format!("toolcell/{key}"), value);
    say("invocation_id", json!(result.invocation_id));
    say("status", json!(result.status));
    say("provenance", json!(result.provenance));
    if let Some(usage) = &result.usage {
        let cpu = usage.cpu_ms.map(|cpu| ("cpu_ms", cpu.used));
        let used = [
            ("fuel", usage.fuel.used),
            ("wall_ms", usage.wall_ms.used),
            ("memory_bytes", usage.memory_bytes.used),
        ];
        say("usage", Value::from_iter(used.into_iter().chain(cpu)));
    }
    if result.empty_result {
        say("empty_result", true.into());
    }
    if !result.resource_refs.is_empty() {
        say("resource_refs", json!(result.resource_refs));
    }
    if !result.artifact_refs.is_empty() {
        say("artifact_refs", json!(result.artifact_refs));
    }
    if !result.context_modifiers.is_empty() {
        say("context_modifiers", json!(result.context_modifiers));
    }
    if let Some(note) = result.extra.get(workspace::WORKSPACE) {
        say(workspace::WORKSPACE, note.clone());
    }
    if let Some(error) = &result.error {
        say("error", error_facts(error));
    }
    MetaObject(meta)
}

pub fn error_facts(error: &ToolError) -> Value {
    let mut facts = json!({
        "class": error.error_class,
        "code": error.error_code,
        // Among the content, a client cannot tell it from what the tool returned and what hooks add.
        "message": error.message,
        "hint": hint(error.error_class),
        "recoverability": error.recoverability,
        "retry_after": error.retry_after,
        "retry_safe": error.retry.safe,
        "policy_refs": error.policy_refs,
    });
    if let (Some(needed), Some(facts)) = (&error.needs_authorization, facts.as_object_mut()) {
        facts.insert("needs_authorization".to_owned(), json!(needed));
    }
    facts
}

#[cfg(test)]
mod tests {
    use rmcp::model::ProtocolVersion;
    use serde_json::{Value, json};

    use super::{call_result, payload, payload_link, protocol_error};
    use crate::parts::samples;
    use toolcell_spec::{ErrorClass, ErrorCode, PersistedRef, Refusal, ToolResult};

    fn result(change: Value) -> ToolResult {
        let mut said = json!({ "model_facing_content": [{ "type": "text", "text": "t" }] });
        said.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        samples::result(said)
    }

    fn mapped(change: Value, revision: &ProtocolVersion) -> Value {
        serde_json::to_value(call_result(&result(change), revision, None)).unwrap()
    }

    #[test]
    fn structured_content_is_an_object_until_the_protocol_allows_more() {
        let old = &ProtocolVersion::V_2025_11_25;
        let new = &ProtocolVersion::V_2026_07_28;
        let object = json!({ "structured_content": { "n": 1 } });
        assert_eq!(
            mapped(object.clone(), old)["structuredContent"],
            json!({ "n": 1, "text": "t" })
        );
        let list = json!({ "structured_content": [1], "model_facing_content": [{ "type": "text", "text": "[1]" }] });
        assert!(mapped(list.clone(), old).get("structuredContent").is_none());
        assert_eq!(mapped(list, new)["structuredContent"], json!([1]));
    }

    #[test]
    fn nothing_said_is_no_content_and_says_so() {
        let answer = mapped(
            json!({ "empty_result": true }),
            &ProtocolVersion::V_2025_11_25,
        );
        assert_eq!(
            (&answer["content"], &answer["isError"]),
            (&json!([]), &json!(false))
        );
        assert_eq!(answer["_meta"]["toolcell/empty_result"], json!(true));
    }

    #[test]
    fn every_error_class_is_a_result_with_class_code_and_hint() {
        for class in ErrorClass::ALL {
            let error = Refusal::new(ErrorCode::TooManyCalls, "the message")
                .with_class(class)
                .to_error();
            let change = json!({ "is_error": true, "error": error });
            let answer = mapped(change.clone(), &ProtocolVersion::V_2025_11_25);
            assert_eq!(answer["isError"], json!(true));
            let said = &answer["_meta"]["toolcell/error"];
            assert_eq!(
                (&said["class"], said["code"].as_str()),
                (&json!(class), Some("too_many_calls"))
            );
            assert_eq!(said["message"], "the message");
            assert!(!said["hint"].as_str().unwrap().is_empty());
            let native = serde_json::to_value(protocol_error(&result(change))).unwrap();
            assert_eq!(
                (&native["code"], native["message"].as_str()),
                (&json!(-32602), Some("the message"))
            );
            assert_eq!(native["data"]["error"]["error_class"], json!(class));
        }
    }

    #[test]
    fn a_payload_is_text_where_it_can_be() {
        let link = payload_link(&PersistedRef {
            uri: "toolcell:payload/sha256:ab".to_owned(),
            digest: "sha256:ab".to_owned(),
            media_type: "text/plain".to_owned(),
            size_bytes: 2,
        });
        let provenance = result(json!({})).provenance;
        let read = |bytes: &[u8]| {
            serde_json::to_value(payload(&link, bytes.to_vec(), &provenance)).unwrap()
        };
        assert_eq!(read(b"ab")["text"], "ab");
        assert_eq!(
            read(b"ab")["_meta"]["toolcell/provenance"]["trust"],
            "untrusted"
        );
        assert_eq!(read(&[0xff, 0xfe])["blob"], "//4=");
        assert_eq!(read(&[0, 0])["blob"], "AAA=");
        assert_eq!(read(b"a\nb\t")["text"], "a\nb\t");
    }
}
