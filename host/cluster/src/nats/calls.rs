//! A gateway's calls.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::value::RawValue;
use toolcell_spec::AbortReason;

use super::{Cluster, resources};
use crate::claim::{CallEnd, Claim, UnixMillis};
use crate::gateway::{self, SubmitError};
use crate::question::{Question, Spec, WorkspaceRef, digest};
use crate::store::Unavailable;

/// Larger specs are objects: a message has at most 1 MiB.
pub(super) const INLINE_BYTES_MAX: usize = 256 << 10;
/// A gateway without a server for so long does not know what becomes of its calls.
const ALONE_MAX: u32 = 60;
const SECOND: Duration = Duration::from_secs(1);

/// A call to be asked for.
pub struct Ask {
    /// Id of the call in the cluster; the same id is the same call.
    pub call: String,
    /// Digest of what is asked: a call with the same id and another digest is refused.
    pub request: String,
    /// Qualified name of the tool.
    pub tool: String,
    pub principal: Option<String>,
    /// A call that did not start by then is not started.
    pub deadline: UnixMillis,
    /// A `CallSpec`.
    pub spec: Box<RawValue>,
    pub workspace: Option<WorkspaceRef>,
}

/// How a call of the cluster ended.
#[derive(Debug)]
pub enum CallAnswer {
    /// The record that the worker made, as JSON.
    Record(Vec<u8>),
    WorkerLost {
        worker: String,
    },
    Canceled(AbortReason),
    Expired,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum AskError {
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The call may run, or have run.
    #[error("the result cannot be read: {0}")]
    Lost(String),
}

impl Cluster {
    /// Asks for the call, and waits for its end. `canceled` is polled until then; `event` gets each event of the call as JSON,
    /// in the order of the worker, as long as the connection lasts.
    ///
    /// # Errors
    ///
    /// The call was not accepted, or its result cannot be read.
    pub async fn ask(
        &self,
        ask: Ask,
        event: impl Fn(&[u8]) + Send,
        canceled: impl Future<Output = AbortReason> + Send,
    ) -> Result<CallAnswer, AskError> {
        let call = ask.call.clone();
        let _followed = self.watching.follow(&call);
        let events = self
            .client
            .subscribe(resources::events_subject(self.settings.protocol, &call));
        let mut events = events
            .await
            .map_err(|error| SubmitError::from(Unavailable(error.to_string())))?;
        let claim = Claim::queued(ask.request.clone(), ask.tool.clone(), ask.deadline, false);
        let question = self.question(ask).await.map_err(SubmitError::from)?;
        let entry = match gateway::submit(self, &call, &claim, &question).await {
            // Its end tells: one that nobody began in time is ended, too.
            Err(SubmitError::Unanswered(entry)) => *entry,
            submitted => submitted?,
        };
        let mut end = pin!(gateway::follow(self, &call, entry));
        let mut canceled = pin!(canceled);
        let mut cancel = None;
        let mut alone = 0;
        let end = loop {
            tokio::select! {
                biased;
                Some(message) = events.next() => event(&message.payload),
                end = &mut end => break end,
                reason = &mut canceled, if cancel.is_none() => {
                    cancel = Some(Box::pin(gateway::cancel(self, &call, reason)));
                }
                () = pending(&mut cancel) => {}
                () = tokio::time::sleep(SECOND) => {
                    alone = if self.is_connected() { 0 } else { alone + 1 };
                    if alone > ALONE_MAX {
                        return Err(AskError::Lost("no server of the cluster answers".to_owned()));
                    }
                }
            }
        };
        let end = end.ok_or_else(|| AskError::Lost("the call was forgotten".to_owned()))?;
        // What the worker sent before its end.
        while let Ok(Some(message)) = tokio::time::timeout(Duration::ZERO, events.next()).await {
            event(&message.payload);
        }
        self.answer(end).await
    }

    async fn question(&self, ask: Ask) -> Result<Vec<u8>, Unavailable> {
        let spec = if ask.spec.get().len() > INLINE_BYTES_MAX {
            Spec::Object(self.objects.put(ask.spec.get().as_bytes()).await?)
        } else {
            Spec::Inline(ask.spec)
        };
        let question = Question {
            call: ask.call,
            request: ask.request,
            principal: ask.principal,
            deadline: ask.deadline,
            spec,
            workspace: ask.workspace,
        };
        serde_json::to_vec(&question).map_err(|error| Unavailable(error.to_string()))
    }

    async fn answer(&self, end: CallEnd) -> Result<CallAnswer, AskError> {
        let (named, inline) = match end {
            CallEnd::WorkerLost { worker } => return Ok(CallAnswer::WorkerLost { worker }),
            CallEnd::Canceled { reason } => return Ok(CallAnswer::Canceled(reason)),
            CallEnd::Expired => return Ok(CallAnswer::Expired),
            CallEnd::Result { digest, inline, .. } => (digest, inline),
        };
        let Some(inline) = inline else {
            let record = self.objects.get(&named).await;
            let lost = |error: Unavailable| AskError::Lost(error.to_string());
            return record.map(CallAnswer::Record).map_err(lost);
        };
        if digest(inline.as_bytes()) != named {
            let other = "the record has another digest than its call names";
            return Err(AskError::Lost(other.to_owned()));
        }
        Ok(CallAnswer::Record(inline.into_bytes()))
    }
}

/// Ends once; then it is pending.
async fn pending(cancel: &mut Option<std::pin::Pin<Box<impl Future<Output = ()>>>>) {
    match cancel {
        Some(running) => running.await,
        None => return std::future::pending().await,
    }
    std::future::pending().await
}
