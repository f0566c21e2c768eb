//! The outcome of a call, from the response of a server.

use std::sync::Arc;

use bytes::Bytes;
use data_encoding::BASE64;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolcell_journal::{ArtifactError, Artifacts};
use toolcell_spec::{
    ARTIFACT, Content, ErrorCode, JSON_VALUES_MAX, check_numbers, is_media_type, read_json,
};
use toolcell_system::pool::GUEST_FILES;

use super::Outcome;
use super::exchange::ServerAnswer;
use crate::bindings::tool::exports::toolcell::tool::guest::{Output, PartialOutput};
use crate::bindings::tool::toolcell::tool::types::{ErrorClass, ToolError};
use crate::egress::listed;
use crate::filesystem::FileRules;
use crate::state::StoreState;
use crate::world::answer;

/// Data of at most so many bytes are in the answer; more of them become an artifact.
const INLINE_BYTES_MAX: usize = 4 << 10;
const CHUNK_BYTES: usize = 256 << 10;
const SAID_CHARS_MAX: usize = 2_000;
const OPAQUE: &str = "application/octet-stream";

/// A body, as an answer shows it.
enum ShownBody {
    /// As it was written.
    Json(Box<RawValue>),
    Text(String),
    Data(String),
    Artifact(String),
}

impl ShownBody {
    fn value(&self) -> Value {
        match self {
            Self::Json(json) => serde_json::from_str(json.get()).unwrap_or_default(),
            Self::Text(text) => text.as_str().into(),
            Self::Data(base64) => json!({ "base64": base64 }),
            Self::Artifact(reference) => json!({ "reference": reference }),
        }
    }

    fn blocks(&self) -> Vec<Value> {
        match self {
            Self::Artifact(reference) => vec![json!({ "type": ARTIFACT, "reference": reference })],
            _ => Vec::new(),
        }
    }
}

/// `is_routed`: the caller knows which operation it called, and wants what that returns.
pub(super) async fn outcome(
    state: &mut StoreState,
    answer: ServerAnswer,
    path: &str,
    is_routed: bool,
) -> Outcome {
    let (head, body, is_cut) = match answer {
        ServerAnswer::Response { head, body, is_cut } => (head, body, is_cut),
        ServerAnswer::Failed(why) => {
            let message = format!("the server failed, and gave no response: {why}");
            let code = ErrorCode::ServerFailed.as_str();
            return answer::failure(ErrorClass::ExecutionFailed, code, message);
        }
        ServerAnswer::Nothing => {
            let message = "the server ended without a response".to_owned();
            let code = ErrorCode::ResponseMissing.as_str();
            return answer::failure(ErrorClass::ExecutionFailed, code, message);
        }
    };
    let media_type = media_type(&head.headers);
    let mut error = failed(&head, &body);
    let shown = match shown(state, body, &media_type, path).await {
        Ok(shown) => shown,
        Err(why) => {
            let code = ErrorCode::FilesNotKept.as_str();
            let message = format!("cannot keep the body of the response: {why}");
            error.get_or_insert(answer::error(ErrorClass::PartialFailure, code, message));
            ShownBody::Text(String::new())
        }
    };
    if is_cut {
        let code = ErrorCode::ResponseCut.as_str();
        let message = "the server ended before the body of its response".to_owned();
        error = Some(answer::error(ErrorClass::ExecutionFailed, code, message));
    }
    let output = if is_routed {
        returned(&head, &shown, error.is_some())
    } else {
        whole(&head, &shown)
    };
    match error {
        Some(error) => Outcome::Partial(PartialOutput { output, error }),
        None => Outcome::Success(output),
    }
}

fn output(content: Vec<Value>, structured: Option<String>) -> Output {
    Output {
        content: Value::from(content).to_string(),
        structured,
        ui_summary: None,
    }
}

fn whole(head: &Parts, body: &ShownBody) -> Output {
    let headers: Map<String, Value> = listed(&head.headers)
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect();
    let fields = json!({ "status": head.status.as_u16(), "headers": headers });
    // The body stays as it was written.
    let mut text = fields.to_string();
    text.pop();
    let body_text = match body {
        ShownBody::Json(json) => json.get().to_owned(),
        body => body.value().to_string(),
    };
    output(
        body.blocks(),
        Some(format!("{text},\"body\":{body_text}}}")),
    )
}

/// The body alone. That of an error is a text, because it is not what the operation promises to return.
fn returned(head: &Parts, body: &ShownBody, has_failed: bool) -> Output {
    let text = |text: &str| vec![json!(Content::text(text))];
    match body {
        ShownBody::Json(json) if !has_failed => output(Vec::new(), Some(json.get().to_owned())),
        ShownBody::Json(json) => output(text(json.get()), None),
        ShownBody::Text(said) if said.is_empty() => output(text(&status(head.status)), None),
        ShownBody::Text(said) => output(text(said), None),
        ShownBody::Data(data) => {
            let block = json!({ "data": data, "media_type": media_type(&head.headers) });
            output(vec![json!(Content::new("file", block))], None)
        }
        ShownBody::Artifact(_) => output(body.blocks(), None),
    }
}

fn status(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// The error of a status of 400 and above. What the server said may say why, so that its response is kept, too.
fn failed(head: &Parts, body: &Bytes) -> Option<ToolError> {
    if head.status.as_u16() < 400 {
        return None;
    }
    let said: String = std::str::from_utf8(body)
        .unwrap_or_default()
        .trim()
        .chars()
        .take(SAID_CHARS_MAX)
        .collect();
    let colon = if said.is_empty() { "" } else { ": " };
    let message = format!(
        "the server answered with {}{colon}{said}",
        status(head.status)
    );
    let code = ErrorCode::HttpN.as_str().replace('N', head.status.as_str());
    let seconds = head
        .headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    Some(ToolError {
        retry_after_ms: seconds.map(|seconds| u64::from(seconds) * 1_000),
        ..answer::error(ErrorClass::ExecutionFailed, code, message)
    })
}

/// One that no reader would accept is replaced.
fn media_type(headers: &HeaderMap) -> String {
    let said = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let said = said.filter(|said| is_media_type(said));
    said.unwrap_or(OPAQUE).to_owned()
}

async fn shown(
    state: &mut StoreState,
    body: Bytes,
    media_type: &str,
    path: &str,
) -> Result<ShownBody, ArtifactError> {
    let essence = media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_json = essence == "application/json" || essence.ends_with("+json");
    let text = match String::from_utf8(body.into()) {
        Ok(text) => text,
        Err(error) if error.as_bytes().len() <= INLINE_BYTES_MAX => {
            return Ok(ShownBody::Data(BASE64.encode(error.as_bytes())));
        }
        Err(error) => {
            let name = path
                .rsplit('/')
                .find(|name| !name.is_empty())
                .unwrap_or("body");
            let place = (state.artifacts.clone(), Arc::clone(&state.file_rules));
            let (name, media_type) = (name.to_owned(), media_type.to_owned());
            let kept = keep(place, name, media_type, error.into_bytes());
            return kept.await.map(ShownBody::Artifact);
        }
    };
    // Numbers that cannot be passed on exactly stay a text.
    let read = |text: &str| read_json::<Box<RawValue>>(text, JSON_VALUES_MAX).ok();
    let json = is_json
        .then(|| read(&text))
        .flatten()
        .filter(|_| check_numbers(&text).is_ok());
    Ok(json.map_or(ShownBody::Text(text), ShownBody::Json))
}

/// Returns the reference of the artifact.
async fn keep(
    (artifacts, rules): (Option<Artifacts>, Arc<FileRules>),
    name: String,
    media_type: String,
    bytes: Vec<u8>,
) -> Result<String, ArtifactError> {
    let denied = || ArtifactError::Denied("this call may write no artifacts".to_owned());
    let artifacts = artifacts.ok_or_else(denied)?;
    let work = move || {
        let mut draft = artifacts.begin(&name, &media_type)?;
        rules.quota.opened(draft.file());
        for chunk in bytes.chunks(CHUNK_BYTES) {
            draft.take(chunk.len())?;
            draft.write(chunk)?;
        }
        draft.finish(b"")
    };
    let kept = GUEST_FILES.run(work).await;
    kept.unwrap_or_else(|error| Err(ArtifactError::Failed(error.to_string())))
}
