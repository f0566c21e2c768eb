//! `/v1/calls/{id}/events`: the events of one call as server-sent events, numbered from 1.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::dialect::http::Problem;
use crate::server::tasks::Recorded;

use super::answer::{Asked, Place, Who, call_id, unknown_call};
use super::calls::not_kept;
use super::feed::{Feed, Left, feed};
use super::live::{LiveCall, News};
use super::{Caller, Shared};

const LAST_EVENT_ID: &str = "last-event-id";
/// How often a line is sent that says nothing, so that the connection counts as alive.
const BEAT: Duration = Duration::from_secs(15);
/// How often the end of a call is looked for that was not made through this API.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    from: Option<u64>,
}

/// The events of a call as they happen, from any number on. The stream ends with the call.
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
    State(shared): State<Arc<Shared>>,
    Who(caller): Who,
    Place(id): Place<String>,
    Asked(query): Asked<Query>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let id = call_id(&id)?;
    let from = begin(&headers, &query)?;
    if let Some(call) = caller.calls.find(id) {
        // Says at once that nothing is left, because a browser would connect again and again.
        if !call.is_open() && matches!(call.events(from).await, News::Over) {
            return Ok(nothing());
        }
        if call.is_open() || !matches!(call.events(from).await, News::Recorded) {
            let (feed, body) = feed(None);
            tokio::spawn(pass_on(shared, caller, call, from, feed));
            return Ok(stream(body));
        }
    }
    match shared.recorded(&caller, id).await? {
        None => Err(unknown_call()),
        Some(Recorded::NotKept) => Err(not_kept()),
        Some(Recorded::Ended(found)) if found.events.len() <= from => Ok(nothing()),
        Some(Recorded::Ended(found)) => {
            let (feed, body) = feed(None);
            tokio::spawn(async move { send_all(&feed, &found.events, from).await });
            Ok(stream(body))
        }
        Some(Recorded::Runs { .. }) => {
            let (feed, body) = feed(None);
            tokio::spawn(async move {
                tokio::select! {
                    () = feed.left() => {}
                    events = wait(&shared, &caller, id) => {
                        let _ = send_all(&feed, &events, from).await;
                    }
                }
            });
            Ok(stream(body))
        }
    }
}

/// The index of the first event to send.
fn begin(headers: &HeaderMap, query: &Query) -> Result<usize, Problem> {
    let wrong = |what: &str| Problem::new(400, "sequence_invalid", format!("{what} is the number of an event"));
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

/// Sends the events of a call of this process until it has ended, or the client is gone.
async fn pass_on(shared: Arc<Shared>, caller: Arc<Caller>, call: Arc<LiveCall>, from: usize, feed: Feed) {
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
            News::Over => return,
            News::Events(events) => {
                for event in events {
                    next += 1;
                    if feed.send(frame(next, &json!(*event))).await.is_err() {
                        return;
                    }
                }
            }
            News::Recorded => {
                let Some(id) = call.identified().await else { return };
                if let Ok(Some(Recorded::Ended(found))) = shared.recorded(&caller, id).await {
                    let _ = send_all(&feed, &found.events, next).await;
                }
                return;
            }
        }
    }
}

/// Waits for the end of a call that is not among those of this API, and returns its events.
async fn wait(shared: &Shared, caller: &Caller, id: toolcell_core::record::InvocationId) -> Vec<Value> {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        match shared.recorded(caller, id).await {
            Ok(Some(Recorded::Runs { .. })) => {}
            Ok(Some(Recorded::Ended(found))) => return found.events,
            Ok(Some(Recorded::NotKept) | None) | Err(_) => return Vec::new(),
        }
    }
}

async fn send_all(feed: &Feed, events: &[Value], from: usize) -> Result<(), Left> {
    for (at, event) in events.iter().enumerate().skip(from) {
        feed.send(frame(at + 1, event)).await?;
    }
    Ok(())
}

/// One event. JSON has no line breaks, so no text of a tool can end the event.
fn frame(number: usize, event: &Value) -> String {
    let event_type = event.get("event_type").and_then(Value::as_str).unwrap_or_default();
    format!("id: {number}\nevent: {event_type}\ndata: {event}\n\n")
}

fn stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn nothing() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use serde_json::json;

    use super::{LAST_EVENT_ID, Query, begin, frame};

    #[test]
    fn a_stream_begins_after_the_last_event_or_with_the_first_that_is_wanted() {
        let of = |last: Option<&str>, from| {
            let mut headers = HeaderMap::new();
            if let Some(last) = last {
                headers.insert(LAST_EVENT_ID, HeaderValue::from_str(last).unwrap());
            }
            begin(&headers, &Query { from }).ok()
        };
        assert_eq!([of(None, None), of(None, Some(1)), of(None, Some(4))], [Some(0), Some(0), Some(3)]);
        assert_eq!([of(Some("3"), None), of(Some("3"), Some(1)), of(Some("0"), None)], [Some(3), Some(3), Some(0)]);
        assert_eq!([of(None, Some(0)), of(Some("-1"), None), of(Some("x"), Some(1))], [None; 3]);
    }

    #[test]
    fn the_words_of_a_tool_stay_in_their_event() {
        let event = json!({ "event_type": "tool.invocation.progress", "data": "a\n\nevent: fake\r\n" });
        let sent = frame(7, &event);
        assert_eq!(sent.lines().count(), 4, "{sent}");
        assert!(sent.starts_with("id: 7\nevent: tool.invocation.progress\ndata: {") && sent.ends_with("}\n\n"));
    }
}
