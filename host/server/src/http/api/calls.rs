//! `/v1/calls`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Deserialize;
use toolcell::{CallSpec, CancelOutcome};
use toolcell_dialect::http::{CallDocument, CallRequest};
use toolcell_spec::{AbortReason, ErrorCode, Input, InvocationId, Status};

use crate::call::name_too_long;
use crate::calls::{CallChange, CallEntry, EntryEnd};
use crate::executions::KEY_BYTES_MAX;
use crate::http::problem::Problem;
use crate::tasks::RecordedCall;
use crate::trace::of_headers;
use crate::{ApprovalFallback, ServerTools};

use super::answer::{
    CallerRequest, PathParams, QueryParams, call_id, ended, json, located, read, shown, unreadable,
};
use super::keys::KeyClaim;
use super::start::ApiCall;
use super::{ApiCaller, ApiState};

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const PREFER: &str = "prefer";
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const RESPOND_ASYNC: &str = "respond-async";
/// The caller's own id of a call, in bytes.
pub(super) const NATIVE_ID_BYTES_MAX: usize = 256;
/// Seconds; the call was refused for want of room.
pub(super) const RETRY_AFTER: u64 = 1;

/// Its request is dropped when the client leaves.
struct CancelOnDrop<'a> {
    call: Option<&'a CallEntry>,
    caller: &'a ApiCaller,
    /// The client can return for the answer, with a key. The call then goes on if another request waits for it, or if
    /// there is room.
    comes_back: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        if self.comes_back && call.is_awaited() {
            return;
        }
        if self.comes_back && call.leave(|| self.caller.room()) {
            call.enter_background()
        } else {
            call.cancel(AbortReason::UserInterruption)
        }
    }
}

/// Calls a tool.
#[utoipa::path(
    post, path = "/v1/calls", tag = "calls", request_body = CallRequest,
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "A name for this request, of at most 256 bytes: the same request again gets the same answer, and makes no second call"),
        ("Toolcell-Workspace" = Option<String>, Header, description = "The name of the caller's workspace for the call, if the server gives any; `default` without it"),
        ("Prefer" = Option<String>, Header, description = "`respond-async`: answer at once with the id of the call"),
        ("traceparent" = Option<String>, Header, description = "The trace of the client (W3C Trace Context), which the record of the call names; with `tracestate`"),
    ),
    responses(
        (status = 202, description = "The call runs, or waits; Location says where its state is", body = CallDocument),
        (status = 410, description = "The key is that of a call whose result is not kept"),
    ),
)]
pub(super) async fn create(
    CallerRequest(shared, caller, _): CallerRequest,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    let key = key(&headers)?;
    let (mut wish, wait) = wish(&headers, &body)?;
    wish.workspace = shared.workspace(&caller, &headers).await;
    let prefers = prefers_async(&headers);
    let is_left = prefers || wait == Some(false);
    let digest = blake3::hash(&body);
    let lease = caller.reserve(wish.spec.input.text()).await?;
    // Only now: what waits for its place has that of its body.
    drop(body);
    let offering = caller.offering(&shared.server);
    let returns = offering.approvals.away == ApprovalFallback::Return;
    let begin = || -> Result<Arc<CallEntry>, Problem> {
        let room = if is_left {
            Some(caller.room().ok_or_else(too_many_open)?)
        } else {
            None
        };
        let server = (&shared.server, &offering);
        Ok(caller.start(server, wish, lease, room, returns || key.is_some()))
    };
    let call = match key {
        None => begin()?,
        Some(key) => known(caller.keys.claim(key, digest, begin)?)?,
    };
    if is_left {
        // A waiting request can have the key's call, and then it has no room yet.
        if !call.leave(|| caller.room()) {
            return Err(too_many_open());
        }
        return accepted(&call, prefers).await;
    }
    let mut waiting = CancelOnDrop {
        call: Some(&call),
        caller: &caller,
        comes_back: key.is_some(),
    };
    let mut step = call.step(returns).await;
    // Without room the request waits for the approver, so that its connection counts.
    if matches!(step, CallChange::Asks) && !call.leave(|| caller.room()) {
        step = call.step(false).await;
    }
    waiting.call = None;
    match step {
        CallChange::Asks => accepted(&call, false).await,
        CallChange::Ended(end) => answer((&shared, &offering), &caller, &call, end).await,
    }
}

fn known(claimed: KeyClaim) -> Result<Arc<CallEntry>, Problem> {
    match claimed {
        KeyClaim::Call(call) => Ok(call),
        KeyClaim::OtherBody => Err(ErrorCode::IdempotencyKeyReused.into()),
        KeyClaim::Full => Err(Problem::from(ErrorCode::TooManyKeys).after(RETRY_AFTER)),
    }
}

pub(super) fn too_many_open() -> Problem {
    Problem::from(ErrorCode::TooManyOpenCalls).after(RETRY_AFTER)
}

fn wish(headers: &HeaderMap, body: &[u8]) -> Result<(ApiCall, Option<bool>), Problem> {
    let CallRequest {
        tool,
        input,
        native_call_id,
        timeout_ms,
        wait,
    } = read(headers, body)?;
    if timeout_ms == Some(0) {
        return Err(unreadable("timeout_ms is at least 1"));
    }
    if let Some(why) = name_too_long(&tool) {
        return Err(unreadable(why));
    }
    if native_call_id
        .as_ref()
        .is_some_and(|id| id.is_empty() || id.len() > NATIVE_ID_BYTES_MAX)
    {
        return Err(unreadable("native_call_id has 1 to 256 bytes"));
    }
    let input = Input::from_text(input.as_ref().map_or("{}", |input| input.get()));
    let spec = CallSpec {
        native_call_id,
        idempotency_key: key(headers)?.map(str::to_owned),
        timeout: timeout_ms.map(Duration::from_millis),
        trace: of_headers(headers),
        ..CallSpec::new(tool, input)
    };
    Ok((ApiCall::from_route("POST /v1/calls", spec), wait))
}

pub(super) fn key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else {
        return Ok(None);
    };
    let key = value
        .to_str()
        .ok()
        .filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX);
    Ok(Some(key.ok_or(ErrorCode::IdempotencyKeyInvalid)?))
}

fn prefers_async(headers: &HeaderMap) -> bool {
    let values = headers
        .get_all(PREFER)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case(RESPOND_ASYNC))
}

async fn accepted(call: &CallEntry, preferred: bool) -> Result<Response<Body>, Problem> {
    let invocation_id = call.identified().await.ok_or_else(lost)?;
    call.enter_background();
    let document = CallDocument {
        invocation_id,
        tool_id: call.tool_id(),
        status: call.look().unwrap_or(Status::Running).as_str().to_owned(),
        result: None,
    };
    let mut headers = located(invocation_id);
    if preferred {
        headers.insert(PREFERENCE_APPLIED, HeaderValue::from_static(RESPOND_ASYNC));
    }
    Ok((headers, json(StatusCode::ACCEPTED, &document)).into_response())
}

async fn answer(
    (shared, offering): (&ApiState, &ServerTools),
    caller: &ApiCaller,
    call: &CallEntry,
    end: EntryEnd,
) -> Result<Response<Body>, Problem> {
    match end {
        EntryEnd::Ended(end) => Ok(ended(offering, &end.result)),
        EntryEnd::Lost => Err(lost()),
        EntryEnd::Recorded => {
            let id = call.identified().await.ok_or_else(lost)?;
            match shared.recorded(caller, id).await? {
                Some(RecordedCall::Ended(found, _)) => Ok(ended(offering, &found.result)),
                Some(_) | None => Err(ErrorCode::ResultNotKept.into()),
            }
        }
    }
}

impl ApiState {
    pub(super) async fn state(
        &self,
        caller: &ApiCaller,
        id: InvocationId,
    ) -> Result<RecordedCall, Problem> {
        let live = self.server.calls.find_of(id, caller.name());
        match live.map(|call| (call.look(), call.tool_id())) {
            Some((Ok(status), tool_id)) => Ok(RecordedCall::Runs { tool_id, status }),
            Some((Err(EntryEnd::Ended(end)), _)) => Ok(RecordedCall::Ended(end, Vec::new())),
            _ => {
                let recorded = self.recorded(caller, id).await?;
                Ok(recorded.ok_or(ErrorCode::UnknownCall)?)
            }
        }
    }

    /// `None` if `caller` has no such call.
    pub(super) async fn recorded(
        &self,
        caller: &ApiCaller,
        id: InvocationId,
    ) -> Result<Option<RecordedCall>, Problem> {
        Ok(self.server.recorded(id, caller.name()).await?)
    }
}

/// Shows a call of the caller.
#[utoipa::path(
    get, path = "/v1/calls/{id}", tag = "calls",
    params(("id" = String, Path, description = "The id of the call")),
    responses(
        (status = 200, description = "The state of the call, and its result if it has ended", body = CallDocument),
        (status = 404, description = "There is no such call of the caller"),
        (status = 410, description = "The result is not kept"),
    ),
)]
pub(super) async fn show(
    CallerRequest(shared, caller, offering): CallerRequest,
    PathParams(id): PathParams<String>,
) -> Result<Response<Body>, Problem> {
    let id = call_id(&id)?;
    let (tool_id, status, result) = match shared.state(&caller, id).await? {
        RecordedCall::Runs { tool_id, status } => (tool_id, status.as_str().to_owned(), None),
        RecordedCall::Ended(end, _) => {
            let result = shown(&offering, &end.result);
            (end.tool_id.clone(), end.status.clone(), Some(result))
        }
        RecordedCall::NotKept => return Err(ErrorCode::ResultNotKept.into()),
    };
    let document = CallDocument {
        invocation_id: id,
        tool_id,
        status,
        result,
    };
    Ok(json(StatusCode::OK, &document))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelParams {
    #[serde(default)]
    reason: CancelReason,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CancelReason {
    #[default]
    UserInterruption,
    Fallback,
}

/// Cancels a call of the caller.
#[utoipa::path(
    delete, path = "/v1/calls/{id}", tag = "calls",
    params(
        ("id" = String, Path, description = "The id of the call"),
        ("reason" = Option<String>, Query, description = "`user_interruption`, the default, or `fallback`: another attempt \
            replaces this one, and its result is `discarded`"),
    ),
    responses(
        (status = 202, description = "The call was asked to stop; its result says how it ended"),
        (status = 404, description = "There is no such call of the caller"),
        (status = 409, description = "The call has ended, or another process runs it"),
    ),
)]
pub(super) async fn cancel(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams(id): PathParams<String>,
    QueryParams(CancelParams { reason }): QueryParams<CancelParams>,
) -> Result<Response<Body>, Problem> {
    let named = id;
    let reason = match reason {
        CancelReason::UserInterruption => AbortReason::UserInterruption,
        CancelReason::Fallback => AbortReason::Fallback,
    };
    let Ok(id) = call_id(&named) else {
        return Err(canceled_unknown(&shared, &caller, &named).await);
    };
    let asked = || (StatusCode::ACCEPTED, located(id)).into_response();
    let known = shared.server.calls.find_of(id, caller.name());
    if let Some(call) = known.as_ref().filter(|call| call.is_open()) {
        call.cancel(reason);
        return Ok(asked());
    }
    if known.is_none() && shared.recorded(&caller, id).await?.is_none() {
        return Err(canceled_unknown(&shared, &caller, &named).await);
    }
    if shared.server.withdraw(id).await? {
        return Ok(asked());
    }
    // The log records ineffective cancellations, too.
    let notes = || caller.identity.unknown_cancels.admits(Instant::now());
    match shared
        .server
        .offering()
        .tools
        .host
        .cancel_noting(id, reason, notes)
        .await
    {
        CancelOutcome::Requested => Ok(asked()),
        CancelOutcome::RunsElsewhere => Err(ErrorCode::RunsElsewhere.into()),
        CancelOutcome::AlreadyTerminal | CancelOutcome::Unknown => {
            Err(ErrorCode::AlreadyEnded.into())
        }
    }
}

/// The record does not say if the id belongs to another caller's call.
async fn canceled_unknown(shared: &ApiState, caller: &ApiCaller, named: &str) -> Problem {
    caller
        .identity
        .unknown_cancels
        .tell(&shared.server.offering().tools.host, named, None)
        .await;
    ErrorCode::UnknownCall.into()
}

pub(super) fn lost() -> Problem {
    let message =
        "the call was lost: the server ended, or failed; look for its end in the log of calls";
    Problem::new(ErrorCode::CallLost, message).with_status(500)
}
