//! Final references of a call: decisions, evidence, span.

use serde_json::Value;

use crate::catalog::Tool;
use toolcell_journal::Keep;
use toolcell_spec::{Behavior, ErrorClass, ErrorCode, ToolResult, TraceContext};

use super::call_state::CallState;
use super::map_result::MappedResult;

const MCP: &str = "mcp";
/// The sandbox enforced what was granted and denied.
const BOUNDS: [ErrorCode; 2] = [ErrorCode::NetworkDenied, ErrorCode::NamesNotChecked];
/// No guest can claim these.
const DECIDED: [ErrorClass; 4] = [
    ErrorClass::PermissionDenied,
    ErrorClass::PolicyBlocked,
    ErrorClass::ApprovalRejected,
    ErrorClass::HookBlocked,
];
const STRUCTURED: &str = "#/result/structured_content";

/// For an invocation that ended with `mapped` (AT-INV-17, AT-INV-20, AT-INV-21).
pub(super) fn of_invocation(journey: &mut CallState<'_>, mapped: &MappedResult) {
    let is_error = mapped.error.is_some();
    // The output itself is in the record once (AT-MAP-01).
    let structured = mapped.structured_content.as_ref().map(|_| STRUCTURED);
    journey.invocation.complete_mapping(
        MCP,
        [
            ("isError", Value::from(is_error)),
            ("structuredContent", Value::from(structured)),
        ],
    );
    of_policies(journey);
    if let Some(error) = &mapped.error {
        merge(&mut journey.invocation.policy_refs, &error.policy_refs);
    }
    // A reference to what is not kept would prove nothing.
    let is_kept = match journey.services.calls.settings().keep {
        Keep::All => true,
        Keep::Failures => is_error,
        Keep::None => false,
    };
    journey.invocation.evidence_refs = if is_kept {
        vec![journey.invocation.evidence_ref()]
    } else {
        Vec::new()
    };
    let size = journey
        .persistence
        .first()
        .map_or(0, |decision| decision.original_size_bytes);
    let found = journey.tool.as_deref().map(Tool::declaration);
    TraceContext::complete(&mut journey.invocation, found.map(|found| &**found), size);
}

/// Names the policies of all decisions so far, also before the tool runs: its process can be killed.
pub(super) fn of_policies(journey: &mut CallState<'_>) {
    for decision in &journey.decisions {
        merge(&mut journey.invocation.policy_refs, &decision.policy_refs);
    }
}

fn merge(policies: &mut Vec<String>, more: &[String]) {
    for policy in more {
        if !policies.contains(policy) {
            policies.push(policy.clone());
        }
    }
}

/// For the result and its error, from the invocation (AT-RES-12..14, AT-ERR-07, AT-ERR-08).
pub(super) fn of_result(journey: &CallState<'_>, result: &mut ToolResult) {
    let invocation = &journey.invocation;
    result.policy_refs.clone_from(&invocation.policy_refs);
    result.telemetry_refs = TraceContext::references(invocation);
    result.evidence_refs.clone_from(&invocation.evidence_refs);
    let stored = result.resource_refs.iter().chain(&result.artifact_refs);
    let uris =
        stored.filter_map(|stored| stored.get("uri").and_then(Value::as_str).map(str::to_owned));
    result.evidence_refs.extend(uris);
    let Some(error) = &mut result.error else {
        return;
    };
    error.evidence_refs.clone_from(&invocation.evidence_refs);
    // The decision that allowed the call says also what its requests may reach, and a question why it is asked.
    let is_bounded = BOUNDS.iter().any(|code| error.error_code == *code);
    let is_decided = is_bounded || DECIDED.contains(&error.error_class);
    let last = journey
        .decisions
        .last()
        .filter(|decision| decision.behavior == Behavior::Deny || is_decided);
    if let Some(decided) = last.filter(|_| error.policy_refs.is_empty()) {
        error.policy_refs.clone_from(&decided.policy_refs);
        let decision = |call: &String| format!("{call}#decision/{}", decided.decision_id);
        error
            .evidence_refs
            .extend(invocation.evidence_refs.iter().map(decision));
    }
}
