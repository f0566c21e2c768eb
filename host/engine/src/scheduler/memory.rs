use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const PIECE_BYTES: u64 = 64 << 10;
/// This part of a budget of several callers is for those that do not borrow places.
const RESERVE_PART: u32 = 8;

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
    /// Beside `pieces`; empty for one caller.
    reserve: Arc<Semaphore>,
    reserved: u32,
    total: u32,
}

/// Returned when dropped.
#[derive(Debug)]
pub(super) struct ReservedMemory {
    _part: OwnedSemaphorePermit,
    /// Of the reserve, for a call that needs nearly all.
    _rest: Option<OwnedSemaphorePermit>,
}

impl MemoryBudget {
    /// Rounded up to 64 KiB.
    pub fn new(bytes: u64) -> Self {
        Self::of_callers(bytes, 1)
    }

    /// Of several callers, one that borrows the places of others leaves them an eighth.
    pub fn of_callers(bytes: u64, callers: usize) -> Self {
        let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
        let total = pieces(bytes).clamp(1, most);
        let reserved = if callers > 1 { total / RESERVE_PART } else { 0 };
        let semaphore = |pieces: u32| {
            let pieces = usize::try_from(pieces).unwrap_or(usize::MAX);
            Arc::new(Semaphore::new(pieces))
        };
        Self {
            pieces: semaphore(total - reserved),
            reserve: semaphore(reserved),
            reserved,
            total,
        }
    }

    /// In bytes.
    pub fn total(&self) -> u64 {
        u64::from(self.total) * PIECE_BYTES
    }

    /// In bytes; what calls have reserved.
    pub fn taken(&self) -> u64 {
        let free = self.pieces.available_permits() + self.reserve.available_permits();
        let free = u32::try_from(free).unwrap_or(self.total);
        u64::from(self.total.saturating_sub(free)) * PIECE_BYTES
    }

    /// Takes bytes that are free and that no other call awaits. A call larger than the budget reserves all, and so runs
    /// alone. `borrows`: the call has a place beyond its caller's part.
    pub(super) fn try_reserve(&self, bytes: u64, borrows: bool) -> Option<ReservedMemory> {
        let take =
            |from: &Arc<Semaphore>, pieces| Arc::clone(from).try_acquire_many_owned(pieces).ok();
        let (part, rest) = self.parts(bytes);
        let own = || take(&self.reserve, part).filter(|_| self.may_use_reserve(part, borrows));
        let part = take(&self.pieces, part).or_else(own)?;
        let rest = match rest {
            0 => None,
            rest => Some(take(&self.reserve, rest)?),
        };
        Some(ReservedMemory {
            _part: part,
            _rest: rest,
        })
    }

    /// As [`Self::try_reserve`], but waits. `None` only if the budget is closed.
    pub(super) async fn reserve(&self, bytes: u64, borrows: bool) -> Option<ReservedMemory> {
        let take = |from: &Arc<Semaphore>, pieces| Arc::clone(from).acquire_many_owned(pieces);
        let (part, rest) = self.parts(bytes);
        let part = if self.may_use_reserve(part, borrows) {
            tokio::select! {
                biased;
                taken = take(&self.pieces, part) => taken,
                taken = take(&self.reserve, part) => taken,
            }
        } else {
            take(&self.pieces, part).await
        };
        let part = part.ok()?;
        // Nobody who has some of the reserve waits for a piece.
        let rest = match rest {
            0 => None,
            rest => Some(take(&self.reserve, rest).await.ok()?),
        };
        Some(ReservedMemory {
            _part: part,
            _rest: rest,
        })
    }

    /// Pieces, and pieces of the reserve if it needs more than there are.
    fn parts(&self, bytes: u64) -> (u32, u32) {
        let share = self.share(bytes);
        let part = share.min(self.total - self.reserved);
        (part, share - part)
    }

    fn may_use_reserve(&self, part: u32, borrows: bool) -> bool {
        !borrows && part <= self.reserved
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
        let small = budget.try_reserve(MIB, false).unwrap();
        let mut large = Box::pin(budget.reserve(64 * MIB, false));
        assert!(
            tokio::time::timeout(Duration::from_millis(1), &mut large)
                .await
                .is_err()
        );
        assert!(
            budget.try_reserve(1, false).is_none(),
            "three MiB are free, and the large call waits for them"
        );
        drop(small);
        let large = large.await.unwrap();
        assert!(budget.try_reserve(1, false).is_none());
        drop(large);
        assert!(budget.try_reserve(4 * MIB, false).is_some());
    }

    #[tokio::test]
    async fn who_borrows_places_leaves_memory_to_the_others() {
        let budget = MemoryBudget::of_callers(16 * MIB, 2);
        let borrow = || budget.try_reserve(MIB, true);
        let of_anna: Vec<_> = std::iter::from_fn(borrow).collect();
        assert_eq!((of_anna.len(), budget.taken()), (14, 14 * MIB));
        let her_next = budget.reserve(MIB, true);
        let mut her_next = Box::pin(her_next);
        assert!(
            tokio::time::timeout(Duration::from_millis(1), &mut her_next)
                .await
                .is_err()
        );
        let of_bert = budget.reserve(MIB, false).await.unwrap();
        assert!(budget.try_reserve(MIB, false).is_some());
        drop((of_anna, her_next, of_bert));
        // One that needs nearly all takes the reserve, too.
        let large = budget.reserve(15 * MIB, true).await.unwrap();
        assert_eq!(budget.taken(), 15 * MIB);
        assert!(budget.try_reserve(2 * MIB, false).is_none());
        drop(large);
        assert_eq!(budget.taken(), 0);
    }
}
