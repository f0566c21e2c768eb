//! The workers that are there: each writes its own state, which vanishes with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{self, Operation};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::Cluster;
use crate::claim::{Claim, UnixMillis};
use crate::store::{Store, Unavailable};

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

/// What a worker says of itself.
pub(super) struct Presence {
    pub(super) places: usize,
    pub(super) busy: AtomicUsize,
}

impl Cluster {
    /// The oldest protocol that a worker has; `None` if none is there.
    pub fn oldest_protocol(&self) -> Option<u32> {
        self.protocols.oldest()
    }

    /// Writes the state of this worker until `gone`.
    pub(super) async fn show(
        &self,
        presence: &Presence,
        tools: impl Fn() -> Vec<WorkerTool>,
        (stop, gone): (&CancellationToken, &CancellationToken),
    ) {
        let key = &self.place_name;
        while !gone.is_cancelled() {
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

    /// What the cluster has now.
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
        let keys = self.resources.workers.keys().await;
        let mut keys = keys.map_err(|error| failed(&error))?;
        let mut workers: Vec<WorkerState> = Vec::new();
        while let Some(Ok(key)) = keys.next().await {
            if let Ok(Some(state)) = self.resources.workers.get(key).await
                && let Ok(state) = serde_json::from_slice(&state)
            {
                workers.push(state);
            }
        }
        workers.sort_by(|one, other| one.name.cmp(&other.name));
        let open = self.resources.calls.keys().await;
        let mut open = open.map_err(|error| failed(&error))?;
        let mut calls = Vec::new();
        while let Some(Ok(call)) = open.next().await {
            let entry = self.read(&call).await?;
            if let Some(entry) = entry.filter(|entry| entry.claim.end().is_none()) {
                let claim = entry.claim;
                calls.push(OpenCall { call, claim });
            }
        }
        Ok(ClusterState {
            server: self.client.server_info().version,
            queued,
            workers,
            calls,
        })
    }
}
