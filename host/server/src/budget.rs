//! Memory budgets for client input, over all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolcell_core::scheduler::share;

/// Bytes per permit, because a semaphore counts permits in 32 bits.
const UNIT: usize = 1 << 10;
/// Bytes up to which a request is not counted: the limits on connections and calls suffice, and a small request must
/// not wait for large ones.
const FREE: usize = 64 << 10;

/// The bytes that one principal may take at once, out of a total that all principals share.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
    own_units: usize,
}

/// Bytes taken from a budget; dropping the lease returns them.
#[derive(Debug)]
pub(super) struct Lease {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Budget {
    /// Creates the budget of a single principal.
    pub(super) fn new(bytes: usize) -> Self {
        Self::each(bytes, 1).swap_remove(0)
    }

    /// Creates one budget per principal; together they never exceed `bytes`.
    pub(super) fn each(bytes: usize, principals: usize) -> Vec<Self> {
        let all = Arc::new(Semaphore::new(bytes / UNIT));
        let own_units = share(bytes / UNIT, principals);
        let own = || Self { own: Arc::new(Semaphore::new(own_units)), all: Arc::clone(&all), own_units };
        (0..principals.max(1)).map(|_| own()).collect()
    }

    /// Waits for `bytes`, capped at the principal's share. `None` if `bytes` is too small to be counted.
    pub(super) async fn take(&self, bytes: usize) -> Option<Lease> {
        let units = self.units(bytes)?;
        // These semaphores are never closed, so acquiring never fails.
        let own = Arc::clone(&self.own).acquire_many_owned(units).await.ok()?;
        let all = Arc::clone(&self.all).acquire_many_owned(units).await.ok()?;
        Some(Lease { _own: own, _all: all })
    }

    /// Takes `bytes` as [`Self::take`] does, but fails instead of waiting.
    pub(super) fn try_take(&self, bytes: usize) -> Result<Option<Lease>, Spent> {
        let Some(units) = self.units(bytes) else { return Ok(None) };
        let own = Arc::clone(&self.own).try_acquire_many_owned(units).map_err(|_| Spent)?;
        let all = Arc::clone(&self.all).try_acquire_many_owned(units).map_err(|_| Spent)?;
        Ok(Some(Lease { _own: own, _all: all }))
    }

    fn units(&self, bytes: usize) -> Option<u32> {
        let units = bytes.div_ceil(UNIT).min(self.own_units);
        (bytes > FREE && guard!("client_memory")).then(|| u32::try_from(units).unwrap_or(u32::MAX))
    }
}

/// The budget has too few free bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent;

impl Drop for Lease {
    fn drop(&mut self) {
        give_back_soon();
    }
}

/// How long freed memory stays unused before the allocator may return it.
const UNUSED: Duration = Duration::from_millis(1_500);

/// Lets the allocator return freed memory to the system once it has been unused for a while. The allocator does so only
/// when memory is requested or a thread ends, so a server that becomes idle after a flood would keep all of it.
pub(super) fn give_back_soon() {
    static WAITS: AtomicBool = AtomicBool::new(false);
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if WAITS.swap(true, Ordering::AcqRel) {
        return;
    }
    runtime.spawn(async {
        tokio::time::sleep(UNUSED).await;
        WAITS.store(false, Ordering::Release);
        // Twice, because memory that was freed in the meantime counts as unused only later.
        for _ in 0..2 {
            // The thread allocates, because a thread without memory of its own returns nothing when it ends.
            let thread = std::thread::Builder::new().stack_size(64 << 10);
            let _ = thread.spawn(|| drop(std::hint::black_box(vec![0_u8; 1 << 10])));
            tokio::time::sleep(UNUSED).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{Budget, UNIT};

    #[test]
    fn one_principal_leaves_the_others_their_share() {
        let budgets = Budget::each(400 * UNIT, 2);
        let [anna, bert] = budgets.as_slice() else { panic!() };
        let all_of_hers = anna.try_take(1_000 * UNIT).unwrap();
        assert!(anna.try_take(100 * UNIT).is_err() && anna.try_take(UNIT).is_ok());
        assert!(bert.try_take(200 * UNIT).is_ok());
        drop(all_of_hers);
        assert!(anna.try_take(100 * UNIT).is_ok());
    }
}
