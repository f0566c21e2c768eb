//! Phase 7, where an approval is required: rate_limited, approval_rejected, policy_blocked, dependency_unavailable,
//! permission_denied, canceled.
//!
//! The question is on disk before an approver sees it. An answer changes one row from `pending`; the running process
//! changes it from `approved` to `claimed` before the guest is entered. No step is taken twice, and a process may die
//! between any two.

mod edit;
mod resume;
mod settle;
mod wait;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::approval::{Approver, Prompt, PromptContent, bind, scope};
use crate::catalog::Tool;
use toolcell_journal::{Allowance, ApprovalRequest, FlushOnDrop, Journal, Role, RoleLock, Trail};
use toolcell_policy::{ApprovalBrief, ApprovalQuestion, DecisionOutcome, Permit, PolicyVerdict};
use toolcell_spec::EXPIRE_MAX;
use toolcell_spec::{
    Approval, Behavior, Binding, CallRecord, DecisionId, ErrorCode, EventType, Input,
    PermissionChannel, PermissionDecision, Plan, ProgressStatus, ReasonType, Refusal, RuleSource,
    SessionRule, Status, Timestamp, WriteEffect, digest,
};

use super::call_state::CallState;
use super::permission::{self, Permitted};
use super::redaction::{INLINE_BYTES_MAX, brought, meter};
use super::suspend::SuspensionStage;
use super::validate;

pub(super) use edit::check_stored;
pub(super) use resume::{closing, interrupted, re_enter};

#[derive(Clone)]
pub struct ApprovalService {
    pub journal: Journal,
    /// The approver that is asked first. An answer can also come from another process, if that sees the journal.
    pub approver: Option<Arc<dyn Approver>>,
}

/// A call in the store, where another process may go on with it.
pub(super) struct StoredCall {
    pub(super) journal: Journal,
    pub(super) approval: Option<Approval>,
    pub(super) stage: SuspensionStage,
    /// Before `held`, so that the log is complete when another process can take the call.
    pub(super) leaving: FlushOnDrop,
    /// Marks this process as the owner.
    pub(super) held: RoleLock,
}

impl StoredCall {
    pub(super) fn new(
        journal: &Journal,
        trail: &Trail,
        approval: Option<Approval>,
        held: RoleLock,
    ) -> Self {
        Self {
            journal: journal.clone(),
            approval,
            stage: SuspensionStage::Never,
            leaving: trail.leaving(),
            held,
        }
    }
}

pub(super) async fn ask(
    journey: &mut CallState<'_>,
    tool: Arc<Tool>,
    mut decision: Box<PermissionDecision>,
    question: Box<ApprovalQuestion>,
) -> Result<Permitted, Refusal> {
    let hears = |desk: &ApprovalService| {
        let own = &journey.request.approval.approver;
        desk.journal.is_shared() || own.is_some() || desk.approver.is_some()
    };
    let Some(desk) = journey.services.desk.clone().filter(hears) else {
        permission::announce(journey, &tool, question.call_input(), decision).await?;
        return Err(nobody_to_ask(&question));
    };
    // Nobody is asked about a call that could not run.
    if let Err(refusal) = journey.services.executor.check_world(question.capability()) {
        permission::announce(journey, &tool, question.call_input(), decision).await?;
        return Err(refusal);
    }
    let shown = journey.redaction.shown_input(question.call_input()).await?;
    let actor = journey.request.actor_ref.as_deref();
    let binding = bind(&tool, &question, actor);
    let why = asked_because(&decision, question.brief());
    // An irreversible call is asked about each time.
    let lasting = !tool
        .permission_profile()
        .has_effect(&WriteEffect::Irreversible);
    let session = journey.request.approval.session.id().filter(|_| lasting);
    let always = session.as_deref().map(|session| Allowance {
        rule: SessionRule::new(session, &journey.invocation.tool_id, &binding, &why),
        scope: scope(&question),
    });
    let rule = always.as_ref().map(|always| always.rule.clone());
    let remembered_as = match always {
        Some(always) => {
            desk.journal
                .run(move |store| store.remembers(&always))
                .await?
        }
        None => None,
    };
    if let Some(reference) = remembered_as {
        return remembered(journey, tool, decision, question, reference).await;
    }
    let now = Timestamp::now();
    let id = journey.invocation.invocation_id;
    let expires_at = now.plus(journey.request.approval.expire.min(EXPIRE_MAX));
    let input = question.call_input();
    let check = edit::check(Arc::clone(&tool), input.clone(), shown.clone());
    let prompt = draw(
        journey,
        &tool,
        &question,
        &shown,
        (session.is_some(), expires_at),
    )
    .await?;
    let prompt = prompt.checking(check);
    let approval = Approval {
        invocation_id: id,
        tool_id: journey.invocation.tool_id.clone(),
        binding,
        actor_ref: journey.request.actor_ref.clone(),
        session,
        question: why,
        asked_at: now,
        expires_at,
        prompt: prompt.content_blocks(),
        cut: prompt.is_cut(),
        plan: Plan {
            shown_input: (!shown.is(question.call_input())).then(|| shown.text().to_owned()),
            origin: journey.request.approval.origin.as_deref().cloned(),
            ..plan(journey, question.call_input())
        },
    };
    let suggested =
        rule.map(|rule| json!({ "type": "session_rule", "behavior": "allow", "rule": rule }));
    decision.content_blocks = prompt.content_blocks();
    decision.expires_at = Some(expires_at);
    decision.suggested_updates = suggested.into_iter().collect();
    let decision_id = decision.decision_id;
    permission::announce(journey, &tool, question.call_input(), decision).await?;
    let channel = tool.permission_profile().permission_channel;
    let asked = (decision_id, asked_channel(journey, &desk, channel));
    store(journey, &desk.journal, approval, asked).await?;
    let answer = wait::wait(journey, &desk, &prompt, channel).await?;
    settle::settle(journey, tool, question.approved(), answer).await
}

pub(super) fn plan(journey: &CallState<'_>, input: &Input) -> Plan {
    Plan {
        tool: journey.request.tool.name().to_owned(),
        model_input: journey.request.input.text().to_owned(),
        permission_input: input.text().to_owned(),
        shown_input: None,
        reference_key: journey.redaction.reference_key(),
        origin: None,
    }
}

/// A large redacted prompt is built on a thread for checks, because the search uses the tool's own patterns.
async fn draw(
    journey: &CallState<'_>,
    tool: &Tool,
    question: &ApprovalQuestion,
    arguments: &Input,
    (can_remember, expires_at): (bool, Timestamp),
) -> Result<Prompt, Refusal> {
    let redactor = journey.redaction.redactor.clone();
    let brought = journey.redaction.brought.clone();
    let is_long = arguments.text().len() > INLINE_BYTES_MAX;
    let invocation_id = journey.invocation.invocation_id;
    let actor = journey.request.actor_ref.clone();
    let component = Arc::clone(tool.component());
    let brief = question.brief().clone();
    let capability = question.capability().clone();
    let arguments = arguments.clone();
    let work = move || {
        let facts = PromptContent {
            invocation_id,
            component: &component,
            brief: &brief,
            capability: &capability,
            arguments: &arguments,
            actor: actor.as_deref(),
            can_remember,
            expires_at,
        };
        let mut meter = meter(is_long);
        let mut hides = false;
        let prompt = Prompt::new(facts, |text| {
            // The caller chose these values, maybe to hide what it asks for.
            hides |=
                !brought.is_idle() && brought.redact_text_within(&mut text.clone(), &mut meter);
            redactor.redact_text_within(text, &mut meter);
        });
        if hides && guard!("request_secret_question") {
            Err(brought::repeated("in the question about the call"))
        } else {
            Ok(prompt)
        }
    };
    let checks = &journey.checks;
    checks.run_if(is_long, "writing the question", work).await?
}

/// The channel that the tool names, otherwise the one of the approver who is asked first. `any`: every approver who sees
/// the store, without one who is asked here.
fn asked_channel(
    journey: &CallState<'_>,
    desk: &ApprovalService,
    named: Option<PermissionChannel>,
) -> Value {
    let own = journey.request.approval.approver.as_deref();
    let approver = own.or(desk.approver.as_deref()).map(Approver::channel);
    let asked = approver.filter(|channel| *channel != wait::ANNOUNCE_ONLY);
    named.map_or_else(|| json!(asked.unwrap_or("any")), |named| json!(named))
}

/// Announced only once it is on disk.
async fn store(
    journey: &mut CallState<'_>,
    journal: &Journal,
    approval: Approval,
    (decision_id, channel): (DecisionId, Value),
) -> Result<(), Refusal> {
    let id = approval.invocation_id;
    let held = journal.hold_async(id, Role::Runner).await?;
    let held =
        held.ok_or_else(|| Refusal::host_fault("another process has the id of a new call"))?;
    journey.advance(Status::AwaitingApproval)?;
    journey.invocation.note("approval_request_ref", json!(id));
    let arguments = journey.redaction.concealed(&approval.binding.arguments);
    let binding = Binding {
        arguments,
        ..approval.binding.clone()
    };
    let data = json!({
        "approval_request_ref": id, "decision_id": decision_id, "channel": channel,
        "expires_at": approval.expires_at, "binding": binding,
    });
    let (events, event) = journey.trail.prepare(EventType::PermissionRequested, data);
    let asking = ApprovalRequest {
        approval: approval.clone(),
        invocation: journey.invocation.clone(),
        history: journey.history(events),
    };
    journal.run(move |store| store.ask(&asking)).await?;
    let stored = StoredCall::new(journal, &journey.trail, Some(approval), held);
    journey.asked = Some(Box::new(stored));
    journey.set_can_be_left(journal.is_shared());
    journey.trail.announce(event);
    journey.trail.reached(ProgressStatus::WaitingForPermission);
    Ok(())
}

async fn remembered(
    journey: &mut CallState<'_>,
    tool: Arc<Tool>,
    mut decision: Box<PermissionDecision>,
    question: Box<ApprovalQuestion>,
    rule: String,
) -> Result<Permitted, Refusal> {
    decision.behavior = Behavior::Allow;
    decision.source = Some(RuleSource::Session);
    decision.reason.kind = ReasonType::Rule;
    decision.reason.message = format!(
        "approved for this session before ({})",
        decision.reason.message
    );
    decision.reason.note("rule_ref", rule.as_str());
    decision.rule_refs.push(rule);
    permission::announce(journey, &tool, question.call_input(), decision).await?;
    let permit = question.approved();
    validate::preflight(journey, &tool, &permit).await?;
    journey.advance(Status::Approved)?;
    permission::admit(journey, tool, permit).await
}

fn asked_because(decision: &PermissionDecision, brief: &ApprovalBrief) -> String {
    let mut rules = brief.rule_refs.clone();
    rules.sort();
    digest(
        json!([decision.reason.kind, rules, brief.reason])
            .to_string()
            .as_bytes(),
    )
}

/// Decides again with `input`. The question is answered; a denial stays a denial.
async fn decide_again(
    journey: &mut CallState<'_>,
    tool: &Arc<Tool>,
    input: &Input,
) -> Result<Box<Permit>, Refusal> {
    let PolicyVerdict { decision, outcome } = permission::judge(journey, tool, input).await?;
    match outcome {
        DecisionOutcome::Allow(permit) => Ok(permit),
        DecisionOutcome::Ask(question) => Ok(question.approved()),
        DecisionOutcome::Deny(refusal) => {
            Err(permission::denied(journey, tool, input, decision, refusal).await)
        }
    }
}

fn nobody_to_ask(question: &ApprovalQuestion) -> Refusal {
    let brief = question.brief();
    let message = format!(
        "{} needs approval ({}), but no terminal or client can ask for it",
        brief.tool_id, brief.reason
    );
    Refusal::new(ErrorCode::NobodyToAsk, message)
}

fn withdrawn() -> Refusal {
    Refusal::new(
        ErrorCode::ApprovalWithdrawn,
        "the call was canceled before it could run",
    )
}

fn expired() -> Refusal {
    Refusal::new(
        ErrorCode::ApprovalExpired,
        "the approval request expired; call again to send a new one",
    )
}

pub(super) async fn conclude(asked: StoredCall, record: &mut CallRecord) {
    let StoredCall {
        journal,
        held,
        leaving,
        ..
    } = asked;
    let id = record.invocation.invocation_id;
    // The call has ended, and so its listeners end with its last trail.
    drop(leaving);
    let never = record.is_never_persisted() && guard!("never_persisted");
    let kept = if never {
        record.without_output()
    } else {
        record.clone()
    };
    let stored = journal.run(move |store| store.conclude(&kept)).await;
    match stored {
        Ok(()) => held.retire_async().await,
        // The caller still gets the result, although the journal says that the call was not finished.
        Err(error) => {
            // A call that has ended must not run later, whatever else could not be stored.
            let _ = journal.run(move |store| store.withdraw(id)).await;
            record.invocation.note("journal_error", error.to_string());
        }
    }
}
