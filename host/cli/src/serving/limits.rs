//! The limits of a server as a whole: what it starts with, and the memory of all calls.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use toolcell::{HostBuilder, Limits};
use toolcell_config::{ConfigLayers, GivenServerLimits};
use toolcell_engine::scheduler::MemoryBudget;
use toolcell_server::beside_calls_bytes;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::machine::{memory_bytes, share_bytes};

use super::ServingOptions;

impl ServingOptions {
    pub(super) fn inline(&self, host: HostBuilder) -> HostBuilder {
        match self.inline_bytes_max {
            Some(most) => host.inline_bytes_max(most),
            None => host,
        }
    }

    /// The command line precedes the files; later ones do not change what a server began with.
    pub(crate) fn started_with(&self, layers: &ConfigLayers) -> &GivenServerLimits {
        self.started_with
            .get_or_init(|| self.server_limits.clone().or(&layers.server))
    }

    /// How many have a part of calls and memory. One that is named in several places counts once.
    pub(super) fn callers(&self, layers: &ConfigLayers) -> usize {
        if !self.listens {
            return 1;
        }
        let held = self.token_callers.lock();
        let held = held.unwrap_or_else(PoisonError::into_inner).clone();
        let own = layers.principals.iter().map(|one| one.caller().into());
        let names: HashSet<Arc<str>> = held.into_iter().chain(own).collect();
        names.len() + usize::from(self.has_engine)
    }

    /// The command line precedes the lowest of the files, and these a share of the machine's memory. The same size
    /// keeps the budget, because calls of a replaced configuration still count.
    pub(super) fn budget(
        &self,
        layers: &ConfigLayers,
        limits: &Limits,
    ) -> Result<MemoryBudget, Refusal> {
        let said = self.memory_total.or_else(|| layers.memory_total());
        if let Some(total) = said.filter(|total| *total < limits.host_bytes()) {
            let message = format!(
                "all calls together get {total} bytes of memory, and one call may take {}: raise --memory-total, or lower \
                 --memory or --max-output",
                limits.host_bytes()
            );
            return Err(Refusal::new(ErrorCode::MemoryTotalTooSmall, message));
        }
        if self.listens {
            fits(said, limits)?;
        }
        let wanted =
            MemoryBudget::of_callers(said.unwrap_or_else(share_bytes), self.callers(layers));
        let mut kept = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref().filter(|kept| kept.total() == wanted.total()) {
            Some(same) => Ok(same.clone()),
            None => Ok(kept.insert(wanted).clone()),
        }
    }
}

/// Clients could otherwise get the process killed. `said` is for all calls together; without it, one call must fit.
fn fits(said: Option<u64>, limits: &Limits) -> Result<(), Refusal> {
    let memory = memory_bytes();
    let calls = said.unwrap_or_else(|| limits.host_bytes());
    let beside = beside_calls_bytes(memory);
    if calls.saturating_add(beside) <= memory {
        return Ok(());
    }
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let (whose, what_to_lower) = match said {
        Some(_) => ("all calls together get", "--memory-total"),
        None => ("one call may take", "--memory and --max-output"),
    };
    let message = format!(
        "this process may have {} MiB of memory, {whose} {} MiB, and the server takes up to {} MiB beside them: give it {} \
         MiB, or lower {what_to_lower}",
        memory >> 20,
        mib(calls),
        mib(beside),
        mib(calls.saturating_add(beside)),
    );
    Err(Refusal::new(ErrorCode::MemoryTooSmall, message))
}
