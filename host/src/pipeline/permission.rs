//! Phase 7: permission_denied, credential_missing, capability_gap, schema_validation_failed.

use std::sync::Arc;

use serde_json::json;

use crate::catalog::Tool;
use crate::policy::{self, Case, Declared, Outcome, Permit, Question, Subject};
use crate::record::{ErrorClass, EventType, Refusal, Status};

use super::journey::{Journey, Prepared};

pub(super) struct Permitted {
    pub(super) tool: Arc<Tool>,
    pub(super) permit: Permit,
}

/// Decides on exactly the input that will run, and records the decision whatever it is.
pub(super) async fn decide(journey: &mut Journey<'_>, prepared: Prepared) -> Result<Permitted, Refusal> {
    let Prepared { tool, input } = prepared;
    check_call_input(journey, &tool, &input)?;
    let (shown, reference) = (journey.shown(&input), journey.reference(&input));
    journey.invocation.permission_input = Some(shown.clone());
    journey.invocation.permission_input_ref = Some(reference.clone());
    // Nobody decides on a call that could not run.
    journey.redaction.check_secrets()?;
    let subject = Subject {
        invocation_id: journey.invocation.invocation_id,
        component: Arc::clone(tool.component()),
        tool: Arc::clone(tool.name()),
        attempt: 1,
    };
    let limits = journey.request.limits.clone().with_timeout_ms(tool.timeout_ms());
    let declaration = tool.declaration();
    let verdict = policy::decide(Case {
        subject,
        input: input.clone(),
        limits,
        declared: Declared {
            tool_id: &declaration.tool_id,
            namespace: &declaration.namespace,
            name: &declaration.name,
            profile: tool.permission_profile(),
        },
        grants: &journey.request.grants,
        policy: &journey.request.policy,
    });
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
    let permit = match verdict.outcome {
        Outcome::Allow(permit) => permit,
        Outcome::Ask(question) => return Err(nobody_to_ask(&question)),
        Outcome::Deny(refusal) => return Err(refusal),
    };
    journey.advance(Status::Approved)?;
    journey.invocation.call_input = Some(shown);
    journey.invocation.call_input_ref = Some(reference);
    Ok(Permitted { tool, permit })
}

fn nobody_to_ask(question: &Question) -> Refusal {
    let brief = question.brief();
    let message = format!("{} needs an approval ({}), and there is nobody to ask", brief.tool_id, brief.reason);
    Refusal::new(ErrorClass::PermissionDenied, "nobody_to_ask", message)
}

/// What the tool gets must satisfy its contract also after hooks changed it (AT-IN-02).
fn check_call_input(journey: &Journey<'_>, tool: &Tool, input: &crate::record::Input) -> Result<(), Refusal> {
    let contract = tool.contract();
    if input.is(&journey.request.input) && !contract.has_runtime_schema() {
        return Ok(());
    }
    let value = input.value().map_err(Refusal::host_fault)?;
    let checked = if contract.has_runtime_schema() {
        contract.check_call_input(value)
    } else {
        contract.check_model_input(value)
    };
    checked.map_err(|mismatch| {
        let message =
            format!("the input, as it was changed on its way, does not satisfy the tool's schema: {mismatch}");
        let class =
            if journey.mutations.is_empty() { ErrorClass::SchemaValidationFailed } else { ErrorClass::HookBlocked };
        Refusal::new(class, "call_input_mismatch", message)
    })
}
