use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{PersistedRef, TypedFields};

/// `type` of a text block.
pub const TEXT: &str = "text";
/// `type` of the reference to an artifact.
pub const ARTIFACT: &str = "artifact_ref";
/// The block types that a guest may write. References of the host are not among them, so that a guest cannot forge one;
/// an [`ARTIFACT`] counts only if the guest finished it in the same call. Structured output has a place of its own in the
/// contract, and so is no block.
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
/// `type` of a block that only people see.
const LOG: &str = "log";
/// `type` of the reference that replaces a block moved to a payload; `of` is the type of that block.
const PERSISTED: &str = "persisted_output_ref";

/// One content block (AT-CONT-01..13): an open object with a `type`.
///
/// ```
/// use toolcell_spec::Content;
///
/// assert_eq!(Content::text("3 matches").as_text(), Some("3 matches"));
/// assert!(!Content::log("stderr", "debug").is_model_facing());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// `type`: one of [`GUEST_BLOCKS`], or a reference that the host made.
    #[serde(rename = "type")]
    pub kind: String,
    /// The other fields of the block.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Content {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(TEXT, json!({ "text": text.into() }))
    }

    /// A guest's output to `stream` (stdout, stderr), or its log.
    pub fn log(stream: &str, text: impl Into<String>) -> Self {
        Self::new(LOG, json!({ "stream": stream, "text": text.into() }))
    }

    /// Reference that replaces a block of type `of` that was moved to a payload.
    pub fn persisted(of: &str, preview: &str, persisted_ref: &PersistedRef) -> Self {
        Self::new(
            PERSISTED,
            json!({ "of": of, "preview": preview, "persisted_ref": persisted_ref }),
        )
    }

    /// Returns whether the block is a reference to a payload.
    pub fn is_persisted(&self) -> bool {
        self.kind == PERSISTED
    }

    /// Returns whether the block is a reference to a payload or an artifact, so moving it to a payload saves nothing.
    pub fn is_reference(&self) -> bool {
        self.is_persisted() || self.kind == ARTIFACT
    }

    /// Creates a block. `fields` that are not an object are dropped.
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

    /// The text of a text, log or diff block.
    pub fn as_text(&self) -> Option<&str> {
        let key = if self.kind == "diff" { "diff" } else { "text" };
        self.fields.text(key)
    }

    /// Returns whether a model may see the block: it may not see logs, even if they were moved to a payload.
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
