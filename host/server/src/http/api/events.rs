//! `/v1/calls/{id}/events`: the events of one call as server-sent events, numbered from 1.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use toolcell_spec::{ErrorCode, InvocationId};

use crate::calls::{CallEntry, CallEvents};
use crate::http::problem::Problem;
use crate::tasks::RecordedCall;

use super::answer::{CallerRequest, PathParams, QueryParams, call_id};
use super::body_sender::{BodySender, ClientGone, feed};
use super::{ApiCaller, ApiState};

const LAST_EVENT_ID: &str = "last-event-id";
/// A line that says nothing keeps the connection alive.
const BEAT: Duration = Duration::from_secs(15);
/// The end of a call that was not made through this API is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// An unreadable log, such as a busy one, is asked again for ten seconds.
const FAILURES_MAX: u32 = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsParams {
    from: Option<u64>,
}

/// The events of a call as they happen, from any number on. The stream ends with the call. If the events cannot be read to
/// their end, the last event is a `problem`, without a number, whose data says why.
#[utoipa::path(
    get, path = "/v1/calls/{id}/events", tag = "calls",
    params(
        ("id" = String, Path, description = "The id of the call"),
        ("from" = Option<u64>, Query, minimum = 1, description = "The number of the first event: 1 by default"),
        ("Last-Event-ID" = Option<String>, Header, description = "The number of the last event that the client has"),
    ),
    responses(
        (status = 200, description = "Server-sent events; the data of each is an event record", content_type = "text/event-stream", body = String),
        (status = 204, description = "The call has ended, and there are no such events"),
        (status = 404, description = "There is no such call of the caller"),
        (status = 410, description = "The events are not kept"),
    ),
)]
pub(super) async fn follow(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<EventsParams>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let id = call_id(&id)?;
    let from = begin(&headers, &query)?;
    if let Some(call) = shared.server.calls.find_of(id, caller.name()) {
        // Says at once that nothing is left, because a browser would connect again and again.
        if !call.is_open() && matches!(call.events(from).await, CallEvents::Over) {
            return Ok(nothing());
        }
        if call.is_open() || !matches!(call.events(from).await, CallEvents::Recorded) {
            let (feed, body) = feed();
            tokio::spawn(pass_on(shared, caller, call, from, feed));
            return Ok(stream(body));
        }
    }
    match shared.recorded(&caller, id).await? {
        None => Err(ErrorCode::UnknownCall.into()),
        Some(RecordedCall::NotKept) => Err(ErrorCode::ResultNotKept.into()),
        Some(RecordedCall::Ended(_, events)) if events.len() <= from => Ok(nothing()),
        Some(RecordedCall::Ended(_, events)) => {
            let (feed, body) = feed();
            tokio::spawn(async move { send_all(&feed, &events, from).await });
            Ok(stream(body))
        }
        Some(RecordedCall::Runs { .. }) => {
            let (feed, body) = feed();
            tokio::spawn(async move { send_recorded(&shared, &caller, id, &feed, from).await });
            Ok(stream(body))
        }
    }
}

fn begin(headers: &HeaderMap, query: &EventsParams) -> Result<usize, Problem> {
    let wrong = |what: &str| {
        let why = format!("{what} is the number of an event");
        Problem::new(ErrorCode::SequenceInvalid, why)
    };
    let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    if let Some(last) = headers.get(LAST_EVENT_ID) {
        let last = last.to_str().ok().and_then(|last| last.parse().ok());
        return last.map(index).ok_or_else(|| wrong("Last-Event-ID"));
    }
    match query.from {
        Some(0) => Err(wrong("from")),
        from => Ok(index(from.unwrap_or(1) - 1)),
    }
}

async fn pass_on(
    shared: Arc<ApiState>,
    caller: Arc<ApiCaller>,
    call: Arc<CallEntry>,
    from: usize,
    feed: BodySender,
) {
    let mut next = from;
    loop {
        let news = tokio::select! {
            () = feed.left() => return,
            () = tokio::time::sleep(BEAT) => {
                if feed.send(": still running\n\n").await.is_err() {
                    return;
                }
                continue;
            }
            news = call.events(next) => news,
        };
        match news {
            CallEvents::Over => return,
            CallEvents::Events(events) => {
                for event in events {
                    next += 1;
                    if feed.send(frame(next, &json!(*event))).await.is_err() {
                        return;
                    }
                }
            }
            CallEvents::Recorded => {
                let Some(id) = call.identified().await else {
                    return;
                };
                return send_recorded(&shared, &caller, id, &feed, next).await;
            }
        }
    }
}

/// Sends why events cannot be read, so that the client does not take a part for the whole.
async fn send_recorded(
    shared: &ApiState,
    caller: &ApiCaller,
    id: InvocationId,
    feed: &BodySender,
    from: usize,
) {
    let waited = tokio::select! {
        () = feed.left() => return,
        waited = wait(shared, caller, id) => waited,
    };
    let _ = match waited {
        Ok(events) => send_all(feed, &events, from).await,
        Err(problem) => feed.send(told(&problem)).await,
    };
}

async fn wait(
    shared: &ApiState,
    caller: &ApiCaller,
    id: InvocationId,
) -> Result<Vec<Value>, Problem> {
    let mut failures = 0;
    loop {
        if let Some(events) = outcome(shared.recorded(caller, id).await, &mut failures) {
            return events;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// `None` if the log has to be asked again. `failures` counts those in a row.
fn outcome(
    found: Result<Option<RecordedCall>, Problem>,
    failures: &mut u32,
) -> Option<Result<Vec<Value>, Problem>> {
    match found {
        Ok(Some(RecordedCall::Ended(_, events))) => Some(Ok(events)),
        Ok(Some(RecordedCall::NotKept)) => Some(Err(ErrorCode::ResultNotKept.into())),
        Ok(None) => Some(Err(ErrorCode::UnknownCall.into())),
        Ok(Some(RecordedCall::Runs { .. })) => {
            *failures = 0;
            None
        }
        Err(_) if *failures < FAILURES_MAX => {
            *failures += 1;
            None
        }
        Err(problem) => Some(Err(problem)),
    }
}

/// The last event of a broken stream has no number, so a client that connects again misses nothing.
fn told(problem: &Problem) -> String {
    format!("event: problem\ndata: {}\n\n", json!(problem))
}

async fn send_all(feed: &BodySender, events: &[Value], from: usize) -> Result<(), ClientGone> {
    for (at, event) in events.iter().enumerate().skip(from) {
        feed.send(frame(at + 1, event)).await?;
    }
    Ok(())
}

/// JSON has no line breaks, so no text of a tool can end the event.
fn frame(number: usize, event: &Value) -> String {
    let event_type = event
        .get("event_type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    format!("id: {number}\nevent: {event_type}\ndata: {event}\n\n")
}

fn stream(body: Body) -> Response<Body> {
    let media_type = (CONTENT_TYPE, "text/event-stream");
    ([media_type, (CACHE_CONTROL, "no-store")], body).into_response()
}

fn nothing() -> Response<Body> {
    StatusCode::NO_CONTENT.into_response()
}

#[cfg(test)]
mod tests {

    use http::{HeaderMap, HeaderValue};
    use serde_json::json;
    use toolcell_spec::{ErrorCode, Status};

    use super::{EventsParams, FAILURES_MAX, LAST_EVENT_ID, begin, frame, outcome, told};
    use crate::http::problem::Problem;
    use crate::tasks::RecordedCall;

    #[test]
    fn a_stream_begins_after_the_last_event_or_with_the_first_that_is_wanted() {
        let of = |last: Option<&str>, from| {
            let mut headers = HeaderMap::new();
            if let Some(last) = last {
                headers.insert(LAST_EVENT_ID, HeaderValue::from_str(last).unwrap());
            }
            begin(&headers, &EventsParams { from }).ok()
        };
        assert_eq!(
            [of(None, None), of(None, Some(1)), of(None, Some(4))],
            [Some(0), Some(0), Some(3)]
        );
        assert_eq!(
            [
                of(Some("3"), None),
                of(Some("3"), Some(1)),
                of(Some("0"), None)
            ],
            [Some(3), Some(3), Some(0)]
        );
        assert_eq!(
            [
                of(None, Some(0)),
                of(Some("-1"), None),
                of(Some("x"), Some(1))
            ],
            [None; 3]
        );
    }

    #[test]
    fn a_log_that_is_busy_for_a_while_ends_no_stream_and_later_the_stream_says_why() {
        let busy = || Err(Problem::new(ErrorCode::TooManyReads, "a\nb"));
        let runs = || {
            Ok(Some(RecordedCall::Runs {
                tool_id: None,
                status: Status::Running,
            }))
        };
        let mut failures = 0;
        for _ in 0..3 {
            assert!((0..FAILURES_MAX).all(|_| outcome(busy(), &mut failures).is_none()));
            assert!(outcome(runs(), &mut failures).is_none() && failures == 0);
        }
        assert!((0..FAILURES_MAX).all(|_| outcome(busy(), &mut failures).is_none()));
        let problem = outcome(busy(), &mut failures).unwrap().unwrap_err();
        assert_eq!(problem.code, ErrorCode::TooManyReads);
        let sent = told(&problem);
        assert!(
            sent.starts_with("event: problem\ndata: {") && sent.contains("\"too_many_reads\""),
            "{sent}"
        );
        assert!(
            sent.lines().count() == 3 && sent.ends_with("}\n\n"),
            "{sent}"
        );
        for (found, code) in [
            (Ok(None), "unknown_call"),
            (Ok(Some(RecordedCall::NotKept)), "result_not_kept"),
        ] {
            assert_eq!(
                outcome(found, &mut 0).unwrap().unwrap_err().code.as_str(),
                code
            );
        }
    }

    #[test]
    fn the_words_of_a_tool_stay_in_their_event() {
        let event =
            json!({ "event_type": "tool.invocation.progress", "data": "a\n\nevent: fake\r\n" });
        let sent = frame(7, &event);
        assert_eq!(sent.lines().count(), 4, "{sent}");
        assert!(
            sent.starts_with("id: 7\nevent: tool.invocation.progress\ndata: {")
                && sent.ends_with("}\n\n")
        );
    }
}
