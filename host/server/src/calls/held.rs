//! Calls whose client got a response, and comes back for the answer.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolcell_spec::{ErrorCode, Input, Refusal};

use crate::asking::CallQuestion;
use crate::budget::Lease;
use crate::call::RunningCall;
use crate::random_name;

/// Limit of one caller, because a person would not read more questions.
const HELD_MAX: usize = 32;
/// Applies to an ended call whose client does not come back.
const KEPT: Duration = Duration::from_secs(600);
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// The same owner, tool and arguments refer to the same call.
#[derive(Clone, Debug)]
pub(crate) struct HeldCallKey {
    pub(crate) owner: Arc<str>,
    pub(crate) tool: String,
    pub(crate) arguments: Input,
    /// A client's idempotency key; the name of a held call is enough without it.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) lease: Option<Arc<Lease>>,
}

impl HeldCallKey {
    fn are(&self, other: &Self) -> bool {
        self.are_of(other) && self.arguments.same(&other.arguments)
    }

    fn are_of(&self, other: &Self) -> bool {
        self.owner == other.owner && self.tool == other.tool
    }
}

pub(crate) struct HeldCall {
    pub(crate) running: RunningCall,
    pub(crate) ask: CallQuestion,
    words: HeldCallKey,
    ended: Option<Instant>,
}

impl HeldCall {
    /// The end was seen more than [`KEPT`] ago.
    fn is_over(&mut self) -> bool {
        self.running.has_ended() && self.ended.get_or_insert_with(Instant::now).elapsed() > KEPT
    }
}

/// Under unguessable names.
#[derive(Default)]
pub(crate) struct HeldCalls(Arc<Mutex<HeldMap<HeldCall>>>);

struct HeldMap<C> {
    calls: HashMap<String, C>,
    swept: bool,
}

impl<C> Default for HeldMap<C> {
    fn default() -> Self {
        Self {
            calls: HashMap::new(),
            swept: false,
        }
    }
}

/// Runs until none is held, so that clients that do not come back leave no memory in use.
async fn sweep<C>(held: Weak<Mutex<HeldMap<C>>>, every: Duration, is_over: fn(&mut C) -> bool) {
    loop {
        tokio::time::sleep(every).await;
        let Some(held) = held.upgrade() else { return };
        let mut held = held.lock();
        held.calls.retain(|_, call| !is_over(call));
        if held.calls.is_empty() {
            held.swept = false;
            return;
        }
    }
}

impl HeldCalls {
    /// Fails with `too_many_approvals`.
    pub(crate) fn has_room(&self, owner: &str) -> Result<(), Refusal> {
        let mut held = self.0.lock();
        held.calls.retain(|_, call| !call.is_over());
        if held
            .calls
            .values()
            .filter(|call| *call.words.owner == *owner)
            .count()
            < HELD_MAX
        {
            return Ok(());
        }
        let message = format!("{HELD_MAX} calls wait for an approval already; answer those first");
        Err(Refusal::new(ErrorCode::TooManyApprovals, message))
    }

    pub(crate) fn hold(
        &self,
        running: RunningCall,
        ask: CallQuestion,
        words: HeldCallKey,
    ) -> Result<String, Refusal> {
        let name = random_name::<24>()?;
        let mut held = self.0.lock();
        held.calls.insert(
            name.clone(),
            HeldCall {
                running,
                ask,
                words,
                ended: None,
            },
        );
        if !std::mem::replace(&mut held.swept, true) {
            tokio::spawn(sweep(
                Arc::downgrade(&self.0),
                SWEEP_EVERY,
                HeldCall::is_over,
            ));
        }
        Ok(name)
    }

    /// Once, if `words` match: the name is useless to other callers and for other calls.
    pub(crate) fn take(&self, name: &str, words: &HeldCallKey) -> Option<HeldCall> {
        // Large arguments are compared without the lock, so that other requests are not blocked.
        let known = self
            .0
            .lock()
            .calls
            .get(name)
            .map(|call| call.words.clone())?;
        known
            .are(words)
            .then(|| self.0.lock().calls.remove(name))
            .flatten()
    }

    pub(crate) fn take_same(&self, words: &HeldCallKey) -> Option<HeldCall> {
        let of_caller: Vec<(String, HeldCallKey)> = {
            let held = self.0.lock();
            let calls = held
                .calls
                .iter()
                .filter(|(_, call)| call.words.are_of(words) && call.words.key == words.key);
            calls
                .map(|(name, call)| (name.clone(), call.words.clone()))
                .collect()
        };
        let mut same = of_caller.iter().filter(|(_, known)| known.are(words));
        // Another request may have taken one of them.
        same.find_map(|(name, _)| self.0.lock().calls.remove(name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::{HeldMap, sweep};

    #[tokio::test]
    async fn what_is_over_is_given_up_although_nobody_comes_back() {
        let over = Arc::new(AtomicBool::new(false));
        let known = [
            ("first", Arc::new(AtomicBool::new(true))),
            ("second", Arc::clone(&over)),
        ];
        let calls = known
            .into_iter()
            .map(|(name, over)| (name.to_owned(), over))
            .collect();
        let held = Arc::new(Mutex::new(HeldMap { calls, swept: true }));
        let is_over = |over: &mut Arc<AtomicBool>| over.load(Ordering::SeqCst);
        let swept = tokio::spawn(sweep(
            Arc::downgrade(&held),
            Duration::from_millis(1),
            is_over,
        ));
        while held.lock().calls.len() > 1 {
            tokio::task::yield_now().await;
        }
        assert!(held.lock().calls.contains_key("second"));
        over.store(true, Ordering::SeqCst);
        swept.await.unwrap();
        let held = held.lock();
        assert!(held.calls.is_empty() && !held.swept);
    }
}
