use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const PIECE_BYTES: u64 = 64 << 10;

/// The memory of all calls of a host. Each call reserves its maximum first; others wait in order of arrival, so that
/// small calls do not starve a large one. Clones share the budget.
///
/// ```
/// use toolcell_engine::scheduler::MemoryBudget;
///
/// // Two hosts with clones of one budget share it.
/// let budget = MemoryBudget::new(1 << 30);
/// assert_eq!(budget.clone().total(), 1 << 30);
/// ```
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    pieces: Arc<Semaphore>,
    total: u32,
}

impl MemoryBudget {
    /// Rounded up to 64 KiB.
    pub fn new(bytes: u64) -> Self {
        let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
        let total = pieces(bytes).clamp(1, most);
        Self {
            pieces: Arc::new(Semaphore::new(usize::try_from(total).unwrap_or(usize::MAX))),
            total,
        }
    }

    /// In bytes.
    pub fn total(&self) -> u64 {
        u64::from(self.total) * PIECE_BYTES
    }

    /// Takes bytes that are free and that no other call awaits. A call larger than the budget reserves all, and so runs
    /// alone.
    pub(super) fn try_reserve(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let pieces = Arc::clone(&self.pieces);
        pieces.try_acquire_many_owned(self.share(bytes)).ok()
    }

    /// `None` only if the budget is closed.
    pub(super) async fn reserve(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let pieces = Arc::clone(&self.pieces);
        pieces.acquire_many_owned(self.share(bytes)).await.ok()
    }

    fn share(&self, bytes: u64) -> u32 {
        if guard!("memory_total") {
            pieces(bytes).min(self.total)
        } else {
            0
        }
    }
}

fn pieces(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MIB: u64 = 1 << 20;

    #[tokio::test]
    async fn a_large_call_is_not_passed_by_small_ones_and_one_larger_than_everything_runs_alone() {
        let budget = MemoryBudget::new(4 * MIB);
        let small = budget.try_reserve(MIB).unwrap();
        let mut large = Box::pin(budget.reserve(64 * MIB));
        assert!(
            tokio::time::timeout(Duration::from_millis(1), &mut large)
                .await
                .is_err()
        );
        assert!(
            budget.try_reserve(1).is_none(),
            "three MiB are free, and the large call waits for them"
        );
        drop(small);
        let large = large.await.unwrap();
        assert!(budget.try_reserve(1).is_none());
        drop(large);
        assert!(budget.try_reserve(4 * MIB).is_some());
    }
}
