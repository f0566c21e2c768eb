//! Loads of the code of one component: one at a time, whose result all calls get that wait for it.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use toolcell_spec::Refusal;

use super::locked;

/// The load of one component that runs now, if one does.
#[derive(Clone, Default)]
pub(super) struct ComponentLoads(Arc<Mutex<Option<RunningLoad>>>);

/// The result of a load, once it has one.
type RunningLoad = watch::Receiver<Option<Result<(), Refusal>>>;

impl ComponentLoads {
    /// Waits for the load that runs, or else begins `load`, and returns whether it did, and the result. Without this, a crowd of
    /// calls would repeat a load that fails one after another. Dropping the future ends the wait, and not the load.
    pub(super) async fn join(
        &self,
        load: impl Future<Output = Result<(), Refusal>> + Send + 'static,
    ) -> (bool, Result<(), Refusal>) {
        let (begins, mut running) = self.running(load);
        let done = running.wait_for(Option::is_some).await;
        let loaded = done.ok().and_then(|loaded| loaded.clone());
        let panicked = || {
            let message = "loading a component panicked, or its runtime ended";
            Err(Refusal::host_fault(message))
        };
        (begins, loaded.unwrap_or_else(panicked))
    }

    fn running(
        &self,
        load: impl Future<Output = Result<(), Refusal>> + Send + 'static,
    ) -> (bool, RunningLoad) {
        let mut current = locked(&self.0);
        // One that panicked has closed its channel.
        if let Some(running) = current.as_ref().filter(|it| it.has_changed().is_ok()) {
            return (false, running.clone());
        }
        let (done, running) = watch::channel(None);
        *current = Some(running.clone());
        let loads = self.clone();
        tokio::spawn(async move {
            let loaded = load.await;
            *locked(&loads.0) = None;
            let _ = done.send(Some(loaded));
        });
        (true, running)
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    fn broken() -> Result<(), Refusal> {
        Err(Refusal::host_fault("broken"))
    }

    async fn number_of_loads(loads: &ComponentLoads, calls: usize) -> usize {
        let call = |_| {
            let loads = loads.clone();
            async move {
                let (began, loaded) = loads.join(async { broken() }).await;
                assert_eq!(loaded, broken());
                began
            }
        };
        let calls: JoinSet<bool> = (0..calls).map(call).collect();
        let began = calls.join_all().await;
        began.into_iter().filter(|began| *began).count()
    }

    #[tokio::test]
    async fn all_calls_that_wait_for_a_load_fail_with_it_and_the_next_call_loads_again() {
        let loads = ComponentLoads::default();
        for _ in 0..3 {
            assert_eq!(number_of_loads(&loads, 5).await, 1);
        }
    }

    #[tokio::test]
    async fn a_load_goes_on_without_the_call_that_began_it() {
        let loads = ComponentLoads::default();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let slow = loads.running(async move {
            let _ = ended.await;
            Ok(())
        });
        drop(slow);
        let waiting = tokio::spawn({
            let loads = loads.clone();
            async move { loads.join(async { broken() }).await }
        });
        tokio::task::yield_now().await;
        end.send(()).unwrap();
        assert_eq!(waiting.await.unwrap(), (false, Ok(())));
    }

    #[tokio::test]
    async fn a_load_that_panics_has_failed_and_the_next_call_loads_again() {
        let loads = ComponentLoads::default();
        let (began, loaded) = loads.join(async { panic!("broken") }).await;
        assert!(began && loaded.is_err());
        assert_eq!(loads.join(async { Ok(()) }).await, (true, Ok(())));
    }
}
