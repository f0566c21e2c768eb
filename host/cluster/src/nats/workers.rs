//! The workers that are there: each writes its own state, which vanishes with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use async_nats::jetstream::kv::{self, Operation};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use toolcell_spec::Timestamp;

use super::{Cluster, place_name};
use crate::claim::{Claim, UnixMillis};
use crate::store::{ClaimStore as _, Unavailable};

/// A worker that wrote nothing for so long is not listed.
pub(super) const KEPT: Duration = Duration::from_secs(15);
const EVERY: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerState {
    pub name: String,
    /// Of toolcell.
    pub version: String,
    /// Version of the protocol.
    pub protocol: u32,
    /// Calls that it runs at once, and those that it runs now.
    pub places: usize,
    pub busy: usize,
    /// It takes no more calls.
    pub drains: bool,
    pub tools: Vec<WorkerTool>,
    /// When it wrote this.
    pub at: UnixMillis,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerTool {
    pub name: String,
    /// Digest of its component, `sha256:..`.
    pub component: String,
}

/// The state of a cluster, as one process sees it.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterState {
    /// Version of the NATS server.
    pub server: String,
    /// Messages in the queue: of calls that wait, and of those that run.
    pub queued: u64,
    pub workers: Vec<WorkerState>,
    pub calls: Vec<OpenCall>,
}

#[derive(Clone, Debug, Serialize)]
pub struct OpenCall {
    pub call: String,
    #[serde(flatten)]
    pub claim: Claim,
    /// On the clock of the server. A worker that runs a call writes several times within a lease.
    pub changed_at: Timestamp,
}

/// The protocols of the workers, and when each wrote its state on the clock of this process.
#[derive(Default)]
pub(super) struct Protocols(Mutex<HashMap<String, (u32, Instant)>>);

impl Protocols {
    fn see(&self, entry: &kv::Entry) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = serde_json::from_slice::<WorkerState>(&entry.value);
        match state.ok().filter(|_| entry.operation == Operation::Put) {
            Some(state) => {
                known.insert(entry.key.clone(), (state.protocol, Instant::now()));
            }
            None => {
                known.remove(&entry.key);
            }
        }
    }

    fn oldest(&self) -> Option<u32> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (_, at)| at.elapsed() < KEPT);
        known.values().map(|(protocol, _)| *protocol).min()
    }
}

/// Watches the workers, again after each failure.
pub(super) async fn watch(cluster: Weak<Cluster>, stop: CancellationToken) {
    while let Some(strong) = cluster.upgrade() {
        let watch = strong.resources.workers.watch_with_history(">").await;
        let protocols = Arc::clone(&strong.protocols);
        drop(strong);
        if let Ok(mut watch) = watch {
            loop {
                tokio::select! {
                    Some(Ok(entry)) = watch.next() => protocols.see(&entry),
                    () = stop.cancelled() => return,
                    else => break,
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Before a watch that ended is made again.
const PAUSE: Duration = Duration::from_millis(500);

/// A worker's own account.
pub(super) struct Presence {
    pub(super) places: usize,
    pub(super) busy: AtomicUsize,
}

impl Cluster {
    /// The oldest protocol that a worker has; `None` if none is there.
    pub fn oldest_protocol(&self) -> Option<u32> {
        self.protocols.oldest()
    }

    /// Writes the state of this worker until `gone`. Cancels `stop` when it is told to drain.
    pub(super) async fn show(
        &self,
        presence: &Presence,
        tools: impl Fn() -> Vec<WorkerTool>,
        (stop, gone): (&CancellationToken, &CancellationToken),
    ) {
        let key = &self.place_name;
        // What an earlier process of this name was told is not for this one.
        let drain = drain_key(key);
        let _ = self.resources.workers.delete(&drain).await;
        while !gone.is_cancelled() {
            if !stop.is_cancelled()
                && let Ok(Some(_)) = self.resources.workers.get(&drain).await
            {
                self.warn("this worker was told to drain: it takes no more calls, and ends after those that run");
                stop.cancel();
            }
            let state = WorkerState {
                name: self.settings.name.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                protocol: self.settings.protocol,
                places: presence.places,
                busy: presence.busy.load(Ordering::Relaxed),
                drains: stop.is_cancelled(),
                tools: tools(),
                at: self.now(),
            };
            let state = serde_json::to_vec(&state).unwrap_or_default();
            if let Err(error) = self.resources.workers.put(key, state.into()).await {
                tracing::debug!(%error, "the state of this worker cannot be written");
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = gone.cancelled() => {}
                () = stop.cancelled(), if !stop.is_cancelled() => {}
            }
        }
        let _ = self.resources.workers.delete(key).await;
    }

    /// The state of the cluster now.
    ///
    /// # Errors
    ///
    /// No server answers.
    pub async fn state(&self) -> Result<ClusterState, Unavailable> {
        let failed = |error: &dyn std::fmt::Display| Unavailable(error.to_string());
        let queue = self
            .context
            .get_stream(super::resources::queue_name(self.settings.protocol))
            .await;
        let queue = queue.map_err(|error| failed(&error))?;
        let queued = queue.cached_info().state.messages;
        let mut workers: Vec<WorkerState> = Vec::new();
        each_value(&self.resources.workers, |entry| {
            workers.extend(serde_json::from_slice::<WorkerState>(&entry.value).ok());
        })
        .await?;
        workers.sort_by(|one, other| one.name.cmp(&other.name));
        let mut calls = Vec::new();
        each_value(&self.resources.calls, |entry| {
            let claim = serde_json::from_slice::<Claim>(&entry.value).ok();
            calls.extend(
                claim
                    .filter(|claim| claim.end().is_none())
                    .map(|claim| OpenCall {
                        call: entry.key.clone(),
                        claim,
                        changed_at: SystemTime::from(entry.created).into(),
                    }),
            );
        })
        .await?;
        Ok(ClusterState {
            server: self.client.server_info().version,
            queued,
            workers,
            calls,
        })
    }

    /// Tells the worker to take no more calls, and to end after those that run. It looks every 5 s.
    ///
    /// # Errors
    ///
    /// No server answers.
    pub async fn drain(&self, worker: &str) -> Result<(), Unavailable> {
        let key = drain_key(&place_name(worker));
        let put = self.resources.workers.put(&key, "drain".into()).await;
        put.map(drop)
            .map_err(|error| Unavailable(error.to_string()))
    }

    /// The worker's latest state; `None`: it is gone.
    ///
    /// # Errors
    ///
    /// No server answers.
    pub async fn worker(&self, name: &str) -> Result<Option<WorkerState>, Unavailable> {
        let state = self.resources.workers.get(place_name(name)).await;
        let state = state.map_err(|error| Unavailable(error.to_string()))?;
        Ok(state.and_then(|state| serde_json::from_slice(&state).ok()))
    }
}

/// No name of a worker has a dot.
fn drain_key(place_name: &str) -> String {
    format!("drain.{place_name}")
}

/// Gives the latest value of each key to `see`, all in one answer: a bucket has those of hours.
async fn each_value(bucket: &kv::Store, mut see: impl FnMut(kv::Entry)) -> Result<(), Unavailable> {
    let failed = |error: &dyn std::fmt::Display| Unavailable(error.to_string());
    let status = bucket.status().await.map_err(|error| failed(&error))?;
    if status.values() == 0 {
        return Ok(());
    }
    let values = bucket.watch_with_history(">").await;
    let mut values = values.map_err(|error| failed(&error))?;
    // The last ones may be forgotten meanwhile: then no value says that it is the last.
    while let Ok(Some(entry)) = tokio::time::timeout(EACH, values.next()).await {
        let entry = entry.map_err(|error| failed(&error))?;
        let is_last = entry.delta == 0;
        if entry.operation == Operation::Put {
            see(entry);
        }
        if is_last {
            break;
        }
    }
    Ok(())
}

/// In which the next value comes.
const EACH: Duration = Duration::from_secs(2);
