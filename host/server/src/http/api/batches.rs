//! `/v1/batches`: many calls at once, as `toolcell batch` makes them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use toolcell::{
    Batch, BatchListener, BatchPolicy, CallRecord, CallSpec, Cancellation, InterruptBehavior,
    ToolEvent,
};
use toolcell_dialect::http::{BatchCallRequest, BatchDocument, batch as read_batch};
use toolcell_engine::scheduler::batch;
use toolcell_spec::{AbortReason, ContextModifier, ErrorCode, Input, ToolResult, TraceContext};

use crate::budget::{ByteBudget, Lease};
use crate::call::name_too_long;
use crate::calls::CallPlace;
use crate::http::problem::Problem;
use crate::results::collect;
use crate::trace::of_headers;
use crate::{Server, ServerTools};

use super::answer::{JSON, RequestCaller, is_media_type, shown, text};
use super::body_sender::feed;
use super::start::{ApiCall, ReadyCall};
use super::{ApiCaller, ApiState};

const LINES: &str = "application/x-ndjson";
const ARRAY: &str = "application/json";

/// Maximum number of calls in all unfinished batches of one principal: the size of the largest batch. From the
/// beginning of its batch on, each call has a place of the server that no other principal gets.
pub(super) const CALLS_MAX: usize = batch::CALLS_MAX;

/// Output item of a batch.
enum BatchItem<R> {
    /// The end of the call at this place, and the memory that is reserved for its result.
    End(usize, Box<R>, Option<Lease>),
    Modified(usize, Vec<ContextModifier>),
}

/// The text of an answer, and the memory that is reserved for its results until the client has it.
struct LeasedText {
    text: Vec<u8>,
    _leases: Vec<Lease>,
}

impl AsRef<[u8]> for LeasedText {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// Passes results on. There are at most as many as calls, so the queue is bounded.
struct BatchResults(mpsc::UnboundedSender<BatchItem<CallRecord>>);

impl BatchListener for BatchResults {
    fn event(&self, _: usize, _: &ToolEvent) {}

    fn ended(&self, at: usize, record: CallRecord) {
        let _ = self.0.send(BatchItem::End(at, Box::new(record), None));
    }

    fn modified(&self, at: usize, modifiers: Vec<ContextModifier>) {
        let _ = self.0.send(BatchItem::Modified(at, modifiers));
    }
}

/// A batch that runs; dropping it cancels the calls that run.
struct RunningBatch {
    offering: Arc<ServerTools>,
    ids: Vec<String>,
    results: mpsc::UnboundedReceiver<BatchItem<ToolResult>>,
    interrupt: Cancellation,
}

/// Resources of a batch, until its last call ends.
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
    request_body(content((Vec<BatchCallRequest> = "application/json"), (String = "application/x-ndjson"))),
    responses(
        (status = 200, description = "The result of each call; for a body of lines, a line each, as soon as it is there", content((BatchDocument = "application/json"), (String = "application/x-ndjson"))),
        (status = 422, description = "The calls are no batch"),
        (status = 429, description = "Too many calls of batches run"),
    ),
)]
pub(super) async fn create(
    State(shared): State<Arc<ApiState>>,
    RequestCaller(caller): RequestCaller,
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
        Problem::new(
            ErrorCode::BatchInvalid,
            format!("cannot read the batch: {why}"),
        )
    })?;
    drop(body);
    let room = room(&caller, calls.len())?;
    let mut running = start(&shared.server, &caller, calls, room, of_headers(&headers));
    if !is_lines {
        let mut results = Vec::new();
        let mut leases = Vec::new();
        while let Some((result, lease)) = running.next().await {
            results.push(result);
            leases.extend(lease);
        }
        drop(lease);
        let text = serde_json::to_vec(&BatchDocument { results }).unwrap_or_default();
        return Ok(response(
            JSON,
            Body::from(Bytes::from_owner(LeasedText {
                text,
                _leases: leases,
            })),
        ));
    }
    let (feed, body) = feed(None);
    tokio::spawn(async move {
        let _lease = lease;
        loop {
            let line = tokio::select! {
                () = feed.left() => return,
                line = running.next() => line,
            };
            let Some((line, _lease)) = line else { return };
            if feed.send(format!("{line}\n")).await.is_err() {
                return;
            }
        }
    });
    Ok(response(HeaderValue::from_static(LINES), body))
}

fn response(media_type: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

/// Takes room for the calls of a batch.
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

/// Begins a batch.
fn start(
    server: &Arc<Server>,
    caller: &ApiCaller,
    calls: Vec<BatchCallRequest>,
    room: OwnedSemaphorePermit,
    trace: Option<TraceContext>,
) -> RunningBatch {
    let offering = server.offering();
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
            trace: trace.clone(),
            ..CallSpec::new(tool, input)
        };
        let wish = ApiCall::from_route("POST /v1/batches", spec);
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
    let (sender, records) = mpsc::unbounded_channel();
    let (pass_on, results) = mpsc::unbounded_channel();
    let taken = BatchResources {
        _places: places,
        _room: room,
    };
    tokio::spawn(keep_all(
        Arc::clone(server),
        caller.results.clone(),
        records,
        pass_on,
        taken,
    ));
    let interrupt = Cancellation::new();
    let default = BatchPolicy::default();
    let max_parallel = offering
        .offers
        .surface()
        .selection()
        .at_once(default.max_parallel);
    let policy = BatchPolicy {
        interrupt: InterruptBehavior::Cancel,
        max_parallel,
        ..default
    };
    let batch = Batch {
        policy,
        interrupt: interrupt.clone(),
        ..Batch::new(ready, Arc::new(BatchResults(sender)))
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
    RunningBatch {
        offering,
        ids,
        results,
        interrupt,
    }
}

/// Keeps the record of each call, also after the client has gone, and passes the results on.
async fn keep_all(
    server: Arc<Server>,
    budget: ByteBudget,
    mut records: mpsc::UnboundedReceiver<BatchItem<CallRecord>>,
    results: mpsc::UnboundedSender<BatchItem<ToolResult>>,
    taken: BatchResources,
) {
    while let Some(said) = records.recv().await {
        let said = match said {
            BatchItem::End(at, record, _) => {
                server.keep(&record).await;
                let mut result = record.result;
                let lease = collect(&budget, &mut result);
                BatchItem::End(at, Box::new(result), lease)
            }
            BatchItem::Modified(at, modifiers) => BatchItem::Modified(at, modifiers),
        };
        // Sending fails if the client is gone.
        let _ = results.send(said);
    }
    drop(taken);
}

impl RunningBatch {
    /// The next result, with the memory that is reserved for it; `None` after the last one.
    async fn next(&mut self) -> Option<(Value, Option<Lease>)> {
        Some(match self.results.recv().await? {
            BatchItem::End(at, result, lease) => (
                json!({ "id": self.ids.get(at), "result": shown(&self.offering, &result) }),
                lease,
            ),
            BatchItem::Modified(at, modifiers) => (
                json!({ "id": self.ids.get(at), "context_modifiers": modifiers }),
                None,
            ),
        })
    }
}
