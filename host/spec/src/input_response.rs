use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A person's answer in the terms of MCP; the tool gets this JSON.
///
/// ```
/// use toolcell_spec::InputResponse;
///
/// let response: InputResponse = serde_json::from_str(r#"{"action": "accept", "content": {"name": "Ada"}}"#)?;
/// assert!(matches!(response, InputResponse::Accept { content } if content["name"] == "Ada"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum InputResponse {
    Accept { content: Map<String, Value> },
    Decline,
    Cancel,
}

/// By the keys of the requests.
///
/// ```
/// use toolcell_spec::{InputResponse, InputResponses};
///
/// let responses = InputResponses::from([("who".to_owned(), InputResponse::Decline)]);
/// assert!(responses.contains_key("who"));
/// ```
pub type InputResponses = BTreeMap<String, InputResponse>;
