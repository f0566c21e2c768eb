//! The lease of a work item: heartbeats, each on condition that the one before was the last.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::api::{Api, ApiError, Credential};
use super::wire::{Heartbeat, NO_HEARTBEAT};

const INTERVAL_MAX: Duration = Duration::from_secs(30);
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Until the server has said its own.
const TTL: Duration = Duration::from_secs(90);

/// Why a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseEnd {
    /// The item belongs to the queue or to another worker: nothing may be sent for it.
    Lost,
    /// The API stops the work.
    Stopping,
}

/// Ends its heartbeats when it is dropped.
pub(super) struct Lease {
    ended: CancellationToken,
    end: Arc<OnceLock<LeaseEnd>>,
    task: tokio::task::JoinHandle<()>,
}

struct Heartbeats {
    api: Arc<Api>,
    key: Credential,
    work: String,
    last: String,
    ttl: Duration,
}

impl Lease {
    /// Takes the lease with a first heartbeat.
    ///
    /// # Errors
    ///
    /// 412 if another worker has it.
    pub(super) async fn take(
        api: &Arc<Api>,
        key: &Credential,
        work: &str,
    ) -> Result<Self, ApiError> {
        let first = api.heartbeat(key, work, NO_HEARTBEAT);
        let first = timeout(INTERVAL_MAX, first).await;
        let first = first.unwrap_or_else(|_| Err(ApiError::Network("no answer".to_owned())))?;
        let ended = CancellationToken::new();
        let end = Arc::new(OnceLock::new());
        if !first.holds() {
            let _ = end.set(LeaseEnd::Stopping);
            ended.cancel();
        }
        let beating = Heartbeats {
            api: Arc::clone(api),
            key: key.clone(),
            work: work.to_owned(),
            ttl: ttl(&first, TTL),
            last: first.last_heartbeat,
        };
        let (told, reason) = (ended.clone(), Arc::clone(&end));
        let task = tokio::spawn(async move {
            if !told.is_cancelled() {
                let _ = reason.set(beating.beat().await);
                told.cancel();
            }
        });
        Ok(Self { ended, end, task })
    }

    pub(super) async fn ended(&self) -> LeaseEnd {
        self.ended.cancelled().await;
        self.end.get().copied().unwrap_or(LeaseEnd::Lost)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.ended.is_cancelled() && self.end.get() != Some(&LeaseEnd::Stopping)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Heartbeats {
    async fn beat(mut self) -> LeaseEnd {
        let mut held_at = Instant::now();
        loop {
            let interval = (self.ttl / 2).clamp(INTERVAL_MIN, INTERVAL_MAX);
            sleep(interval).await;
            // A network that swallows requests must not outlast the lease.
            let asked = self.api.heartbeat(&self.key, &self.work, &self.last);
            match timeout(interval, asked).await {
                Ok(Ok(beat)) if !beat.holds() => return LeaseEnd::Stopping,
                Ok(Ok(beat)) => {
                    held_at = Instant::now();
                    self.ttl = ttl(&beat, self.ttl);
                    self.last = beat.last_heartbeat;
                }
                Ok(Err(error)) if error.is_final() => return LeaseEnd::Lost,
                // By then, the queue may have given it to another worker.
                _ if held_at.elapsed() >= self.ttl => return LeaseEnd::Lost,
                _ => {}
            }
        }
    }
}

fn ttl(beat: &Heartbeat, before: Duration) -> Duration {
    match beat.ttl_seconds {
        0 => before,
        seconds => Duration::from_secs(seconds),
    }
}
