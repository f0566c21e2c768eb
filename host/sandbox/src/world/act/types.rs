//! Types of `act:core@0.4.0`, `act:tools@0.1.0` and `@0.2.0` (the same in both), and `act:sessions@0.2.0`.

use serde_json::Value;
use wasmtime::component::{ComponentType, Lift, StreamReader};

use super::cbor;

/// Keys and CBOR values.
pub(super) type ActMetadata = Vec<(String, Vec<u8>)>;

#[derive(ComponentType, Lift, Clone, Debug)]
#[component(variant)]
pub(super) enum LocalizedString {
    #[component(name = "plain")]
    Plain(String),
    #[component(name = "localized")]
    Localized(Vec<(String, String)>),
}

#[derive(ComponentType, Lift, Clone, Debug)]
#[component(record)]
pub(super) struct ActError {
    pub(super) kind: String,
    pub(super) message: LocalizedString,
    metadata: ActMetadata,
}

#[derive(ComponentType, Lift, Clone, Debug)]
#[component(record)]
pub(super) struct ToolDefinition {
    pub(super) name: String,
    pub(super) description: LocalizedString,
    #[component(name = "parameters-schema")]
    pub(super) parameters_schema: String,
    pub(super) metadata: ActMetadata,
}

#[derive(ComponentType, Lift, Clone, Debug)]
#[component(record)]
#[expect(dead_code, reason = "the metadata of a list has no place in a toolkit")]
pub(super) struct ListToolsResponse {
    metadata: ActMetadata,
    pub(super) tools: Vec<ToolDefinition>,
}

#[derive(ComponentType, Lift, Clone, Debug)]
#[component(record)]
pub(super) struct ContentPart {
    pub(super) data: Vec<u8>,
    #[component(name = "mime-type")]
    pub(super) mime_type: Option<String>,
    pub(super) metadata: ActMetadata,
}

#[derive(ComponentType, Lift, Clone, Debug)]
#[component(variant)]
pub(super) enum ToolEvent {
    #[component(name = "content")]
    Content(ContentPart),
    /// The last event.
    #[component(name = "error")]
    Error(ActError),
}

#[derive(ComponentType, Lift, Debug)]
#[component(variant)]
pub(super) enum ToolResult {
    #[component(name = "immediate")]
    Immediate(Vec<ToolEvent>),
    #[component(name = "streaming")]
    Streaming(StreamReader<ToolEvent>),
}

#[derive(ComponentType, Lift, Clone, Debug)]
#[component(record)]
#[expect(dead_code, reason = "the metadata of a session has no effect")]
pub(super) struct ActSession {
    pub(super) id: String,
    metadata: ActMetadata,
}

impl LocalizedString {
    /// English, or else the first text.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Plain(text) => text,
            Self::Localized(mut texts) => {
                let english = |(tag, _): &(String, String)| tag == "en" || tag.starts_with("en-");
                let at = texts.iter().position(english).unwrap_or(0);
                if at < texts.len() {
                    texts.swap_remove(at).1
                } else {
                    String::new()
                }
            }
        }
    }
}

impl ToolEvent {
    /// Bytes, approximately.
    pub(super) fn size(&self) -> usize {
        let metadata = |metadata: &ActMetadata| {
            metadata
                .iter()
                .map(|(key, value)| key.len() + value.len() + 64)
                .sum::<usize>()
        };
        let held = match self {
            Self::Content(part) => {
                part.data.len()
                    + part.mime_type.as_ref().map_or(0, String::len)
                    + metadata(&part.metadata)
            }
            Self::Error(error) => {
                let message = match &error.message {
                    LocalizedString::Plain(text) => text.len(),
                    LocalizedString::Localized(texts) => texts
                        .iter()
                        .map(|(tag, text)| tag.len() + text.len() + 64)
                        .sum(),
                };
                error.kind.len() + message + metadata(&error.metadata)
            }
        };
        held + size_of::<Self>()
    }
}

impl ActError {
    #[cfg(test)]
    pub(super) fn new(kind: &str, message: &str) -> Self {
        let message = LocalizedString::Plain(message.to_owned());
        Self {
            kind: kind.to_owned(),
            message,
            metadata: ActMetadata::new(),
        }
    }
}

/// `None` also for a value that JSON cannot hold.
pub(super) fn value(metadata: &ActMetadata, key: &str) -> Option<Value> {
    let (_, value) = metadata.iter().find(|(known, _)| known == key)?;
    cbor::to_json(value).ok()
}

#[cfg(test)]
mod tests {
    use super::LocalizedString;

    #[test]
    fn of_several_languages_the_english_text_is_taken() {
        let texts = |texts: &[(&str, &str)]| {
            let texts = texts
                .iter()
                .map(|(tag, text)| ((*tag).to_owned(), (*text).to_owned()))
                .collect();
            LocalizedString::Localized(texts).into_text()
        };
        assert_eq!(
            texts(&[("de", "Hallo"), ("en-GB", "Hello"), ("fr", "Salut")]),
            "Hello"
        );
        assert_eq!(texts(&[("de", "Hallo"), ("eng", "?")]), "Hallo");
        assert_eq!(texts(&[]), "");
    }
}
