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
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use toolcell_journal::{CallLog, CallQuery, EventReader, Journal};
use toolcell_spec::{Status, Timestamp};
use toolcell_system::pool::PAGE;

use super::layout::PageProblem;
use super::{OwnPage, PageState, PageUser};

const TICK: Duration = Duration::from_millis(250);
/// For a principal, whose calls are looked up among all calls.
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

/// Changes, as open pages of one user hear them.
pub struct LiveChanges {
    sender: watch::Sender<LiveChange>,
    streams: Arc<Semaphore>,
    is_watching: AtomicBool,
    /// Of the latest page that was opened.
    source: Mutex<Option<LiveSource>>,
}

/// Where a user's changes are seen.
#[derive(Clone)]
struct LiveSource {
    user: PageUser,
    log: CallLog,
    journal: Journal,
}

impl Default for LiveChanges {
    fn default() -> Self {
        Self {
            sender: watch::Sender::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            is_watching: AtomicBool::new(false),
            source: Mutex::default(),
        }
    }
}

impl LiveChanges {
    /// Looks at the log and the approvals until no page is open, with the rights that its user has by the latest request.
    async fn watch(&self) {
        let mut reader = None;
        while self.is_watched() {
            let source = self.source.lock().clone();
            let Some(source) = source else { return };
            let tick = match source.user {
                PageUser::Owner => TICK,
                PageUser::Principal(_) => SLOW_TICK,
            };
            let begun = reader.take();
            // A log that is busy is read at the next tick.
            let looked = PAGE.run(move || source.look(begun)).await;
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
    fn begin(self: &Arc<Self>, state: &PageState) {
        *self.source.lock() = Some(LiveSource {
            user: state.user.clone(),
            log: state.log.clone(),
            journal: state.journal.clone(),
        });
        if !self.is_watching.swap(true, Ordering::SeqCst) {
            let own = Arc::clone(self);
            tokio::spawn(async move { own.watch().await });
        }
    }
}

impl LiveSource {
    fn look(
        &self,
        reader: Option<EventReader>,
    ) -> Result<(Option<EventReader>, LiveChange), PageProblem> {
        let waiting = waiting(&self.user, &self.journal)?;
        if self.user.principal().is_some() {
            let events = match self.user.caller() {
                Some(caller) if self.user.is_caller() => self.changes_of(caller)?,
                _ => 0,
            };
            return Ok((None, LiveChange { events, waiting }));
        }
        let mut reader = match reader {
            Some(reader) => reader,
            None => self.log.follow(None)?,
        };
        reader.read()?;
        let events = reader.position();
        Ok((Some(reader), LiveChange { events, waiting }))
    }

    /// The numbers of the log would tell how much others do.
    fn changes_of(&self, caller: String) -> Result<u64, PageProblem> {
        let query = CallQuery {
            caller: Some(caller),
            limit: WATCHED_CALLS,
            ..CallQuery::default()
        };
        let mut hasher = DefaultHasher::new();
        let mut is_running = false;
        for call in self.log.calls(&query)? {
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
}

/// The number of approvals that wait for the user.
pub(crate) fn waiting(user: &PageUser, journal: &Journal) -> Result<usize, PageProblem> {
    if !journal.exists() {
        return Ok(0);
    }
    let waiting = journal.with(|store| match user.principal() {
        None => store.waiting(),
        Some(own) => store.waiting_of(&own.approves),
    })?;
    Ok(usize::try_from(waiting).unwrap_or(usize::MAX))
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
