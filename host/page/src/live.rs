//! Tells open pages that something changed: they fetch their content again, so nothing but numbers is sent.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use toolcell_journal::EventReader;
use toolcell_system::pool::WATCHED;

use super::PageState;
use super::layout::PageProblem;

const TICK: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_secs(15);
/// Each open page has one.
const STREAMS_MAX: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LiveChange {
    /// Of the next event of the log.
    events: u64,
    /// Approvals that wait.
    waiting: usize,
}

pub(crate) struct LiveChanges {
    sender: watch::Sender<LiveChange>,
    streams: Arc<Semaphore>,
}

impl Default for LiveChanges {
    fn default() -> Self {
        Self {
            sender: watch::Sender::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        }
    }
}

impl LiveChanges {
    /// Looks at the log and the approvals while a page is open.
    pub(crate) async fn watch(&self, state: &Arc<PageState>) -> Infallible {
        let mut reader = None;
        loop {
            tokio::time::sleep(TICK).await;
            if self.sender.receiver_count() == 0 {
                continue;
            }
            let begun = reader.take();
            // A log that is busy is read at the next tick.
            let own = Arc::clone(state);
            let looked = WATCHED.run(move || look(&own, begun)).await;
            if let Ok(Ok((read, change))) = looked {
                reader = Some(read);
                self.sender
                    .send_if_modified(|known| std::mem::replace(known, change.clone()) != change);
            }
        }
    }
}

fn look(
    state: &PageState,
    reader: Option<EventReader>,
) -> Result<(EventReader, LiveChange), PageProblem> {
    let mut reader = match reader {
        Some(reader) => reader,
        None => state.log.follow(None)?,
    };
    reader.read()?;
    let change = LiveChange {
        events: reader.position(),
        waiting: waiting(state)?,
    };
    Ok((reader, change))
}

/// The number of approvals that wait.
pub(crate) fn waiting(state: &PageState) -> Result<usize, PageProblem> {
    if !state.journal.exists() {
        return Ok(0);
    }
    let waiting = state.journal.with(|store| store.waiting())?;
    Ok(usize::try_from(waiting).unwrap_or(usize::MAX))
}

/// A stream of server-sent events.
pub(crate) async fn follow(State(state): State<Arc<PageState>>) -> Result<Response, PageProblem> {
    let Ok(place) = Arc::clone(&state.changes.streams).try_acquire_owned() else {
        let why = "too many pages are open; close one";
        return Err(PageProblem::busy(why));
    };
    let mut receiver = state.changes.sender.subscribe();
    receiver.mark_changed();
    let events = stream::unfold((receiver, place), |(mut receiver, place)| async move {
        let text = match tokio::time::timeout(IDLE, receiver.changed()).await {
            // Notices that the browser left.
            Err(_) => ":\n\n".to_owned(),
            Ok(Err(_)) => return None,
            Ok(Ok(())) => {
                let change = serde_json::to_string(&*receiver.borrow_and_update()).ok()?;
                format!("data: {change}\n\n")
            }
        };
        Some((Ok::<_, Infallible>(text), (receiver, place)))
    });
    let media_type = [(CONTENT_TYPE, "text/event-stream")];
    Ok((media_type, Body::from_stream(events)).into_response())
}
