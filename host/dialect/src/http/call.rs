use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use toolcell_spec::InvocationId;
use utoipa::ToSchema;

/// A call to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallRequest {
    /// The name of the tool.
    pub tool: String,
    /// The arguments; none by default.
    #[schema(value_type = Option<Object>)]
    pub input: Option<Box<RawValue>>,
    /// The caller's own id for the call; the record has it.
    #[schema(min_length = 1, max_length = 256)]
    pub native_call_id: Option<String>,
    /// Milliseconds after which the call ends. It can only shorten the limit of the server.
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// `false`: answer at once with the id of the call, as `Prefer: respond-async` does.
    #[serde(default)]
    pub wait: Option<bool>,
}

/// The state of a call.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CallDocument {
    #[schema(value_type = String)]
    pub invocation_id: InvocationId,
    /// The tool, once its name is resolved.
    pub tool_id: Option<String>,
    /// `running`, `queued`, `awaiting_approval`, `needs_input`, or the status with which the call ended.
    pub status: String,
    /// The result, once the call has ended.
    #[schema(value_type = Object)]
    pub result: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::CallRequest;

    #[test]
    fn a_request_has_the_fields_of_a_call_and_no_others() {
        let read = |text: &str| {
            serde_json::from_str::<CallRequest>(text)
                .map(|call| call.tool)
                .map_err(drop)
        };
        assert_eq!(
            read(r#"{"tool": "a", "input": {"n": 1.50}, "timeout_ms": 7, "wait": false}"#).unwrap(),
            "a"
        );
        for wrong in [
            r#"{}"#,
            r#"{"tool": 1}"#,
            r#"{"tool": "a", "tool": "b"}"#,
            r#"{"tool": "a", "inputs": {}}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let request: CallRequest =
            serde_json::from_str(r#"{"tool": "a", "input": {"n": 1.50}}"#).unwrap();
        assert_eq!(
            request.input.unwrap().get(),
            r#"{"n": 1.50}"#,
            "the arguments stay as they were sent"
        );
    }
}
