//! `/v1/batches`: many calls at once, as `toolcell batch` makes them.

use std::sync::Arc;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use toolcell::{Batch, CallSpec, CallWorkspace, Cancellation};
use toolcell_dialect::http::{BatchCallRequest, BatchDocument, batch as read_batch};
use toolcell_engine::scheduler::batch;
use toolcell_spec::{AbortReason, ErrorCode, Input, InvocationId, Refusal, TraceContext};

use crate::batches::{BatchForwarder, BatchNews};
use crate::budget::{ByteBudget, Lease, LeasedBytes};
use crate::call::name_too_long;
use crate::calls::CallPlace;
use crate::http::problem::Problem;
use crate::results::collect;
use crate::trace::of_headers;
use crate::{Server, ServerTools};

use super::ApiCaller;
use super::answer::{CallerRequest, JSON, is_media_type, shown, text};
use super::body_sender::feed;
use super::start::{ApiCall, ReadyCall};

const LINES: &str = "application/x-ndjson";
const ARRAY: &str = "application/json";

/// Limit of one principal: the size of the largest batch. Each call has a place of the server from the beginning of its
/// batch.
pub(super) const CALLS_MAX: usize = batch::CALLS_MAX;

/// The memory is reserved for the result.
type BatchLine = (Value, Option<Lease>);

struct RunningBatch {
    /// There are a few lines of each call, so the queue is bounded.
    lines: mpsc::UnboundedReceiver<BatchLine>,
    interrupt: Cancellation,
}

struct BatchResources {
    _places: Vec<CallPlace>,
    _room: OwnedSemaphorePermit,
}

impl Drop for RunningBatch {
    fn drop(&mut self) {
        self.interrupt.cancel(AbortReason::UserInterruption);
    }
}

/// Makes many calls: in parallel where they cannot disturb each other, the others in their order.
#[utoipa::path(
    post, path = "/v1/batches", tag = "calls",
    params(
        ("Toolcell-Workspace" = Option<String>, Header, description = "The name of the caller's workspace for all calls, if the server gives any; `default` without it"),
        ("Idempotency-Key" = Option<String>, Header, description = "A name for this request, of at most 256 bytes: the same request again gets the same answer, and makes no second batch"),
    ),
    request_body(content((Vec<BatchCallRequest> = "application/json"), (String = "application/x-ndjson"))),
    responses(
        (status = 200, description = "The result of each call; for a body of lines, a line each, as soon as it is there", content((BatchDocument = "application/json"), (String = "application/x-ndjson"))),
        (status = 410, description = "The batch ran under this key, and its answer is not kept"),
        (status = 422, description = "The calls are no batch, or the key belongs to another request"),
        (status = 429, description = "Too many calls of batches run"),
    ),
)]
pub(super) async fn create(
    CallerRequest(shared, caller, _): CallerRequest,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    let is_lines = is_media_type(&headers, &[ARRAY, LINES])? == LINES;
    let lease = caller.reserve(text(&body)?).await?;
    let calls = read_batch(text(&body)?, is_lines);
    let calls = calls.and_then(|calls| {
        let long = calls.iter().find_map(|call| name_too_long(&call.tool));
        long.map_or(Ok(calls), Err)
    });
    let calls = calls.map_err(|why| {
        let why = format!("cannot read the batch: {why}");
        Problem::new(ErrorCode::BatchInvalid, why)
    })?;
    drop(body);
    let room = room(&caller, calls.len())?;
    let workspace = shared.workspace(&caller, &headers).await;
    let shared_terms = (of_headers(&headers), workspace);
    let mut running = start(&shared.server, &caller, calls, room, shared_terms);
    if !is_lines {
        let mut results = Vec::new();
        let mut leases = Vec::new();
        while let Some((result, lease)) = running.lines.recv().await {
            results.push(result);
            leases.extend(lease);
        }
        drop(lease);
        let bytes = serde_json::to_vec(&BatchDocument { results }).unwrap_or_default();
        // The results take their memory until the client has them.
        let text = Bytes::from_owner(LeasedBytes { bytes, leases });
        return Ok(([(CONTENT_TYPE, JSON)], text).into_response());
    }
    let (feed, body) = feed();
    tokio::spawn(async move {
        let _lease = lease;
        loop {
            let line = tokio::select! {
                () = feed.left() => return,
                line = running.lines.recv() => line,
            };
            let Some((line, _lease)) = line else { return };
            if feed.send(format!("{line}\n")).await.is_err() {
                return;
            }
        }
    });
    Ok(([(CONTENT_TYPE, LINES)], body).into_response())
}

fn room(caller: &ApiCaller, calls: usize) -> Result<OwnedSemaphorePermit, Problem> {
    let calls = u32::try_from(calls).unwrap_or(u32::MAX);
    let full = |_| {
        let why = format!(
            "your batches have at most {CALLS_MAX} calls at once; wait until others have ended"
        );
        Problem::new(ErrorCode::TooManyBatchCalls, why).after(1)
    };
    Arc::clone(&caller.batched)
        .try_acquire_many_owned(calls)
        .map_err(full)
}

fn start(
    server: &Arc<Server>,
    caller: &ApiCaller,
    calls: Vec<BatchCallRequest>,
    room: OwnedSemaphorePermit,
    (trace, workspace): (Option<TraceContext>, Result<Option<CallWorkspace>, Refusal>),
) -> RunningBatch {
    let offering = caller.offering(server);
    let above = above(&offering);
    let begun = || offering.telemetry.as_ref()?.trace(Some(&above));
    let mut ids = Vec::new();
    let mut places = Vec::new();
    let mut ready = Vec::new();
    for BatchCallRequest {
        id,
        tool,
        input,
        depends_on,
    } in calls
    {
        let input = Input::from_text(input.as_ref().map_or("{}", |input| input.get()));
        let spec = CallSpec {
            native_call_id: Some(id.clone()),
            trace: trace.clone().or_else(begun),
            ..CallSpec::new(tool, input)
        };
        let wish = ApiCall {
            workspace: workspace.clone(),
            ..ApiCall::from_route("POST /v1/batches", spec)
        };
        let announcer = Arc::clone(&server.settings.announcer);
        let ReadyCall {
            spec,
            context,
            place,
        } = wish.ready(server, &offering, caller, announcer, Cancellation::new());
        places.extend(place);
        let call = offering.tools.batch_call(id.clone(), spec, context);
        ready.push(call.after(depends_on));
        ids.push(id);
    }
    let (sender, news) = mpsc::unbounded_channel();
    let (pass_on, lines) = mpsc::unbounded_channel();
    let taken = BatchResources {
        _places: places,
        _room: room,
    };
    let interrupt = Cancellation::new();
    let batch = Batch {
        policy: offering.batch_policy(false),
        interrupt: interrupt.clone(),
        ..Batch::new(ready, Arc::new(BatchForwarder(sender)))
    };
    let host = Arc::clone(&offering.tools.host);
    let stop = server.stop.clone();
    let stopped = interrupt.clone();
    tokio::spawn(async move {
        let mut run = std::pin::pin!(host.batch(batch));
        tokio::select! {
            _ = &mut run => return,
            () = stop.cancelled() => stopped.cancel(AbortReason::RuntimeShutdown),
        }
        // The calls were checked as a batch before.
        let _ = run.await;
    });
    let server = (Arc::clone(server), offering);
    tokio::spawn(keep_all(
        server,
        caller.results.clone(),
        ids,
        news,
        pass_on,
        taken,
    ));
    RunningBatch { lines, interrupt }
}

/// The operator's session. Without one, the batch is one by itself for its trace.
fn above(offering: &ServerTools) -> String {
    let session = offering.approvals.session.clone();
    session.unwrap_or_else(|| format!("batch:{}", InvocationId::new()))
}

/// Keeps each record also after the client has gone, and passes the lines on.
async fn keep_all(
    (server, offering): (Arc<Server>, Arc<ServerTools>),
    budget: ByteBudget,
    ids: Vec<String>,
    mut news: mpsc::UnboundedReceiver<BatchNews>,
    lines: mpsc::UnboundedSender<BatchLine>,
    taken: BatchResources,
) {
    while let Some(said) = news.recv().await {
        let line = match said {
            BatchNews::Ended(at, mut record) => {
                server.keep(&record).await;
                let lease = collect(&budget, &mut record.result);
                let result = shown(&offering, &record.result);
                (json!({ "id": ids.get(at), "result": result }), lease)
            }
            BatchNews::Modified(at, modifiers) => {
                let line = json!({ "id": ids.get(at), "context_modifiers": modifiers });
                (line, None)
            }
        };
        // Sending fails if the client is gone.
        let _ = lines.send(line);
    }
    drop(taken);
}
