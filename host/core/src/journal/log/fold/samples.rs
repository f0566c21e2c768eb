//! Records of plain calls.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::journal::of_no_call;
use crate::record::{
    Behavior, CallRecord, Content, DecisionId, EventType, Extra, Input, MeteredUsage, Mode,
    PermissionDecision, PersistenceId, Reason, ReasonType, ResultId, ResultMappings,
    ResultPersistence, ResultProvenance, ResultStatus, SchemaVersion, Status, Strategy, Timestamp,
    ToolEvent, ToolInvocation, ToolResult, Trust, Usage, Writer,
};

pub(super) const TEXT: &str = r#"{"text":"one two"}"#;
pub(super) const TO_RUNNING: [Status; 4] = [
    Status::Selected,
    Status::ArgumentsReady,
    Status::Approved,
    Status::Running,
];

/// Sets the three inputs that the host makes of the caller's.
pub(super) fn observe(invocation: &mut ToolInvocation, input: &Value, reference: &str) {
    let input = Arc::new(input.clone());
    invocation.observable_input = Some(Arc::clone(&input));
    invocation.permission_input = Some(Arc::clone(&input));
    invocation.call_input = Some(input);
    let reference: Option<Arc<str>> = Some(reference.into());
    invocation.observable_input_ref.clone_from(&reference);
    invocation.permission_input_ref.clone_from(&reference);
    invocation.call_input_ref = reference;
}

/// A call that went through `statuses`.
pub(super) fn after(statuses: &[Status]) -> ToolInvocation {
    let input = Input::from_text(TEXT);
    let mut invocation = ToolInvocation::planned("count.count", &input);
    invocation.tool_id = "count.count".to_owned();
    statuses
        .iter()
        .for_each(|status| invocation.advance(*status, None).unwrap());
    observe(&mut invocation, &input.to_value(), input.reference());
    invocation.session_ref = Some("run:01M82MPQY75EH229XYFT2YAAJM".into());
    invocation.runtime_refs = vec![format!("component:sha256:{}", "8f".repeat(32))];
    invocation.permission_decision_refs = vec![DecisionId::new()];
    invocation
}

pub(super) fn decision(invocation: &ToolInvocation, id: DecisionId) -> PermissionDecision {
    PermissionDecision {
        schema_version: SchemaVersion::default(),
        decision_id: id,
        invocation_id: invocation.invocation_id,
        behavior: Behavior::Allow,
        mode: Mode::Default,
        source: None,
        reason: Reason {
            kind: ReasonType::SafetyCheck,
            message: "the tool asks for no access".to_owned(),
            extra: Extra::new(),
        },
        rule_refs: Vec::new(),
        policy_refs: Vec::new(),
        updated_input: None,
        updated_input_ref: None,
        user_modified: false,
        suggested_updates: Vec::new(),
        pending_classifier_check: None,
        blocked_path: None,
        content_blocks: Vec::new(),
        accept_feedback: None,
        decided_at: Timestamp::now(),
        expires_at: None,
        extra: Extra::new(),
    }
}

fn stored(invocation: &ToolInvocation, result_id: ResultId) -> ResultPersistence {
    ResultPersistence {
        schema_version: SchemaVersion::default(),
        decision_id: PersistenceId::new(),
        invocation_id: invocation.invocation_id,
        result_id,
        strategy: Strategy::Inline,
        threshold: json!({ "inline_bytes_max": 65_536 }),
        original_size_bytes: 32,
        preview_size_bytes: 32,
        persisted_ref: None,
        redaction_state: "none".to_owned(),
        reason: "small enough to stay in the result".to_owned(),
        created_at: Timestamp::now(),
        extra: Extra::new(),
    }
}

pub(super) fn usage() -> Usage {
    let metered = |used, limit| MeteredUsage { used, limit };
    Usage {
        fuel: metered(15_690, 500_000_000_000),
        wall_ms: metered(0, 60_000),
        memory_bytes: metered(2_097_152, 268_435_456),
        table_elements: metered(109, 100_000),
        output_bytes: metered(34, 8_388_608),
        log_bytes: metered(7, 262_144),
        instances_limit: 64,
        handles_limit: 1_024,
        descriptors_limit: 256,
        files: None,
        network: None,
        artifacts: None,
        touched: None,
        stack_bytes_limit: 524_288,
    }
}

fn result(
    invocation: &ToolInvocation,
    result_id: ResultId,
    persistence: &ResultPersistence,
) -> ToolResult {
    ToolResult {
        schema_version: SchemaVersion::default(),
        result_id,
        invocation_id: invocation.invocation_id,
        status: ResultStatus::Succeeded,
        is_error: false,
        content: vec![Content::text("2 words")],
        structured_content: None,
        empty_result: false,
        model_facing_content: vec![Content::text("2 words")],
        ui_facing_summary: None,
        summary: None,
        resource_refs: Vec::new(),
        artifact_refs: Vec::new(),
        evidence_refs: vec![invocation.evidence_ref()],
        policy_refs: Vec::new(),
        telemetry_refs: Vec::new(),
        persistence_refs: vec![persistence.decision_id],
        redaction_state: "none".to_owned(),
        abort_reason: None,
        error: None,
        provenance: ResultProvenance {
            trust: Trust::Untrusted,
            written_by: Writer::Tool,
            tool_id: Some("count.count".to_owned()),
            component: Some(format!("sha256:{}", "8f".repeat(32))),
            hooks: Vec::new(),
        },
        input_mutations: Vec::new(),
        additional_context: Vec::new(),
        context_modifiers: Vec::new(),
        usage: Some(usage()),
        created_at: Timestamp::now(),
        extra: Extra::new(),
    }
}

pub(super) fn event(
    invocation: &ToolInvocation,
    of: EventType,
    tool: Option<&str>,
    data: Value,
) -> ToolEvent {
    let subject = Some(invocation.evidence_ref().into());
    ToolEvent {
        subject,
        invocation_id: Some(invocation.invocation_id),
        ..of_no_call(&"toolcell/0.1.0".into(), of, tool, data)
    }
}

/// The record of a call that succeeded after `statuses`.
pub(super) fn ended(statuses: &[Status]) -> CallRecord {
    let mut invocation = after(statuses);
    invocation.extra.insert("replay".to_owned(), json!({}));
    invocation.evidence_refs = vec![invocation.evidence_ref()];
    let result_id = ResultId::new();
    let persistence = stored(&invocation, result_id);
    let result = result(&invocation, result_id, &persistence);
    let decision_id = invocation.permission_decision_refs[0];
    let tool = Some("count.count");
    let limits = json!({
        "attempt": 1, "fuel_limit": 500_000_000_000_u64, "wall_ms_limit": 60_000, "memory_limit_bytes": 268_435_456,
    });
    let decided =
        json!({ "decision_id": decision_id, "behavior": "allow", "source": null, "rule_refs": [] });
    let end = json!({ "result_id": result_id, "status": "succeeded", "error_class": null, "error_code": null });
    let event = |of, tool, data| event(&invocation, of, tool, data);
    let events = vec![
        event(
            EventType::Planned,
            None,
            json!({ "requested": "count.count", "native_call_id": null }),
        ),
        event(
            EventType::Selected,
            tool,
            json!({ "via": "name", "deprecated": false }),
        ),
        event(
            EventType::ArgumentsReady,
            tool,
            json!({ "model_input_ref": invocation.model_input_ref }),
        ),
        event(EventType::PermissionDecided, tool, decided),
        event(EventType::Started, tool, limits),
        event(
            EventType::ResultCreated,
            tool,
            json!({ "result_id": result_id, "status": "succeeded" }),
        ),
        event(EventType::Succeeded, tool, end),
    ];
    CallRecord {
        declaration: None,
        decisions: vec![decision(&invocation, decision_id)],
        hooks: Vec::new(),
        progress: Vec::new(),
        result_mappings: ResultMappings {
            tool: 1,
            hooks: Vec::new(),
        },
        persistence: vec![persistence],
        result,
        events,
        invocation,
    }
}

pub(super) fn plain() -> CallRecord {
    ended(&[&TO_RUNNING[..], &[Status::Succeeded]].concat())
}
