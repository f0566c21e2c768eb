//! Context modifiers: who may make some, which calls run beside each other, and when a batch hands them out. They leave
//! the host only in a call's result (AT-PIPE-13).

use serde::Deserialize;
use serde_json::{Value, json};

use crate::catalog::Tool;
use crate::scheduler::ResourceClaim;
use crate::scheduler::batch::{BatchPolicy, YieldPolicy};
use toolcell_policy::EFFECTIVE_FACTS;
use toolcell_spec::{
    CallRecord, ContextModifier, ContextModifierPolicy, PermissionDecision, ToolInvocation,
};

use super::Request;
use super::call_state::CallState;

/// Holds the scheduler's facts of a call (AT-INV-29).
const SCHEDULER: &str = "scheduler";

const BY_TOOL: &str =
    "cannot change the context: the interface of the tool declares context_modifier_policy forbid";
const BY_BATCH: &str =
    "cannot change the context: the context_modifier_policy of this batch is forbid";
const WITHHELD: &str =
    "cannot change the context: the result of this call may not hold what the tool says";

/// `None` if the guest may make context modifiers; one without the import never asks.
pub(super) fn barred(journey: &CallState<'_>, tool: &Tool) -> Option<&'static str> {
    if !tool.modifies_context() {
        return Some(BY_TOOL);
    }
    if policy(&journey.request, tool) == Some(ContextModifierPolicy::Forbid) {
        return Some(BY_BATCH);
    }
    let keeping = journey.keeping();
    (!keeping.output || !keeping.inline).then_some(WITHHELD)
}

/// Notes how the scheduler takes the call (AT-INV-29), also for another process, and a batch's policy (AT-INV-23).
pub(super) fn note(journey: &mut CallState<'_>, tool: &Tool) {
    let policy = policy(&journey.request, tool);
    let effects = tool.effects();
    let facts = json!({
        // What the component says of one input can only be stricter.
        "is_concurrency_safe": tool.facts().is_concurrency_safe == Some(true),
        "is_read_only": effects.is_read_only,
        "is_destructive": effects.is_destructive,
        "is_open_world": effects.is_open_world,
        "requires_exclusive_context": tool.locks().needs_context(),
        "context_modifier_policy": policy,
        "resource_locks": tool.interface().map_or(&[][..], |interface| &interface.resource_locks),
    });
    journey.invocation.note(SCHEDULER, facts);
    if let Some(record) = journey.request.scheduler_policy.as_deref() {
        let invocation = &mut journey.invocation;
        invocation.note(
            "scheduler_policy_ref",
            record["scheduler_policy_id"].clone(),
        );
        invocation.note("scheduler_policy", record.clone());
    }
}

/// Applies the decision's facts about this input, so that a record is consistent (AT-N-03).
pub(super) fn decided(journey: &mut CallState<'_>, decision: &PermissionDecision) {
    let noted = journey
        .invocation
        .extra
        .get_mut(SCHEDULER)
        .and_then(Value::as_object_mut);
    let facts = decision
        .extra
        .get(EFFECTIVE_FACTS)
        .and_then(Value::as_object);
    if let (Some(noted), Some(facts)) = (noted, facts) {
        noted.extend(facts.clone());
    }
}

pub(super) fn noted(invocation: &ToolInvocation) -> Option<ContextModifierPolicy> {
    let policy = invocation
        .extra
        .get(SCHEDULER)?
        .get("context_modifier_policy")?;
    ContextModifierPolicy::deserialize(policy).ok()
}

/// The stricter of the batch's and the tool's; `None` outside of a batch.
fn policy(request: &Request, tool: &Tool) -> Option<ContextModifierPolicy> {
    let of_batch = request.context_modifier_policy?;
    Some(
        tool.context_modifier_policy()
            .map_or(of_batch, |of_tool| of_tool.max(of_batch)),
    )
}

/// Keeps a batch call that can change its caller's context apart from others, if the batch or tool says so.
pub(super) fn claim(journey: &CallState<'_>, tool: &Tool, claim: ResourceClaim) -> ResourceClaim {
    let (Some(of_batch), true) = (
        journey.request.context_modifier_policy,
        tool.modifies_context(),
    ) else {
        return claim;
    };
    if of_batch == ContextModifierPolicy::Forbid {
        return claim;
    }
    let serial = ContextModifierPolicy::AllowSerialOnly;
    claim.in_context(of_batch == serial || tool.context_modifier_policy() == Some(serial))
}

pub(super) fn take_deferred(record: &mut CallRecord, policy: &BatchPolicy) -> Vec<ContextModifier> {
    // Results that come in any order would change the context in any order.
    let is_deferred = policy.yields == YieldPolicy::UnorderedStreaming
        || noted(&record.invocation) == Some(ContextModifierPolicy::DeferUntilBatchComplete);
    if is_deferred {
        std::mem::take(&mut record.result.context_modifiers)
    } else {
        Vec::new()
    }
}
