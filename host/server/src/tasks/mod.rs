//! Tasks (SEP-2663): calls that a client asks about, instead of waiting for the response.
//!
//! A live call is in [`Calls`]; afterwards, its end is read from the log of calls, and a waiting call from the journal
//! of approvals.

mod name;
mod recorded;
mod requests;
mod resume;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use toolcell_journal::{CallLog, Journal, Keep, PayloadStore};
use toolcell_spec::{CallRecord, InvocationId};

use super::asking::CallQuestion;
use super::call::RunningCall;
use super::calls::{CallEntry, Calls};
use name::TaskNames;

pub(super) use recorded::RecordedCall;

/// Longer than most calls, and shorter than a person's patience.
pub(super) const TASK_AFTER: Duration = Duration::from_millis(500);
/// A task can be asked about as long as a question may stay open at most.
const TTL: Duration = toolcell_spec::EXPIRE_MAX;
/// Limit of one owner; further calls are answered as if there were no tasks.
const OPEN_MAX: usize = 32;
#[derive(Debug)]
pub struct CallStore {
    pub calls: CallLog,
    pub approvals: Journal,
    /// Parts of results, for the page.
    pub payloads: PayloadStore,
}

pub(super) struct Tasks {
    pub(super) store: Arc<CallStore>,
    names: TaskNames,
    calls: Arc<Calls>,
}

pub(super) type UndetachableCall = Box<(RunningCall, Option<CallQuestion>)>;

impl Tasks {
    pub(super) fn new(store: CallStore, calls: Arc<Calls>) -> Arc<Self> {
        let names = TaskNames::new(store.calls.clone());
        Arc::new(Self {
            store: Arc::new(store),
            names,
            calls,
        })
    }

    /// Returns id and name. Fails, and returns the call, if its owner has too many.
    pub(super) fn add(
        self: &Arc<Self>,
        running: RunningCall,
        ask: Option<CallQuestion>,
    ) -> Result<(InvocationId, String), UndetachableCall> {
        let named = running.entry().and_then(|entry| {
            let id = entry.id()?;
            Some((id, self.names.write(id, &entry.owner).ok()?))
        });
        let entered = |entry| self.calls.enter_few(entry, OPEN_MAX);
        let Some(named) = named.filter(|_| running.entry().is_some_and(entered)) else {
            return Err(Box::new((running, ask)));
        };
        running.detach(self, ask);
        Ok(named)
    }

    /// `call` gives `None` if left to another process. Last come the receiver of questions, and one that is open
    /// already.
    pub(super) fn follow(
        self: &Arc<Self>,
        entry: Arc<CallEntry>,
        call: JoinHandle<Option<Box<CallRecord>>>,
        keep: Keep,
        (questions, ask): (Option<mpsc::Receiver<CallQuestion>>, Option<CallQuestion>),
    ) {
        entry.take_questions(questions, ask);
        let tasks = Arc::clone(self);
        self.calls.follow(entry, call, keep, async move |entry| {
            // Its client was told that the call is canceled, so the next server must not run it. If the store cannot be
            // written, it stays approved.
            if let Some(id) = entry
                .id()
                .filter(|_| entry.cancellation.requested().is_some())
            {
                let _ = tasks.withdraw(id).await;
                let _ = tasks
                    .approvals(move |store| store.withdraw_suspended(id))
                    .await;
            }
        });
    }
}
