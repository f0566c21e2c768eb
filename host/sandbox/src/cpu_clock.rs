//! CPU time: the limit of a guest that counts no fuel.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::trap::StopReason;

/// CPU time of a guest and of the calls that it makes.
#[derive(Debug, Default)]
pub(super) struct CpuClock {
    /// `None` for a guest that counts fuel, whose own time is not measured.
    limit: Option<Duration>,
    used_nanos: AtomicU64,
}

impl CpuClock {
    pub(super) fn limited(limit: Duration) -> Self {
        Self {
            limit: Some(limit),
            used_nanos: AtomicU64::new(0),
        }
    }

    /// `true` if the guest counts no fuel.
    pub(super) fn limits_guest(&self) -> bool {
        self.limit.is_some()
    }

    pub(super) fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.used_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> Duration {
        Duration::from_nanos(self.used_nanos.load(Ordering::Relaxed))
    }
}

/// Measures this thread while it polls `work`, which then cannot run on another one. A computing guest yields at each
/// tick, and is stopped there.
pub(super) async fn timed<T>(
    clock: Arc<CpuClock>,
    mut work: Pin<&mut impl Future<Output = wasmtime::Result<T>>>,
) -> wasmtime::Result<T> {
    let Some(limit) = clock.limit else {
        return work.await;
    };
    poll_fn(move |context| {
        let begun = of_this_thread();
        let polled = work.as_mut().poll(context);
        clock.add(of_this_thread().saturating_sub(begun));
        if polled.is_pending() && clock.used() >= limit && guard!("cpu_time") {
            return Poll::Ready(Err(StopReason::CpuTime.into()));
        }
        polled
    })
    .await
}

fn of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
