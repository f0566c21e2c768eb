use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A person's answer to a tool that needs input, in the terms of MCP. The tool gets it as this JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum InputResponse {
    /// The form, filled in.
    Accept { content: Map<String, Value> },
    /// The person declined to answer.
    Decline,
    /// The person closed the question.
    Cancel,
}

/// Answers, by the keys of the requests.
pub type InputResponses = BTreeMap<String, InputResponse>;
