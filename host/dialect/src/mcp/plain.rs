//! Several calls in one request, as in `tools/call`: an array of `{"id": .., "name": .., "arguments": {..}}`.

use rmcp::model::ProtocolVersion;
use serde::Deserialize;
use serde_json::{Value, json};
use toolcell_spec::{Input, ToolInvocation, ToolResult};

use super::call_result;
use crate::model_call::{no_arguments, read_arguments};
use crate::{MessageError, MessageExchange, ModelCall};

pub const PLAIN: MessageExchange = MessageExchange {
    read,
    result,
    messages: None,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainCall {
    id: Option<String>,
    name: String,
    #[serde(default = "no_arguments", deserialize_with = "read_arguments")]
    arguments: Input,
}

fn read(text: &str) -> Result<Vec<ModelCall>, MessageError> {
    let calls: Vec<PlainCall> =
        serde_json::from_str(text).map_err(|error| MessageError::at("the calls", &error))?;
    let call = |(at, call): (usize, PlainCall)| ModelCall {
        id: call.id.unwrap_or_else(|| at.to_string()),
        name: call.name,
        arguments: call.arguments,
    };
    Ok(calls.into_iter().enumerate().map(call).collect())
}

fn result(_: &ToolInvocation, result: &ToolResult) -> Value {
    json!(call_result(result, &ProtocolVersion::V_2025_11_25, None))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_call_has_a_name_and_may_have_an_id_and_arguments() {
        let read_all =
            read(r#"[{"name": "a", "arguments": {"n": 1.0}}, {"id": "x", "name": "b"}]"#).unwrap();
        let said: Vec<_> = read_all
            .iter()
            .map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.text()))
            .collect();
        assert_eq!(said, [("0", "a", "{\"n\": 1.0}"), ("x", "b", "{}")]);
        assert!(
            read("{}")
                .unwrap_err()
                .to_string()
                .starts_with("cannot read the calls: ")
        );
        assert!(read(r#"[{"name": "a", "input": {}}]"#).is_err());
    }
}
