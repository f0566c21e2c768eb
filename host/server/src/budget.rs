//! Memory budgets for client input, over all connections.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolcell_system::machine::memory_bytes;
use toolcell_system::pool::share;

/// A semaphore counts permits in 32 bits.
const UNIT: usize = 1 << 10;
/// Smaller requests are not counted, so that they need not wait for large ones: the limits on connections and calls
/// suffice.
const FREE: usize = 64 << 10;

/// Fewest and most bytes; the fewest let through one request of the maximum size.
const BODIES: (u64, u64) = (16 << 20, 64 << 20);
const ARGUMENTS: (u64, u64) = (64 << 20, 256 << 20);
const RESULTS: (u64, u64) = (32 << 20, 256 << 20);
const PARTS: (u64, u64, u64) = (32, 16, 16);
/// Measured, with a margin, in a server that makes no call.
const IDLE_BYTES: u64 = 96 << 20;

#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryLimits {
    pub(super) bodies: usize,
    pub(super) arguments: usize,
    pub(super) results: usize,
}

/// The limit of this process's control group is read once.
pub(super) static ROOM: LazyLock<MemoryLimits> =
    LazyLock::new(|| MemoryLimits::from_memory(memory_bytes()));

impl MemoryLimits {
    fn from_memory(memory: u64) -> Self {
        let part = |part: u64, (least, most): (u64, u64)| {
            usize::try_from((memory / part).clamp(least, most)).unwrap_or(usize::MAX)
        };
        let (bodies, arguments, results) = PARTS;
        Self {
            bodies: part(bodies, BODIES),
            arguments: part(arguments, ARGUMENTS),
            results: part(results, RESULTS),
        }
    }
}

/// Memory that a server takes beside its calls, in bytes, if this process may have `memory`.
///
/// ```
/// use toolcell_server::beside_calls_bytes;
///
/// assert!(beside_calls_bytes(512 << 20) < beside_calls_bytes(16 << 30));
/// ```
pub fn beside_calls_bytes(memory: u64) -> u64 {
    let MemoryLimits {
        bodies,
        arguments,
        results,
    } = MemoryLimits::from_memory(memory);
    [bodies, arguments, results]
        .iter()
        .fold(IDLE_BYTES, |all, part| all.saturating_add(*part as u64))
}

/// Principals share a total.
#[derive(Clone, Debug)]
pub(super) struct ByteBudgets {
    all: Arc<Semaphore>,
    all_units: usize,
    /// Of a budget that is made now.
    own_units: Arc<AtomicUsize>,
}

#[derive(Clone, Debug)]
pub(super) struct ByteBudget {
    own: Arc<Semaphore>,
    own_units: usize,
    of: ByteBudgets,
}

/// Returned on drop.
#[derive(Debug)]
pub(super) struct Lease {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// Bytes, and the memory that is reserved for them.
pub(super) struct LeasedBytes<B, L> {
    pub(super) bytes: B,
    #[expect(dead_code, reason = "dropped with the bytes")]
    pub(super) leases: L,
}

impl<B: AsRef<[u8]>, L> AsRef<[u8]> for LeasedBytes<B, L> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl ByteBudget {
    pub(super) fn new(bytes: usize) -> Self {
        ByteBudgets::new(bytes, 1).one()
    }

    /// More than everything takes everything. `None` if `bytes` is too small to be counted.
    pub(super) async fn take(&self, bytes: usize) -> Option<Lease> {
        let (own, all) = self.units(bytes)?;
        // These semaphores are never closed, so acquiring never fails.
        let own = Arc::clone(&self.own).acquire_many_owned(own).await.ok()?;
        let all = Arc::clone(&self.of.all)
            .acquire_many_owned(all)
            .await
            .ok()?;
        Some(Lease {
            _own: own,
            _all: all,
        })
    }

    /// Fails instead of waiting; see [`Self::take`].
    pub(super) fn try_take(&self, bytes: usize) -> Result<Option<Lease>, BudgetExceeded> {
        self.units(bytes)
            .map(|units| self.try_units(units))
            .transpose()
    }

    /// Takes `bytes`, however few: of many small ones, each counts.
    pub(super) fn try_take_any(&self, bytes: usize) -> Result<Lease, BudgetExceeded> {
        self.try_units(self.share_of(bytes))
    }

    fn try_units(&self, (own, all): (u32, u32)) -> Result<Lease, BudgetExceeded> {
        let own = Arc::clone(&self.own)
            .try_acquire_many_owned(own)
            .map_err(|_| BudgetExceeded)?;
        let all = Arc::clone(&self.of.all)
            .try_acquire_many_owned(all)
            .map_err(|_| BudgetExceeded)?;
        Ok(Lease {
            _own: own,
            _all: all,
        })
    }

    /// A single request may exceed the principal's share, and counts in full, because the principal does not own the
    /// memory.
    fn share_of(&self, bytes: usize) -> (u32, u32) {
        let units = |most: usize| u32::try_from(bytes.div_ceil(UNIT).min(most)).unwrap_or(u32::MAX);
        (units(self.own_units), units(self.of.all_units))
    }

    fn units(&self, bytes: usize) -> Option<(u32, u32)> {
        (bytes > FREE && guard!("client_memory")).then(|| self.share_of(bytes))
    }
}

impl ByteBudgets {
    pub(super) fn new(bytes: usize, principals: usize) -> Self {
        let all_units = bytes / UNIT;
        Self {
            all: Arc::new(Semaphore::new(all_units)),
            all_units,
            own_units: Arc::new(AtomicUsize::new(share(all_units, principals))),
        }
    }

    /// Each of so many principals has a part. Those that have a budget keep theirs.
    pub(super) fn divide(&self, principals: usize) {
        let own = share(self.all_units, principals);
        self.own_units.store(own, Ordering::Relaxed);
    }

    /// Bytes that are taken, and all.
    pub(super) fn usage(&self) -> (u64, u64) {
        let bytes = |units: usize| (units * UNIT) as u64;
        let free = self.all.available_permits();
        (
            bytes(self.all_units.saturating_sub(free)),
            bytes(self.all_units),
        )
    }

    pub(super) fn one(&self) -> ByteBudget {
        let own_units = self.own_units.load(Ordering::Relaxed);
        ByteBudget {
            own: Arc::new(Semaphore::new(own_units)),
            own_units,
            of: self.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BudgetExceeded;

impl Drop for Lease {
    fn drop(&mut self) {
        give_back_soon();
    }
}

/// The allocator may return freed memory after it.
const UNUSED: Duration = Duration::from_millis(1_500);

/// The allocator would keep all memory of an idle server after a flood, because it returns some only on a request or at
/// a thread's end.
pub(super) fn give_back_soon() {
    static WAITS: AtomicBool = AtomicBool::new(false);
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
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
    use super::{ByteBudgets, IDLE_BYTES, MemoryLimits, UNIT, beside_calls_bytes};

    #[test]
    fn one_principal_leaves_the_others_their_share() {
        let budgets = ByteBudgets::new(400 * UNIT, 2);
        let anna = budgets.one();
        let bert = budgets.one();
        let all_of_hers = anna.try_take(200 * UNIT).unwrap();
        assert!(anna.try_take(100 * UNIT).is_err() && anna.try_take(UNIT).is_ok());
        assert!(bert.try_take(200 * UNIT).is_ok());
        drop(all_of_hers);
        // One that is larger than her share counts as a whole.
        let large = anna.try_take(300 * UNIT).unwrap();
        assert!(bert.try_take(150 * UNIT).is_err() && bert.try_take(100 * UNIT).is_ok());
        drop(large);
        assert!(anna.try_take(1_000 * UNIT).is_ok());
    }

    #[test]
    fn the_room_is_a_part_of_the_memory() {
        let of = |mib: u64| {
            let MemoryLimits {
                bodies,
                arguments,
                results,
            } = MemoryLimits::from_memory(mib << 20);
            (bodies >> 20, arguments >> 20, results >> 20)
        };
        assert_eq!(
            (of(64 << 10), of(2_048), of(512), of(128)),
            ((64, 256, 256), (64, 128, 128), (16, 64, 32), (16, 64, 32))
        );
        assert_eq!(beside_calls_bytes(512 << 20), IDLE_BYTES + (112 << 20));
    }
}
