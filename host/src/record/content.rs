use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// `type` of a text block.
pub const TEXT: &str = "text";

/// One content block (AT-CONT-01..13): an open object with a `type`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Content {
    pub const KINDS: [&str; 13] = [
        TEXT,
        "structured_content",
        "image",
        "audio",
        "video",
        "file",
        "resource_link",
        "embedded_resource",
        "log",
        "diff",
        "artifact_ref",
        "persisted_output_ref",
        "handoff_ref",
    ];

    pub fn text(text: impl Into<String>) -> Self {
        Self::new(TEXT, json!({ "text": text.into() }))
    }

    /// What a guest printed to `stream` (stdout, stderr) or logged.
    pub fn log(stream: &str, text: impl Into<String>) -> Self {
        Self::new("log", json!({ "stream": stream, "text": text.into() }))
    }

    /// `fields` is an object; anything else is dropped.
    pub fn new(kind: &str, fields: Value) -> Self {
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        Self { kind: kind.to_owned(), fields }
    }

    /// The text of a text, log or diff block.
    pub fn as_text(&self) -> Option<&str> {
        let key = if self.kind == "diff" { "diff" } else { "text" };
        self.fields.get(key).and_then(Value::as_str)
    }

    /// Whether the block may be shown to a model: logs and diffs for people stay out.
    pub fn is_model_facing(&self) -> bool {
        self.kind != "log"
    }
}
