use super::shares::{SharedPlace, SharedPlaces};

/// Calls with calls below them, each of which keeps room for [`CHILD_DEPTH_MAX`] more instances.
const CHAINS_MAX: u32 = 16;

/// Nesting below one call.
pub const CHILD_DEPTH_MAX: u32 = 4;

/// Room for instances of calls made by calls: a caller keeps its place, so a lower call waiting for one could wait for
/// its own caller.
///
/// A call takes one chain before its first tool call, for everything below. Its holder waits for no place, memory or
/// other chain, so each chain is given back.
#[derive(Clone, Debug)]
pub struct CallChains(SharedPlaces);

impl CallChains {
    /// Each of `callers` has its part, and borrows what others leave.
    pub fn new(calls_at_once: u32, callers: usize) -> Self {
        let chains = usize::try_from(Self::count(calls_at_once)).unwrap_or(1);
        Self(SharedPlaces::new(chains, callers))
    }

    pub fn instances(calls_at_once: u32) -> u32 {
        Self::count(calls_at_once) * CHILD_DEPTH_MAX
    }

    fn count(calls_at_once: u32) -> u32 {
        calls_at_once.clamp(1, CHAINS_MAX)
    }

    /// `None` only if the host is gone.
    pub async fn take(&self, caller: Option<&str>) -> Option<SharedPlace> {
        self.0.take(caller).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CallChains, SharedPlace};

    async fn soon(chains: &CallChains, caller: Option<&str>) -> Option<SharedPlace> {
        tokio::time::timeout(Duration::from_millis(1), chains.take(caller))
            .await
            .ok()
            .flatten()
    }

    #[tokio::test]
    async fn one_caller_leaves_chains_to_another_and_a_single_one_has_all() {
        let chains = CallChains::new(64, 2);
        let mut of_anna = Vec::new();
        while let Some(chain) = soon(&chains, Some("anna")).await {
            of_anna.push(chain);
        }
        assert_eq!(of_anna.len(), 14);
        let of_bert = soon(&chains, Some("bert")).await;
        assert!(of_bert.is_some());
        // Two are not lent.
        of_anna.truncate(12);
        assert!(soon(&chains, Some("anna")).await.is_some());
        let alone = CallChains::new(64, 1);
        let mut all = Vec::new();
        while let Some(chain) = soon(&alone, Some("anna")).await {
            all.push(chain);
        }
        assert_eq!(all.len(), 16);
    }
}
