use std::any::Any;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{ToolError, schema};

/// One content block: an open JSON object with a `type`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Content(Map<String, Value>);

impl Content {
    /// The block types that a tool may return.
    pub const TYPES: [&str; 11] = [
        "text",
        "image",
        "audio",
        "video",
        "file",
        "resource_link",
        "embedded_resource",
        "log",
        "diff",
        "artifact_ref",
        "handoff_ref",
    ];

    /// A block of any type, to be filled with [`Self::field`].
    pub fn new(kind: &str) -> Self {
        Self(Map::from_iter([("type".to_owned(), kind.into())]))
    }

    /// Text for the model.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new("text").field("text", text.into())
    }

    /// Log output of the tool; kept, but not given to the model.
    pub fn log(text: impl Into<String>) -> Self {
        Self::new("log").field("text", text.into())
    }

    /// A unified diff of the file `path`.
    pub fn diff(path: impl Into<String>, diff: impl Into<String>) -> Self {
        Self::new("diff")
            .field("path", path.into())
            .field("diff", diff.into())
    }

    /// An image; `media_type` such as `image/png`. The bytes are encoded as base64.
    pub fn image(media_type: &str, bytes: &[u8]) -> Self {
        Self::media("image", media_type, bytes)
    }

    /// Sound; `media_type` such as `audio/wav`.
    pub fn audio(media_type: &str, bytes: &[u8]) -> Self {
        Self::media("audio", media_type, bytes)
    }

    /// A video; `media_type` such as `video/mp4`.
    pub fn video(media_type: &str, bytes: &[u8]) -> Self {
        Self::media("video", media_type, bytes)
    }

    /// A file with its name and bytes.
    pub fn file(name: impl Into<String>, media_type: &str, bytes: &[u8]) -> Self {
        Self::media("file", media_type, bytes).field("name", name.into())
    }

    /// A link to a resource that the caller can fetch.
    pub fn resource_link(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new("resource_link")
            .field("uri", uri.into())
            .field("name", name.into())
    }

    /// A text resource with a URI of its own.
    pub fn embedded_resource(
        uri: impl Into<String>,
        media_type: &str,
        text: impl Into<String>,
    ) -> Self {
        Self::new("embedded_resource")
            .field("uri", uri.into())
            .field("media_type", media_type)
            .field("text", text.into())
    }

    /// A proposal to hand the work to another agent, which the caller may follow or not. The host acts on none.
    pub fn handoff(to_agent: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("handoff_ref")
            .field("to_agent", to_agent.into())
            .field("message", message.into())
    }

    /// Adds or replaces a field. The type of a block cannot be changed: a field named `type` is ignored.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        if name != "type" {
            self.0.insert(name.to_owned(), value.into());
        }
        self
    }

    /// The block's type.
    pub fn kind(&self) -> &str {
        self.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    /// One field of the block.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    /// Takes the text out of a block that is nothing else.
    #[cfg_attr(not(any(target_arch = "wasm32", test)), allow(dead_code))]
    fn take_text(&mut self) -> Option<String> {
        let is_plain = self.0.len() == 2
            && self.kind() == "text"
            && self.get("text").is_some_and(Value::is_string);
        if !is_plain {
            return None;
        }
        match self.0.remove("text") {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    fn media(kind: &str, media_type: &str, bytes: &[u8]) -> Self {
        Self::new(kind)
            .field("media_type", media_type)
            .field("data", base64(bytes))
    }
}

/// Marks an [`Output`] without a structured value. It has no values itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Unstructured {}

/// The result of a tool if a plain value is not enough: content blocks, a structured value, a line for a person.
///
/// `Output` alone has no structured value; `Output<T>` may have one, and declares the schema of `T`.
#[derive(Clone, Debug, PartialEq)]
pub struct Output<T = Unstructured> {
    /// What the model reads, in order.
    pub content: Vec<Content>,
    /// The value that a program reads.
    pub structured: Option<T>,
    /// One line for a person; never given to the model.
    pub ui_summary: Option<String>,
    /// The part that failed, although the rest is usable.
    pub error: Option<ToolError>,
}

impl<T> Default for Output<T> {
    fn default() -> Self {
        Self {
            content: Vec::new(),
            structured: None,
            ui_summary: None,
            error: None,
        }
    }
}

impl<T> Output<T> {
    /// An empty result, to be filled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a block.
    #[must_use]
    pub fn block(mut self, block: Content) -> Self {
        self.content.push(block);
        self
    }

    /// Adds text for the model.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.block(Content::text(text))
    }

    /// Adds a unified diff of the file `path`.
    #[must_use]
    pub fn diff(self, path: impl Into<String>, diff: impl Into<String>) -> Self {
        self.block(Content::diff(path, diff))
    }

    /// Sets the structured value.
    #[must_use]
    pub fn structured(mut self, value: T) -> Self {
        self.structured = Some(value);
        self
    }

    /// Sets the line for a person.
    #[must_use]
    pub fn ui_summary(mut self, line: impl Into<String>) -> Self {
        self.ui_summary = Some(line.into());
        self
    }

    /// Marks part of the work as failed: the call ends as a partial success.
    #[must_use]
    pub fn partial_failure(mut self, error: ToolError) -> Self {
        self.error = Some(error);
        self
    }
}

/// A success in the shortest form that the contract has for it.
#[cfg_attr(not(any(target_arch = "wasm32", test)), allow(dead_code))]
#[derive(Debug, PartialEq)]
pub(crate) enum Short {
    Text(String),
    Json(Value),
    Neither(Output<Value>),
}

impl Output<Value> {
    /// Returns the text or the value if that is all of the output.
    #[cfg_attr(not(any(target_arch = "wasm32", test)), allow(dead_code))]
    pub(crate) fn shorten(mut self) -> Short {
        if self.ui_summary.is_some() || self.error.is_some() {
            return Short::Neither(self);
        }
        if self.content.is_empty()
            && let Some(value) = self.structured.take()
        {
            return Short::Json(value);
        }
        if self.structured.is_none()
            && let [block] = self.content.as_mut_slice()
            && let Some(text) = block.take_text()
        {
            return Short::Text(text);
        }
        Short::Neither(self)
    }
}

/// The outcome of a call, with the types erased.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The call succeeded.
    Success(Output<Value>),
    /// Part of the work failed; the output is usable.
    Partial(Output<Value>, ToolError),
    /// The call failed.
    Failure(ToolError),
}

/// What a structured value may be: anything that serialises and has a schema, or [`Unstructured`].
#[doc(hidden)]
pub trait Structured: Sized {
    fn schema() -> Option<Value>;
    fn to_json(self) -> Result<Value, ToolError>;
}

impl<T: Serialize + JsonSchema> Structured for T {
    fn schema() -> Option<Value> {
        Some(schema::of_output::<T>())
    }

    fn to_json(self) -> Result<Value, ToolError> {
        serde_json::to_value(self).map_err(|error| {
            ToolError::execution_failed(
                "output_not_json",
                "the tool's result cannot be written as JSON",
            )
            .detail(error.to_string())
        })
    }
}

impl Structured for Unstructured {
    fn schema() -> Option<Value> {
        None
    }

    fn to_json(self) -> Result<Value, ToolError> {
        match self {}
    }
}

/// A `Result` of any error: what `#[tool]` makes of it before [`IntoOutcome`].
#[doc(hidden)]
pub trait Fallible {
    type Answer;
    fn or_failure(self) -> Result<Self::Answer, ToolError>;
}

impl<T, E: IntoFailure> Fallible for Result<T, E> {
    type Answer = T;

    fn or_failure(self) -> Result<T, ToolError> {
        self.map_err(E::into_failure)
    }
}

/// An error that a tool may return: a [`ToolError`], or one that says what failed. Then the class is
/// `execution_failed`; an [`io::Error`](std::io::Error) has the class of its kind.
#[diagnostic::on_unimplemented(
    message = "a tool cannot fail with `{Self}`",
    label = "not an error that a tool can give",
    note = "return a `Result` with a `ToolError`, or with an error that implements `std::fmt::Display`"
)]
#[doc(hidden)]
pub trait IntoFailure {
    fn into_failure(self) -> ToolError;
}

impl<E: std::fmt::Display + 'static> IntoFailure for E {
    fn into_failure(self) -> ToolError {
        let mut whole = Some(self);
        let any: &mut dyn Any = &mut whole;
        if let Some(error) = any
            .downcast_mut::<Option<ToolError>>()
            .and_then(Option::take)
        {
            return error;
        }
        if let Some(error) = any
            .downcast_mut::<Option<std::io::Error>>()
            .and_then(Option::take)
        {
            return error.into();
        }
        let text = whole.map(|error| error.to_string()).unwrap_or_default();
        ToolError::execution_failed(
            "failed",
            if text.is_empty() {
                "the tool failed".to_owned()
            } else {
                text
            },
        )
    }
}

/// What a tool function may return: a value that serialises and has a schema (a `String` becomes text), an [`Output`],
/// or a `Result` of these and a [`ToolError`]. `Shape` is inferred: it keeps the three implementations apart.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not an answer that a tool can give",
    note = "return a type with `#[data]` (serde::Serialize and schemars::JsonSchema), a `String`, an `Output`, \
            or a `Result` of one of them and an error: a `ToolError`, or any that implements `std::fmt::Display`"
)]
#[doc(hidden)]
pub trait IntoOutcome<Shape> {
    /// The JSON Schema of the structured value, if there is one.
    fn structured_schema() -> Option<Value>;

    /// The block types that can be returned; an empty list means any.
    fn content_types() -> &'static [&'static str];

    /// The value itself, with its type erased.
    fn into_outcome(self) -> Outcome;
}

impl<T: Serialize + JsonSchema + 'static> IntoOutcome<shape::Plain> for T {
    fn structured_schema() -> Option<Value> {
        (!is_text::<T>()).then(schema::of_output::<T>)
    }

    fn content_types() -> &'static [&'static str] {
        if is_text::<T>() {
            &["text"]
        } else {
            &["structured_content"]
        }
    }

    fn into_outcome(self) -> Outcome {
        // Under another name, which `#[tool]` does not know it by: its `Err` must not pass for a success.
        if std::any::type_name::<T>().starts_with("core::result::Result<") {
            let message = "the tool returns a `Result` under another name; its author writes `Result<T, E>` instead";
            return Outcome::Failure(ToolError::execution_failed("result_type", message));
        }
        match (&self as &dyn Any).downcast_ref::<String>() {
            Some(text) => Output::<Value>::new().text(text).into_outcome(),
            None => Output::new().structured(self).into_outcome(),
        }
    }
}

impl<T: Structured> IntoOutcome<shape::Built> for Output<T> {
    fn structured_schema() -> Option<Value> {
        T::schema()
    }

    fn content_types() -> &'static [&'static str] {
        &[]
    }

    fn into_outcome(self) -> Outcome {
        let structured = match self.structured.map(T::to_json).transpose() {
            Ok(structured) => structured,
            Err(error) => return Outcome::Failure(error),
        };
        let output = Output {
            content: self.content,
            structured,
            ui_summary: self.ui_summary,
            error: None,
        };
        match self.error {
            Some(error) => Outcome::Partial(output, error),
            None => Outcome::Success(output),
        }
    }
}

impl<S, T: IntoOutcome<S>> IntoOutcome<shape::Fallible<S>> for Result<T, ToolError> {
    fn structured_schema() -> Option<Value> {
        T::structured_schema()
    }

    fn content_types() -> &'static [&'static str] {
        T::content_types()
    }

    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => Outcome::Failure(error),
        }
    }
}

mod shape {
    /// A value of the tool's own type.
    pub enum Plain {}
    /// An `Output`.
    pub enum Built {}
    /// A `Result` of the shape `S`.
    pub struct Fallible<S>(std::marker::PhantomData<S>);
}

fn is_text<T: 'static>() -> bool {
    std::any::TypeId::of::<T>() == std::any::TypeId::of::<String>()
}

/// The blocks as a JSON array.
pub(crate) fn content_json(content: &[Content]) -> String {
    json!(content).to_string()
}

/// Encodes as base64 (RFC 4648), with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let sextet = (word >> (18 - 6 * place)) & 63;
            text.push(if place <= chunk.len() {
                char::from(ALPHABET[sextet as usize])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Count {
        words: u32,
    }

    #[test]
    fn a_value_is_structured_and_a_string_is_text() {
        let Outcome::Success(output) = Count { words: 2 }.into_outcome() else {
            panic!()
        };
        assert_eq!(
            (output.content, output.structured),
            (vec![], Some(json!({"words": 2})))
        );
        let Outcome::Success(output) = "two".to_owned().into_outcome() else {
            panic!()
        };
        assert_eq!(
            (output.content, output.structured),
            (vec![Content::text("two")], None)
        );
        assert_eq!(
            <Result<String, ToolError> as IntoOutcome<_>>::structured_schema(),
            None
        );
        assert_eq!(
            <Result<String, ToolError> as IntoOutcome<_>>::content_types(),
            ["text"]
        );
    }

    #[test]
    fn an_output_declares_the_schema_of_its_structured_value() {
        assert_eq!(<Output as IntoOutcome<_>>::structured_schema(), None);
        let schema = <Output<Count> as IntoOutcome<_>>::structured_schema().unwrap();
        assert_eq!(schema["required"], json!(["words"]));
    }

    #[test]
    fn a_failure_beside_a_usable_output_is_partial() {
        let error = ToolError::partial_failure("one_missing", "one file was not found");
        let outcome = Output::<Count>::new()
            .text("some")
            .partial_failure(error.clone())
            .into_outcome();
        let Outcome::Partial(output, said) = outcome else {
            panic!()
        };
        assert_eq!((output.content.len(), said), (1, error));
    }

    #[test]
    fn only_an_output_that_is_nothing_else_is_shortened() {
        let empty = Output::<Value>::new;
        assert_eq!(
            empty().text("a \"b\"").shorten(),
            Short::Text("a \"b\"".to_owned())
        );
        assert_eq!(
            empty().structured(json!({"n": 1})).shorten(),
            Short::Json(json!({"n": 1}))
        );
        for whole in [
            empty(),
            empty().text("a").text("b"),
            empty().text("a").structured(json!(1)),
            empty().text("a").ui_summary("One."),
            empty().structured(json!(1)).ui_summary("One."),
            empty().block(Content::text("a").field("annotations", json!({}))),
            empty().block(Content::new("text").field("text", 7)),
            empty().block(Content::new("text").field("note", "a")),
            empty().block(Content::log("a")),
        ] {
            assert_eq!(whole.clone().shorten(), Short::Neither(whole));
        }
    }

    #[test]
    fn bytes_travel_as_base64() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        let image = Content::image("image/png", &[0xff, 0xfe]);
        assert_eq!(
            json!(image),
            json!({"type": "image", "media_type": "image/png", "data": "//4="})
        );
    }
}
