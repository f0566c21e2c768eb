//! Reads responses back, to test what they keep of a result (requirements 3.4, inverse import). The program itself
//! receives none.

use std::time::Duration;

use serde_json::{Value, json};
use toolcell_spec::{
    ARTIFACT, Content, ErrorCode, GUEST_BLOCKS, Recoverability, Refusal, ToolError, TypedFields,
    is_uri,
};

use super::output::{CONTENT, CONTEXT, MARK, WRAPPED};

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ImportedResponse {
    pub content: Vec<Content>,
    pub structured_content: Option<Value>,
    pub error: Option<ToolError>,
    /// For the model, beside the output or the error.
    pub additional_context: Vec<Value>,
    /// For the log only: never for a model or a user.
    pub developer_message: Option<String>,
}

/// In any format; unknown fields are ignored (O-15). Fails for several outputs, or one that contradicts `success`.
pub(super) fn import(response: &Value) -> Result<ImportedResponse, Refusal> {
    let success = response.get("success").and_then(Value::as_bool);
    let success = success.ok_or_else(|| bad("`success` is missing"))?;
    let output = response.get("output").filter(|output| !output.is_null());
    let arm = |name: &str| {
        output
            .and_then(|output| output.get(name))
            .filter(|arm| !arm.is_null())
    };
    let arms = ["value", "artifact", "error", "requires_authorization"].map(arm);
    match (success, arms) {
        (true, [None, None, None, None]) => Ok(ImportedResponse::default()),
        (true, [Some(value), None, None, None]) => Ok(of_value(value)),
        (true, [None, Some(artifact), None, None]) => of_artifact(artifact),
        (false, [None, None, Some(error), None]) => of_error(error),
        (false, [None, None, None, Some(authorization)]) => Ok(of_authorization(authorization)),
        (true, [_, _, None, None]) | (false, [None, None, _, _]) => {
            Err(bad("it has not exactly one output"))
        }
        (true, _) => Err(bad("it succeeded, but its output is an error")),
        (false, _) => Err(bad("it failed, but its output is no error")),
    }
}

fn bad(why: &str) -> Refusal {
    let message = format!("cannot read the response of the tool: {why}");
    Refusal::new(ErrorCode::ProtocolError, message)
}

fn of_value(value: &Value) -> ImportedResponse {
    let (value, additional_context) = unwrapped(value);
    let (content, structured_content) = match value {
        UnwrappedValue::Content(content) => (content, None),
        UnwrappedValue::Value(Value::String(text)) => (vec![Content::text(text)], None),
        UnwrappedValue::Value(Value::Null) => (Vec::new(), None),
        UnwrappedValue::Value(value) => (Vec::new(), Some(value)),
    };
    ImportedResponse {
        content,
        structured_content,
        additional_context,
        ..ImportedResponse::default()
    }
}

fn of_artifact(artifact: &Value) -> Result<ImportedResponse, Refusal> {
    let text = |pointer: &str| artifact.pointer(pointer).and_then(Value::as_str);
    let url = text("/url")
        .filter(|url| is_uri(url))
        .ok_or_else(|| bad("its artifact has no URL"))?;
    let link = json!({
        "uri": url,
        "name": text("/meta/description").unwrap_or(url),
        "media_type": text("/content_type").unwrap_or("application/octet-stream"),
        "size_bytes": artifact.get("size").and_then(Value::as_u64),
    });
    Ok(ImportedResponse {
        content: vec![Content::new("resource_link", link)],
        ..ImportedResponse::default()
    })
}

fn of_error(error: &Value) -> Result<ImportedResponse, Refusal> {
    let text = |name: &str| error.text(name);
    let message = text("message").ok_or_else(|| bad("its error has no message"))?;
    let mut refusal = Refusal::new(ErrorCode::ToolFailed, message);
    let wait = error.get("retry_after_ms").and_then(Value::as_u64);
    refusal.retry_after = wait.map(|millis| Duration::from_millis(millis).as_secs_f64());
    let mut known = refusal.to_error();
    let can_retry = error.get("can_retry").and_then(Value::as_bool) == Some(true);
    known.recoverability = if can_retry {
        Recoverability::RetrySame
    } else {
        Recoverability::None
    };
    // That it can be called again does not mean that the first call changed nothing.
    known.retry.safe = false;
    let context = text("additional_prompt_content").map(Value::from);
    Ok(ImportedResponse {
        error: Some(known),
        additional_context: context.into_iter().collect(),
        developer_message: text("developer_message").map(str::to_owned),
        ..ImportedResponse::default()
    })
}

fn of_authorization(authorization: &Value) -> ImportedResponse {
    let url = ["url", "authorization_url"]
        .into_iter()
        .find_map(|name| authorization.get(name))
        .and_then(Value::as_str);
    let where_to = url
        .filter(|url| is_uri(url))
        .map(|url| format!("; get it at {url}"))
        .unwrap_or_default();
    let message = format!("the tool needs an authorization{where_to}");
    let error = Refusal::new(ErrorCode::SecretNotSet, message).to_error();
    ImportedResponse {
        error: Some(error),
        ..ImportedResponse::default()
    }
}

enum UnwrappedValue {
    Value(Value),
    Content(Vec<Content>),
}

/// Undoes [`output`](super::output::output). The second part is context for the model.
fn unwrapped(value: &Value) -> (UnwrappedValue, Vec<Value>) {
    let mark = value.text(MARK).map(str::to_owned);
    let (Some(mark @ (WRAPPED | CONTENT)), Value::Object(mut fields)) =
        (mark.as_deref(), value.clone())
    else {
        return (UnwrappedValue::Value(value.clone()), Vec::new());
    };
    let context = match fields.remove(CONTEXT) {
        Some(Value::Array(context)) => context,
        _ => Vec::new(),
    };
    let inner = fields
        .remove(if mark == WRAPPED { "value" } else { "content" })
        .unwrap_or_default();
    match (mark, inner) {
        (CONTENT, Value::Array(blocks)) => (
            UnwrappedValue::Content(blocks.into_iter().map(block).collect()),
            context,
        ),
        (_, value) => (UnwrappedValue::Value(value), context),
    }
}

/// A block that only the host can write becomes text, because it would be taken for a payload reference.
fn block(block: Value) -> Content {
    let is_theirs =
        |block: &Content| GUEST_BLOCKS.contains(&block.kind.as_str()) && block.kind != ARTIFACT;
    let text = block.to_string();
    serde_json::from_value(block)
        .ok()
        .filter(is_theirs)
        .unwrap_or_else(|| Content::text(text))
}
