//! The one registry of a server's calls that clients can ask about again: tasks of MCP, calls of the HTTP API, and calls
//! that this process resumed. Each has its owner, its state, its events, the open question, and what cancels it. Later
//! processes find a call in the log and in the store of approvals.

mod ended;
mod entry;
mod held;
mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::InputResponses;
use tokio::task::JoinHandle;
use toolcell_journal::Keep;
use toolcell_spec::{AbortReason, CallRecord, InvocationId};

pub(crate) use ended::CallEnd;
use entry::ResultWeight;
pub(crate) use entry::{
    BackgroundPlace, CallChange, CallEntry, CallEvents, EntryEnd, TaskState, TooLarge,
};
pub(crate) use held::HeldCallKey;
use held::HeldCalls;
pub(crate) use places::{CALLS_MAX, CallPlace, CallPlaces};

/// Maximum number of ended calls of one owner that are kept in memory, and maximum size of their results and events, in
/// bytes of JSON. Of others the log has as much as its setting says.
const ENDED_MAX: usize = 64;
const ENDED_BYTES_MAX: usize = 4 << 20;
/// Maximum number of calls that are remembered as [`Calls::unwritten`]: more than a server can have whose disk fails,
/// because no call starts there.
const UNWRITTEN_MAX: usize = 1_024;

/// All calls of this process that clients can ask about.
#[derive(Default)]
pub(crate) struct Calls {
    /// In the order in which the calls began.
    entries: Mutex<BTreeMap<InvocationId, Arc<CallEntry>>>,
    /// The calls whose ends could not be written, and whose results have left the memory. The log has them as calls that
    /// run.
    unwritten: Mutex<BTreeSet<InvocationId>>,
    /// Those whose client comes back for them by a random name.
    pub(crate) held: HeldCalls,
}

impl Calls {
    /// Registers a call, whose id is known by now.
    pub(crate) fn enter(&self, entry: &Arc<CallEntry>) {
        if let Some(id) = entry.id() {
            self.entries.lock().insert(id, Arc::clone(entry));
        }
    }

    /// Registers a call as [`Self::enter`] does. Fails if `max` calls of its owner have not ended.
    pub(crate) fn enter_few(&self, entry: &Arc<CallEntry>, max: usize) -> bool {
        let Some(id) = entry.id() else { return false };
        let mut entries = self.entries.lock();
        let is_open = |other: &&Arc<CallEntry>| other.is_open() && other.owner == entry.owner;
        if entries.values().filter(is_open).count() >= max && guard!("task_limit") {
            return false;
        }
        entries.insert(id, Arc::clone(entry));
        true
    }

    pub(crate) fn find(&self, id: InvocationId) -> Option<Arc<CallEntry>> {
        self.entries.lock().get(&id).cloned()
    }

    /// The call `id` if it is one of `owner`.
    pub(crate) fn find_of(&self, id: InvocationId, owner: &str) -> Option<Arc<CallEntry>> {
        self.find(id).filter(|entry| *entry.owner == *owner)
    }

    /// The state of a task; its client gets it.
    pub(crate) fn task_state(&self, id: InvocationId) -> Option<TaskState> {
        self.find(id)?.task_state()
    }

    /// Passes answers on to a call. Returns whether there is one.
    pub(crate) fn give(
        &self,
        id: InvocationId,
        responses: &InputResponses,
    ) -> Result<bool, TooLarge> {
        match self.find(id) {
            Some(entry) => entry.give(responses).map(|()| true),
            None => Ok(false),
        }
    }

    /// Asks a call to stop. Returns whether there is one that has not ended.
    pub(crate) fn cancel(&self, id: InvocationId) -> bool {
        let open = self.find(id).filter(|entry| entry.is_open());
        open.inspect(|entry| entry.cancel(AbortReason::UserInterruption))
            .is_some()
    }

    /// Follows a call that runs in a task of its own until it has ended; `keep` says which calls the log keeps. If the call
    /// was left to another process, `left` is told: from then on, the store of approvals has it.
    pub(crate) fn follow<F: Future<Output = ()> + Send>(
        self: &Arc<Self>,
        entry: Arc<CallEntry>,
        call: JoinHandle<Option<Box<CallRecord>>>,
        keep: Keep,
        left: impl FnOnce(Arc<CallEntry>) -> F + Send + 'static,
    ) {
        let calls = Arc::clone(self);
        tokio::spawn(async move {
            match call.await {
                Ok(Some(record)) => calls.end(&entry, *record, keep),
                Ok(None) => {
                    calls.forget(&entry);
                    left(entry).await;
                }
                Err(_) => calls.lose(&entry),
            }
        });
    }

    /// Keeps the result of a call, as far as there is room.
    pub(crate) fn end(&self, entry: &CallEntry, record: CallRecord, keep: Keep) {
        entry.end(CallEnd::from_record(record, keep));
        self.make_room(entry);
    }

    /// Ends a call that lost its record, for example because the host crashed.
    pub(crate) fn lose(&self, entry: &CallEntry) {
        entry.finish(EntryEnd::Lost);
        self.make_room(entry);
    }

    fn forget(&self, entry: &CallEntry) {
        if let Some(id) = entry.id() {
            self.entries.lock().remove(&id);
        }
        entry.finish(EntryEnd::Lost);
    }

    /// Removes the results of an owner that are too many or too large, but neither that of `newest` nor one that a request
    /// waits for, because the log may not have it. Later requests find such a call in the log.
    fn make_room(&self, newest: &CallEntry) {
        let mut entries = self.entries.lock();
        let kept = entries
            .iter()
            .filter(|(_, entry)| entry.owner == newest.owner)
            .filter_map(|(id, entry)| {
                let weight = entry.weight()?;
                let is_needed = Some(*id) == newest.id() || entry.is_awaited();
                Some((*id, weight, is_needed))
            });
        for gone in surplus(kept.collect()) {
            let Some(entry) = entries.remove(&gone) else {
                continue;
            };
            if entry.is_unwritten() {
                remember(&mut self.unwritten.lock(), gone);
            }
            entry.finish(EntryEnd::Recorded);
        }
    }

    /// Returns whether this process lost the call's result, although the log has the call as running.
    pub(crate) fn has_lost(&self, id: InvocationId) -> bool {
        self.unwritten.lock().contains(&id)
    }

    /// Returns whether this process saw the call end, whatever the log says.
    pub(crate) fn has_ended(&self, id: InvocationId) -> bool {
        self.find(id).is_some_and(|entry| !entry.is_open()) || self.has_lost(id)
    }
}

/// The results that are too many or too large; `kept` has all, the oldest first. Those that are needed stay. Of the others
/// those leave first that were read, and of these and of the others those that the log has.
fn surplus(mut kept: Vec<(InvocationId, ResultWeight, bool)>) -> Vec<InvocationId> {
    let mut count = kept.len();
    let mut bytes = kept
        .iter()
        .map(|(_, weight, _)| weight.bytes)
        .sum::<usize>();
    // Stable: those that count alike stay in their order.
    kept.sort_by_key(|(_, weight, _)| (!weight.is_read, !weight.is_recorded));
    let mut gone = Vec::new();
    for (id, weight, _) in kept.into_iter().filter(|(.., is_needed)| !is_needed) {
        if count <= ENDED_MAX && bytes <= ENDED_BYTES_MAX {
            break;
        }
        count -= 1;
        bytes = bytes.saturating_sub(weight.bytes);
        gone.push(id);
    }
    gone
}

/// Adds `id` to the calls whose results are lost; the oldest one leaves if there are too many.
fn remember(unwritten: &mut BTreeSet<InvocationId>, id: InvocationId) {
    unwritten.insert(id);
    if unwritten.len() > UNWRITTEN_MAX {
        unwritten.pop_first();
    }
}

#[cfg(test)]
mod tests;
