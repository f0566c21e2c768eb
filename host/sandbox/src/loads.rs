//! Loads of the code of one component: one at a time, and one that fails has failed for all calls that wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, OwnedMutexGuard};
use toolcell_spec::Refusal;

/// The loads of one component.
#[derive(Default)]
pub(super) struct ComponentLoads {
    /// The last load that failed. Locked by the one load of the code.
    last: Arc<Mutex<Option<LoadFailure>>>,
    /// Number of loads that failed.
    failed: Arc<AtomicU64>,
}

struct LoadFailure {
    refusal: Refusal,
    source: LoadSource,
}

/// Where a load finds the bytes of the component, if the cache has no code of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadSource {
    /// They were given to it.
    Given,
    /// In the component's file, which could have changed.
    File,
}

/// The right to load the code. Dropping it lets the next call load.
pub(super) struct LoadTurn {
    last: OwnedMutexGuard<Option<LoadFailure>>,
    failed: Arc<AtomicU64>,
    /// Number of loads that had failed when the call began to wait.
    seen: u64,
    source: LoadSource,
}

impl ComponentLoads {
    /// Waits until no other load runs.
    pub(super) async fn turn(&self, source: LoadSource) -> LoadTurn {
        let seen = self.failed.load(Ordering::Acquire);
        let last = Arc::clone(&self.last).lock_owned().await;
        LoadTurn {
            last,
            failed: Arc::clone(&self.failed),
            seen,
            source,
        }
    }
}

impl LoadTurn {
    /// Why a load failed that the call waited for; without this, a crowd of calls would repeat the load one after another.
    /// A call that was given the bytes does not fail for the file.
    pub(super) fn failure(&self) -> Option<Refusal> {
        let has_failed = self.failed.load(Ordering::Acquire) > self.seen;
        let applies = |failure: &&LoadFailure| {
            failure.source == LoadSource::Given || self.source == LoadSource::File
        };
        self.last
            .as_ref()
            .filter(applies)
            .filter(|_| has_failed)
            .map(|failure| failure.refusal.clone())
    }

    /// Ends the turn with the result of the load, and returns that.
    pub(super) fn end(mut self, loaded: Result<(), Refusal>) -> Result<(), Refusal> {
        if let Err(refusal) = &loaded {
            *self.last = Some(LoadFailure {
                refusal: refusal.clone(),
                source: self.source,
            });
            self.failed.fetch_add(1, Ordering::Release);
        }
        loaded
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    /// One load that fails, as one of several calls makes it. Returns whether it was this call that loaded.
    async fn load(loads: Arc<ComponentLoads>, source: LoadSource) -> bool {
        let turn = loads.turn(source).await;
        if let Some(refusal) = turn.failure() {
            assert_eq!(refusal, Refusal::host_fault("broken"));
            return false;
        }
        tokio::task::yield_now().await;
        assert!(turn.end(Err(Refusal::host_fault("broken"))).is_err());
        true
    }

    async fn number_of_loads(loads: &Arc<ComponentLoads>, sources: &[LoadSource]) -> usize {
        let calls: JoinSet<bool> = sources
            .iter()
            .map(|source| load(Arc::clone(loads), *source))
            .collect();
        calls
            .join_all()
            .await
            .into_iter()
            .filter(|loaded| *loaded)
            .count()
    }

    #[tokio::test]
    async fn all_calls_that_wait_for_a_load_fail_with_it_and_the_next_call_loads_again() {
        let loads = Arc::new(ComponentLoads::default());
        for _ in 0..3 {
            assert_eq!(number_of_loads(&loads, &[LoadSource::File; 5]).await, 1);
        }
        assert_eq!(number_of_loads(&loads, &[LoadSource::Given; 5]).await, 1);
        assert_eq!(
            number_of_loads(&loads, &[LoadSource::Given, LoadSource::File]).await,
            1
        );
    }

    #[tokio::test]
    async fn a_call_that_was_given_the_bytes_does_not_fail_for_the_file() {
        let loads = Arc::new(ComponentLoads::default());
        assert_eq!(
            number_of_loads(&loads, &[LoadSource::File, LoadSource::Given]).await,
            2
        );
    }

    #[tokio::test]
    async fn a_load_that_was_abandoned_has_not_failed() {
        let loads = Arc::new(ComponentLoads::default());
        let first = loads.turn(LoadSource::File).await;
        let second = tokio::spawn(load(Arc::clone(&loads), LoadSource::File));
        tokio::task::yield_now().await;
        drop(first);
        assert!(second.await.unwrap());
    }
}
