use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use toolcell_policy::Limits;
use wasmtime::ResourceLimiter;

/// The host's own share of a call's memory holds them.
const STACKS_OF_HOST: usize = 1;

/// Totals memories, tables and host memory, because a limit on each alone would let many small ones through.
#[derive(Debug)]
pub(super) struct Limiter {
    meter: Arc<MemoryMeter>,
    pub(super) memory_peak: usize,
    tables_max: usize,
    tables: usize,
    pub(super) tables_peak: usize,
    instances_max: usize,
    /// A request for more table elements was refused.
    tables_denied: bool,
}

#[derive(Debug)]
pub(super) struct MemoryMeter {
    max: usize,
    memory: AtomicUsize,
    charged: AtomicUsize,
    stacks: AtomicUsize,
    /// A trap that follows is attributed to the refusal.
    denied: AtomicBool,
}

impl Limiter {
    pub(super) fn new(limits: &Limits) -> Self {
        let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        let meter = MemoryMeter {
            max: size(limits.memory_bytes),
            memory: AtomicUsize::new(0),
            charged: AtomicUsize::new(0),
            stacks: AtomicUsize::new(0),
            denied: AtomicBool::new(false),
        };
        Self {
            meter: Arc::new(meter),
            memory_peak: 0,
            tables_max: size(limits.table_elements),
            tables: 0,
            tables_peak: 0,
            instances_max: size(limits.instances),
            tables_denied: false,
        }
    }

    /// A trap that follows is attributed to the limit.
    pub(super) fn denied(&self) -> Option<&'static str> {
        let of_tables = self.tables_denied.then_some("tables");
        self.meter
            .denied
            .load(Ordering::Relaxed)
            .then_some("memory")
            .or(of_tables)
    }

    pub(super) fn left(&self) -> usize {
        self.meter.max.saturating_sub(self.meter.used())
    }

    /// `None` if less than `bytes` is left.
    pub(super) fn charge(&self, bytes: usize) -> Option<MemoryCharge> {
        self.meter.charge(bytes)
    }

    pub(super) fn meter(&self) -> Arc<MemoryMeter> {
        Arc::clone(&self.meter)
    }
}

impl MemoryMeter {
    fn used(&self) -> usize {
        self.memory
            .load(Ordering::Relaxed)
            .saturating_add(self.charged.load(Ordering::Relaxed))
    }

    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> Option<MemoryCharge> {
        // All that is charged to a call is charged on the thread that polls it, one after the other.
        if self.used().saturating_add(bytes) > self.max && guard!("host_memory") {
            self.denied.store(true, Ordering::Relaxed);
            return None;
        }
        self.charged.fetch_add(bytes, Ordering::Relaxed);
        Some(MemoryCharge {
            of: Arc::clone(self),
            bytes,
            is_stack: false,
        })
    }

    /// Except the one that the host needs for every call.
    fn charge_stack(self: &Arc<Self>, bytes: usize) -> Option<MemoryCharge> {
        let is_free = self.stacks.load(Ordering::Relaxed) < STACKS_OF_HOST || !guard!("stacks");
        let mut charge = self.charge(if is_free { 0 } else { bytes })?;
        charge.is_stack = true;
        self.stacks.fetch_add(1, Ordering::Relaxed);
        Some(charge)
    }
}

#[derive(Debug)]
pub(super) struct MemoryCharge {
    of: Arc<MemoryMeter>,
    bytes: usize,
    is_stack: bool,
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.of.charged.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.is_stack {
            self.of.stacks.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

thread_local! {
    static POLLED: RefCell<Option<Arc<MemoryMeter>>> = const { RefCell::new(None) };
}

struct PolledCall(Option<Arc<MemoryMeter>>);

impl PolledCall {
    fn begin(meter: &Arc<MemoryMeter>) -> Self {
        Self(POLLED.replace(Some(Arc::clone(meter))))
    }
}

impl Drop for PolledCall {
    fn drop(&mut self) {
        POLLED.set(self.0.take());
    }
}

/// The engine does not say for which call it makes a stack, but makes it only while that is polled.
pub(super) async fn charging<T>(
    meter: Arc<MemoryMeter>,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> T {
    poll_fn(move |context| {
        let _polling = PolledCall::begin(&meter);
        work.as_mut().poll(context)
    })
    .await
}

pub(super) fn charge_stack(bytes: usize) -> Option<MemoryCharge> {
    POLLED.with_borrow(|polled| polled.as_ref()?.charge_stack(bytes))
}

fn grown(total: usize, current: usize, desired: usize, max: Option<usize>) -> Option<usize> {
    let total = total.saturating_sub(current).checked_add(desired)?;
    max.is_none_or(|max| total <= max).then_some(total)
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let left = self
            .meter
            .max
            .saturating_sub(self.meter.charged.load(Ordering::Relaxed));
        let memory = self.meter.memory.load(Ordering::Relaxed);
        let Some(total) = grown(
            memory,
            current,
            desired,
            guard!("memory_limit").then_some(left),
        ) else {
            self.meter.denied.store(true, Ordering::Relaxed);
            return Ok(false);
        };
        self.meter.memory.store(total, Ordering::Relaxed);
        self.memory_peak = self.memory_peak.max(total);
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let Some(total) = grown(
            self.tables,
            current,
            desired,
            guard!("table_limit").then_some(self.tables_max),
        ) else {
            self.tables_denied = true;
            return Ok(false);
        };
        self.tables = total;
        self.tables_peak = self.tables_peak.max(total);
        Ok(true)
    }

    fn instances(&self) -> usize {
        if guard!("instance_limit") {
            self.instances_max
        } else {
            usize::MAX
        }
    }

    fn memories(&self) -> usize {
        16
    }

    fn tables(&self) -> usize {
        64
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    const MIB: usize = 1 << 20;

    fn limiter() -> Limiter {
        Limiter::new(&Limits {
            memory_bytes: 4 * MIB as u64,
            ..Limits::default()
        })
    }

    #[tokio::test]
    async fn stacks_are_charged_to_the_call_that_is_polled() {
        let outer = limiter();
        let inner = limiter();
        assert!(charge_stack(MIB).is_none(), "no call is polled");
        let work = pin!(async {
            // The first one is every call's.
            let mut stacks = vec![
                charge_stack(3 * MIB).unwrap(),
                charge_stack(3 * MIB).unwrap(),
            ];
            assert!(charge_stack(3 * MIB).is_none());
            assert_eq!((outer.left(), outer.denied()), (MIB, Some("memory")));
            let nested = pin!(async {
                tokio::task::yield_now().await;
                [(); 2].map(|()| charge_stack(2 * MIB).unwrap())
            });
            let of_inner = charging(inner.meter(), nested).await;
            assert_eq!((inner.left(), outer.left()), (2 * MIB, MIB));
            drop(of_inner);
            assert_eq!((inner.left(), inner.denied()), (4 * MIB, None));
            stacks.remove(1);
            stacks.push(charge_stack(MIB).unwrap());
            assert_eq!(outer.left(), 3 * MIB);
        });
        charging(outer.meter(), work).await;
        assert_eq!(outer.left(), 4 * MIB);
        assert!(charge_stack(MIB).is_none());
    }
}
