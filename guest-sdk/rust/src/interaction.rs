//! Asks the caller's user something in the middle of a call.
//!
//! [`ask`] ends the current run. When the user has answered, the host calls the function again from the start with the
//! same input, and [`ask`] then returns the answer. So ask before you change anything, or use [`remember`] to record
//! finished work.

use std::cell::RefCell;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{ToolError, host, schema};

/// The answer of the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", content = "content", rename_all = "lowercase")]
pub enum Response<T = Map<String, Value>> {
    /// The filled form.
    Accept(T),
    /// The user declined to answer.
    Decline,
    /// The user closed the question.
    Cancel,
}

impl<T> Response<T> {
    /// Returns the filled form, or an error of class canceled if there is none.
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

/// Asks for a `T`: a flat struct of strings, numbers, booleans and choices, whose doc comments describe its fields.
/// `key` identifies the question within the call, `message` is shown to the user.
pub fn ask<T: DeserializeOwned + JsonSchema>(
    key: &str,
    message: &str,
) -> Result<Response<T>, ToolError> {
    let content = match ask_form(key, message, &schema::of_form::<T>())? {
        Response::Accept(content) => content,
        Response::Decline => return Ok(Response::Decline),
        Response::Cancel => return Ok(Response::Cancel),
    };
    serde_json::from_value(Value::Object(content))
        .map(Response::Accept)
        .map_err(|error| unusable(&error))
}

/// Like [`ask`], with a JSON Schema of your own.
pub fn ask_form(key: &str, message: &str, schema: &Value) -> Result<Response, ToolError> {
    let question = Question {
        key,
        message,
        schema,
    };
    response(&answers_to(&[question])?, &question)
}

/// One of several questions.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Identifies the question within the call.
    pub key: &'a str,
    /// Shown to the user.
    pub message: &'a str,
    /// The JSON Schema of the form.
    pub schema: &'a Value,
}

/// Asks several questions at once, so that the user can answer them in any order. Returns the answers in the order of
/// the questions.
pub fn ask_forms(questions: &[Question<'_>]) -> Result<Vec<Response>, ToolError> {
    let answers = answers_to(questions)?;
    questions
        .iter()
        .map(|question| response(&answers, question))
        .collect()
}

/// The answers so far, once there is one to each question; until then, asks.
fn answers_to(questions: &[Question<'_>]) -> Result<Map<String, Value>, ToolError> {
    let answers: Map<String, Value> =
        serde_json::from_str(&host::responses()).map_err(|error| unusable(&error))?;
    let open: Vec<_> = questions
        .iter()
        .copied()
        .filter(|question| !answers.contains_key(question.key))
        .collect();
    match open.as_slice() {
        [] => Ok(answers),
        open => host::ask(open, &REMEMBERED.take()),
    }
}

fn response(answers: &Map<String, Value>, question: &Question<'_>) -> Result<Response, ToolError> {
    // `answers_to` has one for each question.
    let answer = answers.get(question.key).unwrap_or(&Value::Null);
    Response::deserialize(answer).map_err(|error| unusable(&error))
}

/// Keeps `state` for the next run of the function, if the tool asks a question after this call: at most 64 KiB, which
/// only this tool sees.
pub fn remember(state: impl Into<Vec<u8>>) {
    REMEMBERED.set(state.into());
}

/// Returns what the previous run remembered when it asked; empty in the first run.
pub fn remembered() -> Vec<u8> {
    host::resume_state()
}

fn unusable(error: &serde_json::Error) -> ToolError {
    ToolError::invalid_arguments(
        "unusable_answer",
        format!("the answer cannot be used: {error}"),
    )
}
