use std::sync::Arc;

use serde_json::{Value, json};

use crate::approval::{bind, scope};
use crate::catalog::{CheckFailure, Tool};
use toolcell_executor::{InputCheck, PreflightAccess};
use toolcell_journal::{Allowance, Claim, StoredApproval};
use toolcell_policy::Permit;
use toolcell_spec::{
    Answer, ApprovalState, Behavior, DecisionId, ErrorCode, Extra, Input, MutationSource,
    PermissionDecision, Reason, ReasonType, Refusal, RuleSource, SchemaVersion, SessionRule,
    Status, Timestamp,
};

use super::super::aside::{self, InputSchema};
use super::super::call_state::CallState;
use super::super::permission::{self, Permitted};
use super::super::{observe, pre_hooks, schema_gate, validate};
use super::{StoredCall, decide_again, withdrawn};

/// Turns an answer into a permit for exactly what was asked, once.
pub(super) async fn settle(
    journey: &mut CallState<'_>,
    tool: Arc<Tool>,
    permit: Box<Permit>,
    answer: Answer,
) -> Result<Permitted, Refusal> {
    journey.heed_cancellation()?;
    if !answer.approved {
        let rejected = decided(journey, &answer, (Behavior::Deny, "rejected"), None).await?;
        let because = answer
            .feedback
            .as_deref()
            .map(|why| format!(": {why}"))
            .unwrap_or_default();
        let message = format!("the call was not approved{because}");
        let refusal = Refusal::new(ErrorCode::ApprovalRejected, message);
        let input = permit.call_input();
        return Err(permission::denied(journey, &tool, input, rejected, refusal).await);
    }
    if let Some(channel) = tool.permission_profile().permission_channel
        && !channel.takes(&answer.channel)
        && guard!("approval_channel")
    {
        let verb = "approved, through a channel that the tool does not accept,";
        let unheard = decided(journey, &answer, (Behavior::Deny, verb), None).await?;
        let message = format!(
            "the call was approved through {}, and the tool's permission_channel is another one; call again to ask",
            answer.channel
        );
        let profile = format!(
            "permission_profile:{}",
            tool.permission_profile().permission_profile_id
        );
        let refusal = Refusal::new(ErrorCode::ApprovalChannel, message).by_policy(profile);
        let input = permit.call_input();
        return Err(permission::denied(journey, &tool, input, unheard, refusal).await);
    }
    let edited = edited(journey, permit.call_input(), &answer).await?;
    let verdict = (Behavior::Allow, "approved");
    let approved = decided(journey, &answer, verdict, edited.as_ref()).await?;
    let input = edited.as_ref().unwrap_or(permit.call_input());
    permission::announce(journey, &tool, input, approved).await?;
    let permit = match edited {
        Some(input) => edit(journey, &tool, permit, input, &answer).await?,
        None => permit,
    };
    let mut decisions = journey.decisions.iter_mut().rev();
    if let Some(approved) = decisions.find(|decision| decision.behavior == Behavior::Allow) {
        let applied = tool.permission_profile().applied_sandbox();
        approved.name_sandbox(applied, journey.redaction.sandbox(&permit));
    }
    // Before the approval is used up. Nobody had approved what it reads before.
    validate::preflight(journey, &tool, &permit).await?;
    if let Some(feedback) = &answer.feedback {
        journey
            .additional_context
            .push(json!({ "approver_feedback": feedback }));
    }
    claim(journey, &tool, &permit, answer.always).await?;
    permission::admit(journey, tool, permit).await
}

/// `None` if unchanged.
async fn edited(
    journey: &mut CallState<'_>,
    asked: &Input,
    answer: &Answer,
) -> Result<Option<Input>, Refusal> {
    let Some(text) = &answer.edit else {
        return Ok(None);
    };
    let shown = journey.redaction.shown_input(asked).await?;
    super::edit::read(asked, &shown, text).map_err(|why| {
        let refusal = edit_invalid(&why);
        let input = Input::from_text(text);
        schema_gate::tell(journey, &input, &refusal.message, &CheckFailure::whole(why));
        refusal
    })
}

fn edit_invalid(why: &str) -> Refusal {
    let message = format!("the input as the approver changed it cannot run: {why}");
    Refusal::new(ErrorCode::EditInvalid, message)
}

/// Every check of the caller's input applies again; denials still deny.
async fn edit(
    journey: &mut CallState<'_>,
    tool: &Arc<Tool>,
    asked: Box<Permit>,
    input: Input,
    answer: &Answer,
) -> Result<Box<Permit>, Refusal> {
    let source = (MutationSource::PermissionPrompt, answer.approver.as_str());
    let inputs = [asked.call_input(), &input];
    journey
        .replaced(source, inputs, "updated_input of the approver")
        .await?;
    if let (Ok(from), Ok(to)) = (asked.call_input().value(), input.value())
        && let Some(why) = tool
            .contract()
            .forbids(MutationSource::PermissionPrompt, from, to)
    {
        return Err(edit_invalid(why));
    }
    check(journey, tool, &input).await?;
    let limits = journey.request.limits.for_checks();
    let values = journey.check(tool, &input, &limits);
    let preflight = if validate::reads_files(tool) {
        PreflightAccess::Left
    } else {
        values.preflight
    };
    let checked = journey
        .services
        .executor
        .validate(InputCheck {
            preflight,
            ..values
        })
        .await;
    if let Err(refusal) = checked {
        let which = validate::VALUE;
        return Err(validate::refused_late(journey, &input, refusal, which));
    }
    let input = observe::fill(journey, tool, input).await?;
    let input = pre_hooks::shape(journey, tool, input, true).await?;
    check(journey, tool, &input).await?;
    decide_again(journey, tool, &input).await
}

async fn check(journey: &CallState<'_>, tool: &Tool, input: &Input) -> Result<(), Refusal> {
    let checked = aside::check_input(journey, tool.contract(), input, InputSchema::Call).await?;
    checked.map_err(|mismatch| {
        let why = mismatch.to_string();
        // It may name an internal field, which no model may see.
        let refusal = if tool.contract().has_internal_fields() {
            edit_invalid("it does not satisfy the tool's schema").detail(why)
        } else {
            edit_invalid(&why)
        };
        schema_gate::tell(journey, input, &refusal.message, &mismatch);
        refusal
    })
}

/// From here on the call can end without running, but never run again.
async fn claim(
    journey: &mut CallState<'_>,
    tool: &Tool,
    permit: &Permit,
    always: bool,
) -> Result<(), Refusal> {
    let events = journey.trail.events();
    let history = journey.history(events);
    let Some(StoredCall {
        journal,
        approval: Some(approval),
        ..
    }) = journey.asked.as_deref()
    else {
        return Err(Refusal::host_fault("an answer without a question"));
    };
    let always = approval
        .session
        .as_deref()
        .filter(|_| always)
        .map(|session| {
            let actor = journey.request.actor_ref.as_deref();
            let binding = bind(tool, permit, actor);
            Allowance {
                rule: SessionRule::new(session, &approval.tool_id, &binding, &approval.question),
                scope: scope(permit),
            }
        });
    let mut approved = journey.invocation.clone();
    approved
        .advance(Status::Approved, None)
        .map_err(|error| Refusal::host_fault(error.to_string()))?;
    let claim = Claim {
        binding: approval.binding.digest(),
        invocation: approved.clone(),
        history,
        always,
    };
    // A call that is dropped from here on has used its approval up.
    journey.set_can_be_left(false);
    if !journal.run(move |store| store.claim(&claim)).await? {
        let id = approved.invocation_id;
        return Err(unclaimed(
            journal.run(move |store| store.kept(id)).await?.as_ref(),
        ));
    }
    journey.invocation = approved;
    Ok(())
}

fn unclaimed(kept: Option<&StoredApproval>) -> Refusal {
    // The end of a call withdraws its approval too, and then the call has a result.
    if kept.is_some_and(|kept| kept.state == ApprovalState::Canceled && kept.result.is_none()) {
        return withdrawn();
    }
    let message = "the approval was already used or has expired; call again to request a new one";
    Refusal::new(ErrorCode::ApprovalNotOpen, message)
}

async fn decided(
    journey: &mut CallState<'_>,
    answer: &Answer,
    (behavior, verb): (Behavior, &str),
    edited: Option<&Input>,
) -> Result<Box<PermissionDecision>, Refusal> {
    let mut extra = Extra::new();
    for (name, value) in [("approver", &answer.approver), ("channel", &answer.channel)] {
        extra.insert(name.to_owned(), Value::String(value.clone()));
    }
    let updated_input = match edited {
        Some(input) => Some(journey.redaction.shown(input).await?),
        None => None,
    };
    let mut asked = journey.decisions.iter().rev();
    let asked = asked.find(|decision| decision.behavior == Behavior::Ask);
    Ok(Box::new(PermissionDecision {
        schema_version: SchemaVersion::default(),
        decision_id: DecisionId::new(),
        invocation_id: journey.invocation.invocation_id,
        behavior,
        mode: journey.request.policy.mode,
        source: Some(RuleSource::Command),
        reason: Reason {
            kind: ReasonType::PermissionPromptTool,
            message: format!("{verb} by {} ({})", answer.approver, answer.channel),
            extra,
        },
        rule_refs: Vec::new(),
        policy_refs: vec![format!("approval:{}", journey.invocation.invocation_id)],
        updated_input,
        updated_input_ref: edited.map(|input| journey.redaction.reference(input).to_string()),
        user_modified: edited.is_some(),
        suggested_updates: Vec::new(),
        pending_classifier_check: None,
        blocked_path: None,
        content_blocks: asked
            .map(|asked| asked.content_blocks.clone())
            .unwrap_or_default(),
        accept_feedback: answer.feedback.clone(),
        decided_at: Timestamp::now(),
        expires_at: asked.and_then(|asked| asked.expires_at),
        extra: Extra::new(),
    }))
}
