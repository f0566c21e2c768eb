//! The calls that a worker runs: with its own tools, grants, rules and secrets.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use toolcell::{CallContext, CallHandle, CallSpec, Home, Listener};
use toolcell_cluster::{
    CallRun, Cluster, NotPossible, Runner, StartRequest, Unavailable, WorkerCall, WorkerTool,
};
use toolcell_engine::pipeline::StartGate;
use toolcell_policy::TOKEN_CALLER;
use toolcell_server::{Server, ServerTools};
use toolcell_spec::{AbortReason, CallRecord, ErrorCode, Refusal, ToolEvent};
use toolcell_system::BoxFuture;
use toolcell_workspace::Quota;

use super::approver::ClusterApprover;
use super::files::FetchedFiles;
use super::{NOTE, OBJECTS_BYTES_MAX};

pub(crate) struct WorkerCalls {
    pub(crate) server: Arc<Server>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) home: Home,
    /// The most that files of a gateway may take here.
    pub(crate) quota: Quota,
    /// Public keys of those who may answer questions from elsewhere, by name.
    pub(crate) approvers: Arc<BTreeMap<String, String>>,
}

impl Runner for WorkerCalls {
    fn run(&self, asked: WorkerCall) -> Pin<Box<dyn Future<Output = CallRun> + Send + '_>> {
        Box::pin(self.run_asked(asked))
    }

    fn tools(&self) -> Vec<WorkerTool> {
        let all = self.server.offering();
        let tools = all.offers.surface().tools().map(|(tool, _)| WorkerTool {
            name: tool.declaration().qualified_name(),
            component: tool.component().to_string(),
        });
        tools.collect()
    }
}

impl WorkerCalls {
    async fn run_asked(&self, mut asked: WorkerCall) -> CallRun {
        let Ok(spec) = serde_json::from_slice::<CallSpec>(&asked.spec) else {
            self.cluster
                .warn("a call is of another version of toolcell, and left to other workers");
            return CallRun::NotHere;
        };
        // A caller who is a principal here is one also if the gateway does not say so: that can only narrow.
        let named = asked.question.principal.as_deref();
        let caller = spec.actor_ref.as_deref();
        let caller = caller.and_then(|caller| caller.strip_prefix(TOKEN_CALLER));
        let own = named.or(caller).and_then(|name| self.server.tools_of(name));
        let refusal = named.filter(|_| own.is_none()).map(unknown);
        let tools = own.unwrap_or_else(|| self.server.offering());
        if !tools.tools.has(&spec) {
            return CallRun::NotHere;
        }
        let (files, refusal) = match (&asked.question.workspace, refusal) {
            (Some(sent), None) => {
                match FetchedFiles::fetch(&self.cluster, &self.home, (sent, self.quota)).await {
                    Ok(files) => (Some(files), None),
                    Err(refusal) => (None, Some(refusal)),
                }
            }
            (_, refusal) => (None, refusal),
        };
        let approver = ClusterApprover {
            server: Arc::clone(&self.server),
            cluster: Arc::clone(&self.cluster),
            caller: spec.actor_ref.clone(),
            approvers: Arc::clone(&self.approvers),
        };
        let context = CallContext {
            approver: Some(Arc::new(approver)),
            workspace: files.as_ref().map(FetchedFiles::given),
            listener: Some(Arc::new(EventSender(asked.events))),
            start_gate: Some(Arc::new(ClusterGate(asked.starts))),
            refusal,
            ..CallContext::default()
        };
        let mut call = HeldCall(Some(tools.tools.call(spec, context)));
        let mut record = call.ended(&mut asked.canceled).await;
        let files = match files {
            Some(files) => self.send_files(files).await,
            None => Vec::new(),
        };
        let payloads = if record.is_never_persisted() {
            Vec::new()
        } else {
            self.send_payloads(&tools, &record).await
        };
        let note = json!({
            "call": asked.question.call,
            "worker": self.cluster.name(),
            "epoch": asked.epoch,
            "payloads": payloads,
            "files": files,
        });
        record.invocation.note(NOTE, note);
        written(&record)
    }

    /// Returns the name of the object, if the call changed any.
    async fn send_files(&self, files: FetchedFiles) -> Vec<String> {
        let archive = match files.changed().await {
            Ok(None) => return Vec::new(),
            Ok(Some(archive)) => self.cluster.put_object(&archive).await,
            Err(refusal) => Err(Unavailable(refusal.message)),
        };
        match archive {
            Ok(name) => vec![name],
            // The gateway finds no object of this name, and so no result.
            Err(error) => vec![format!("not sent: {error}")],
        }
    }

    /// Returns the names of the objects.
    async fn send_payloads(&self, tools: &ServerTools, record: &CallRecord) -> Vec<String> {
        let stored = record.persistence.iter();
        let stored = stored.filter_map(|decision| decision.persisted_ref.as_ref());
        let mut left = OBJECTS_BYTES_MAX;
        let mut sent = Vec::new();
        for stored in stored {
            let Ok(payload) = tools.tools.host.payload(&stored.digest, left).await else {
                continue;
            };
            left = left.saturating_sub(payload.len() as u64);
            match self.cluster.put_object(&payload).await {
                Ok(name) => sent.push(name),
                Err(error) => self.cluster.warn(&format!("a payload stays here: {error}")),
            }
        }
        sent
    }
}

/// A call that ends in a record also if its attempt loses it: then it is canceled, and its result thrown away.
struct HeldCall(Option<CallHandle>);

impl HeldCall {
    async fn ended(&mut self, canceled: &mut oneshot::Receiver<AbortReason>) -> Box<CallRecord> {
        let mut is_told = false;
        loop {
            let Some(call) = &mut self.0 else {
                return std::future::pending().await;
            };
            tokio::select! {
                biased;
                record = &mut *call => {
                    self.0 = None;
                    return record;
                }
                reason = &mut *canceled, if !is_told => {
                    is_told = true;
                    if let Ok(reason) = reason {
                        call.cancel(reason);
                    }
                }
            }
        }
    }
}

impl Drop for HeldCall {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call.cancel(AbortReason::SiblingError);
            // There is none while the process ends.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(call);
            }
        }
    }
}

/// A record whose output may be on no disk crosses without it: the servers of a cluster keep what they carry.
fn written(record: &CallRecord) -> CallRun {
    let written = if record.is_never_persisted() {
        serde_json::to_vec(&record.without_output())
    } else {
        serde_json::to_vec(record)
    };
    // A record is made of texts, numbers and values of JSON.
    CallRun::Record(written.unwrap_or_default())
}

fn unknown(principal: &str) -> Refusal {
    let message = format!("this worker has no principal {principal:?}, whose rules the call needs");
    Refusal::new(ErrorCode::UnknownPrincipal, message)
}

struct ClusterGate(mpsc::Sender<StartRequest>);

impl StartGate for ClusterGate {
    fn start(&self, changes: bool) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async move {
            let (may_start, answer) = oneshot::channel();
            let request = StartRequest { changes, may_start };
            if self.0.send(request).await.is_err() {
                return Err(taken("the worker lost the call"));
            }
            match answer.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(NotPossible::Canceled)) => Err(Refusal::new(
                    ErrorCode::Canceled,
                    "the call was canceled before its tool began",
                )),
                Ok(Err(why)) => Err(taken(&why.to_string())),
                Err(_) => Err(taken("the worker lost the call")),
            }
        })
    }
}

fn taken(why: &str) -> Refusal {
    Refusal::new(ErrorCode::CallTaken, why)
}

struct EventSender(mpsc::UnboundedSender<Vec<u8>>);

impl Listener for EventSender {
    fn event(&self, event: &ToolEvent) {
        // After the call, nothing receives them.
        if let Ok(event) = serde_json::to_vec(event) {
            let _ = self.0.send(event);
        }
    }
}
