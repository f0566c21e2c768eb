use serde_json::{Value, json};
use toolcell_spec::ToolResult;

/// Omits the underlying error, which is for developers of the tool and the host.
pub fn whole(result: &ToolResult) -> Value {
    let mut value = json!(result);
    if let Some(error) = value.get_mut("error").and_then(Value::as_object_mut) {
        error.remove("native_error_ref");
    }
    value
}
