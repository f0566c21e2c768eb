//! The one registry of calls that clients can ask about again: tasks of MCP, calls of the HTTP API, and resumed calls.
//! Later processes find a call in the log and in the store of approvals.

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

/// Limits of one owner, in memory; bytes as JSON. The log has as much of others as its setting says.
const ENDED_MAX: usize = 64;
const ENDED_BYTES_MAX: usize = 4 << 20;
/// More than a server can have whose disk fails, because no call starts there.
const UNWRITTEN_MAX: usize = 1_024;

#[derive(Default)]
pub(crate) struct Calls {
    /// Oldest first.
    entries: Mutex<BTreeMap<InvocationId, Arc<CallEntry>>>,
    /// Their results have left the memory, and the log has them as calls that run.
    unwritten: Mutex<BTreeSet<InvocationId>>,
    /// Their clients come back by a random name.
    pub(crate) held: HeldCalls,
}

impl Calls {
    pub(crate) fn enter(&self, entry: &Arc<CallEntry>) {
        if let Some(id) = entry.id() {
            self.entries.lock().insert(id, Arc::clone(entry));
        }
    }

    /// Fails if `max` calls of the owner have not ended; see [`Self::enter`].
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

    pub(crate) fn find_of(&self, id: InvocationId, owner: &str) -> Option<Arc<CallEntry>> {
        self.find(id).filter(|entry| *entry.owner == *owner)
    }

    pub(crate) fn task_state(&self, id: InvocationId) -> Option<TaskState> {
        self.find(id)?.task_state()
    }

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

    pub(crate) fn cancel(&self, id: InvocationId) -> bool {
        let open = self.find(id).filter(|entry| entry.is_open());
        open.inspect(|entry| entry.cancel(AbortReason::UserInterruption))
            .is_some()
    }

    /// `left` is told if the call was left to another process: from then on, the store of approvals has it.
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

    pub(crate) fn end(&self, entry: &CallEntry, record: CallRecord, keep: Keep) {
        entry.end(CallEnd::from_record(record, keep));
        self.make_room(entry);
    }

    /// The call lost its record, for example because the host crashed.
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

    /// Keeps `newest` and what a request waits for, because the log may not have it.
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

    /// Although the log has the call as running.
    pub(crate) fn has_lost(&self, id: InvocationId) -> bool {
        self.unwritten.lock().contains(&id)
    }

    /// `true` for a call that has ended here, although the log may have it as running.
    pub(crate) fn has_ended(&self, id: InvocationId) -> bool {
        self.find(id).is_some_and(|entry| !entry.is_open()) || self.has_lost(id)
    }
}

/// Needed results stay. Those leave first that were read, then those that the log has. `kept`: the oldest first.
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

/// The oldest one leaves if there are too many.
fn remember(unwritten: &mut BTreeSet<InvocationId>, id: InvocationId) {
    unwritten.insert(id);
    if unwritten.len() > UNWRITTEN_MAX {
        unwritten.pop_first();
    }
}

#[cfg(test)]
mod tests;
