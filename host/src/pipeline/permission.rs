//! Phase 7: permission_denied, capability_gap, schema_validation_failed, hook_blocked.

use std::sync::Arc;

use serde_json::json;

use crate::catalog::Tool;
use crate::hook::HookOutput;
use crate::policy::{self, Outcome, Permit, Subject};
use crate::record::{ErrorClass, EventType, HookEvent, Input, Refusal, Status};

use super::hooks;
use super::journey::{Journey, Prepared};

pub(super) struct Permitted {
    pub(super) tool: Arc<Tool>,
    pub(super) permit: Permit,
}

/// Decides on exactly the input that will run, and records the decision whatever it is.
pub(super) async fn decide(journey: &mut Journey<'_>, prepared: Prepared) -> Result<Permitted, Refusal> {
    let Prepared { tool, input } = prepared;
    check_call_input(journey, &tool, &input)?;
    journey.invocation.permission_input = Some(input.to_value());
    journey.invocation.permission_input_ref = Some(input.reference().to_owned());
    request_hooks(journey, &tool, &input).await?;
    let subject = Subject {
        invocation_id: journey.invocation.invocation_id,
        component: Arc::clone(tool.component()),
        tool: Arc::clone(tool.name()),
        attempt: 1,
    };
    let limits = journey.request.limits.clone().with_timeout_ms(tool.timeout_ms());
    let tool_id = &tool.declaration().tool_id;
    let (profile, grants, opinion) = (tool.permission_profile(), &journey.request.grants, journey.opinion.as_ref());
    let verdict = policy::decide(subject, tool_id, profile, grants, opinion, input.clone(), limits);
    let decision = verdict.decision;
    let summary = json!({
        "decision_id": decision.decision_id,
        "behavior": decision.behavior,
        "source": decision.source,
        "rule_refs": decision.rule_refs,
    });
    journey.trail.emit(EventType::PermissionDecided, summary);
    journey.invocation.permission_decision_refs.push(decision.decision_id);
    journey.decisions.push(decision);
    let observed = decision_hooks(journey, &tool, &input).await;
    let permit = match verdict.outcome {
        Outcome::Allow(permit) => {
            observed?;
            permit
        }
        // What hooks think of a denial changes nothing.
        Outcome::Deny(refusal) => return Err(refusal),
    };
    journey.advance(Status::Approved)?;
    journey.invocation.call_input = Some(input.to_value());
    journey.invocation.call_input_ref = Some(input.reference().to_owned());
    Ok(Permitted { tool, permit })
}

/// Asks hooks what they think of exactly the input that would run.
async fn request_hooks(journey: &mut Journey<'_>, tool: &Tool, input: &Input) -> Result<(), Refusal> {
    let (services, declaration) = (journey.services, tool.declaration());
    let event = HookEvent::PermissionRequest;
    for hook in services.hooks.hearing(event, &declaration.tool_id, &declaration.namespace) {
        journey.heed_cancellation()?;
        let call = hooks::call(journey, tool, event, input.to_value());
        for output in hooks::run(journey, hook, call).await? {
            match output {
                HookOutput::PermissionResult(result) => journey.hear(hook.id(), result),
                HookOutput::Stop { reason } => return Err(hooks::stopped(hook, &reason)),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Tells hooks what was decided. They can still stop a call that was allowed; they allow nothing.
async fn decision_hooks(journey: &mut Journey<'_>, tool: &Tool, input: &Input) -> Result<(), Refusal> {
    let (services, declaration) = (journey.services, tool.declaration());
    let event = HookEvent::PermissionDecision;
    let mut stopped = Ok(());
    for hook in services.hooks.hearing(event, &declaration.tool_id, &declaration.namespace) {
        let mut call = hooks::call(journey, tool, event, input.to_value());
        call.decision = journey.decisions.last().cloned();
        match hooks::run(journey, hook, call).await {
            // All of them hear of a decision, also when one of them ends the call.
            Err(refusal) => stopped = stopped.and(Err(refusal)),
            Ok(outputs) => {
                for output in outputs {
                    if let HookOutput::Stop { reason } = output {
                        stopped = stopped.and(Err(hooks::stopped(hook, &reason)));
                    }
                }
            }
        }
    }
    stopped
}

/// What the tool gets must satisfy its contract also after hooks changed it (AT-IN-02).
fn check_call_input(journey: &Journey<'_>, tool: &Tool, input: &Input) -> Result<(), Refusal> {
    let contract = tool.contract();
    if input.is(&journey.request.input) && !contract.has_runtime_schema() {
        return Ok(());
    }
    let value = input.value().map_err(Refusal::host_fault)?;
    contract.check_call_input(value).map_err(|mismatch| {
        let message = "the input, as it was changed on its way, does not satisfy the tool's schema";
        let class =
            if journey.mutations.is_empty() { ErrorClass::SchemaValidationFailed } else { ErrorClass::HookBlocked };
        let refusal = Refusal::new(class, "call_input_mismatch", message);
        if contract.has_internal_fields() {
            // Where it is wrong may name a field that no model sees.
            return refusal.detail(mismatch);
        }
        Refusal { message: format!("{message}: {mismatch}"), ..refusal }
    })
}
