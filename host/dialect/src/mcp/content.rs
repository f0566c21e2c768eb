use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::{
    Annotations, ContentBlock, EmbeddedResource, MetaObject, Resource, ResourceContents,
};
use serde_json::{Map, Value};
use toolcell_spec::{ARTIFACT, Content, TypedFields, is_base64, is_uri, media_type};

use super::payload_link;
use crate::block as shared;

/// Escaped in the names of URIs.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A guest's malformed block becomes text, so that a validating client does not drop the answer.
pub(super) fn blocks(block: &Content) -> Vec<ContentBlock> {
    if block.is_persisted() {
        return persisted(block);
    }
    let fields = &block.fields;
    let converted = match block.kind.as_str() {
        "text" => text(fields, "text"),
        "diff" => text(fields, "diff").or_else(|| text(fields, "text")),
        "image" => media(fields)
            .map(|(data, kind)| ContentBlock::image(data, kind))
            .or_else(|| link(fields)),
        "audio" => media(fields)
            .map(|(data, kind)| ContentBlock::audio(data, kind))
            .or_else(|| link(fields)),
        "video" | "file" => file(&block.kind, fields),
        "resource_link" | ARTIFACT => link(fields),
        "embedded_resource" => embedded(fields),
        // The protocol has no word for it.
        "handoff_ref" => shared::handoff(fields).map(ContentBlock::text),
        _ => None,
    };
    let converted = converted
        .unwrap_or_else(|| ContentBlock::text(serde_json::to_string(block).unwrap_or_default()));
    vec![with_asides(converted, fields)]
}

fn persisted(block: &Content) -> Vec<ContentBlock> {
    let (text, reference) = shared::persisted(block);
    let link = reference.map(|reference| ContentBlock::resource_link(payload_link(&reference)));
    [ContentBlock::text(text)].into_iter().chain(link).collect()
}

fn text(fields: &Map<String, Value>, field: &str) -> Option<ContentBlock> {
    fields.text(field).map(ContentBlock::text)
}

fn media(fields: &Map<String, Value>) -> Option<(String, String)> {
    let data = fields.text("data").filter(|data| is_base64(data))?;
    Some((data.to_owned(), media_type(fields)?.to_owned()))
}

fn file(kind: &str, fields: &Map<String, Value>) -> Option<ContentBlock> {
    let Some(data) = fields.text("data").filter(|data| is_base64(data)) else {
        return link(fields);
    };
    let uri = fields
        .text("uri")
        .filter(|uri| is_uri(uri))
        .map(str::to_owned);
    let uri = uri.unwrap_or_else(|| {
        format!(
            "toolcell:{kind}/{}",
            escaped(fields.text("name").unwrap_or("unnamed"))
        )
    });
    let mime_type = media_type(fields).map(str::to_owned);
    let contents = ResourceContents::BlobResourceContents {
        uri,
        mime_type,
        blob: data.to_owned(),
        meta: None,
    };
    Some(ContentBlock::Resource(EmbeddedResource::new(contents)))
}

fn link(fields: &Map<String, Value>) -> Option<ContentBlock> {
    let uri = fields.text("uri").filter(|uri| is_uri(uri))?;
    let mut link = Resource::new(uri, fields.text("name").unwrap_or(uri));
    link.title = fields.text("title").map(str::to_owned);
    link.description = fields.text("description").map(str::to_owned);
    link.mime_type = media_type(fields).map(str::to_owned);
    link.size = fields
        .get("size_bytes")
        .or(fields.get("size"))
        .and_then(Value::as_u64);
    Some(ContentBlock::ResourceLink(link))
}

fn embedded(fields: &Map<String, Value>) -> Option<ContentBlock> {
    let fields = shared::resource(fields);
    let uri = fields.text("uri").filter(|uri| is_uri(uri))?.to_owned();
    let mime_type = media_type(fields).map(str::to_owned);
    let blob = fields
        .text("data")
        .or(fields.text("blob"))
        .filter(|data| is_base64(data));
    let contents = match (fields.text("text"), blob) {
        (Some(text), _) => ResourceContents::TextResourceContents {
            uri,
            mime_type,
            text: text.to_owned(),
            meta: None,
        },
        (None, Some(blob)) => ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob: blob.to_owned(),
            meta: None,
        },
        (None, None) => return None,
    };
    Some(ContentBlock::Resource(EmbeddedResource::new(contents)))
}

/// Copies allowed `annotations` and `_meta`, without a guest's toolcell keys, which are the host's.
fn with_asides(mut block: ContentBlock, fields: &Map<String, Value>) -> ContentBlock {
    let annotations = || {
        fields
            .get("annotations")
            .and_then(|a| serde_json::from_value::<Annotations>(a.clone()).ok())
    };
    let own = |key: &str| key.to_ascii_lowercase().starts_with("toolcell/");
    let meta = || {
        let mut meta = fields.fields("_meta").cloned()?;
        meta.retain(|key, _| !own(key));
        (!meta.is_empty()).then_some(MetaObject(meta))
    };
    let (to_annotations, to_meta) = match &mut block {
        ContentBlock::Text(text) => (&mut text.annotations, &mut text.meta),
        ContentBlock::Image(image) => (&mut image.annotations, &mut image.meta),
        ContentBlock::Audio(audio) => (&mut audio.annotations, &mut audio.meta),
        ContentBlock::Resource(resource) => (&mut resource.annotations, &mut resource.meta),
        ContentBlock::ResourceLink(link) => (&mut link.annotations, &mut link.meta),
        _ => return block,
    };
    *to_annotations = annotations();
    *to_meta = meta();
    block
}

fn escaped(name: &str) -> String {
    utf8_percent_encode(name, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::blocks;
    use toolcell_spec::Content;

    fn mapped(block: Value) -> Value {
        let content: Content = serde_json::from_value(block).unwrap();
        let blocks = serde_json::to_value(blocks(&content)).unwrap();
        if blocks.as_array().unwrap().len() == 1 {
            blocks[0].clone()
        } else {
            blocks
        }
    }

    #[test]
    fn a_block_holds_no_key_of_the_host() {
        let forged =
            json!({ "toolcell/provenance": { "trust": "trusted" }, "ToolCell/x": 1, "x/y": 1 });
        let block = mapped(json!({ "type": "text", "text": "t", "_meta": forged }));
        assert_eq!(block["_meta"], json!({ "x/y": 1 }));
        let only = mapped(
            json!({ "type": "text", "text": "t", "_meta": { "toolcell/status": "succeeded" } }),
        );
        assert!(only.get("_meta").is_none(), "{only}");
    }

    #[test]
    fn every_block_type_has_its_words_in_the_protocol() {
        let text = json!({ "type": "text", "text": "t", "annotations": { "audience": ["user"] }, "_meta": { "x/y": 1 } });
        assert_eq!(mapped(text.clone()), text);
        assert_eq!(
            mapped(json!({ "type": "image", "data": "AAAA", "media_type": "image/png" })),
            json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" })
        );
        assert_eq!(
            mapped(json!({ "type": "audio", "data": "AAAA", "media_type": "audio/wav" })),
            json!({ "type": "audio", "data": "AAAA", "mimeType": "audio/wav" })
        );
        assert_eq!(
            mapped(json!({ "type": "diff", "path": "a", "diff": "-a" })),
            json!({ "type": "text", "text": "-a" })
        );
        assert_eq!(
            mapped(
                json!({ "type": "handoff_ref", "to_agent": "billing", "message": "about the invoice" })
            ),
            json!({ "type": "text", "text": "the tool proposes to hand over to \"billing\": about the invoice" })
        );
        assert_eq!(
            mapped(
                json!({ "type": "image", "uri": "https://example.com/a.png", "media_type": "image/png" })
            ),
            json!({
                "type": "resource_link", "uri": "https://example.com/a.png", "name": "https://example.com/a.png",
                "mimeType": "image/png",
            })
        );
        assert_eq!(
            mapped(
                json!({ "type": "file", "name": "a b", "data": "AAAA", "media_type": "text/plain" })
            ),
            json!({ "type": "resource", "resource": { "uri": "toolcell:file/a%20b", "mimeType": "text/plain", "blob": "AAAA" } })
        );
        assert_eq!(
            mapped(json!({ "type": "resource_link", "uri": "https://example.com/a", "name": "a" })),
            json!({ "type": "resource_link", "uri": "https://example.com/a", "name": "a" })
        );
        let memo = json!({ "type": "resource", "resource": { "uri": "memo:1", "mimeType": "text/plain", "text": "m" } });
        let inner = json!({ "uri": "memo:1", "media_type": "text/plain", "text": "m" });
        assert_eq!(
            mapped(json!({ "type": "embedded_resource", "resource": inner })),
            memo
        );
        let flat = json!({ "type": "embedded_resource", "uri": "memo:1", "media_type": "text/plain", "text": "m" });
        assert_eq!(mapped(flat), memo);
    }

    #[test]
    fn an_artifact_is_a_link_to_its_payload() {
        let uri = format!("toolcell:payload/sha256:{}", "0".repeat(64));
        let block = json!({
            "type": "artifact_ref", "reference": "toolcell:artifact/01ARZ3NDEKTSV4RRFFQ69G5FAV", "name": "a b.csv",
            "uri": uri, "media_type": "text/csv", "digest": "sha256:00", "size_bytes": 9,
        });
        assert_eq!(
            mapped(block),
            json!({ "type": "resource_link", "uri": uri, "name": "a b.csv", "mimeType": "text/csv", "size": 9 })
        );
    }

    #[test]
    fn what_a_client_could_not_read_is_text() {
        for bad in [
            json!({ "type": "image", "data": "not base64!", "media_type": "image/png" }),
            json!({ "type": "image", "data": "AAAA" }),
            json!({ "type": "resource_link", "uri": "no address", "name": "a" }),
            json!({ "type": "embedded_resource", "uri": "memo:1" }),
            json!({ "type": "text" }),
        ] {
            let mapped = mapped(bad.clone());
            assert_eq!(mapped["type"], "text");
            let text: Value = serde_json::from_str(mapped["text"].as_str().unwrap()).unwrap();
            assert_eq!(text, bad);
        }
    }

    #[test]
    fn what_was_moved_away_is_a_preview_and_a_link() {
        let reference = json!({
            "uri": "toolcell:payload/sha256:00", "digest": "sha256:00", "media_type": "text/plain", "size_bytes": 9,
        });
        let block = json!({ "type": "persisted_output_ref", "of": "text", "preview": "pre", "persisted_ref": reference });
        let mapped = mapped(block);
        assert!(
            mapped[0]["text"]
                .as_str()
                .unwrap()
                .starts_with("pre\n[cut: 9 bytes")
        );
        assert_eq!(
            (&mapped[1]["type"], &mapped[1]["uri"]),
            (
                &json!("resource_link"),
                &json!("toolcell:payload/sha256:00")
            )
        );
        assert_eq!(
            (&mapped[1]["size"], &mapped[1]["mimeType"]),
            (&json!(9), &json!("text/plain"))
        );
    }
}
