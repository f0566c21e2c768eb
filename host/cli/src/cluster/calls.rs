//! A gateway's calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use toolcell::{CallSpec, Cancellation, Elsewhere};
use toolcell_cluster::{
    Ask, AskError, CallAnswer, ClaimStore, Cluster, SubmitError, WorkspaceRef, digest_of,
};
use toolcell_engine::pipeline::{ForwardRequest, ForwardedCall, SentWorkspace};
use toolcell_spec::{AbortReason, CallRecord, ErrorCode, Refusal, ToolEvent};
use toolcell_system::BoxFuture;
use ulid::Ulid;

use super::metrics::ClusterMetrics;
use super::{NOTE, OBJECTS_BYTES_MAX};

pub(super) struct ClusterCalls {
    pub(super) cluster: Arc<Cluster>,
    pub(super) older: Option<Arc<Cluster>>,
    pub(super) principal: Option<String>,
    /// A call that no worker began by then has failed.
    pub(super) wait: Duration,
    pub(super) metrics: Arc<ClusterMetrics>,
}

impl Elsewhere for ClusterCalls {
    fn of_principal(&self, name: &str) -> Arc<dyn Elsewhere> {
        Arc::new(Self {
            cluster: Arc::clone(&self.cluster),
            older: self.older.clone(),
            principal: Some(name.to_owned()),
            wait: self.wait,
            metrics: Arc::clone(&self.metrics),
        })
    }

    fn call<'a>(
        &'a self,
        spec: CallSpec,
        request: ForwardRequest<'a>,
    ) -> BoxFuture<'a, Result<ForwardedCall, Refusal>> {
        Box::pin(async move {
            let tool = spec.tool.clone();
            let cluster = self.spoken();
            let ForwardRequest {
                cancellation,
                workspace,
                hear,
                ..
            } = request;
            let workspace = match workspace {
                Some(sent) => Some(send(cluster, sent).await?),
                None => None,
            };
            let ask = self.ask(spec, workspace)?;
            let began = Instant::now();
            let hear = |event: &ToolEvent| {
                self.metrics.event(event, began);
                hear(event);
            };
            let asked = cluster.ask(ask, |event| tell(&hear, event), canceled(&cancellation));
            let answer = asked.await;
            self.metrics.ended(&answer, began);
            let record = record(answer, &tool)?;
            let payloads = objects(cluster, &record, "payloads").await?;
            let files = objects(cluster, &record, "files").await?;
            Ok(ForwardedCall {
                record,
                payloads,
                files: files.into_iter().next(),
            })
        })
    }
}

impl ClusterCalls {
    fn ask(&self, spec: CallSpec, workspace: Option<WorkspaceRef>) -> Result<Ask, Refusal> {
        let request = self.request(&spec, workspace.as_ref());
        let call = match &spec.idempotency_key {
            None => Ulid::generate().to_string(),
            // Of this caller alone, whichever gateway gets it.
            Some(key) => {
                let caller = spec.actor_ref.as_deref().unwrap_or_default();
                digest_of(&[caller, self.principal.as_deref().unwrap_or_default(), key])
            }
        };
        let tool = spec.tool.clone();
        let spec = serde_json::value::to_raw_value(&spec)
            .map_err(|error| Refusal::host_fault(error.to_string()))?;
        let wait = self.wait.as_millis().try_into().unwrap_or(u64::MAX);
        Ok(Ask {
            call,
            request,
            tool,
            principal: self.principal.clone(),
            deadline: self.cluster.now().saturating_add(wait),
            spec,
            workspace,
        })
    }

    /// With the oldest protocol that a worker has.
    fn spoken(&self) -> &Cluster {
        let oldest = self.cluster.oldest_protocol();
        let is_older = oldest.is_some_and(|oldest| oldest < self.cluster.protocol());
        match self.older.as_deref().filter(|_| is_older) {
            Some(older) => older,
            None => &self.cluster,
        }
    }

    /// By what two requests with one key are the same.
    fn request(&self, spec: &CallSpec, workspace: Option<&WorkspaceRef>) -> String {
        let workspace = workspace.map_or("", |sent| sent.name.as_str());
        let component = spec.component.as_deref().unwrap_or_default();
        let principal = self.principal.as_deref().unwrap_or_default();
        digest_of(&[
            principal,
            &spec.tool,
            component,
            workspace,
            spec.input.text(),
        ])
    }
}

async fn send(cluster: &Cluster, sent: SentWorkspace) -> Result<WorkspaceRef, Refusal> {
    let archive = cluster.put_object(&sent.archive).await;
    Ok(WorkspaceRef {
        name: sent.name,
        archive: archive.map_err(super::unanswered)?,
        quota: (sent.quota.bytes, sent.quota.files),
    })
}

/// The objects that the worker names in its note, under `what`.
async fn objects(
    cluster: &Cluster,
    record: &CallRecord,
    what: &str,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let named = record.invocation.extra.get(NOTE).and_then(|note| {
        let named = note.get(what)?.as_array()?;
        Some(named.iter().filter_map(Value::as_str))
    });
    let lost = |why: &str| {
        let message = format!("a part of the result cannot be read: {why}");
        Refusal::new(ErrorCode::ClusterResultLost, message)
    };
    let mut left = OBJECTS_BYTES_MAX;
    let mut objects = Vec::new();
    for name in named.into_iter().flatten().take(OBJECTS_MAX) {
        let object = cluster.object(name).await;
        let object = object.map_err(|error| lost(&error.to_string()))?;
        left = left
            .checked_sub(object.len() as u64)
            .ok_or_else(|| lost("it is larger than what a worker sends"))?;
        objects.push(object);
    }
    Ok(objects)
}

/// A call has fewer artifacts and payloads.
const OBJECTS_MAX: usize = 1_000;

async fn canceled(cancellation: &Cancellation) -> AbortReason {
    cancellation.cancelled().await;
    cancellation
        .requested()
        .unwrap_or(AbortReason::UserInterruption)
}

fn tell(hear: &(dyn Fn(&ToolEvent) + Send + Sync), event: &[u8]) {
    // Of another version, an event may have another form; the record has them all.
    if let Ok(event) = serde_json::from_slice(event) {
        hear(&event);
    }
}

fn record(answer: Result<CallAnswer, AskError>, tool: &str) -> Result<Box<CallRecord>, Refusal> {
    let refusal = match answer {
        Ok(CallAnswer::Record(record)) => {
            return serde_json::from_slice(&record).map_err(|error| {
                let message = format!("the record of the call cannot be read: {error}");
                Refusal::new(ErrorCode::ClusterResultLost, message)
            });
        }
        Ok(CallAnswer::WorkerLost { worker }) => {
            let message =
                format!("the worker {worker} ran {tool} and is gone; what it did until then stays");
            Refusal::new(ErrorCode::WorkerLost, message)
        }
        Ok(CallAnswer::Canceled(_)) => {
            Refusal::new(ErrorCode::Canceled, "the call was canceled before it began")
        }
        Ok(CallAnswer::Expired) => {
            let message = format!("no worker began {tool} in time");
            Refusal::new(ErrorCode::NoWorker, message)
        }
        Err(AskError::Lost(why)) => Refusal::new(ErrorCode::ClusterResultLost, why),
        Err(AskError::Submit(error)) => {
            let code = match &error {
                SubmitError::OtherRequest => ErrorCode::IdempotencyKeyReused,
                SubmitError::QueueFull => ErrorCode::ClusterQueueFull,
                SubmitError::Unavailable(_) => ErrorCode::ClusterUnavailable,
                SubmitError::Unanswered(_) => ErrorCode::ClusterResultLost,
            };
            Refusal::new(code, error.to_string())
        }
    };
    Err(refusal)
}
