use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of calls that may have calls below them at once, because each keeps room for [`CHILD_DEPTH_MAX`] more
/// instances.
const CHAINS_MAX: u32 = 16;

/// How many calls may be nested below one call.
pub const CHILD_DEPTH_MAX: u32 = 4;

/// Room for the instances of calls that other calls make. Their callers wait for them and keep their places, so a call
/// that waited for a place of its own could wait for its own caller.
///
/// A call takes one chain before its first call of a tool, for everything below it. Who holds a chain waits for no place,
/// no memory and no other chain, so each chain is given back.
#[derive(Clone, Debug)]
pub struct Chains(Arc<Semaphore>);

/// One chain, returned when dropped.
#[derive(Debug)]
pub struct Chain {
    _permit: OwnedSemaphorePermit,
}

impl Chains {
    /// The chains of a host in which `calls_at_once` run at once.
    pub fn new(calls_at_once: u32) -> Self {
        Self(Arc::new(Semaphore::new(usize::try_from(Self::count(calls_at_once)).unwrap_or(1))))
    }

    /// How many instances all chains may have together.
    pub fn instances(calls_at_once: u32) -> u32 {
        Self::count(calls_at_once) * CHILD_DEPTH_MAX
    }

    fn count(calls_at_once: u32) -> u32 {
        calls_at_once.clamp(1, CHAINS_MAX)
    }

    /// Waits for a chain. `None` only if the host is gone.
    pub async fn take(&self) -> Option<Chain> {
        Some(Chain { _permit: Arc::clone(&self.0).acquire_owned().await.ok()? })
    }
}
