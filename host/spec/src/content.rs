use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{PersistedRef, TypedFields};

pub const TEXT: &str = "text";
pub const ARTIFACT: &str = "artifact_ref";
/// Block types that a guest may write: no references of the host, so that none can be forged; an [`ARTIFACT`] counts
/// only if the guest finished it in the same call.
pub const GUEST_BLOCKS: [&str; 11] = [
    "text",
    "image",
    "audio",
    "video",
    "file",
    "resource_link",
    "embedded_resource",
    "log",
    "diff",
    ARTIFACT,
    "handoff_ref",
];
/// Only people see it.
const LOG: &str = "log";
/// Replaces a block that became a payload; `of` is its type.
const PERSISTED: &str = "persisted_output_ref";

/// Open object with a `type` (AT-CONT-01..13).
///
/// ```
/// use toolcell_spec::Content;
///
/// assert_eq!(Content::text("3 matches").as_text(), Some("3 matches"));
/// assert!(!Content::log("stderr", "debug").is_model_facing());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// One of [`GUEST_BLOCKS`], or a reference that the host made.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Content {
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(TEXT, json!({ "text": text.into() }))
    }

    pub fn log(stream: &str, text: impl Into<String>) -> Self {
        Self::new(LOG, json!({ "stream": stream, "text": text.into() }))
    }

    pub fn persisted(of: &str, preview: &str, persisted_ref: &PersistedRef) -> Self {
        Self::new(
            PERSISTED,
            json!({ "of": of, "preview": preview, "persisted_ref": persisted_ref }),
        )
    }

    pub fn is_persisted(&self) -> bool {
        self.kind == PERSISTED
    }

    /// Moving such a block to a payload saves nothing.
    pub fn is_reference(&self) -> bool {
        self.is_persisted() || self.kind == ARTIFACT
    }

    /// Drops `fields` that are not an object.
    pub fn new(kind: &str, fields: Value) -> Self {
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        Self {
            kind: kind.to_owned(),
            fields,
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        let key = if self.kind == "diff" { "diff" } else { "text" };
        self.fields.text(key)
    }

    /// Models see no logs, even in payloads.
    pub fn is_model_facing(&self) -> bool {
        let moved_log = self.kind == PERSISTED && self.fields.get("of").is_some_and(|of| of == LOG);
        self.kind != LOG && !moved_log
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Content;

    #[test]
    fn a_block_is_read_with_all_its_fields_in_their_order() {
        let text = r#"{"z":[1,{"a":null}],"type":"text","text":"t","big":18446744073709551615,"half":0.5}"#;
        let block: Content = serde_json::from_str(text).unwrap();
        assert_eq!((block.kind.as_str(), block.as_text()), ("text", Some("t")));
        assert_eq!(
            block.fields.keys().collect::<Vec<_>>(),
            ["z", "text", "big", "half"]
        );
        assert_eq!(block.fields["big"], json!(u64::MAX));
        assert_eq!(
            serde_json::from_value::<Content>(serde_json::to_value(&block).unwrap()).unwrap(),
            block
        );
    }

    #[test]
    fn a_block_has_one_type_which_is_a_text() {
        for (text, why) in [
            (r#"{"text":"t"}"#, "missing field `type`"),
            (
                r#"{"type":"text","type":"log","text":"t"}"#,
                "duplicate field `type`",
            ),
            (r#"{"type":7,"text":"t"}"#, "expected a string"),
            (r#"["text"]"#, "expected struct Content"),
        ] {
            let error = serde_json::from_str::<Content>(text)
                .unwrap_err()
                .to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        serde_json::from_value::<Content>(Value::Null).unwrap_err();
    }
}
