use data_encoding::BASE64;
use serde_json::{Map, Value, json};
use toolcell_spec::{ARTIFACT, Content, TypedFields, is_uri, media_type};

use crate::block::{decoded_bytes, handoff, persisted, resource};

/// Amplifier knows texts and images.
pub(super) enum AmplifierBlock {
    Text(String),
    Image { media_type: String, data: String },
}

impl AmplifierBlock {
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => json!({ "type": "text", "text": text }),
            Self::Image { media_type, data } => {
                json!({ "type": "image", "source": { "type": "base64", "media_type": media_type, "data": data } })
            }
        }
    }

    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Image { media_type, data } => omitted("image", Some(media_type.as_str()), data),
        }
    }

    pub(super) fn is_image(&self) -> bool {
        matches!(self, Self::Image { .. })
    }
}

/// Unknown kinds become text that names them.
pub(super) fn block(content: &Content) -> AmplifierBlock {
    if content.is_persisted() {
        return AmplifierBlock::Text(persisted(content).0);
    }
    let fields = &content.fields;
    let text = match content.kind.as_str() {
        "image" => match image(fields) {
            Some(image) => return image,
            None => media("image", fields),
        },
        "text" => fields.text("text").map(str::to_owned),
        "diff" => fields
            .text("diff")
            .or(fields.text("text"))
            .map(str::to_owned),
        kind @ ("audio" | "video" | "file") => media(kind, fields),
        "resource_link" | ARTIFACT => link(fields),
        "embedded_resource" => embedded(fields),
        "handoff_ref" => handoff(fields),
        _ => None,
    };
    AmplifierBlock::Text(text.unwrap_or_else(|| serde_json::to_string(content).unwrap_or_default()))
}

/// `amplifier-core` refuses a whole result for one invalid image.
fn image(fields: &Map<String, Value>) -> Option<AmplifierBlock> {
    let data = fields.text("data")?;
    let media_type = media_type(fields)?;
    is_image(media_type, data).then(|| AmplifierBlock::Image {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
    })
}

/// As `amplifier-core` requires: a lower-case media type without parameters, canonical base64.
fn is_image(media_type: &str, data: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"+-.".contains(&c);
    let subtype = media_type.strip_prefix("image/").unwrap_or_default();
    let is_type = !subtype.is_empty() && subtype.bytes().all(plain);
    is_type && !data.is_empty() && BASE64.decode(data.as_bytes()).is_ok()
}

fn media(kind: &str, fields: &Map<String, Value>) -> Option<String> {
    let data = fields
        .text("data")
        .map(|data| omitted(kind, media_type(fields), data));
    data.or_else(|| link(fields))
}

/// Replaces data that a text cannot hold.
fn omitted(kind: &str, media_type: Option<&str>, data: &str) -> String {
    format!(
        "[{kind}, {}, {} bytes]",
        media_type.unwrap_or("of an unknown type"),
        decoded_bytes(data)
    )
}

fn link(fields: &Map<String, Value>) -> Option<String> {
    let uri = fields.text("uri").filter(|uri| is_uri(uri))?;
    let name = fields
        .text("name")
        .or(fields.text("title"))
        .filter(|name| *name != uri);
    Some(name.map_or_else(
        || format!("[resource {uri}]"),
        |name| format!("[resource {name}: {uri}]"),
    ))
}

fn embedded(fields: &Map<String, Value>) -> Option<String> {
    let fields = resource(fields);
    let data = fields.text("data").or(fields.text("blob"));
    let text = fields.text("text").map(str::to_owned);
    text.or_else(|| data.map(|data| omitted("resource", media_type(fields), data)))
        .or_else(|| link(fields))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_spec::Content;

    use super::block;

    fn mapped(block_of: Value) -> Value {
        let content: Content = serde_json::from_value(block_of).unwrap();
        block(&content).to_value()
    }

    #[test]
    fn every_content_class_is_a_text_or_an_image() {
        let reference = json!({ "uri": "toolcell:payload/sha256:00", "digest": "sha256:00", "media_type": "text/plain", "size_bytes": 9 });
        let table = [
            (json!({ "type": "text", "text": "t" }), "t"),
            (
                json!({ "type": "structured_content", "n": 1 }),
                r#"{"type":"structured_content","n":1}"#,
            ),
            (
                json!({ "type": "audio", "data": "AAAAAA==", "media_type": "audio/wav" }),
                "[audio, audio/wav, 4 bytes]",
            ),
            (
                json!({ "type": "video", "data": "AAAA", "media_type": "video/mp4" }),
                "[video, video/mp4, 3 bytes]",
            ),
            (
                json!({ "type": "file", "name": "a", "data": "AAA=" }),
                "[file, of an unknown type, 2 bytes]",
            ),
            (
                json!({ "type": "resource_link", "uri": "https://e.com/a", "name": "a" }),
                "[resource a: https://e.com/a]",
            ),
            (
                json!({ "type": "embedded_resource", "resource": { "uri": "memo:1", "text": "m" } }),
                "m",
            ),
            (
                json!({ "type": "embedded_resource", "uri": "memo:1", "data": "AAAA", "media_type": "a/b" }),
                "[resource, a/b, 3 bytes]",
            ),
            (
                json!({ "type": "log", "stream": "stderr", "text": "l" }),
                r#"{"type":"log","stream":"stderr","text":"l"}"#,
            ),
            (json!({ "type": "diff", "path": "a", "diff": "-a" }), "-a"),
            (
                json!({ "type": "artifact_ref", "uri": "toolcell:payload/x", "name": "r.csv" }),
                "[resource r.csv: toolcell:payload/x]",
            ),
            (
                json!({ "type": "persisted_output_ref", "of": "text", "preview": "pre", "persisted_ref": reference }),
                "pre\n[cut: 9 bytes of text in all, in the resource toolcell:payload/sha256:00]",
            ),
            (
                json!({ "type": "handoff_ref", "to_agent": "billing", "message": "the invoice" }),
                "the tool proposes to hand over to \"billing\": the invoice",
            ),
        ];
        for (block, text) in table {
            assert_eq!(
                mapped(block.clone()),
                json!({ "type": "text", "text": text }),
                "{block}"
            );
        }
        let image = mapped(json!({ "type": "image", "data": "AAAA", "media_type": "image/png" }));
        let source = json!({ "type": "base64", "media_type": "image/png", "data": "AAAA" });
        assert_eq!(image, json!({ "type": "image", "source": source }));
    }

    #[test]
    fn an_image_that_amplifier_would_refuse_is_text() {
        for (media_type, data, text) in [
            ("image/png", "AB==", "[image, image/png, 1 bytes]"),
            ("IMAGE/PNG", "AAAA", "[image, IMAGE/PNG, 3 bytes]"),
            ("image/png; q=1", "AAAA", "[image, image/png; q=1, 3 bytes]"),
            ("text/plain", "AAAA", "[image, text/plain, 3 bytes]"),
            ("image/", "AAAA", "[image, image/, 3 bytes]"),
            ("image/png", "", "[image, image/png, 0 bytes]"),
        ] {
            let block = json!({ "type": "image", "data": data, "media_type": media_type });
            assert_eq!(mapped(block), json!({ "type": "text", "text": text }));
        }
        let linked =
            json!({ "type": "image", "uri": "https://e.com/a.png", "media_type": "image/png" });
        assert_eq!(mapped(linked)["text"], "[resource https://e.com/a.png]");
    }

    #[test]
    fn a_block_has_no_field_that_the_tool_added() {
        let block = json!({ "type": "text", "text": "t", "visibility": "internal", "_meta": { "toolcell/x": 1 } });
        assert_eq!(mapped(block), json!({ "type": "text", "text": "t" }));
    }
}
