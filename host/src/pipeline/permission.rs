//! Phase 7: permission_denied, capability_gap, schema_validation_failed.

use std::sync::Arc;

use serde_json::json;

use crate::catalog::Tool;
use crate::executor::Check;
use crate::policy::{self, Case, Declared, Explanation, Outcome, Permit, Subject, Verdict};
use crate::record::{ErrorClass, EventType, Input, PermissionDecision, Refusal, SafetyFacts, Status};

use super::approval;
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
    let Verdict { decision, outcome } = verdict(journey, &tool, &input).await;
    let permit = match outcome {
        Outcome::Ask(question) => return approval::ask(journey, tool, decision, question).await,
        Outcome::Allow(permit) => {
            record(journey, decision);
            permit
        }
        Outcome::Deny(refusal) => {
            record(journey, decision);
            return Err(refusal);
        }
    };
    journey.advance(Status::Approved)?;
    Ok(admit(journey, tool, permit))
}

/// Puts a decision on record.
pub(super) fn record(journey: &mut Journey<'_>, decision: PermissionDecision) {
    let summary = json!({
        "decision_id": decision.decision_id,
        "behavior": decision.behavior,
        "source": decision.source,
        "rule_refs": decision.rule_refs,
    });
    journey.trail.emit(EventType::PermissionDecided, summary);
    journey.invocation.permission_decision_refs.push(decision.decision_id);
    journey.decisions.push(decision);
}

/// The call goes on with what `permit` carries.
pub(super) fn admit(journey: &mut Journey<'_>, tool: Arc<Tool>, permit: Permit) -> Permitted {
    let input = permit.call_input();
    journey.invocation.call_input = Some(input.to_value());
    journey.invocation.call_input_ref = Some(input.reference().to_owned());
    Permitted { tool, permit }
}

/// What policy says of `input`, under the grants and rules of the request.
pub(super) async fn verdict(journey: &Journey<'_>, tool: &Tool, input: &Input) -> Verdict {
    let classified = classify(journey, tool, input).await;
    policy::decide(case(journey, tool, input, classified))
}

/// Why policy would say what it would say, without a permit at its end.
pub(super) async fn explain(journey: &Journey<'_>, prepared: &Prepared) -> Result<Explanation, Refusal> {
    let Prepared { tool, input } = prepared;
    check_call_input(journey, tool, input)?;
    let classified = classify(journey, tool, input).await;
    Ok(policy::explain(&case(journey, tool, input, classified)))
}

fn case<'a>(journey: &'a Journey<'_>, tool: &'a Tool, input: &Input, classified: Option<SafetyFacts>) -> Case<'a> {
    Case {
        subject: Subject {
            invocation_id: journey.invocation.invocation_id,
            component: Arc::clone(tool.component()),
            tool: Arc::clone(tool.name()),
            attempt: 1,
        },
        input: input.clone(),
        limits: journey.request.limits.clone().with_timeout_ms(tool.timeout_ms()),
        declared: declared(tool),
        classified,
        grants: &journey.request.grants,
        policy: &journey.request.policy,
        protected: &journey.services.protected,
    }
}

fn declared(tool: &Tool) -> Declared<'_> {
    let declaration = tool.declaration();
    Declared {
        tool_id: &declaration.tool_id,
        namespace: &declaration.namespace,
        name: &declaration.name,
        profile: tool.permission_profile(),
        facts: tool.facts(),
        subjects: tool.subjects(),
    }
}

/// What the tool says of this one input, if it can: it narrows the call, and widens nothing.
async fn classify(journey: &Journey<'_>, tool: &Tool, input: &Input) -> Option<SafetyFacts> {
    if !tool.classifies() {
        return None;
    }
    let limits = journey.request.limits.for_checks();
    let check = Check {
        component: tool.component(),
        tool: tool.name(),
        input: input.text(),
        limits: &limits,
        cancellation: &journey.request.cancellation,
    };
    journey.services.executor.classify(check).await
}

/// What the tool gets must satisfy its contract also after hooks changed it (AT-IN-02).
fn check_call_input(journey: &Journey<'_>, tool: &Tool, input: &Input) -> Result<(), Refusal> {
    if input.is(&journey.request.input) && !tool.contract().has_runtime_schema() {
        return Ok(());
    }
    input.value().map_err(Refusal::host_fault)?;
    mismatch(tool, input).map_err(|mismatch| {
        let message =
            format!("the input, as it was changed on its way, does not satisfy the tool's schema: {mismatch}");
        let class =
            if journey.mutations.is_empty() { ErrorClass::SchemaValidationFailed } else { ErrorClass::HookBlocked };
        Refusal::new(class, "call_input_mismatch", message)
    })
}

/// Why `input` is none that the tool can be called with, if it is not.
pub(super) fn mismatch(tool: &Tool, input: &Input) -> Result<(), String> {
    let (contract, value) = (tool.contract(), input.value()?);
    if contract.has_runtime_schema() { contract.check_call_input(value) } else { contract.check_model_input(value) }
}
