//! A tool of IronClaw. It does the steps of its arguments, and answers the context of its call and what each step gave.

use std::time::Duration;

use serde_json::{Value, json};

wit_bindgen::generate!({
    path: "../../../host/sandbox/wit-foreign/near",
    world: "sandboxed-tool",
});

use exports::near::agent::tool::{ErrorKind, Guest, GuestFailure, Request, Response};
use near::agent::host::{self, HttpErrorKind, LogLevel};

struct Tool;

impl Guest for Tool {
    fn execute(req: Request) -> Response {
        let params: Value = serde_json::from_str(&req.params).unwrap_or_default();
        let mut answers = Vec::new();
        for step in params["steps"].as_array().into_iter().flatten() {
            match step["do"].as_str() {
                Some("fail") => return Response::Failure(failure(step)),
                Some("say") => return Response::Success(text(step, "text").to_owned()),
                _ => answers.push(run(step)),
            }
        }
        let context: Value = req
            .context
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        Response::Success(json!({ "context": context, "answers": answers }).to_string())
    }

    fn schema() -> String {
        let steps = json!({ "type": "array", "items": { "type": "object" } });
        json!({ "type": "object", "properties": { "steps": steps }, "required": ["steps"] })
            .to_string()
    }

    fn description() -> String {
        "Does the steps of its arguments".to_owned()
    }
}

fn text<'a>(step: &'a Value, name: &str) -> &'a str {
    step[name].as_str().unwrap_or_default()
}

fn run(step: &Value) -> Value {
    match text(step, "do") {
        "log" => {
            host::log(LogLevel::Warn, text(step, "message"));
            Value::Null
        }
        "now" => host::now_millis().into(),
        "secret" => host::secret_exists(text(step, "name")).into(),
        "read" => match (
            host::workspace_read(text(step, "path")),
            step["measure"].as_bool(),
        ) {
            (Some(found), Some(true)) => found.len().into(),
            (found, _) => found.map_or(Value::Null, Value::String),
        },
        "invoke" => match host::tool_invoke(text(step, "alias"), text(step, "params")) {
            Ok(output) => {
                json!({ "ok": serde_json::from_str::<Value>(&output).unwrap_or_default() })
            }
            Err(error) => json!({ "error": error }),
        },
        "request" => request(step),
        "sleep" => {
            std::thread::sleep(Duration::from_secs(600));
            Value::Null
        }
        "spin" => loop {
            std::hint::spin_loop();
        },
        other => panic!("there is no step {other}"),
    }
}

fn request(step: &Value) -> Value {
    let headers = step["headers"]
        .as_str()
        .map_or_else(|| "{}".to_owned(), str::to_owned);
    let body = step["body"].as_str().map(|body| body.as_bytes().to_vec());
    let timeout = step["timeout_ms"]
        .as_u64()
        .and_then(|ms| u32::try_from(ms).ok());
    let method = step["method"].as_str().unwrap_or("GET");
    match host::http_request(
        method,
        text(step, "url"),
        &headers,
        body.as_deref(),
        timeout,
    ) {
        Ok(response) => json!({
            "status": response.status,
            "headers": serde_json::from_str::<Value>(&response.headers_json).unwrap_or_default(),
            "bytes": response.body.len(),
            "body": String::from_utf8_lossy(&response.body[..response.body.len().min(4_000)]),
        }),
        Err(failure) => json!({
            "kind": kind_of_request(failure.kind),
            "code": failure.code,
            "message": failure.message,
            "sent": failure.request_sent,
        }),
    }
}

fn kind_of_request(kind: HttpErrorKind) -> &'static str {
    match kind {
        HttpErrorKind::AuthRequired => "auth-required",
        HttpErrorKind::Input => "input",
        HttpErrorKind::OutputTooLarge => "output-too-large",
        HttpErrorKind::Executor => "executor",
        HttpErrorKind::NetworkDenied => "network-denied",
        HttpErrorKind::Client => "client",
        HttpErrorKind::OperationFailed => "operation-failed",
    }
}

fn failure(step: &Value) -> GuestFailure {
    let kind = match text(step, "kind") {
        "auth-required" => ErrorKind::AuthRequired,
        "input" => ErrorKind::Input,
        "output-too-large" => ErrorKind::OutputTooLarge,
        "executor" => ErrorKind::Executor,
        "network-denied" => ErrorKind::NetworkDenied,
        "client" => ErrorKind::Client,
        _ => ErrorKind::OperationFailed,
    };
    let given = |name: &str| step[name].as_str().map(str::to_owned);
    GuestFailure {
        kind,
        code: given("code"),
        message: given("message"),
    }
}

export!(Tool);
