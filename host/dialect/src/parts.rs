use serde_json::{Map, Value, json};
use toolcell_spec::{
    ARTIFACT, Content, ToolError, ToolInvocation, ToolResult, TypedFields, is_base64, media_type,
};

use super::block::{context, decoded_bytes, handoff, output, persisted, resource};
use super::hint_without_loading;

pub type FinishedCall<'a> = (&'a ToolInvocation, &'a ToolResult);

/// For a model's API, which rejects an empty text.
const NO_OUTPUT: &str = "(no output)";
/// APIs refuse the whole request for another type.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A part of a result, as model APIs share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultPart {
    /// Never blank.
    Text(String),
    Image {
        /// One of four.
        media_type: &'static str,
        /// Base64.
        data: String,
    },
}

impl ResultPart {
    /// For an API that takes no image here.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Image { media_type, data } => {
                format!("[image: {media_type}, {} bytes]", decoded_bytes(&data))
            }
        }
    }
}

pub(super) fn native_id(invocation: &ToolInvocation) -> String {
    invocation
        .native_call_id
        .clone()
        .unwrap_or_else(|| invocation.invocation_id.to_string())
}

/// The error first, without developers' detail; at least one part.
pub fn parts(result: &ToolResult) -> Vec<ResultPart> {
    let mut parts: Vec<ResultPart> = result
        .error
        .iter()
        .map(|error| ResultPart::Text(failure(error)))
        .collect();
    parts.extend(output(result).iter().map(part));
    parts.extend(context(result).map(ResultPart::Text));
    parts.retain(|part| !matches!(part, ResultPart::Text(text) if text.trim().is_empty()));
    if parts.is_empty() {
        parts.push(ResultPart::Text(NO_OUTPUT.to_owned()));
    }
    parts
}

pub(super) fn text(parts: impl IntoIterator<Item = ResultPart>) -> String {
    parts
        .into_iter()
        .map(ResultPart::into_text)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Without the error; can be empty.
pub(super) fn output_text(result: &ToolResult) -> String {
    text(output(result).iter().map(part))
}

/// In words, because not every API has a flag for errors.
fn failure(error: &ToolError) -> String {
    let class = error.error_class.as_str();
    let hint = hint_without_loading(error.error_class);
    let later = error
        .retry_after
        .map(|seconds| format!(" (after {seconds} s)"))
        .unwrap_or_default();
    format!(
        "ERROR [{class}/{}]: {}\nHint: {hint}{later}",
        error.error_code, error.message
    )
}

fn part(block: &Content) -> ResultPart {
    match image(block) {
        Some(image) => image,
        None => ResultPart::Text(words(block)),
    }
}

fn words(block: &Content) -> String {
    let fields = &block.fields;
    if block.is_persisted() {
        return persisted(block).0;
    }
    let whole = || json!(block).to_string();
    match block.kind.as_str() {
        "text" => fields.text("text").map_or_else(whole, str::to_owned),
        "diff" => fields
            .text("diff")
            .or(fields.text("text"))
            .map_or_else(whole, str::to_owned),
        "handoff_ref" => handoff(fields).unwrap_or_else(whole),
        "image" | "audio" | "video" | "file" | "resource_link" | ARTIFACT => {
            note(&block.kind, fields)
        }
        "embedded_resource" => {
            let fields = resource(fields);
            fields
                .text("text")
                .map_or_else(|| note("resource", fields), str::to_owned)
        }
        "structured_content" => {
            let value = fields.get("structured_content").or(fields.get("value"));
            value.map_or_else(whole, Value::to_string)
        }
        _ => whole(),
    }
}

fn image(block: &Content) -> Option<ResultPart> {
    let fields = Some(&block.fields).filter(|_| block.kind == "image")?;
    let wanted = media_type(fields)?;
    let media_type = IMAGES
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(wanted))?;
    let data = fields
        .text("data")
        .filter(|data| !data.is_empty() && is_base64(data))?;
    Some(ResultPart::Image {
        media_type,
        data: data.to_owned(),
    })
}

/// Such as `[audio: silence.wav, audio/wav, 44 bytes]`. A URI is text: an API that fetched it would tell its server
/// about the call.
fn note(kind: &str, fields: &Map<String, Value>) -> String {
    let data = fields
        .text("data")
        .or(fields.text("blob"))
        .map(decoded_bytes);
    let size = fields
        .get("size_bytes")
        .or(fields.get("size"))
        .and_then(Value::as_u64)
        .or(data);
    let labels = [fields.text("name"), fields.text("uri"), media_type(fields)]
        .into_iter()
        .flatten();
    let mut labels: Vec<String> = labels.map(str::to_owned).collect();
    labels.extend(size.map(|size| format!("{size} bytes")));
    format!("[{kind}: {}]", labels.join(", "))
}

#[cfg(test)]
pub(super) mod samples {
    use serde_json::{Value, json};
    use toolcell_spec::{Content, Input, ToolInvocation, ToolResult};

    pub(crate) fn invocation(id: &str) -> ToolInvocation {
        let mut invocation = ToolInvocation::planned("files.read", &Input::from_text("{}"));
        invocation.native_call_id = Some(id.to_owned());
        invocation
    }

    pub(crate) fn result(change: Value) -> ToolResult {
        let mut whole = json!({
            "schema_version": "0.2.0", "result_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "invocation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "status": "succeeded", "is_error": false, "content": [],
            "model_facing_content": [], "redaction_state": "none",
            "provenance": { "trust": "untrusted", "written_by": "tool" }, "created_at": "2026-01-01T00:00:00Z",
        });
        whole
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    pub(crate) fn saying(blocks: Value) -> ToolResult {
        result(json!({ "model_facing_content": blocks }))
    }

    /// One block of each of the 13 classes but logs, with its words; `None` for an image.
    pub(crate) fn blocks() -> Vec<(Value, Option<&'static str>)> {
        let reference = json!({
            "uri": "toolcell:payload/sha256:00", "digest": "sha256:00", "media_type": "text/plain", "size_bytes": 9,
        });
        vec![
            (json!({ "type": "text", "text": "t" }), Some("t")),
            (
                json!({ "type": "structured_content", "structured_content": { "n": [1] } }),
                Some("{\"n\":[1]}"),
            ),
            (
                json!({ "type": "image", "data": "AAAA", "media_type": "image/png" }),
                None,
            ),
            (
                json!({ "type": "audio", "data": "AAAA", "media_type": "audio/wav" }),
                Some("[audio: audio/wav, 3 bytes]"),
            ),
            (
                json!({ "type": "video", "uri": "https://example.com/a", "media_type": "video/mp4" }),
                Some("[video: https://example.com/a, video/mp4]"),
            ),
            (
                json!({ "type": "file", "name": "a b", "data": "AAA=", "media_type": "text/plain" }),
                Some("[file: a b, text/plain, 2 bytes]"),
            ),
            (
                json!({ "type": "resource_link", "uri": "https://example.com/a", "name": "a" }),
                Some("[resource_link: a, https://example.com/a]"),
            ),
            (
                json!({ "type": "embedded_resource", "resource": { "uri": "memo:1", "text": "m" } }),
                Some("m"),
            ),
            (
                json!({ "type": "diff", "path": "a", "diff": "-a" }),
                Some("-a"),
            ),
            (
                json!({ "type": "artifact_ref", "name": "a.csv", "uri": "toolcell:payload/1", "size_bytes": 9 }),
                Some("[artifact_ref: a.csv, toolcell:payload/1, 9 bytes]"),
            ),
            (
                json!({ "type": "persisted_output_ref", "of": "text", "preview": "pre", "persisted_ref": reference }),
                Some(
                    "pre\n[cut: 9 bytes of text in all, in the resource toolcell:payload/sha256:00]",
                ),
            ),
            (
                json!({ "type": "handoff_ref", "to_agent": "billing", "message": "the invoice" }),
                Some("the tool proposes to hand over to \"billing\": the invoice"),
            ),
        ]
    }

    pub(crate) fn log() -> Content {
        Content::log("stderr", "hidden")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcell_spec::{ErrorClass, ErrorCode, InvocationId, Refusal, ToolResult};

    use super::samples::{blocks, log, result, saying};
    use super::{ResultPart, parts, text};

    #[test]
    fn every_class_of_content_has_its_words() {
        let all = blocks();
        // A log is no content for a model, and the pipeline leaves it out.
        assert!(all.len() == 12 && !log().is_model_facing());
        for (block, words) in all {
            let found = parts(&saying(json!([block])));
            let image = ResultPart::Image {
                media_type: "image/png",
                data: "AAAA".to_owned(),
            };
            assert_eq!(
                found,
                [words.map_or(image, |words| ResultPart::Text(words.to_owned()))],
                "{block}"
            );
        }
    }

    #[test]
    fn an_image_that_an_api_would_refuse_is_a_note() {
        for (block, words) in [
            (
                json!({ "type": "image", "data": "AAAA", "media_type": "image/tiff" }),
                "[image: image/tiff, 3 bytes]",
            ),
            (
                json!({ "type": "image", "uri": "https://example.com/a.png", "media_type": "image/png" }),
                "[image: https://example.com/a.png, image/png]",
            ),
            (
                json!({ "type": "image", "data": "no base64!", "media_type": "image/png" }),
                "[image: image/png, 7 bytes]",
            ),
            (
                json!({ "type": "image", "data": "", "media_type": "image/png" }),
                "[image: image/png, 0 bytes]",
            ),
        ] {
            assert_eq!(
                parts(&saying(json!([block]))),
                [ResultPart::Text(words.to_owned())]
            );
        }
        let jpeg = parts(&saying(
            json!([{ "type": "image", "data": "AAAA", "mimeType": "IMAGE/JPEG" }]),
        ));
        assert_eq!(
            jpeg,
            [ResultPart::Image {
                media_type: "image/jpeg",
                data: "AAAA".to_owned()
            }]
        );
        assert_eq!(text(jpeg), "[image: image/jpeg, 3 bytes]");
    }

    #[test]
    fn an_error_has_class_code_message_and_hint_and_nothing_for_developers() {
        for class in ErrorClass::ALL {
            let refusal = Refusal::new(ErrorCode::TooManyCalls, "it broke")
                .with_class(class)
                .detail("/secret/detail")
                .native("trap 7");
            let error = refusal.to_error();
            let failed = ToolResult::failed(
                InvocationId::new(),
                error.clone(),
                result(json!({})).provenance,
            );
            let word = json!(class).as_str().unwrap().to_owned();
            let said = text(parts(&failed));
            assert!(
                said.starts_with(&format!("ERROR [{word}/too_many_calls]: it broke\nHint: ")),
                "{said}"
            );
            assert_eq!(said.matches("it broke").count(), 1, "{said}");
            assert!(!said.contains("secret") && !said.contains("trap"), "{said}");
            let partial = result(json!({
                "is_error": true, "error": error,
                "model_facing_content": [{ "type": "text", "text": "half" }, { "type": "text", "text": "it broke" }],
            }));
            assert!(
                text(parts(&partial)).ends_with("\nhalf"),
                "what there is of the output comes after the error"
            );
        }
        let mut error = Refusal::new(ErrorCode::TooManyCalls, "too much runs").to_error();
        error.retry_after = Some(1.5);
        let said = text(parts(&result(json!({ "is_error": true, "error": error }))));
        assert!(
            said.ends_with("wait, and call again (after 1.5 s)"),
            "{said}"
        );
    }

    #[test]
    fn no_result_is_blank() {
        let empty = json!([{ "type": "text", "text": "(tool completed with no output)" }]);
        let empty = result(json!({ "empty_result": true, "model_facing_content": empty }));
        assert_eq!(text(parts(&empty)), "(no output)");
        assert_eq!(
            text(parts(&saying(json!([{ "type": "text", "text": " \n" }])))),
            "(no output)"
        );
        let mut told = empty;
        told.additional_context = vec![json!("a hook says"), json!({ "n": 1 })];
        assert_eq!(text(parts(&told)), "a hook says\n{\"n\":1}");
    }
}
