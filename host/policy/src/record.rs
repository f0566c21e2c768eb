//! The record of a decision.

use serde_json::json;

use toolcell_spec::{
    Behavior, DecisionId, Extra, PermissionDecision, Reason, ReasonType, RuleSource, SchemaVersion,
    Timestamp,
};

use super::decide::{CallAssessment, Ruling};
use super::{DecisionCase, facts, unused};

pub(super) fn record(
    case: &DecisionCase<'_>,
    assessed: &CallAssessment,
) -> Box<PermissionDecision> {
    let ruling = &assessed.ruling;
    let decided_at = Timestamp::now();
    let mut extra = facts::recorded(case, &assessed.world);
    let notes = unused::notes(case, ruling, &assessed.world);
    if !notes.is_empty() {
        extra.insert("notes".to_owned(), json!(notes));
    }
    if ruling.behavior == Behavior::Ask {
        extra.insert("effective_risk".to_owned(), json!(assessed.risk));
    }
    let mut decision = Box::new(PermissionDecision {
        schema_version: SchemaVersion::default(),
        decision_id: DecisionId::at(decided_at),
        invocation_id: case.subject.invocation_id,
        behavior: ruling.behavior,
        mode: case.policy.mode,
        source: Some(ruling.source.unwrap_or(RuleSource::PolicySettings)),
        reason: reason(ruling),
        rule_refs: ruling.rule_refs.clone(),
        policy_refs: policy_refs(case, ruling),
        updated_input: None,
        updated_input_ref: None,
        user_modified: false,
        suggested_updates: Vec::new(),
        pending_classifier_check: facts::classifier_check(case),
        blocked_path: ruling.blocked_path.clone(),
        content_blocks: Vec::new(),
        accept_feedback: None,
        decided_at,
        expires_at: None,
        extra,
    });
    if ruling.behavior != Behavior::Deny {
        let applied = case.declared.profile.applied_sandbox();
        decision.name_sandbox(applied, assessed.world.reference());
    }
    decision
}

fn reason(ruling: &Ruling) -> Reason {
    let mut reason = Reason {
        kind: ruling.kind,
        message: ruling.message.clone(),
        extra: Extra::new(),
    };
    if ruling.kind == ReasonType::Rule
        && let Some(rule) = ruling.rule_refs.first()
    {
        reason.note("rule_ref", rule.as_str());
    }
    if let Some(rule) = &ruling.waiver_ref {
        reason.note("waiver_ref", rule.as_str());
    }
    reason
}

/// All that decided, by name (AT-DEC-08).
fn policy_refs(case: &DecisionCase<'_>, ruling: &Ruling) -> Vec<String> {
    let mut refs = ruling.rule_refs.clone();
    match (ruling.kind, case.opinion) {
        (ReasonType::Mode, _) => refs.push(format!("mode:{}", case.policy.mode.as_str())),
        (ReasonType::Hook, Some(opinion)) => refs.push(format!("hook:{}", opinion.hook_id)),
        _ => {}
    }
    refs.push(format!(
        "permission_profile:{}",
        case.declared.profile.permission_profile_id
    ));
    refs
}
