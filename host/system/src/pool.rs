//! Bounded thread pools for blocking work, one for each kind of it, so that work that blocks in one pool delays no
//! other kind: a name server that does not answer must not keep the journal from its disk.

use std::cell::Cell;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::sync::Semaphore;

/// Stack of a thread that reads and writes files, in bytes. SQLite and the file system calls of WASI need a part of it.
const STACK_BYTES: usize = 1 << 20;

/// Returns how many of `total` places one of `callers` may have; up to eight callers never take each other's places.
pub fn share(total: usize, callers: usize) -> usize {
    (total / callers.max(1)).max(total / 8).max(1)
}

/// File operations of guests. There are enough threads that a few calls on file systems that hang (a dead network
/// mount) do not take all of them. Few operations wait for a thread at the same time, because a guest waits for each of
/// its operations.
pub static GUEST_FILES: PoolState = PoolState::new("guest-files", 128, 4_096);
/// The host's own store: the journal, payloads, secrets.
pub static STORE: PoolState = PoolState::new("store", 8, 4_096);
/// Looks at the files that a server watches, several times a second. Apart from the store, whose threads would never be idle
/// otherwise: the memory that one used for a large record goes back when it ends.
pub static WATCHED: PoolState = PoolState::new("watched", 1, 64);
/// Reads of the system's resolver configuration. Names themselves are looked up without a thread.
pub static NAMES: PoolState = PoolState::new("names", 2, 1_024);

/// A pool that all hosts of this process share, created when it is first needed.
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

    /// Returns the pool; `None` if the operating system has no resources for it.
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

    /// Polls `future` inside [`PoolState::enter`].
    pub async fn within<F: Future>(&'static self, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| {
            let _entered = self.enter();
            future.as_mut().poll(context)
        })
        .await
    }
}

/// A pool of threads for one kind of blocking work. Threads start when they are needed, and end after `IDLE`.
pub struct Pool {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    /// Permits for work that runs or waits.
    places: Arc<Semaphore>,
}

/// How long an idle thread waits for more work. Short, so that a burst of work leaves no threads behind.
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

/// Runs `begin`, which starts threads through tokio.
///
/// # Errors
///
/// The system has no more threads: tokio panics then, and that is not shown.
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

/// Why work has no result.
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
    /// Creates a pool with at most `threads` threads with stacks of `stack` bytes, in which at most `waiting` pieces of
    /// work wait for a thread.
    ///
    /// # Errors
    ///
    /// The operating system's error, if it has no resources for a runtime.
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

    /// Runs `work` on a thread of this pool. Dropping the future removes work that has not begun from the queue; work
    /// that has begun goes on to its end, and keeps its thread until then.
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

    /// Directs blocking work that this thread gives to its runtime to this pool until the guard is dropped, even if a
    /// library does it. Neither timers nor sockets work meanwhile. Such work is not counted as waiting.
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
