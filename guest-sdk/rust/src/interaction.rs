//! Asks the caller's user something in the middle of a call.
//!
//! A tool that asks is stopped there. Once somebody has answered, its function is called again from the beginning with the
//! same input, and [`ask`] gives the answer at once: so ask before you change anything, or [`remember`] what was done.

use std::cell::RefCell;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{ToolError, host, schema};

/// What a person answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", content = "content", rename_all = "lowercase")]
pub enum Response<T = Map<String, Value>> {
    /// The filled form.
    Accept(T),
    /// They do not want to say.
    Decline,
    /// They closed the question.
    Cancel,
}

impl<T> Response<T> {
    /// The filled form; an error of class canceled where there is none.
    pub fn accepted(self) -> Result<T, ToolError> {
        let refused = |why: &str| Err(ToolError::canceled("not_answered", why));
        match self {
            Self::Accept(content) => Ok(content),
            Self::Decline => refused("the user did not want to answer"),
            Self::Cancel => refused("the user closed the question"),
        }
    }
}

thread_local! {
    static REMEMBERED: RefCell<Vec<u8>> = RefCell::default();
}

/// Asks for a `T`: a flat struct of strings, numbers, booleans and choices, whose doc comments describe its fields. `key`
/// names the question among those of the call, `message` is shown to the user.
pub fn ask<T: DeserializeOwned + JsonSchema>(key: &str, message: &str) -> Result<Response<T>, ToolError> {
    let content = match ask_form(key, message, &schema::of_form::<T>())? {
        Response::Accept(content) => content,
        Response::Decline => return Ok(Response::Decline),
        Response::Cancel => return Ok(Response::Cancel),
    };
    serde_json::from_value(Value::Object(content)).map(Response::Accept).map_err(|error| unusable(&error))
}

/// The same with a JSON Schema of one's own.
pub fn ask_form(key: &str, message: &str, schema: &Value) -> Result<Response, ToolError> {
    let responses: Map<String, Value> = serde_json::from_str(&host::responses()).map_err(|error| unusable(&error))?;
    match responses.get(key) {
        Some(response) => Response::deserialize(response).map_err(|error| unusable(&error)),
        None => host::ask(key, message, &schema.to_string(), &REMEMBERED.take()),
    }
}

/// Keeps `state` for the function's next run, if it asks from here on: at most 64 KiB, which nobody else sees.
pub fn remember(state: impl Into<Vec<u8>>) {
    REMEMBERED.set(state.into());
}

/// What the run before this one remembered when it asked; empty in the first one.
pub fn remembered() -> Vec<u8> {
    host::resume_state()
}

fn unusable(error: &serde_json::Error) -> ToolError {
    ToolError::invalid_arguments("unusable_answer", format!("the answer cannot be used: {error}"))
}
