//! Ends what nobody ends: calls whose worker is silent, and calls that no worker took in time. Every process sweeps; the
//! write decides which one did.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::claim::{Claim, LeaseTerms, Stage, UnixMillis};
use crate::store::{ClaimEntry, ClaimStore, Revision, WriteError};

/// The calls that have not ended, as this process saw them change. A lease is measured by the clock of the process that
/// watches: clocks of two machines are never compared.
pub struct Sweeper {
    lease: LeaseTerms,
    open: BTreeMap<String, WatchedClaim>,
}

struct WatchedClaim {
    entry: ClaimEntry,
    /// On the clock of this process.
    since: Duration,
}

impl Sweeper {
    pub fn new(lease: LeaseTerms) -> Self {
        Self {
            lease,
            open: BTreeMap::new(),
        }
    }

    /// A value of a call, in the order of revisions; `at`: the time on the clock of this process.
    pub fn see(&mut self, call: &str, entry: ClaimEntry, at: Duration) {
        if entry.claim.end().is_some() {
            self.open.remove(call);
            return;
        }
        let seen = self.open.get(call);
        if seen.is_none_or(|seen| seen.entry.revision < entry.revision) {
            self.open
                .insert(call.to_owned(), WatchedClaim { entry, since: at });
        }
    }

    /// The call was removed from the store.
    pub fn forget(&mut self, call: &str) {
        self.open.remove(call);
    }

    /// The last value of an open call.
    pub fn latest(&self, call: &str) -> Option<&ClaimEntry> {
        self.open.get(call).map(|seen| &seen.entry)
    }

    /// How many calls are open: those that wait, that a worker decides about, and that run.
    pub fn stages(&self) -> [u64; 3] {
        let mut stages = [0; 3];
        for seen in self.open.values() {
            match &seen.entry.claim.stage {
                Stage::Queued => stages[0] += 1,
                Stage::Claimed { .. } => stages[1] += 1,
                Stage::Started { .. } => stages[2] += 1,
                Stage::Ended { .. } => {}
            }
        }
        stages
    }

    /// While this process saw nothing, nothing was silent. Nor while the store answered nobody: before `due`, ask it.
    pub fn restart(&mut self, at: Duration) {
        if fence!("cluster_silence") {
            for seen in self.open.values_mut() {
                seen.since = at;
            }
        }
    }

    /// The values to be written, each with the revision that it follows.
    pub fn due(&self, at: Duration, now: UnixMillis) -> Vec<(String, Claim, Revision)> {
        let due = self.open.iter().filter_map(|(call, seen)| {
            let unchanged = if fence!("cluster_lease") {
                at.saturating_sub(seen.since)
            } else {
                Duration::MAX
            };
            let next = seen.entry.claim.overdue(unchanged, now, self.lease)?;
            Some((call.clone(), next, seen.entry.revision))
        });
        due.collect()
    }
}

/// Writes what is due. Returns the calls that this process changed.
pub async fn sweep<S: ClaimStore>(
    store: &S,
    due: Vec<(String, Claim, Revision)>,
) -> Vec<(String, ClaimEntry)> {
    let mut changed = Vec::new();
    for (call, claim, revision) in due {
        match store.update(&call, &claim, revision).await {
            Ok(revision) => changed.push((call, ClaimEntry { claim, revision })),
            // Somebody was first, or the next sweep tries again.
            Err(WriteError::Conflict | WriteError::Unknown(_)) => {}
        }
    }
    changed
}
