//! Tasks (SEP-2663): calls that a client asks about, instead of waiting for the response.
//!
//! A task is a call, under a name that only its owner can use. While the call lives in this process, it is in
//! [`Tasks`]. Afterwards, and in later processes, its end is read from the log of calls, and a call that waits for an
//! approval, or for an answer to its tool's question, from the journal of approvals.

mod ended;
mod entry;
mod identified;
mod name;
mod recorded;
mod requests;
mod resume;
mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use toolcell::{Background, Cancellation};
use toolcell_core::journal::{CallLog, Journal, Keep};
use toolcell_core::record::{CallRecord, InvocationId};

use super::asking::CallQuestion;
use super::call::RunningCall;
use ended::CallEnd;
use entry::{ResultWeight, TaskEntry, TaskState, TooLarge};
use name::TaskNames;

pub(super) use identified::CallIdentity;
pub(super) use recorded::RecordedCall;

/// How long a call may take before it becomes a task: longer than most calls, and shorter than a person's patience.
pub(super) const TASK_AFTER: Duration = Duration::from_millis(500);
/// How long a task can be asked about: as long as a question may stay open at most.
const TTL: Duration = toolcell_core::approval::EXPIRE_MAX;
/// Maximum number of tasks of one owner that have not ended; further calls are answered as if there were no tasks.
const OPEN_MAX: usize = 32;
/// Maximum number and size in bytes of the results of one owner that are kept in memory. Of others the log has as much as
/// its setting says.
const ENDED_MAX: usize = 32;
const ENDED_BYTES_MAX: usize = 4 << 20;
/// Maximum number of calls that are remembered as [`Tasks::unwritten`]: more than a server can have whose disk fails,
/// because no call starts there.
const UNWRITTEN_MAX: usize = 1_024;

/// Where calls are found again after their process has ended.
#[derive(Debug)]
pub struct CallStore {
    /// The log of all calls.
    pub calls: CallLog,
    /// The store of the calls that needed an approval.
    pub approvals: Journal,
}

/// All tasks of this process.
pub(super) struct Tasks {
    store: Arc<CallStore>,
    names: TaskNames,
    /// In the order in which the calls began.
    entries: Mutex<BTreeMap<InvocationId, TaskEntry>>,
    /// The calls whose ends could not be written, and whose results have left the memory. The log has them as calls that
    /// run.
    unwritten: Mutex<BTreeSet<InvocationId>>,
}

/// A call that runs without a request.
pub(super) struct DetachedCall {
    /// The record; `None` if the call was left to another process.
    pub(super) call: JoinHandle<Option<Box<CallRecord>>>,
    pub(super) cancellation: Cancellation,
    pub(super) questions: Option<mpsc::Receiver<CallQuestion>>,
    pub(super) background: Background,
    /// The ended calls that the host's log keeps.
    pub(super) keep: Keep,
}

/// A call that cannot become a task, with its open question.
pub(super) type UndetachableCall = Box<(RunningCall, Option<CallQuestion>)>;

impl Tasks {
    pub(super) fn new(store: CallStore) -> Arc<Self> {
        let names = TaskNames::new(store.calls.clone());
        Arc::new(Self {
            store: Arc::new(store),
            names,
            entries: Mutex::default(),
            unwritten: Mutex::default(),
        })
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<InvocationId, TaskEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a task of a call; returns its id and its name. Fails, and returns the call, if its owner has too many.
    pub(super) fn add(
        self: &Arc<Self>,
        owner: &str,
        running: RunningCall,
        ask: Option<CallQuestion>,
    ) -> Result<(InvocationId, String), UndetachableCall> {
        let named = running
            .id()
            .and_then(|id| Some((id, self.names.write(id, owner).ok()?)));
        let Some((id, name)) = named else {
            return Err(Box::new((running, ask)));
        };
        let mut entries = self.entries();
        let open = entries
            .values()
            .filter(|entry| entry.is_open() && *entry.owner == *owner)
            .count();
        if open >= OPEN_MAX && guard!("task_limit") {
            return Err(Box::new((running, ask)));
        }
        self.put(&mut entries, id, owner, running.detach(), ask);
        Ok((id, name))
    }

    /// Follows a call until it has ended.
    fn put(
        self: &Arc<Self>,
        entries: &mut BTreeMap<InvocationId, TaskEntry>,
        id: InvocationId,
        owner: &str,
        detached: DetachedCall,
        ask: Option<CallQuestion>,
    ) {
        let DetachedCall {
            call,
            cancellation,
            questions,
            background,
            keep,
        } = detached;
        entries.insert(
            id,
            TaskEntry::new(owner.into(), cancellation, questions, background, ask),
        );
        let tasks = Arc::clone(self);
        tokio::spawn(async move {
            match call.await {
                Ok(Some(record)) => tasks.end(id, CallEnd::from_record(*record, keep)),
                // From now on, the journal has it.
                Ok(None) => {
                    let entry = tasks.entries().remove(&id);
                    // Its client was told that the call is canceled, so the next server must not run it. If the store
                    // cannot be written, it stays approved.
                    if entry.is_some_and(|entry| entry.is_canceled()) {
                        let _ = tasks.withdraw(id).await;
                        let _ = tasks
                            .approvals(move |store| store.withdraw_suspended(id))
                            .await;
                    }
                }
                Err(_) => tasks.end(id, CallEnd::lost(id)),
            }
        });
    }

    /// Keeps the result of a task, as far as there is room.
    fn end(&self, id: InvocationId, ended: CallEnd) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&id) else {
            return;
        };
        entry.end(ended);
        let owner = Arc::clone(&entry.owner);
        let kept = entries.iter().filter(|(_, entry)| entry.owner == owner);
        let kept = kept
            .filter_map(|(id, entry)| Some((*id, entry.weight()?)))
            .collect();
        for gone in surplus(kept) {
            if entries
                .remove(&gone)
                .is_some_and(|entry| entry.is_unwritten())
            {
                remember(&mut self.unwritten(), gone);
            }
        }
    }

    fn unwritten(&self) -> MutexGuard<'_, BTreeSet<InvocationId>> {
        self.unwritten
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this process lost the call's result, although the log has the call as running.
    fn has_lost(&self, id: InvocationId) -> bool {
        self.unwritten().contains(&id)
    }

    /// Returns whether this process saw the call end, whatever the log says.
    fn has_ended(&self, id: InvocationId) -> bool {
        self.entries()
            .get(&id)
            .is_some_and(|entry| !entry.is_open())
            || self.has_lost(id)
    }

    fn has(&self, id: InvocationId) -> bool {
        self.entries().contains_key(&id)
    }

    /// The state of a task of this process; its client gets it.
    fn look(&self, id: InvocationId) -> Option<TaskState> {
        self.entries().get_mut(&id).map(TaskEntry::look)
    }

    /// Passes answers on to a task of this process. Returns whether there is one.
    fn give(
        &self,
        id: InvocationId,
        responses: &rmcp::model::InputResponses,
    ) -> Result<bool, TooLarge> {
        match self.entries().get_mut(&id) {
            Some(entry) => entry.give(responses).map(|()| true),
            None => Ok(false),
        }
    }

    /// Asks a task of this process to stop. Returns whether there is one that has not ended.
    fn cancel(&self, id: InvocationId) -> bool {
        self.entries()
            .get(&id)
            .filter(|entry| entry.is_open())
            .inspect(|entry| entry.cancel())
            .is_some()
    }
}

/// The results that are too many or too large; `kept` has all, the oldest first. Those leave first that were read, and of
/// these and of the others those that the log has.
fn surplus(mut kept: Vec<(InvocationId, ResultWeight)>) -> Vec<InvocationId> {
    let mut count = kept.len();
    let mut bytes = kept.iter().map(|(_, weight)| weight.bytes).sum::<usize>();
    // Stable: those that count alike stay in their order.
    kept.sort_by_key(|(_, weight)| (!weight.is_read, !weight.is_recorded));
    let mut gone = Vec::new();
    for (id, weight) in kept {
        if count <= ENDED_MAX && bytes <= ENDED_BYTES_MAX {
            break;
        }
        count -= 1;
        bytes -= weight.bytes;
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
mod tests {
    use std::collections::BTreeSet;

    use toolcell_core::record::InvocationId;

    use super::{ENDED_BYTES_MAX, ENDED_MAX, ResultWeight, UNWRITTEN_MAX, remember, surplus};

    fn ids(count: usize) -> Vec<InvocationId> {
        (0..count).map(|_| InvocationId::new()).collect()
    }

    #[test]
    fn the_oldest_results_leave_the_memory_first() {
        let ids = ids(ENDED_MAX + 2);
        let weight = |bytes| ResultWeight {
            bytes,
            is_read: false,
            is_recorded: true,
        };
        let of = |bytes| {
            ids.iter()
                .map(|id| (*id, weight(bytes)))
                .collect::<Vec<_>>()
        };
        assert_eq!(surplus(of(1)), &ids[..2]);
        assert!(surplus(of(1).split_off(2)).is_empty());
        assert_eq!(surplus(of(ENDED_BYTES_MAX / 4)), &ids[..ENDED_MAX - 2]);
        assert_eq!(
            surplus(vec![(ids[0], weight(ENDED_BYTES_MAX + 1))]),
            [ids[0]],
            "the log has it"
        );
    }

    #[test]
    fn the_oldest_calls_whose_results_are_lost_are_forgotten_first() {
        let ids = ids(UNWRITTEN_MAX + 2);
        let mut unwritten = BTreeSet::new();
        ids.iter().for_each(|id| remember(&mut unwritten, *id));
        let mut latest = ids.clone();
        latest.sort_unstable();
        assert!(unwritten.iter().eq(&latest[2..]));
    }

    #[test]
    fn a_result_that_was_read_leaves_before_one_that_was_not_and_one_on_record_before_another() {
        let ids = ids(ENDED_MAX + 3);
        // From the oldest on: neither, read, recorded, both.
        let weight = |at: usize| ResultWeight {
            bytes: 1,
            is_read: at == 1 || at == 3,
            is_recorded: at == 2 || at == 3,
        };
        let kept: Vec<_> = ids
            .iter()
            .enumerate()
            .map(|(at, id)| (*id, weight(at)))
            .collect();
        assert_eq!(surplus(kept), [ids[3], ids[1], ids[2]]);
    }
}
