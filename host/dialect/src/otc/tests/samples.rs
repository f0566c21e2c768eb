//! A tool and a call for the tests of this dialect and, by inclusion, of its server.

use serde_json::{Value, json};
use toolcell_engine::catalog::RecordSchema;
use toolcell_spec::{
    CallRecord, ErrorClass, ErrorCode, PermissionProfile, Refusal, ResultMappings, ToolDeclaration,
    ToolInvocation, ToolResult,
};

use super::{ListedTool, OtcMode};

pub(crate) const COMPONENT: &str = "sha256:00";
pub(crate) const SECRET: &str = "API_KEY";
pub(crate) const TOKEN: &str = "GITHUB";

/// The tool `issues.find`, which takes a secret and a token.
pub(crate) struct Sample {
    pub(crate) declaration: ToolDeclaration,
    pub(crate) permission: PermissionProfile,
    pub(crate) input: Value,
    pub(crate) output: Option<Value>,
}

impl Sample {
    pub(crate) fn new() -> Self {
        let declaration = json!({
            "schema_version": "0.2.0", "tool_id": "issues.find", "namespace": "issues", "name": "find",
            "title": "Find issues", "description": "Finds\u{200b} issues.", "lifecycle": "available",
            "tool_kind": "function", "input_contract": { "sensitive_fields": ["/pin"] },
        });
        let permission = json!({
            "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low",
            "credential_refs": [SECRET, TOKEN],
            "credential_uses": [{ "ref": TOKEN, "authorization": {
                "provider_id": "github", "provider_type": "oauth2", "oauth2": { "scopes": ["repo"] }, "more": 1,
            } }],
        });
        let input = json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "What to find." },
                "labels": { "type": "array", "items": { "type": "string" } },
                "range": { "type": "object", "properties": { "from": { "type": "integer" } }, "required": ["from"] },
                "pin": { "type": "string" },
            },
            "required": ["query"], "additionalProperties": false,
        });
        Self {
            declaration: serde_json::from_value(declaration).unwrap(),
            permission: serde_json::from_value(permission).unwrap(),
            input,
            output: Some(json!({ "type": "array", "items": { "type": "string" } })),
        }
    }

    pub(crate) fn listed(&self) -> ListedTool<'_> {
        ListedTool {
            name: "find",
            title: self.declaration.title.as_deref(),
            description: &self.declaration.description,
            declaration: &self.declaration,
            interface: None,
            permission: &self.permission,
            note: "",
            input_schema: &self.input,
            output_schema: self.output.as_ref(),
            component: COMPONENT,
            strict_schemas: true,
        }
    }
}

/// A call of 1.5 s, whose host knows more of its error than it says.
pub(crate) fn invocation() -> ToolInvocation {
    serde_json::from_value(json!({
        "schema_version": "0.2.0", "invocation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "tool_id": "issues.find",
        "status": "succeeded", "model_input": {}, "model_input_ref": "sha256:00", "status_transitions": [],
        "created_at": "2026-01-01T00:00:00Z", "started_at": "2026-01-01T00:00:01Z",
        "ended_at": "2026-01-01T00:00:02.5Z", "error_detail": "trap at /home/anna/tool.wasm",
    }))
    .unwrap()
}

pub(crate) fn result(change: Value) -> ToolResult {
    let mut whole = json!({
        "schema_version": "0.2.0", "result_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "invocation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "status": "succeeded", "is_error": false, "content": [],
        "model_facing_content": [{ "type": "text", "text": "done" }], "redaction_state": "none",
        "provenance": { "trust": "untrusted", "written_by": "tool" }, "created_at": "2026-01-01T00:00:00Z",
    });
    whole
        .as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

pub(crate) fn failed(class: ErrorClass) -> Value {
    let mut error = Refusal::new(ErrorCode::TooManyCalls, "the message")
        .with_class(class)
        .native("the trap")
        .to_error();
    error.retry_after = (class == ErrorClass::RateLimited).then_some(0.0015);
    let content = json!([{ "type": "text", "text": "the message" }]);
    json!({ "is_error": true, "error": error, "model_facing_content": content })
}

pub(crate) fn record(change: Value) -> CallRecord {
    CallRecord {
        declaration: None,
        invocation: invocation(),
        decisions: Vec::new(),
        hooks: Vec::new(),
        progress: Vec::new(),
        result_mappings: ResultMappings::default(),
        persistence: Vec::new(),
        result: result(change),
        events: Vec::new(),
    }
}

#[track_caller]
pub(crate) fn check(what: &str, mode: OtcMode, value: &Value) {
    let text = match (what, mode) {
        ("definition", OtcMode::Arcade) => {
            include_str!("../../../../../schemas/otc/arcade-tool-definition.schema.json")
        }
        ("definition", _) => include_str!("../../../../../schemas/otc/tool-definition.schema.json"),
        ("authorization", _) => {
            include_str!("../../../../../schemas/otc/authorization.schema.json")
        }
        ("registration", _) => include_str!("../../../../../schemas/otc/registration.schema.json"),
        ("health", _) => include_str!("../../../../../schemas/otc/worker-health.schema.json"),
        ("request", _) => {
            include_str!("../../../../../schemas/otc/execute-tool-request.schema.json")
        }
        ("response", OtcMode::Arcade) => {
            include_str!("../../../../../schemas/otc/arcade-tool-call-response.schema.json")
        }
        ("response", _) => {
            include_str!("../../../../../schemas/otc/execute-tool-response.schema.json")
        }
        _ => panic!("there is no schema of a {what}"),
    };
    let schema = RecordSchema::compile(&serde_json::from_str(text).unwrap(), &[]).unwrap();
    let found = schema.violations(value, 10);
    assert!(found.is_empty(), "{mode:?} {what}: {found:#?}\n{value:#}");
}
