//! An attempt's hold on a call, which every change of the call goes through.

use std::time::Duration;

use tokio::sync::{Mutex, watch};
use toolcell_spec::AbortReason;

use crate::claim::{Claim, Holder, NotPossible};
use crate::store::{ClaimEntry, ClaimStore, Delivery, WriteError};

/// Before the store is asked again.
const PAUSE: Duration = Duration::from_millis(200);

/// A claimed call. What it says is compared with the store at each change: another attempt, the sweeper or the caller may
/// have changed the call.
pub struct Hold<'s, S> {
    store: &'s S,
    call: &'s str,
    holder: Holder,
    /// A shorter silence loses no call.
    lease: Duration,
    latest: Mutex<ClaimEntry>,
    cancel: watch::Sender<Option<AbortReason>>,
}

impl<'s, S: ClaimStore> Hold<'s, S> {
    /// Claims the queued call `entry`.
    ///
    /// # Errors
    ///
    /// The call is another attempt's, has ended, or must not start.
    pub async fn claim(
        store: &'s S,
        call: &'s str,
        entry: ClaimEntry,
        holder: Holder,
        lease: Duration,
    ) -> Result<Self, NotPossible> {
        let hold = Self {
            store,
            call,
            latest: Mutex::new(entry),
            cancel: watch::Sender::new(None),
            holder,
            lease,
        };
        let mine = hold.holder.clone();
        let claimed = hold
            .change(|claim| match claim.holder() {
                // Written by this attempt, whose answer was lost.
                Some(holder) if *holder == mine => Ok(claim.clone()),
                _ => claim.claimed_by(&mine, store.now()),
            })
            .await;
        claimed.map(|()| hold)
    }

    /// To be called before the guest's first instruction, which must not run after an error.
    ///
    /// # Errors
    ///
    /// The attempt lost the call, or its caller canceled it.
    pub async fn start(&self, changes: bool) -> Result<(), NotPossible> {
        loop {
            let begun = self.store.now();
            self.change(|claim| claim.started(&self.holder, changes))
                .await?;
            // A process that was stopped since then may have lost the call, and does not know.
            let taken = Duration::from_millis(self.store.now().saturating_sub(begun));
            if taken < self.lease || !fence!("cluster_late") {
                return Ok(());
            }
        }
    }

    /// Writes the end of the call.
    ///
    /// # Errors
    ///
    /// The attempt lost the call: its result must be thrown away.
    pub async fn end(&self, end: crate::claim::CallEnd) -> Result<(), NotPossible> {
        self.change(|claim| {
            // Written by this attempt, whose answer was lost. The end names this result.
            if claim.end() == Some(&end) {
                return Ok(claim.clone());
            }
            claim.ended(&self.holder, end.clone())
        })
        .await
    }

    /// Gives the call back to the queue.
    ///
    /// # Errors
    ///
    /// The attempt lost the call, or has started.
    pub async fn give_back(&self) -> Result<(), NotPossible> {
        self.change(|claim| claim.given_back(&self.holder)).await
    }

    /// Renews the lease until the attempt loses the call; the queue is told each time.
    pub async fn keep(&self, every: Duration, delivery: &impl Delivery) -> NotPossible {
        loop {
            let seen = self.latest.lock().await.revision;
            tokio::select! {
                biased;
                () = self.store.sleep(every) => {}
                // A cancellation, or the sweeper.
                _ = self.store.changed(self.call, seen) => {
                    if self.latest.lock().await.revision != seen {
                        continue;
                    }
                }
            }
            if let Err(lost) = self.change(|claim| claim.renewed(&self.holder)).await {
                return lost;
            }
            delivery.at_work().await;
        }
    }

    /// Returns when the caller canceled the call.
    pub async fn canceled(&self) -> AbortReason {
        let mut cancel = self.cancel.subscribe();
        loop {
            if let Some(reason) = *cancel.borrow_and_update() {
                return reason;
            }
            // The sender lives as long as `self`.
            let _ = cancel.changed().await;
        }
    }

    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Writes what `next` makes of the latest value. Whether a write without an answer was applied, the value says.
    async fn change(
        &self,
        next: impl Fn(&Claim) -> Result<Claim, NotPossible>,
    ) -> Result<(), NotPossible> {
        let mut latest = self.latest.lock().await;
        loop {
            let claim = next(&latest.claim)?;
            let written = self.store.update(self.call, &claim, latest.revision).await;
            match written {
                Ok(revision) => {
                    *latest = ClaimEntry { claim, revision };
                    return Ok(());
                }
                Err(WriteError::Conflict) => {}
                Err(WriteError::Unknown(_)) if !fence!("cluster_unknown") => return Ok(()),
                Err(WriteError::Unknown(_)) => self.store.sleep(PAUSE).await,
            }
            *latest = self.read().await.ok_or(NotPossible::Ended)?;
            self.cancel.send_if_modified(|cancel| {
                let is_new = *cancel != latest.claim.cancel;
                *cancel = latest.claim.cancel;
                is_new
            });
        }
    }

    /// Until the store answers; `None`: the call was forgotten, long after its end.
    async fn read(&self) -> Option<ClaimEntry> {
        loop {
            match self.store.read(self.call).await {
                Ok(entry) => return entry,
                Err(_) => self.store.sleep(PAUSE).await,
            }
        }
    }
}
