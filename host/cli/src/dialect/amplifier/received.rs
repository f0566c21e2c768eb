use serde_json::{Map, Value, json};
use toolcell_core::record::{Content, ErrorClass, Refusal};

use super::content::is_image;

/// A result that an Amplifier tool returned: a `ToolResult` in either mode, or a plain dict (AM-11).
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// A result that does not say so succeeded (AM-07).
    pub success: bool,
    pub output: Option<Value>,
    pub error: Option<ReceivedError>,
    /// Texts and images.
    pub content: Vec<Content>,
    pub metadata: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedError {
    pub message: Option<String>,
    /// `type`, as the tool chose it.
    pub kind: Option<String>,
}

/// Reads a result.
///
/// # Errors
///
/// Fails if a field is not of the type that either mode allows, so that a failure is not taken for a success.
pub fn received(value: &Value) -> Result<Received, Refusal> {
    let fields = value.as_object().ok_or_else(|| unreadable("it is not an object"))?;
    let success = match fields.get("success") {
        None => true,
        Some(success) => success.as_bool().ok_or_else(|| unreadable("`success` is not true or false"))?,
    };
    let error = error(given(fields, "error"))?;
    let mut output = given(fields, "output").cloned();
    // As in `amplifier-core`: tools often say only why they failed, and a model reads only the output.
    if let (false, None, Some(message)) = (success, &output, error.as_ref().and_then(|error| error.message.clone())) {
        output = (!message.is_empty()).then(|| message.into());
    }
    let content = match given(fields, "content") {
        None => Vec::new(),
        Some(content) => blocks(content)?,
    };
    let metadata = match given(fields, "metadata") {
        None => Map::new(),
        Some(metadata) => metadata.as_object().cloned().ok_or_else(|| unreadable("`metadata` is not an object"))?,
    };
    Ok(Received { success, output, error, content, metadata })
}

impl Received {
    /// What a model reads: `get_serialized_output` of `amplifier-core`, with `Success` for a success without output.
    pub fn text(&self) -> String {
        let unknown = || match self.error.as_ref() {
            Some(error) => format!("Error: {}", error.message.as_deref().unwrap_or("Unknown error")),
            None => "Error: Failed".to_owned(),
        };
        match &self.output {
            Some(Value::String(text)) => text.clone(),
            Some(output) => output.to_string(),
            None if self.success => "Success".to_owned(),
            None => unknown(),
        }
    }

    /// The output in the words of a record: content blocks, and the structured value if there is one.
    pub fn output(&self) -> (Vec<Content>, Option<Value>) {
        let structured = self.output.clone().filter(|output| !output.is_string());
        if !self.content.is_empty() {
            return (self.content.clone(), structured);
        }
        let text = self.output.as_ref().and_then(Value::as_str).map(Content::text);
        (text.into_iter().collect(), structured)
    }

    /// The error of a failed call: `execution_failed` (requirements 3.4). `type` is the tool's own word, and proves
    /// nothing.
    pub fn refusal(&self) -> Option<Refusal> {
        let message = || match self.error.as_ref().and_then(|error| error.message.clone()) {
            Some(message) if !message.is_empty() => message,
            _ => self.text(),
        };
        (!self.success).then(|| Refusal::new(ErrorClass::ExecutionFailed, Refusal::TOOL_FAILED, message()))
    }
}

/// A field that is there and not null.
fn given<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

/// Reads `error`: a text in the seed, an object upstream (AM-09).
fn error(error: Option<&Value>) -> Result<Option<ReceivedError>, Refusal> {
    match error {
        None => Ok(None),
        Some(Value::String(message)) => Ok(Some(ReceivedError { message: Some(message.clone()), kind: None })),
        Some(Value::Object(fields)) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
            Ok(Some(ReceivedError { message: text("message"), kind: text("type") }))
        }
        Some(_) => Err(unreadable("`error` is neither a text nor an object")),
    }
}

fn blocks(content: &Value) -> Result<Vec<Content>, Refusal> {
    let blocks = content.as_array().ok_or_else(|| unreadable("`content` is not a list"))?;
    let read = |block: &Value| {
        let text = |pointer: &str| block.pointer(pointer).and_then(Value::as_str);
        match text("/type") {
            Some("text") => text("/text").map(Content::text),
            Some("image") if text("/source/type") == Some("base64") => {
                let (media_type, data) = (text("/source/media_type")?, text("/source/data")?);
                let image = json!({ "media_type": media_type, "data": data });
                is_image(media_type, data).then(|| Content::new("image", image))
            }
            _ => None,
        }
    };
    let read: Option<Vec<Content>> = blocks.iter().map(read).collect();
    read.ok_or_else(|| unreadable("a block of `content` is neither a text nor a base64 image"))
}

fn unreadable(why: &str) -> Refusal {
    let message = format!("cannot read the result of the Amplifier tool: {why}");
    Refusal::new(ErrorClass::ExecutionFailed, "bad_tool_result", message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_core::record::{Content, ErrorClass};

    use super::received;

    #[test]
    fn the_output_of_a_failure_is_its_message_if_the_tool_set_none() {
        for (result, output) in [
            (json!({ "success": false, "error": { "message": "no file" } }), Some(json!("no file"))),
            (
                json!({ "success": false, "output": { "code": 1 }, "error": { "message": "m" } }),
                Some(json!({ "code": 1 })),
            ),
            (json!({ "success": true, "error": { "message": "m" } }), None),
            (json!({ "success": false, "error": { "type": "execution" } }), None),
            (json!({ "success": false, "error": "Path not allowed" }), Some(json!("Path not allowed"))),
            (json!({ "success": false, "output": null, "error": "e" }), Some(json!("e"))),
        ] {
            assert_eq!(received(&result).unwrap().output, output, "{result}");
        }
    }

    #[test]
    fn a_result_that_does_not_say_so_succeeded() {
        let read = received(&json!({ "output": "o" })).unwrap();
        assert!(read.success && read.refusal().is_none());
        assert_eq!(read.output(), (vec![Content::text("o")], None));
        assert_eq!(received(&json!({})).unwrap().text(), "Success");
    }

    #[test]
    fn a_model_reads_what_amplifier_shows_it() {
        for (result, text) in [
            (json!({ "output": { "n": [1] } }), r#"{"n":[1]}"#),
            (json!({ "output": "plain" }), "plain"),
            (json!({ "success": false }), "Error: Failed"),
            (json!({ "success": false, "error": {} }), "Error: Unknown error"),
            (json!({ "success": false, "error": { "message": "m", "type": "timeout" } }), "m"),
        ] {
            assert_eq!(received(&result).unwrap().text(), text, "{result}");
        }
    }

    #[test]
    fn a_failure_is_execution_failed_and_keeps_its_output() {
        let image =
            json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" } });
        let result = json!({
            "success": false, "output": { "half": 1 }, "error": { "message": "m", "type": "timeout" },
            "content": [{ "type": "text", "text": "t" }, image], "metadata": { "a": 1 },
        });
        let read = received(&result).unwrap();
        let refusal = read.refusal().unwrap();
        assert_eq!((refusal.class, refusal.message.as_str()), (ErrorClass::ExecutionFailed, "m"));
        assert_eq!(read.error.as_ref().unwrap().kind.as_deref(), Some("timeout"));
        let (content, structured) = read.output();
        assert_eq!(structured, Some(json!({ "half": 1 })));
        assert_eq!((content[0].as_text(), content[1].problem()), (Some("t"), None));
        assert_eq!(read.metadata["a"], 1);
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let image = json!({ "type": "image", "source": { "type": "url", "url": "https://e.com" } });
        for (result, why) in [
            (json!("done"), "it is not an object"),
            (json!({ "success": "false" }), "`success`"),
            (json!({ "success": null }), "`success`"),
            (json!({ "error": 7 }), "`error`"),
            (json!({ "metadata": [] }), "`metadata`"),
            (json!({ "content": "t" }), "not a list"),
            (json!({ "content": [image] }), "a block of `content`"),
            (json!({ "content": [Value::Null] }), "a block of `content`"),
        ] {
            let refusal = received(&result).unwrap_err();
            assert!(refusal.message.contains(why), "{result}: {}", refusal.message);
        }
    }
}
