//! `/v1/batches`: many calls at once, as `toolcell batch` makes them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcell::{Batch, BatchCall, BatchListener, BatchPolicy, CallRecord, Cancellation, InterruptBehavior, ToolEvent};
use toolcell_core::record::{AbortReason, ContextModifier, Input};

use crate::dialect::http::{BatchCallRequest, BatchDocument, Problem, batch};
use crate::server::calls::Place as CallPlace;
use crate::server::{Offering, Server};

use super::answer::{Who, is_media_type, json as in_json, shown, text};
use super::feed::feed;
use super::start::{Ready, Wish};
use super::{Caller, Shared};

const LINES: &str = "application/x-ndjson";
const ARRAY: &str = "application/json";

/// What a batch hands out.
enum Said {
    End(usize, Box<CallRecord>),
    Modified(usize, Vec<ContextModifier>),
}

/// Passes results on. There are at most as many as calls, so the queue is bounded.
struct Results(mpsc::UnboundedSender<Said>);

impl BatchListener for Results {
    fn event(&self, _: usize, _: &ToolEvent) {}

    fn ended(&self, at: usize, record: CallRecord) {
        let _ = self.0.send(Said::End(at, Box::new(record)));
    }

    fn modified(&self, at: usize, modifiers: Vec<ContextModifier>) {
        let _ = self.0.send(Said::Modified(at, modifiers));
    }
}

/// A batch that runs; dropping it cancels the calls that run.
struct Running {
    server: Arc<Server>,
    offering: Arc<Offering>,
    ids: Vec<String>,
    results: mpsc::UnboundedReceiver<Said>,
    interrupt: Cancellation,
    _places: Vec<CallPlace>,
}

impl Drop for Running {
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
    ),
)]
pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    Who(caller): Who,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    let is_lines = is_media_type(&headers, &[ARRAY, LINES])? == LINES;
    let lease = caller.reserve(text(&body)?).await?;
    let calls = batch(text(&body)?, is_lines);
    let calls = calls.map_err(|why| Problem::new(422, "batch_invalid", format!("cannot read the batch: {why}")))?;
    drop(body);
    let mut running = start(&shared.server, &caller, calls);
    if !is_lines {
        let mut results = Vec::new();
        while let Some(result) = running.next().await {
            results.push(result);
        }
        drop(lease);
        return Ok(in_json(StatusCode::OK, &BatchDocument { results }));
    }
    let (feed, body) = feed(None);
    tokio::spawn(async move {
        let _lease = lease;
        loop {
            let line = tokio::select! {
                () = feed.left() => return,
                line = running.next() => line,
            };
            let Some(line) = line else { return };
            if feed.send(format!("{line}\n")).await.is_err() {
                return;
            }
        }
    });
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(LINES));
    Ok(response)
}

/// Begins a batch.
fn start(server: &Arc<Server>, caller: &Caller, calls: Vec<BatchCallRequest>) -> Running {
    let offering = server.offering();
    let (mut ids, mut places, mut ready) = (Vec::new(), Vec::new(), Vec::new());
    for BatchCallRequest { id, tool, input, depends_on } in calls {
        let input = Input::from_text(input.as_ref().map_or("{}", |input| input.get()));
        let wish = Wish { tool, input, native_call_id: Some(id.clone()), timeout: None, route: "POST /v1/batches" };
        let announcer = Arc::clone(&server.settings.announcer);
        let Ready { request, refused, place } = wish.ready(server, &offering, caller, announcer, Cancellation::new());
        places.extend(place);
        ready.push(BatchCall::new(id.clone(), request).after(depends_on).refusal(refused));
        ids.push(id);
    }
    let (sender, results) = mpsc::unbounded_channel();
    let interrupt = Cancellation::new();
    let policy = BatchPolicy { interrupt: InterruptBehavior::Cancel, ..BatchPolicy::default() };
    let batch = Batch { policy, interrupt: interrupt.clone(), ..Batch::new(ready, Arc::new(Results(sender))) };
    let (host, stop, stopped) = (Arc::clone(&offering.host), server.stop.clone(), interrupt.clone());
    tokio::spawn(async move {
        let mut run = std::pin::pin!(host.batch(batch));
        tokio::select! {
            _ = &mut run => return,
            () = stop.cancelled() => stopped.cancel(AbortReason::RuntimeShutdown),
        }
        // The calls were checked as a batch before.
        let _ = run.await;
    });
    Running { server: Arc::clone(server), offering, ids, results, interrupt, _places: places }
}

impl Running {
    /// The next result; `None` after the last one.
    async fn next(&mut self) -> Option<Value> {
        match self.results.recv().await? {
            Said::End(at, record) => {
                self.server.keep(&record).await;
                Some(json!({ "id": self.ids.get(at), "result": shown(&self.offering, &record.result) }))
            }
            Said::Modified(at, modifiers) => Some(json!({ "id": self.ids.get(at), "context_modifiers": modifiers })),
        }
    }
}
