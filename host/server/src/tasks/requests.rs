//! `tasks/get`, `tasks/update` and `tasks/cancel`.

use std::sync::Arc;
use std::time::Instant;

use rmcp::RoleServer;
use rmcp::model::{
    CreateTaskResult, ErrorCode, ErrorData, GetTaskResult, InputResponses, MetaObject,
    ProtocolVersion,
};
use rmcp::service::RequestContext;
use serde_json::json;
use toolcell::CancelOutcome;
use toolcell_dialect::mcp::{self, TaskFacts, UserDecision};
use toolcell_journal::{AnswerOutcome, Keep, SuspendedCall};
use toolcell_spec as record;
use toolcell_spec::text::visible_json;
use toolcell_spec::{
    AbortReason, Answer, Approval, InvocationId, Refusal, SuspensionState, Timestamp, ToolError,
};
use ulid::Ulid;

use crate::asking::{AskChannel, CHANNEL, CallQuestion, heeding_cut, suspended, user_at};
use crate::call::{RunningCall, revision};
use crate::calls::{CallEnd, TaskState, TooLarge};
use crate::session::ClientSession;

use super::stored::StoredState;
use super::{TTL, Tasks, UndetachableCall};

struct NamedTask<'a> {
    tasks: &'a Arc<Tasks>,
    id: InvocationId,
    owner: String,
    channel: AskChannel,
    facts: TaskFacts,
}

impl ClientSession {
    /// `ask` is the open question. Returns the call if it has to be answered otherwise.
    pub(crate) fn defer(
        &self,
        running: RunningCall,
        ask: Option<CallQuestion>,
        channel: AskChannel,
    ) -> Result<CreateTaskResult, UndetachableCall> {
        let Some(tasks) = &self.server.tasks else {
            return Err(Box::new((running, ask)));
        };
        let asks = ask.is_some();
        let approval = ask.as_ref().and_then(CallQuestion::approval_of);
        let (id, name) = tasks.add(running, ask)?;
        let created = began(id);
        let facts = TaskFacts {
            id: name,
            created,
            updated: Timestamp::now(),
            ttl: TTL,
        };
        let by_client = channel == AskChannel::InputRequired;
        let message = approval.filter(|_| !by_client).map(waits_elsewhere);
        Ok(mcp::task_created(&facts, asks && by_client, message))
    }

    pub(crate) fn task_owner(&self) -> String {
        format!(
            "{}\n{}",
            self.identity.owner,
            self.identity.actor.as_deref().unwrap_or_default()
        )
    }

    /// The same error for a task that does not exist, is too old, or belongs to another owner.
    fn named(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<NamedTask<'_>, ErrorData> {
        let unknown = || {
            let why = "there is no such task of yours: it never was, or its time is over; call the tool again";
            ErrorData::invalid_params(why, None)
        };
        let new = revision(context) >= ProtocolVersion::V_2026_07_28;
        let tasks = self.server.tasks.as_ref().filter(|_| new);
        let tasks = tasks.ok_or_else(|| {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "there are no tasks here", None)
        })?;
        let owner = self.task_owner();
        let id = tasks
            .names
            .read(name, &owner)
            .map_err(|error| internal(error.into()))?;
        let id = id.ok_or_else(unknown)?;
        let created = began(id);
        let now = Timestamp::now();
        if created.plus(TTL) < now && tasks.calls.find(id).is_none() {
            return Err(unknown());
        }
        let channel = self.seen(context).channel;
        let facts = TaskFacts {
            id: name.to_owned(),
            created,
            updated: created,
            ttl: TTL,
        };
        Ok(NamedTask {
            tasks,
            id,
            owner,
            channel,
            facts,
        })
    }

    /// Goes on with a call that was approved while no process ran it.
    pub(crate) async fn look_at_task(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let mut named = self.named(name, context)?;
        match named.tasks.calls.task_state(named.id) {
            Some(TaskState::Working(updated)) => {
                named.facts.updated = updated;
                Ok(mcp::task_working(&named.facts, None))
            }
            Some(TaskState::Asks {
                questions,
                meta,
                approval,
                updated,
            }) => {
                named.facts.updated = updated;
                Ok(named.asks(|| (questions, meta), approval))
            }
            Some(TaskState::Ended(ended, updated)) => {
                named.facts.updated = updated;
                self.ended_task(&named.facts, &ended, context).await
            }
            None => self.look_at_stored(named, context).await,
        }
    }

    async fn look_at_stored(
        &self,
        mut named: NamedTask<'_>,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let NamedTask {
            tasks,
            id,
            owner,
            channel,
            ..
        } = &named;
        let stored = tasks.read(*id).await.map_err(internal)?;
        if matches!(stored, StoredState::Working | StoredState::Over(..))
            && tasks.calls.has_lost(*id)
        {
            return Ok(mcp::task_failed(
                &named.facts,
                *id,
                &not_kept("this one could not be written to the disk"),
            ));
        }
        match self
            .server
            .settle(tasks, Some(owner), *channel, stored)
            .await
        {
            StoredState::Waits(approval) if !self.is_of_client(&approval) => Ok(mcp::task_working(
                &named.facts,
                Some(waits_elsewhere(approval.invocation_id)),
            )),
            StoredState::Waits(approval) => {
                Ok(named.asks(|| question(&approval), Some(approval.invocation_id)))
            }
            StoredState::Asks(kept) => match suspended(&kept.suspension) {
                Some(asked) => Ok(named.asks(|| asked, None)),
                None => Err(internal(Refusal::host_fault(
                    "the questions of this call cannot be read",
                ))),
            },
            StoredState::Ended(ended) => {
                named.facts.updated = ended.result.created_at;
                self.ended_task(&named.facts, &ended, context).await
            }
            StoredState::Lost => Ok(mcp::task_failed(
                &named.facts,
                named.id,
                &lost(self.offering().keep),
            )),
            _ => Ok(mcp::task_working(&named.facts, None)),
        }
    }

    async fn ended_task(
        &self,
        facts: &TaskFacts,
        ended: &CallEnd,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        if ended.is_gone {
            return Ok(mcp::task_failed(
                facts,
                ended.result.invocation_id,
                &not_kept(KEPT_OFF),
            ));
        }
        let mut result = ended.result.clone();
        let offering = self.offering();
        let offer = offering.offers.find(&ended.tool).ok().map(Arc::as_ref);
        self.deliver((&offering, offer), &ended.persistence, &mut result, context)
            .await?;
        let output_schema = offer.and_then(|offer| offer.tool.contract().output_schema());
        Ok(mcp::task_ended(
            facts,
            &result,
            output_schema,
            ended.shut_down,
        ))
    }

    pub(crate) async fn answer_task(
        &self,
        name: &str,
        responses: &InputResponses,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let named = self.named(name, context)?;
        // This client's user was not asked: the operator may have forbidden that.
        if named.channel != AskChannel::InputRequired {
            return Ok(());
        }
        let given = named.tasks.calls.give(named.id, responses);
        if given.map_err(|error| ErrorData::invalid_params(error.to_string(), None))? {
            return Ok(());
        }
        let approval = match named.tasks.read(named.id).await.map_err(internal)? {
            StoredState::Waits(approval) if self.is_of_client(&approval) => approval,
            StoredState::Asks(kept) if answers(&kept, responses) => {
                return self.answer_suspended(&named, responses).await;
            }
            _ => return Ok(()),
        };
        let Some(said) = mcp::response(Some(responses)) else {
            return Ok(());
        };
        self.answer_stored(&named, &approval, heeding_cut(said, approval.cut))
            .await?;
        let stored = named.tasks.read(named.id).await.map_err(internal)?;
        self.server
            .settle(named.tasks, Some(&named.owner), named.channel, stored)
            .await;
        Ok(())
    }

    /// Takes over a call whose tool asked in an earlier process.
    async fn answer_suspended(
        &self,
        named: &NamedTask<'_>,
        responses: &InputResponses,
    ) -> Result<(), ErrorData> {
        let NamedTask {
            tasks, id, owner, ..
        } = named;
        let large = |error: TooLarge| ErrorData::invalid_params(error.to_string(), None);
        let taken = tasks.take_suspended(*id).await.map_err(internal)?;
        let taken = match taken {
            Some((kept, held)) => self
                .server
                .take_over(tasks, owner, kept, held, responses)
                .map_err(large)?,
            // Another request of this process may have taken it over.
            None => tasks.calls.give(*id, responses).map_err(large)?,
        };
        if taken {
            Ok(())
        } else {
            Err(ErrorData::internal_error(
                "the answer could not be taken; send it again later",
                None,
            ))
        }
    }

    /// `false` if the tool can name another channel (AT-PERM-12).
    fn is_of_client(&self, approval: &Approval) -> bool {
        let offering = self.offering();
        let offer = offering.offers.find(&approval.plan.tool).ok();
        let channel = offer.and_then(|offer| offer.tool.permission_profile().permission_channel);
        channel.is_none_or(|channel| channel.takes(CHANNEL))
    }

    /// Another process that goes on with the call finds the answer in the journal.
    async fn answer_stored(
        &self,
        named: &NamedTask<'_>,
        approval: &Approval,
        said: UserDecision,
    ) -> Result<(), ErrorData> {
        let UserDecision {
            approved,
            always,
            edit,
            note,
            ..
        } = said;
        if let (true, Some(edit)) = (approved, &edit) {
            let checked = self.offering().tools.host.check_edit(approval, edit).await;
            checked.map_err(|why| {
                let message =
                    format!("the arguments as you changed them cannot run: {why}; the question is still open");
                ErrorData::invalid_params(message, None)
            })?;
        }
        let answer = Answer {
            approved,
            approver: user_at(approval.actor_ref.as_deref()),
            channel: CHANNEL.to_owned(),
            edit,
            feedback: note,
            always: always && approval.session.is_some(),
            answered_at: Timestamp::now(),
        };
        let id = named.id;
        match named
            .tasks
            .approvals(move |store| store.answer(id, &answer))
            .await
        {
            // What was answered elsewhere first counts.
            Ok(AnswerOutcome::Taken | AnswerOutcome::TooLate(_) | AnswerOutcome::Unknown) => Ok(()),
            Ok(AnswerOutcome::OwnCall) => Err(ErrorData::invalid_params(
                "a caller cannot approve its own call",
                None,
            )),
            Err(refusal) => Err(internal(refusal)),
        }
    }

    /// An ended task stays unchanged; the log records that.
    pub(crate) async fn stop_task(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let offering = self.offering();
        let named = match self.named(name, context) {
            Ok(named) => named,
            Err(error) => {
                if revision(context) >= ProtocolVersion::V_2026_07_28 {
                    self.tell_unknown_cancel(&offering, name, self.session_ref(context))
                        .await;
                }
                return Err(error);
            }
        };
        let tasks = named.tasks;
        let id = named.id;
        if tasks.calls.cancel(id) {
            return Ok(());
        }
        // Holds the role in the call until this ends, if no other process has it.
        let stored = tasks.read(id).await.map_err(internal)?;
        if let StoredState::Asks(_) = &stored
            && self.stop_suspended(&named).await?
        {
            return Ok(());
        }
        let is_elsewhere = match &stored {
            StoredState::Asks(_) => true,
            StoredState::Waits(_) | StoredState::Approved(..) | StoredState::Working
                if !tasks.calls.has_ended(id) =>
            {
                // The process that holds the call sees it, and ends the call.
                if tasks.withdraw(id).await.map_err(internal)? {
                    return Ok(());
                }
                true
            }
            _ => false,
        };
        // It may have come to this process since.
        if is_elsewhere && tasks.calls.cancel(id) {
            return Ok(());
        }
        let notes = || self.identity.unknown_cancels.admits(Instant::now());
        match offering
            .tools
            .host
            .cancel_noting(id, AbortReason::UserInterruption, notes)
            .await
        {
            CancelOutcome::RunsElsewhere if is_elsewhere => Err(too_late(id)),
            _ => Ok(()),
        }
    }
}

impl ClientSession {
    /// Its tool asked in an earlier process. `false` if another process has taken it over.
    async fn stop_suspended(&self, named: &NamedTask<'_>) -> Result<bool, ErrorData> {
        let Some((mut kept, held)) = named
            .tasks
            .take_suspended(named.id)
            .await
            .map_err(internal)?
        else {
            return Ok(false);
        };
        let id = named.id;
        // Before its end is written: what was canceled must not run after this process was killed.
        if !named
            .tasks
            .approvals(move |store| store.withdraw_suspended(id))
            .await
            .map_err(internal)?
        {
            return Ok(false);
        }
        kept.state = SuspensionState::Withdrawn;
        Ok(self.server.end_stored(&*kept, held).await.is_some())
    }
}

fn answers(kept: &SuspendedCall, responses: &InputResponses) -> bool {
    let asked = suspended(&kept.suspension);
    asked.is_some_and(|(questions, _)| questions.keys().any(|key| responses.contains_key(key)))
}

fn lost(keep: Keep) -> ToolError {
    if keep != Keep::All {
        return not_kept(KEPT_OFF);
    }
    // The tool may have run: the log removes old calls, and the call may have ended under other settings.
    let message = "nothing is on record of this call: it ended with its process before its tool started, or the log does \
                   not have it any more. A second call may run the tool a second time";
    let mut error = Refusal::new(record::ErrorCode::CallLost, message).to_error();
    error.retry.safe = false;
    error
}

const KEPT_OFF: &str = "its settings keep this one off the disk";

/// The result had to leave the memory, and is on no disk; `why` it is not.
fn not_kept(why: &str) -> ToolError {
    let message = format!(
        "the result of this call is not available any more: the server keeps the latest results in memory, and {why}. A \
         second call runs the tool again"
    );
    let mut error = Refusal::new(record::ErrorCode::ResultNotKept, message).to_error();
    error.retry.safe = false;
    error
}

/// Another process runs the task's call, and so does not stop.
fn too_late(id: InvocationId) -> ErrorData {
    let why = "cannot cancel this task: another process has its call, which has begun; ask for its result with tasks/get";
    let reason = CancelOutcome::RunsElsewhere.reason();
    let data =
        json!({ "toolcell/invocation_id": id, "toolcell/cancel_failed": { "reason": reason } });
    ErrorData::invalid_request(why, Some(data))
}

type ElicitationParams = std::collections::BTreeMap<String, rmcp::model::ElicitRequestParams>;

impl NamedTask<'_> {
    fn asks(
        &self,
        question: impl FnOnce() -> (ElicitationParams, MetaObject),
        approval: Option<InvocationId>,
    ) -> GetTaskResult {
        match self.channel {
            AskChannel::InputRequired => {
                let (questions, meta) = question();
                mcp::task_asks(&self.facts, questions, meta)
            }
            _ => mcp::task_working(&self.facts, approval.map(waits_elsewhere)),
        }
    }
}

/// The question as the call's first process asked it.
fn question(approval: &Approval) -> (ElicitationParams, MetaObject) {
    let text: String = approval
        .prompt
        .iter()
        .filter_map(|block| block.as_text())
        .collect();
    let shown = approval
        .plan
        .shown_input
        .as_ref()
        .unwrap_or(&approval.plan.permission_input);
    let form = mcp::question(
        &text,
        &visible_json(shown),
        approval.session.is_some(),
        approval.cut,
    );
    let meta = mcp::approval_meta(&approval.invocation_id, &approval.expires_at);
    (
        ElicitationParams::from([(mcp::APPROVAL.to_owned(), mcp::marked(form, meta.clone()))]),
        meta,
    )
}

fn waits_elsewhere(id: InvocationId) -> String {
    format!(
        "nothing ran yet: a person has to approve this call. The operator of the server can: toolcell approvals approve \
         {id}, or toolcell approvals deny {id}"
    )
}

fn began(id: InvocationId) -> Timestamp {
    let millis = Ulid::from_string(&id.to_string()).map_or(0, |id| id.timestamp_ms());
    Timestamp::of_unix_millis(i64::try_from(millis).unwrap_or(0))
}

fn internal(refusal: Refusal) -> ErrorData {
    ErrorData::internal_error(refusal.message, None)
}

#[cfg(test)]
mod tests {
    use super::{InvocationId, Keep, Timestamp, began, lost};

    #[test]
    fn a_call_without_a_record_is_not_safe_to_repeat() {
        for keep in [Keep::All, Keep::Failures, Keep::None] {
            let error = lost(keep);
            assert!(
                !error.retry.safe && error.message.contains("A second call"),
                "{error:?}"
            );
        }
    }

    #[test]
    fn an_id_says_when_its_call_began() {
        let now = Timestamp::of_unix_millis(1_800_000_000_123);
        assert_eq!(began(InvocationId::at(now)), now);
    }
}
