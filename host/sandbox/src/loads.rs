//! Loads of the code of one component: one at a time, whose result all waiting calls get.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use toolcell_spec::Refusal;

use super::locked;

#[derive(Clone, Default)]
pub(super) struct ComponentLoads(Arc<Mutex<Option<RunningLoad>>>);

/// `true` if the load had the bytes of its call.
type RunningLoad = watch::Receiver<Option<(bool, Result<(), Refusal>)>>;

impl ComponentLoads {
    /// Keeps a crowd of calls from repeating a load that fails. A call that `has_bytes` does not fail with a load that
    /// had none. Dropping the future ends the wait alone.
    pub(super) async fn join<F>(&self, has_bytes: bool, load: impl Fn() -> F) -> Result<(), Refusal>
    where
        F: Future<Output = Result<(), Refusal>> + Send + 'static,
    {
        loop {
            let (begins, mut running) = self.running(has_bytes, &load);
            let done = running.wait_for(Option::is_some).await;
            let (had_bytes, loaded) =
                done.ok().and_then(|done| done.clone()).unwrap_or_else(|| {
                    let message = "loading a component panicked, or its runtime ended";
                    (true, Err(Refusal::host_fault(message)))
                });
            if begins || had_bytes || !has_bytes || loaded.is_ok() {
                return loaded;
            }
        }
    }

    fn running<F>(&self, has_bytes: bool, load: impl Fn() -> F) -> (bool, RunningLoad)
    where
        F: Future<Output = Result<(), Refusal>> + Send + 'static,
    {
        let mut current = locked(&self.0);
        // One that panicked has closed its channel.
        if let Some(running) = current.as_ref().filter(|it| it.has_changed().is_ok()) {
            return (false, running.clone());
        }
        let (done, running) = watch::channel(None);
        *current = Some(running.clone());
        let loads = self.clone();
        let load = load();
        tokio::spawn(async move {
            let loaded = load.await;
            *locked(&loads.0) = None;
            let _ = done.send(Some((has_bytes, loaded)));
        });
        (true, running)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::*;

    fn broken() -> Result<(), Refusal> {
        Err(Refusal::host_fault("broken"))
    }

    async fn number_of_loads(loads: &ComponentLoads, calls: &[bool]) -> usize {
        let begun = Arc::new(AtomicUsize::new(0));
        let call = |has_bytes: &bool| {
            let loads = loads.clone();
            let begun = Arc::clone(&begun);
            let has_bytes = *has_bytes;
            async move {
                let load = || {
                    begun.fetch_add(1, Ordering::Relaxed);
                    async { broken() }
                };
                assert_eq!(loads.join(has_bytes, load).await, broken());
            }
        };
        let calls: JoinSet<()> = calls.iter().map(call).collect();
        calls.join_all().await;
        begun.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn all_calls_that_wait_for_a_load_fail_with_it_and_the_next_call_loads_again() {
        let loads = ComponentLoads::default();
        for _ in 0..3 {
            assert_eq!(number_of_loads(&loads, &[false; 5]).await, 1);
        }
    }

    #[tokio::test]
    async fn calls_with_the_bytes_fail_together_and_not_with_a_load_that_had_none() {
        let loads = ComponentLoads::default();
        assert_eq!(number_of_loads(&loads, &[true; 5]).await, 1);
        assert_eq!(number_of_loads(&loads, &[true, false]).await, 1);
        assert_eq!(number_of_loads(&loads, &[false, true, true, true]).await, 2);
    }

    #[tokio::test]
    async fn a_load_goes_on_without_the_call_that_began_it() {
        let loads = ComponentLoads::default();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let ended = Arc::new(Mutex::new(Some(ended)));
        let slow = loads.running(false, || {
            let ended = locked(&ended).take().unwrap();
            async move {
                let _ = ended.await;
                Ok(())
            }
        });
        drop(slow);
        let waiting = tokio::spawn({
            let loads = loads.clone();
            async move { loads.join(false, || async { broken() }).await }
        });
        tokio::task::yield_now().await;
        end.send(()).unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn a_load_that_panics_has_failed_and_the_next_call_loads_again() {
        let loads = ComponentLoads::default();
        let loaded = loads.join(true, || async { panic!("broken") }).await;
        assert!(loaded.is_err());
        assert_eq!(loads.join(true, || async { Ok(()) }).await, Ok(()));
    }
}
