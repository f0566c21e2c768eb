use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use toolcell_core::policy::Limits;
use wasmtime::ResourceLimiter;

/// Totals the memories and tables of a call, and what the host keeps for it, because a limit on each alone would let
/// many small ones through.
#[derive(Debug)]
pub(super) struct Limiter {
    memory_max: usize,
    memory: usize,
    /// Host memory that is kept for the guest, in bytes.
    charged: Arc<AtomicUsize>,
    pub(super) memory_peak: usize,
    tables_max: usize,
    tables: usize,
    pub(super) tables_peak: usize,
    instances_max: usize,
    /// The limit that refused a request of the guest, if any; a trap that follows is attributed to it.
    pub(super) denied: Option<&'static str>,
}

impl Limiter {
    pub(super) fn new(limits: &Limits) -> Self {
        let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            memory_max: size(limits.memory_bytes),
            memory: 0,
            charged: Arc::default(),
            memory_peak: 0,
            tables_max: size(limits.table_elements),
            tables: 0,
            tables_peak: 0,
            instances_max: size(limits.instances),
            denied: None,
        }
    }

    /// Bytes by which the guest's memories may still grow.
    pub(super) fn left(&self) -> usize {
        self.memory_max.saturating_sub(self.memory).saturating_sub(self.charged.load(Ordering::Relaxed))
    }

    /// Charges `bytes` of host memory to the guest's memory limit; `None` if less than that is left.
    pub(super) fn charge(&mut self, bytes: usize) -> Option<Charge> {
        let charged = self.charged.load(Ordering::Relaxed).saturating_add(bytes);
        if self.memory.saturating_add(charged) > self.memory_max && guard!("host_memory") {
            self.denied = Some("memory");
            return None;
        }
        self.charged.fetch_add(bytes, Ordering::Relaxed);
        Some(Charge { of: Arc::clone(&self.charged), bytes })
    }
}

/// Host memory that counts toward a guest's limit, until this is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    of: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Returns the total after one part of it grows from `current` to `desired`; `None` if that exceeds `max`.
fn grown(total: usize, current: usize, desired: usize, max: Option<usize>) -> Option<usize> {
    let total = total.saturating_sub(current).checked_add(desired)?;
    max.is_none_or(|max| total <= max).then_some(total)
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let left = self.memory_max.saturating_sub(self.charged.load(Ordering::Relaxed));
        let Some(total) = grown(self.memory, current, desired, guard!("memory_limit").then_some(left)) else {
            self.denied = Some("memory");
            return Ok(false);
        };
        self.memory = total;
        self.memory_peak = self.memory_peak.max(total);
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let Some(total) = grown(self.tables, current, desired, guard!("table_limit").then_some(self.tables_max)) else {
            self.denied = Some("tables");
            return Ok(false);
        };
        self.tables = total;
        self.tables_peak = self.tables_peak.max(total);
        Ok(true)
    }

    fn instances(&self) -> usize {
        if guard!("instance_limit") { self.instances_max } else { usize::MAX }
    }

    fn memories(&self) -> usize {
        16
    }

    fn tables(&self) -> usize {
        64
    }
}
