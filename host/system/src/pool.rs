//! Bounded thread pools, one for each kind of blocking work: a name server that does not answer must not keep the
//! journal from its disk.

use std::cell::Cell;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::sync::Semaphore;

/// In bytes; SQLite and the file system calls of WASI need a part.
const STACK_BYTES: usize = 1 << 20;

/// Up to eight callers never take each other's places.
pub fn share(total: usize, callers: usize) -> usize {
    (total / callers.max(1)).max(total / 8).max(1)
}

/// So many threads that a few calls on hanging file systems (a dead network mount) do not take all. Few operations
/// wait, because a guest waits for each of its own, or for its turn.
pub static GUEST_FILES: PoolState = PoolState::new("guest-files", 128, 4_096);
/// The journal, payloads, secrets.
pub static STORE: PoolState = PoolState::new("store", 8, 4_096);
/// Looks at watched files several times a second. Apart from the store, whose idle threads end and free the memory of
/// large records.
pub static WATCHED: PoolState = PoolState::new("watched", 1, 64);
/// Views of the page, and looks for what changed there. Apart from the store, which calls wait for.
pub static PAGE: PoolState = PoolState::new("page", 4, 256);
/// Reads the resolver configuration; lookups need no thread.
pub static NAMES: PoolState = PoolState::new("names", 2, 1_024);

/// Shared by all hosts of this process, created when first needed.
pub struct PoolState {
    name: &'static str,
    threads: usize,
    waiting: usize,
    pool: OnceLock<Option<Pool>>,
}

impl PoolState {
    /// A pool with at most `threads` threads, in which at most `waiting` pieces of work wait for one.
    pub const fn new(name: &'static str, threads: usize, waiting: usize) -> Self {
        Self {
            name,
            threads,
            waiting,
            pool: OnceLock::new(),
        }
    }

    /// `None` if the operating system lacks resources.
    fn pool(&self) -> Option<&Pool> {
        self.pool
            .get_or_init(|| Pool::new(self.name, self.threads, self.waiting, STACK_BYTES).ok())
            .as_ref()
    }

    /// See [`Pool::run`].
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, UnfinishedJob> {
        self.pool().ok_or(PoolBusy)?.run(work).await
    }

    /// See `Pool::enter`. Without a pool, the caller's runtime gets the work.
    pub fn enter(&self) -> Option<EnterGuard<'_>> {
        self.pool().and_then(Pool::enter)
    }

    pub async fn within<F: Future>(&'static self, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| {
            let _entered = self.enter();
            future.as_mut().poll(context)
        })
        .await
    }
}

/// Threads for one kind of blocking work, started when needed, and ended after `IDLE`.
pub struct Pool {
    runtime: Option<Runtime>,
    /// For work that runs or waits.
    places: Arc<Semaphore>,
}

/// Short, so that a burst of work leaves no idle threads behind.
const IDLE: Duration = Duration::from_secs(1);

/// The pool already has as much work as it accepts.
#[derive(Debug, thiserror::Error)]
#[error("too much work of this kind is waiting")]
pub struct PoolBusy;

/// The system gives this process no more threads.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "the system gives this process no more threads: raise the limit of its control group (pids.max) or user (ulimit -u)"
)]
pub struct NoThreads;

thread_local! {
    /// `true` if this thread starts threads through tokio.
    static STARTS: Cell<bool> = const { Cell::new(false) };
}

/// `begin` starts threads through tokio. Fails if the system has no more: tokio's panic is hidden.
pub fn starting_threads<T>(begin: impl FnOnce() -> T) -> Result<T, NoThreads> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let shows = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !STARTS.get() {
                shows(panic);
            }
        }));
    });
    let before = STARTS.replace(true);
    let begun = std::panic::catch_unwind(AssertUnwindSafe(begin));
    STARTS.set(before);
    begun.map_err(|_| NoThreads)
}

#[derive(Debug, thiserror::Error)]
pub enum UnfinishedJob {
    #[error(transparent)]
    Busy(#[from] PoolBusy),
    #[error("the work panicked")]
    Panicked,
    #[error(transparent)]
    NoThreads(#[from] NoThreads),
}

impl Pool {
    /// `stack` is in bytes. Fails with the operating system's error if it has no resources for a runtime.
    pub fn new(
        name: &'static str,
        threads: usize,
        waiting: usize,
        stack: usize,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(threads)
            .thread_stack_size(stack)
            .thread_name(name)
            .thread_keep_alive(IDLE)
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            places: Arc::new(Semaphore::new(threads + waiting)),
        })
    }

    /// Dropping the future removes waiting work; begun work keeps its thread to its end.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, UnfinishedJob> {
        let place = Arc::clone(&self.places)
            .try_acquire_owned()
            .map_err(|_| PoolBusy)?;
        let Some(runtime) = &self.runtime else {
            return Err(PoolBusy.into());
        };
        let begun = starting_threads(|| {
            runtime.spawn_blocking(move || {
                let _place = place;
                work()
            })
        });
        let begun = begun?;
        let abort = AbortOnDrop(begun.abort_handle());
        let done = begun.await.map_err(|_| UnfinishedJob::Panicked);
        drop(abort);
        done
    }

    /// Directs this thread's blocking work, even a library's, to this pool while the guard lives. No timers or sockets
    /// work meanwhile; the work does not count as waiting.
    fn enter(&self) -> Option<EnterGuard<'_>> {
        self.runtime.as_ref().map(Runtime::enter)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Waiting for blocked work would block the thread that drops the pool.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const STACK: usize = 256 << 10;

    #[test]
    fn up_to_eight_callers_have_places_of_their_own() {
        assert_eq!(
            (share(192, 1), share(192, 2), share(192, 100), share(1, 2)),
            (192, 96, 24, 1)
        );
    }

    #[tokio::test]
    async fn a_full_pool_refuses_and_another_one_works() {
        let full = Pool::new("full", 1, 1, STACK).unwrap();
        let other = Pool::new("other", 1, 1, STACK).unwrap();
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let blocks = || {
            let wait = Arc::clone(&wait);
            move || wait.lock().unwrap().recv()
        };
        let mut first = Box::pin(full.run(blocks()));
        let mut second = Box::pin(full.run(blocks()));
        for begun in [&mut first, &mut second] {
            assert!(
                tokio::time::timeout(Duration::from_millis(1), begun)
                    .await
                    .is_err()
            );
        }
        assert!(matches!(full.run(|| ()).await, Err(UnfinishedJob::Busy(_))));
        assert_eq!(other.run(|| 7).await.unwrap(), 7);
        drop(second);
        go.send(()).unwrap();
        first.await.unwrap().unwrap();
        assert_eq!(full.run(|| 8).await.unwrap(), 8);
    }
}
