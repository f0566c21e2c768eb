//! `tools/call` with a key: the same call again gets the same answer, and runs no second time.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorData};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use toolcell_spec::{ErrorCode, json_bytes};

use super::call::WaitingRequest;
use super::executions::{
    ClaimRefusal, ExecutionAnswer, ExecutionClaim, ExecutionKey, KEY_BYTES_MAX, RequestDigests,
};
use super::http::told;
use super::results;
use super::sent_arguments::SentArguments;
use super::session::ClientSession;
use super::workspaces;

/// In `_meta` of a call.
const META: &str = "toolcell/idempotency_key";
/// Of all principals.
pub(super) const ANSWERS_BYTES_MAX: usize = 16 << 20;

impl ExecutionAnswer for Arc<CallToolResponse> {
    fn bytes(&self) -> usize {
        match &**self {
            CallToolResponse::Complete(result) => json_bytes(result),
            CallToolResponse::Task(created) => json_bytes(created),
            // Never kept.
            _ => 0,
        }
    }
}

impl ClientSession {
    /// A call with a key goes on when its client disconnects, and ends when its client cancels it; in 2026-07-28 over
    /// HTTP both are one.
    pub(super) async fn call_once(
        &self,
        params: CallToolRequestParams,
        mut seen: WaitingRequest<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(key) = key(seen.context)? else {
            let (running, words, open) = self.enter(params, None, &seen)?;
            return Ok(self.answer(running, words, open, &seen).await?.0);
        };
        let digest = digest(&params.name, seen.context);
        let claim = self
            .server
            .answers
            .claim(&self.identity.owner, &key, digest);
        let claimed = tokio::select! {
            claimed = claim => claimed.map_err(refused)?,
            () = seen.ended() => return Err(refused(ClaimRefusal::Lost)),
        };
        let ticket = match claimed {
            ExecutionClaim::First(ticket) => ticket,
            ExecutionClaim::Answered(answer) => {
                results::reserve(seen.context, answer.bytes()).await?;
                return Ok(CallToolResponse::clone(&answer));
            }
        };
        let room = self.identity.room();
        if room.is_some() {
            seen.caller.gone = None;
        }
        let named = Some(key.execution_id.into());
        let answered = match self.enter(params, named, &seen) {
            Ok((running, words, open)) => self.answer(running, words, open, &seen).await,
            Err(error) => Err(error),
        };
        match answered {
            // A call that waits for its client goes on with the same call.
            Ok((answer, has_ended)) => {
                ticket.end(has_ended.then(|| Arc::new(answer.clone())));
                Ok(answer)
            }
            Err(error) => {
                // Nothing ran.
                if error.code == rmcp::model::ErrorCode::INVALID_PARAMS {
                    ticket.release();
                }
                Err(error)
            }
        }
    }
}

/// The caller's name for the request.
pub(super) fn named(context: &RequestContext<RoleServer>) -> Option<String> {
    let key = key(context).ok().flatten();
    key.map(|key| key.execution_id)
}

fn key(context: &RequestContext<RoleServer>) -> Result<Option<ExecutionKey>, ErrorData> {
    let Some(key) = context.meta.get(META) else {
        return Ok(None);
    };
    let key = key
        .as_str()
        .filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX);
    let key = key.ok_or_else(|| error(ErrorCode::IdempotencyKeyInvalid))?;
    Ok(Some(ExecutionKey {
        run_id: String::new(),
        execution_id: key.to_owned(),
    }))
}

/// Of what the call does: its tool, its arguments as they were sent, and its workspace.
fn digest(tool: &str, context: &RequestContext<RoleServer>) -> RequestDigests {
    let arguments = SentArguments::with(context).map(|sent| sent.arguments);
    let arguments = arguments
        .as_ref()
        .map_or("{}", |arguments| arguments.text());
    let mut hasher = blake3::Hasher::new();
    // Each by its own digest, so that no two sequences of texts have one.
    for text in [
        tool,
        workspaces::named(context).unwrap_or_default(),
        arguments,
    ] {
        hasher.update(blake3::hash(text.as_bytes()).as_bytes());
    }
    hasher.finalize().into()
}

fn refused(why: ClaimRefusal) -> ErrorData {
    error(match why {
        ClaimRefusal::OtherRequest => ErrorCode::IdempotencyKeyReused,
        ClaimRefusal::NotKept => ErrorCode::ResultNotKept,
        ClaimRefusal::Lost => ErrorCode::CallLost,
        ClaimRefusal::TooMany => ErrorCode::TooManyKeys,
    })
}

fn error(code: ErrorCode) -> ErrorData {
    let state: Value = json!({ "state": code.as_str() });
    ErrorData::invalid_params(told(code), Some(state))
}
