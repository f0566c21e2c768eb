//! Tells open pages that something changed: they fetch their content again, so nothing but numbers is sent.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use toolcell_journal::{CallQuery, EventReader, Summary};
use toolcell_spec::{ApprovalState, Status, Timestamp};
use toolcell_system::pool::WATCHED;

use super::layout::PageProblem;
use super::{OwnPage, PageState};

const TICK: Duration = Duration::from_millis(250);
/// For a principal, whose calls are looked up among those of all.
const SLOW_TICK: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(15);
/// A browser then asks again, with the rights that its user has by then.
const STREAM_TIME: Duration = Duration::from_secs(60);
/// Each open page has one.
const STREAMS_MAX: usize = 32;
/// Calls of a principal whose changes are told.
const WATCHED_CALLS: u32 = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LiveChange {
    /// Another number with each change.
    events: u64,
    /// Approvals that wait.
    waiting: usize,
}

/// What open pages of one user hear.
pub struct LiveChanges {
    sender: watch::Sender<LiveChange>,
    streams: Arc<Semaphore>,
    is_watching: AtomicBool,
}

impl Default for LiveChanges {
    fn default() -> Self {
        Self {
            sender: watch::Sender::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            is_watching: AtomicBool::new(false),
        }
    }
}

impl LiveChanges {
    /// Looks at the log and the approvals until no page is open.
    async fn watch(&self, state: &Arc<PageState>) {
        let tick = match state.user.caller() {
            None => TICK,
            Some(_) => SLOW_TICK,
        };
        let mut reader = None;
        while self.is_watched() {
            let begun = reader.take();
            // A log that is busy is read at the next tick.
            let own = Arc::clone(state);
            let looked = WATCHED.run(move || look(&own, begun)).await;
            if let Ok(Ok((read, change))) = looked {
                reader = read;
                self.sender
                    .send_if_modified(|known| std::mem::replace(known, change.clone()) != change);
            }
            tokio::time::sleep(tick).await;
        }
    }

    /// `false` ends the watcher: no page is open, or one that was opened meanwhile has another.
    fn is_watched(&self) -> bool {
        let has_page = || self.sender.receiver_count() > 0;
        if has_page() {
            return true;
        }
        self.is_watching.store(false, Ordering::SeqCst);
        has_page() && !self.is_watching.swap(true, Ordering::SeqCst)
    }

    /// Begins to watch if nobody does.
    fn begin(self: &Arc<Self>, state: &Arc<PageState>) {
        if !self.is_watching.swap(true, Ordering::SeqCst) {
            let (own, state) = (Arc::clone(self), Arc::clone(state));
            tokio::spawn(async move { own.watch(&state).await });
        }
    }
}

fn look(
    state: &PageState,
    reader: Option<EventReader>,
) -> Result<(Option<EventReader>, LiveChange), PageProblem> {
    let waiting = waiting(state)?;
    if let Some(caller) = state.user.caller() {
        let events = changes_of(state, caller)?;
        return Ok((None, LiveChange { events, waiting }));
    }
    let mut reader = match reader {
        Some(reader) => reader,
        None => state.log.follow(None)?,
    };
    reader.read()?;
    let events = reader.position();
    Ok((Some(reader), LiveChange { events, waiting }))
}

/// The numbers of the log would tell how much others do.
fn changes_of(state: &PageState, caller: String) -> Result<u64, PageProblem> {
    let query = CallQuery {
        caller: Some(caller),
        limit: WATCHED_CALLS,
        ..CallQuery::default()
    };
    let mut hasher = DefaultHasher::new();
    let mut is_running = false;
    for call in state.log.calls(&query)? {
        (&call.invocation_id, &call.status).hash(&mut hasher);
        is_running |= call.status == Status::Running.as_str();
    }
    if is_running {
        // What it says meanwhile is not looked up.
        Timestamp::now().unix_millis().hash(&mut hasher);
    }
    // A script reads numbers exactly up to 2^53.
    Ok(hasher.finish() >> 11)
}

/// The number of approvals that wait for the user.
pub(crate) fn waiting(state: &PageState) -> Result<usize, PageProblem> {
    if !state.journal.exists() {
        return Ok(0);
    }
    if state.user.principal().is_none() {
        let waiting = state.journal.with(|store| store.waiting())?;
        return Ok(usize::try_from(waiting).unwrap_or(usize::MAX));
    }
    let now = Timestamp::now();
    let waits = |call: &Summary| {
        call.state == ApprovalState::Pending
            && call.expires_at > now
            && state.user.answers(call.actor_ref.as_deref())
    };
    let open = state.journal.with(|store| store.list(false))?;
    Ok(open.iter().filter(|call| waits(call)).count())
}

/// A stream of server-sent events.
pub(crate) async fn follow(OwnPage(state): OwnPage) -> Result<Response, PageProblem> {
    let Ok(place) = Arc::clone(&state.changes.streams).try_acquire_owned() else {
        let why = "too many pages are open; close one";
        return Err(PageProblem::busy(why));
    };
    let mut receiver = state.changes.sender.subscribe();
    receiver.mark_changed();
    state.changes.begin(&state);
    let end = Instant::now() + STREAM_TIME;
    let events = stream::unfold((receiver, place), move |(mut receiver, place)| async move {
        if Instant::now() >= end {
            return None;
        }
        let patience = IDLE.min(end.saturating_duration_since(Instant::now()));
        let text = match tokio::time::timeout(patience, receiver.changed()).await {
            // Notices that the browser left.
            Err(_) => ":\n\n".to_owned(),
            Ok(Err(_)) => return None,
            Ok(Ok(())) => {
                let change = serde_json::to_string(&*receiver.borrow_and_update()).ok()?;
                format!("retry: 500\ndata: {change}\n\n")
            }
        };
        Some((Ok::<_, Infallible>(text), (receiver, place)))
    });
    let media_type = [(CONTENT_TYPE, "text/event-stream")];
    Ok((media_type, Body::from_stream(events)).into_response())
}
