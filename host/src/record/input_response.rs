use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a person answered a tool that needs input, in MCP's words. The tool gets it as this JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum InputResponse {
    /// The form, filled in.
    Accept { content: Map<String, Value> },
    /// They do not want to say.
    Decline,
    /// They closed the question.
    Cancel,
}

/// Answers, by the keys of the requests.
pub type InputResponses = BTreeMap<String, InputResponse>;
