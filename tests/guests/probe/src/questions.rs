//! Questions of a guest to the caller's user.

use std::time::Duration;

use fixture::{Access, Input, Tool};
use serde_json::{Value, json};

use crate::toolcell::tool::interaction::{InputRequest, ask, responses, resume_state};
use crate::toolcell::tool::log::{Level, log};
use crate::{Call, ErrorClass, Handler, Outcome, answer, refuse};

pub(crate) fn tools() -> Vec<Tool> {
    let input = json!({
        "rounds": { "type": "array", "items": { "type": "array", "items": { "type": "object" } } },
        "state": { "type": "string" },
        "state_bytes": { "type": "integer", "minimum": 0 },
        "spin": { "type": "integer", "minimum": 0 },
        "ms": { "type": "integer", "minimum": 0 },
        "always": { "type": "boolean" },
        "fail_after": { "type": "integer", "minimum": 0 },
        "secret": { "type": "string" },
    });
    vec![
        Tool::new(
            "ask",
            Access::Nothing,
            "Asks what it is told to ask, and answers with the answers",
        )
        .input(input, &["rounds"])
        .contract("sensitive_fields", json!(["secret"])),
    ]
}

pub(crate) fn handler(tool: &str) -> Option<Handler> {
    (tool == "ask").then_some(ask_in_rounds as Handler)
}

fn ask_in_rounds(call: &Call, input: &Input) -> Outcome {
    log(Level::Info, "entered", None);
    let given: Value = serde_json::from_str(&responses()).unwrap();
    std::thread::sleep(Duration::from_millis(input.number("ms")));
    for turn in 0..input.number("spin") {
        std::hint::black_box(turn);
    }
    let rounds = input.value()["rounds"].as_array().unwrap();
    let answered = rounds
        .iter()
        .flat_map(|round| round.as_array().unwrap())
        .filter(|one| given.get(word(one, "key")).is_some());
    if call.attempt == 1 && input.given_number("fail_after") == Some(answered.count() as u64) {
        return refuse(
            ErrorClass::RateLimited,
            "flaky",
            "The first attempt fails after so many answers.",
        );
    }
    let round = rounds
        .iter()
        .map(|round| round.as_array().unwrap())
        .find(|round| {
            input.flag("always")
                || round.is_empty()
                || round
                    .iter()
                    .any(|one| given.get(word(one, "key")).is_none())
        });
    if let Some(round) = round {
        let requests: Vec<InputRequest> = round
            .iter()
            .map(|one| request(one, input.text("secret")))
            .collect();
        let mut state = format!(
            "{}{}",
            String::from_utf8(resume_state()).unwrap(),
            input.text("state")
        )
        .into_bytes();
        state.resize(state.len() + input.number("state_bytes") as usize, 0);
        ask(&requests, &state);
        panic!("went on after it asked");
    }
    let state = String::from_utf8(resume_state()).unwrap();
    answer(json!({ "responses": given, "state": state, "invocation_id": call.invocation_id }))
}

fn word<'a>(one: &'a Value, name: &str) -> &'a str {
    one[name].as_str().unwrap_or_default()
}

/// A schema given as text is passed on unchanged.
fn request(one: &Value, secret: &str) -> InputRequest {
    let schema = match one["schema"].clone() {
        Value::String(text) => text,
        mut schema if !secret.is_empty() => {
            schema["title"] = secret.into();
            schema.to_string()
        }
        schema => schema.to_string(),
    };
    InputRequest {
        key: word(one, "key").into(),
        message: format!("{}{secret}", word(one, "message")),
        schema,
    }
}
