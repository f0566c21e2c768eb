//! Calls as the plain HTTP API asks about them: by their id and their caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use toolcell_journal::StoredApproval;
use toolcell_journal::{AnswerOutcome, CallLog, CallQuery, LogError, Summary};
use toolcell_spec::{Answer, ErrorCode, InvocationId, Refusal, Status};
use toolcell_system::pool::{STORE, UnfinishedJob};

use crate::Server;
use crate::asking::AskChannel;
use crate::calls::{CallEnd, TaskState};

use super::Tasks;
use super::stored::StoredState;

const RECENT_MAX: u32 = 100;

pub(crate) enum RecordedCall {
    Runs {
        tool_id: Option<String>,
        status: Status,
    },
    /// The events are in causal order.
    Ended(Arc<CallEnd>, Vec<Value>),
    /// The tool had an output that is on no disk.
    NotKept,
}

impl Server {
    /// Counts at most 100 calls of `actor`; `None` without a log.
    pub(crate) async fn recent_statuses(
        &self,
        tool_id: &str,
        actor: &str,
    ) -> Result<Option<BTreeMap<String, u32>>, Refusal> {
        let Some(tasks) = &self.tasks else {
            return Ok(None);
        };
        let query = CallQuery {
            tool: Some(tool_id.to_owned()),
            caller: Some(actor.to_owned()),
            limit: RECENT_MAX,
            ..CallQuery::default()
        };
        let calls = tasks.read_log(move |log| log.calls(&query)).await?;
        let mut counts = BTreeMap::new();
        // The log takes the id of a tool for a pattern, too.
        for call in calls.into_iter().filter(|call| call.tool_id == tool_id) {
            *counts.entry(call.status).or_default() += 1;
        }
        Ok(Some(counts))
    }

    /// Continues a call that was approved while no process ran it.
    pub(crate) async fn recorded(
        self: &Arc<Self>,
        id: InvocationId,
        actor: &str,
    ) -> Result<Option<RecordedCall>, Refusal> {
        let Some(tasks) = &self.tasks else {
            return Ok(None);
        };
        let owner = guard!("call_owner").then(|| actor.to_owned());
        let is_own = |found: Option<&str>| owner.is_none() || found == owner.as_deref();
        let record = tasks.record(id, owner.clone()).await?;
        let text = |pointer| {
            record
                .as_ref()
                .and_then(|record| record.pointer(pointer))
                .and_then(Value::as_str)
        };
        if record.is_some() && !is_own(text("/invocation/actor_ref")) {
            return Ok(None);
        }
        let tool_id = text("/invocation/tool_id").map(str::to_owned);
        if record
            .as_ref()
            .is_some_and(|record| record.get("result").is_some())
        {
            return Ok(record.and_then(ended));
        }
        let tool_id = match tool_id {
            Some(tool_id) => Some(tool_id),
            // A call that goes on after its approval has no line in the log before it starts.
            None if tasks.store.approvals.exists() => {
                let owner = owner.clone();
                let kept = tasks.approvals(move |store| match owner {
                    Some(owner) => store.kept_of(id, &[owner.into()]),
                    None => store.kept(id),
                });
                match kept.await? {
                    Some(kept) => Some(kept.approval.tool_id),
                    None => return Ok(None),
                }
            }
            None => return Ok(None),
        };
        if let (Some(_), Some(TaskState::Ended(found, _))) = (&record, tasks.calls.task_state(id)) {
            return Ok(Some(alone(&found, tool_id)));
        }
        let stored = tasks.read(id).await?;
        Ok(
            match self.settle(tasks, None, AskChannel::Wait, stored).await {
                StoredState::Waits(_) => Some(RecordedCall::Runs {
                    tool_id,
                    status: Status::AwaitingApproval,
                }),
                StoredState::Ended(found) => Some(alone(&found, tool_id)),
                StoredState::Lost => None,
                _ => Some(RecordedCall::Runs {
                    tool_id,
                    status: Status::Running,
                }),
            },
        )
    }

    /// The call must be held by no request of this process. `true` if it cannot run any more.
    pub(crate) async fn withdraw(&self, id: InvocationId) -> Result<bool, Refusal> {
        match &self.tasks {
            _ if self.calls.cancel(id) => Ok(true),
            Some(tasks) => tasks.withdraw(id).await,
            None => Ok(false),
        }
    }

    /// `None` if no call ever needed an approval.
    fn with_approvals(&self) -> Option<&Arc<Tasks>> {
        let tasks = self.tasks.as_ref();
        tasks.filter(|tasks| tasks.store.approvals.exists())
    }

    pub(crate) async fn questions(&self, callers: &[Arc<str>]) -> Result<Vec<Summary>, Refusal> {
        let Some(tasks) = self.with_approvals() else {
            return Ok(Vec::new());
        };
        let own = asked_by(callers);
        let found = tasks.approvals(move |store| store.list_of(false, own.as_deref()));
        let mut found = found.await?;
        found.retain(|summary| is_of(summary.actor_ref.as_deref(), callers));
        Ok(found)
    }

    /// `None` if no question is about a call of `callers`.
    pub(crate) async fn question(
        &self,
        id: InvocationId,
        callers: &[Arc<str>],
    ) -> Result<Option<StoredApproval>, Refusal> {
        let Some(tasks) = self.with_approvals() else {
            return Ok(None);
        };
        let own = asked_by(callers);
        let kept = tasks.approvals(move |store| match own {
            Some(own) => store.kept_of(id, &own),
            None => store.kept(id),
        });
        let kept = kept.await?;
        Ok(kept.filter(|kept| is_of(kept.approval.actor_ref.as_deref(), callers)))
    }

    /// Goes on with the call here if no other process holds it.
    pub(crate) async fn answer_question(
        self: &Arc<Self>,
        id: InvocationId,
        answer: Answer,
    ) -> Result<AnswerOutcome, Refusal> {
        let Some(tasks) = &self.tasks else {
            return Ok(AnswerOutcome::Unknown);
        };
        let given = tasks
            .approvals(move |store| store.answer(id, &answer))
            .await?;
        if given != AnswerOutcome::Taken {
            return Ok(given);
        }
        let stored = tasks.read(id).await?;
        self.settle(tasks, None, AskChannel::Wait, stored).await;
        Ok(given)
    }
}

impl Tasks {
    async fn record(
        &self,
        id: InvocationId,
        owner: Option<String>,
    ) -> Result<Option<Value>, Refusal> {
        self.read_log(move |log| log.record_of(&id.to_string(), owner.as_deref()))
            .await
    }

    async fn read_log<T: Send + 'static>(
        &self,
        read: impl FnOnce(&CallLog) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let store = Arc::clone(&self.store);
        let read = STORE.run(move || read(&store.calls)).await;
        let busy = |error: UnfinishedJob| {
            let message = format!("the log of calls cannot be read now: {error}; ask again later");
            Refusal::new(ErrorCode::TooManyReads, message)
        };
        Ok(read.map_err(busy)??)
    }
}

/// Callers whose questions the store looks for; `None` for all.
fn asked_by(callers: &[Arc<str>]) -> Option<Vec<Arc<str>>> {
    guard!("question_owner").then(|| callers.to_vec())
}

fn is_of(actor: Option<&str>, callers: &[Arc<str>]) -> bool {
    callers.iter().any(|caller| actor == Some(&**caller)) || !guard!("question_owner")
}

/// `None` if the call has not ended.
fn ended(record: Value) -> Option<RecordedCall> {
    let events = record.get("events").and_then(Value::as_array).cloned();
    let end = CallEnd::read(record)?;
    Some(RecordedCall::from_end(end, events.unwrap_or_default()))
}

fn alone(end: &CallEnd, tool_id: Option<String>) -> RecordedCall {
    let end = CallEnd {
        tool_id: Some(tool_id.unwrap_or_default()),
        ..end.clone()
    };
    RecordedCall::from_end(end, Vec::new())
}

impl RecordedCall {
    fn from_end(end: CallEnd, events: Vec<Value>) -> Self {
        if end.is_gone {
            Self::NotKept
        } else {
            Self::Ended(Arc::new(end), events)
        }
    }
}
