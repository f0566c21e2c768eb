//! Watches the calls: each change wakes who follows the call, and the sweeper notes when it was.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_nats::jetstream::kv::{self, Operation};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Cluster;
use crate::claim::{CallEnd, Claim, LeaseTerms};
use crate::store::{ClaimEntry, ClaimStore, Revision};
use crate::sweeper::{self, Sweeper};

/// A follower that missed a change asks again after this time.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Before a watch that ended is made again.
const PAUSE: Duration = Duration::from_millis(500);
/// A sweeper that was not asked for so long slept, as a stopped process does.
const SLEPT: u32 = 4;

/// What was heard of a call that is followed.
#[derive(Clone, Default)]
struct LastValue {
    revision: Revision,
    /// `None` if the value is no claim, or was removed.
    claim: Option<Claim>,
}

pub(super) struct ClaimWatch {
    sweeper: Mutex<Sweeper>,
    followed: Mutex<HashMap<String, watch::Sender<LastValue>>>,
    begin: Instant,
    lease: LeaseTerms,
}

/// While it lives, changes of the call are noted.
pub(super) struct CallInterest {
    watching: Arc<ClaimWatch>,
    call: String,
    /// Counts the interest.
    _receiver: watch::Receiver<LastValue>,
}

impl Drop for CallInterest {
    fn drop(&mut self) {
        let mut followed = lock(&self.watching.followed);
        // Two deliveries of one call can follow it at once.
        let sender = followed.get(&self.call);
        if sender.is_some_and(|sender| sender.receiver_count() == 1) {
            followed.remove(&self.call);
        }
    }
}

impl ClaimWatch {
    pub(super) fn new(lease: LeaseTerms) -> Self {
        Self {
            sweeper: Mutex::new(Sweeper::new(lease)),
            followed: Mutex::default(),
            begin: Instant::now(),
            lease,
        }
    }

    pub(super) fn stages(&self) -> [u64; 3] {
        lock(&self.sweeper).stages()
    }

    pub(super) fn follow(self: &Arc<Self>, call: &str) -> CallInterest {
        let mut followed = lock(&self.followed);
        let sender = followed.entry(call.to_owned());
        let sender = sender.or_insert_with(|| watch::Sender::new(LastValue::default()));
        CallInterest {
            watching: Arc::clone(self),
            call: call.to_owned(),
            _receiver: sender.subscribe(),
        }
    }

    pub(super) fn heard(&self, call: &str) -> Option<ClaimEntry> {
        lock(&self.sweeper).latest(call).cloned()
    }

    /// Returns when the call has a later revision than `seen`, with its value, or after a while.
    pub(super) async fn changed(&self, call: &str, seen: Revision) -> Option<ClaimEntry> {
        let receiver = lock(&self.followed).get(call).map(watch::Sender::subscribe);
        let Some(mut receiver) = receiver else {
            tokio::time::sleep(ASK_AGAIN).await;
            return None;
        };
        let later = receiver.wait_for(|heard| heard.revision > seen);
        let heard = tokio::time::timeout(ASK_AGAIN, later).await.ok()?.ok()?;
        let claim = heard.claim.clone()?;
        let revision = heard.revision;
        Some(ClaimEntry { claim, revision })
    }

    fn see(&self, entry: &kv::Entry) {
        let at = self.begin.elapsed();
        let revision = entry.revision;
        let claim: Option<Claim> = match entry.operation {
            Operation::Put => serde_json::from_slice(&entry.value).ok(),
            _ => None,
        };
        if let Some(sender) = lock(&self.followed).get(&entry.key) {
            let claim = claim.clone();
            sender.send_replace(LastValue { revision, claim });
        }
        match claim {
            Some(claim) => {
                lock(&self.sweeper).see(&entry.key, ClaimEntry { claim, revision }, at);
            }
            None => lock(&self.sweeper).forget(&entry.key),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches the calls, again after each failure.
pub(super) async fn watch(cluster: Weak<Cluster>, stop: CancellationToken) {
    loop {
        let Some(calls) = cluster.upgrade() else {
            return;
        };
        let watch = calls.resources.calls.watch_with_history(">").await;
        let watching = Arc::clone(&calls.watching);
        drop(calls);
        if let Ok(mut watch) = watch {
            // It begins with all values that there are.
            *lock(&watching.sweeper) = Sweeper::new(watching.lease);
            loop {
                let entry = tokio::select! {
                    entry = watch.next() => entry,
                    () = stop.cancelled() => return,
                };
                match entry {
                    Some(Ok(entry)) => watching.see(&entry),
                    Some(Err(error)) => {
                        tracing::debug!(%error, "the watch of calls ended");
                        break;
                    }
                    None => break,
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Sweeps, until the process ends.
pub(super) async fn sweep(cluster: Weak<Cluster>, stop: CancellationToken) {
    let mut last = Instant::now();
    loop {
        let Some(strong) = cluster.upgrade() else {
            return;
        };
        let watching = Arc::clone(&strong.watching);
        let every = watching.lease.time / 4;
        let slept = last.elapsed() > every * SLEPT;
        last = Instant::now();
        let at = watching.begin.elapsed();
        // A store that does not answer let nobody renew a lease. Any key will do.
        let answers = strong.is_connected() && strong.read("none").await.is_ok();
        if slept || !answers {
            lock(&watching.sweeper).restart(at);
        } else {
            let due = lock(&watching.sweeper).due(at, strong.now());
            for (call, entry) in sweeper::sweep(&*strong, due).await {
                let what = match entry.claim.end() {
                    Some(CallEnd::Expired) => "no worker began it in time",
                    Some(_) => "its worker is gone",
                    None => "its worker is gone; it waits for another one",
                };
                if entry.claim.end() != Some(&CallEnd::Expired) {
                    strong.counts.leases_lost.fetch_add(1, Ordering::Relaxed);
                }
                strong.warn(&format!("the call {call}: {what}"));
            }
        }
        drop(strong);
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = stop.cancelled() => return,
        }
    }
}
