use serde_json::{Value, json};

use crate::Finding;
use crate::dialect::agent_tool::{LoadedToolkit, toolkit};

use super::super::findings::Findings;
use super::{FIELDS, SUBJECTS, derive, placed};

/// A tool that takes `p`, `u` and `list`, with further fields `more`.
fn one(more: Value) -> Value {
    let mut tool = json!({
        "name": "t",
        "description": "Does it.",
        "input": {
            "type": "object",
            "properties": {
                "p": { "type": "string" },
                "u": { "type": "string" },
                "list": { "type": "array", "items": { "type": "string" } },
                "a/b": { "type": "string" },
            },
        },
    });
    for (field, value) in more.as_object().unwrap() {
        tool[field] = value.clone();
    }
    json!({ "namespace": "n", "tools": [tool] })
}

#[track_caller]
fn accepted(short: &Value) -> Value {
    let of = |text: &Value| match toolkit(&text.to_string()) {
        Ok(LoadedToolkit { toolkit, notes, .. }) => {
            assert!(notes.is_empty(), "{text}: {notes:?}");
            serde_json::to_value(toolkit).unwrap()
        }
        Err(errors) => panic!("{text}: {errors:#?}"),
    };
    let mut findings = Findings::default();
    let full = derive(short, &mut findings).unwrap();
    assert!(!findings.has_errors());
    let records = of(short);
    assert_eq!(of(&full), records);
    records
}

#[track_caller]
fn refused(short: &Value) -> Vec<String> {
    let errors = toolkit(&short.to_string())
        .err()
        .unwrap_or_else(|| panic!("{short} was accepted"));
    errors
        .iter()
        .map(|error| format!("{}: {}", error.path, error.message))
        .collect()
}

#[test]
fn a_tool_that_says_nothing_of_access_gets_none_and_is_read_only() {
    let short = one(json!({ "output": { "type": "string" } }));
    let input = short["tools"][0]["input"].clone();
    assert_eq!(
        accepted(&short),
        json!({
            "declarations": [{
                "schema_version": "0.2.0", "tool_id": "n.t", "namespace": "n", "name": "t", "description": "Does it.",
                "aliases": [], "capability_refs": [], "lifecycle": "available", "tool_kind": "function",
                "input_contract": { "model_input_schema": input, "strict": true },
                "output_contract": { "structured_schema": { "type": "string" } },
                "interface_ref": "n.t.interface", "execution_profile_ref": "n.t.execution",
                "permission_profile_ref": "n.t.permission",
            }],
            "interfaces": [{
                "schema_version": "0.2.0", "interface_id": "n.t.interface", "tool_id": "n.t", "is_read_only": true,
                "is_concurrency_safe": true, "is_destructive": false, "is_open_world": false,
            }],
            "execution_profiles": [{
                "schema_version": "0.2.0", "execution_profile_id": "n.t.execution",
                "execution_kind": "embedded_runtime",
            }],
            "permission_profiles": [{
                "schema_version": "0.2.0", "permission_profile_id": "n.t.permission", "risk_level": "low",
                "access_kinds": [], "write_effects": ["none"], "network_scope": "none",
            }],
        })
    );
}

/// Claims of a tool; read only and concurrency safe; destructive, open world and kind; risk, access kinds, effects and
/// scope.
type Derived = (
    Value,
    [bool; 2],
    (Value, bool, &'static str),
    &'static str,
    Value,
    Value,
    &'static str,
);

#[track_caller]
fn derives<const N: usize>(rows: [Derived; N]) {
    for (more, [reads, runs], (destroys, open, kind), risk, access, effects, scope) in rows {
        let records = accepted(&one(more.clone()));
        let interface = &records["interfaces"][0];
        let profile = &records["permission_profiles"][0];
        assert_eq!(
            [
                &interface["is_read_only"],
                &interface["is_concurrency_safe"]
            ],
            [reads, runs],
            "{more}"
        );
        assert_eq!(
            (&interface["is_destructive"], &interface["is_open_world"]),
            (&destroys, &json!(open)),
            "{more}"
        );
        assert_eq!(records["declarations"][0]["tool_kind"], kind, "{more}");
        assert_eq!(
            (&profile["risk_level"], &profile["access_kinds"]),
            (&json!(risk), &access),
            "{more}"
        );
        assert_eq!(
            (&profile["write_effects"], &profile["network_scope"]),
            (&effects, &json!(scope)),
            "{more}"
        );
    }
}

#[test]
fn what_a_tool_wants_of_this_machine_decides_what_is_derived() {
    derives([
        (
            json!({}),
            [true, true],
            (json!(false), false, "function"),
            "low",
            json!([]),
            json!(["none"]),
            "none",
        ),
        (
            json!({ "access": ["file_read"], "paths": ["p"] }),
            [true, true],
            (json!(false), false, "file_operation"),
            "low",
            json!(["file_read"]),
            json!(["none"]),
            "none",
        ),
        (
            json!({ "access": ["file_read", "file_write"] }),
            [false, false],
            (Value::Null, false, "file_operation"),
            "medium",
            json!(["file_read", "file_write"]),
            json!(["local_persistent"]),
            "none",
        ),
        (
            json!({ "access": ["file_write"], "write_effects": ["local_draft"], "is_destructive": false }),
            [false, false],
            (json!(false), false, "file_operation"),
            "medium",
            json!(["file_write"]),
            json!(["local_draft"]),
            "none",
        ),
        (
            json!({ "access": ["code_execution"], "tool_kind": "code_execution" }),
            [false, false],
            (Value::Null, false, "code_execution"),
            "high",
            json!(["code_execution"]),
            json!(["none"]),
            "none",
        ),
        (
            json!({ "is_read_only": false }),
            [false, false],
            (Value::Null, false, "function"),
            "low",
            json!([]),
            json!(["none"]),
            "none",
        ),
    ]);
}

#[test]
fn what_a_tool_wants_of_the_network_decides_what_is_derived() {
    derives([
        (
            json!({ "access": ["network"], "urls": ["u"] }),
            [true, true],
            (json!(false), true, "function"),
            "low",
            json!(["network"]),
            json!(["none"]),
            "argument",
        ),
        (
            json!({ "access": ["network"], "network_scope": "api.example.com", "credential_refs": ["API_KEY"] }),
            [true, true],
            (json!(false), true, "function"),
            "medium",
            json!(["network", "credential"]),
            json!(["none"]),
            "api.example.com",
        ),
        (
            json!({ "access": ["network"], "network_scope": "any", "write_effects": ["remote_mutation"] }),
            [false, false],
            (Value::Null, true, "function"),
            "medium",
            json!(["network"]),
            json!(["remote_mutation"]),
            "any",
        ),
        (
            json!({ "access": ["network"], "urls": ["u"], "write_effects": ["irreversible"] }),
            [false, false],
            (Value::Null, true, "function"),
            "high",
            json!(["network"]),
            json!(["irreversible"]),
            "argument",
        ),
    ]);
}

#[test]
fn arguments_are_named_by_name_or_by_pointer() {
    let more = json!({
        "access": ["file_read", "network"], "paths": ["p", "/list/*", "a/b"], "urls": ["/u"], "resources": ["/list"],
    });
    let subjects = json!({ "/p": "path", "/list/*": "path", "/a~1b": "path", "/u": "url", "/list": "resource" });
    assert_eq!(
        accepted(&one(more))["interfaces"][0]["permission_subjects"],
        subjects
    );
}

#[test]
fn fields_of_the_records_keep_their_names_and_values() {
    let more = json!({
        "title": "T", "aliases": ["other"], "search_hint": "does one thing", "examples": [{ "p": "x" }], "defaults": { "p": "d" },
        "output": { "type": "object", "properties": { "x": {} } }, "sensitive_fields": ["u"], "content_types": ["text"], "redaction_rules": ["/x"], "timeout_ms": 7,
        "requires_background": true, "environment": ["LANG"], "tool_calls": ["files.*"], "risk_level": "high",
        "approval_required": true, "approval_reason": "why", "data_sensitivity": "internal",
    });
    let records = accepted(&one(more.clone()));
    let places: [(&str, Option<&str>, &[&str]); 6] = [
        ("declarations", None, &["title", "aliases", "search_hint"]),
        (
            "declarations",
            Some("input_contract"),
            &["examples", "defaults", "sensitive_fields"],
        ),
        (
            "declarations",
            Some("output_contract"),
            &["content_types", "redaction_rules"],
        ),
        ("interfaces", None, &["timeout_ms"]),
        ("execution_profiles", None, &["requires_background"]),
        (
            "permission_profiles",
            None,
            &[
                "environment",
                "tool_calls",
                "risk_level",
                "approval_required",
                "approval_reason",
                "data_sensitivity",
            ],
        ),
    ];
    for (record, part, fields) in places {
        let record = &records[record][0];
        let record = part.map_or(record, |part| &record[part]);
        for field in fields {
            assert_eq!(record[*field], more[*field], "{field}");
        }
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn what_is_wrong_is_named_where_its_author_wrote_it() {
    for (more, place, words) in [
        (
            json!({ "name": "a b" }),
            "/tools/0/name",
            "has characters other than",
        ),
        (json!({ "name": 7 }), "/tools/0/name", "invalid type"),
        (
            json!({ "description": " " }),
            "/tools/0/description",
            "is empty",
        ),
        (
            json!({ "aliases": ["t"] }),
            "/tools/0/aliases/0",
            "is the name of a tool",
        ),
        (
            json!({ "access": ["file_red"] }),
            "/tools/0/access/0",
            "file_read, file_write",
        ),
        (
            json!({ "access": "network" }),
            "/tools/0/access",
            "is not a list",
        ),
        (
            json!({ "write_effects": ["none", "local_draft"], "access": ["file_write"] }),
            "/tools/0/write_effects",
            "`none`",
        ),
        (
            json!({ "risk_level": "tiny" }),
            "/tools/0/risk_level",
            "low, medium",
        ),
        (
            json!({ "examples": {} }),
            "/tools/0/examples",
            "invalid type",
        ),
        (
            json!({ "content_types": ["txet"] }),
            "/tools/0/content_types/0",
            "resource_link",
        ),
        (
            json!({ "timeout_ms": "1s" }),
            "/tools/0/timeout_ms",
            "invalid type",
        ),
        (
            json!({ "is_read_only": "maybe" }),
            "/tools/0/is_read_only",
            "neither true nor false",
        ),
        (
            json!({ "requires_background": 1 }),
            "/tools/0/requires_background",
            "invalid type",
        ),
        (
            json!({ "paths": ["q"], "access": ["file_read"] }),
            "/tools/0/paths/0",
            "properties of input",
        ),
        (
            json!({ "paths": ["p", "/p"], "access": ["file_read"] }),
            "/tools/0/paths/1",
            "named before",
        ),
        (
            json!({ "paths": ["u"], "urls": ["u"], "access": ["file_read", "network"] }),
            "/tools/0/urls/0",
            "named before",
        ),
        (
            json!({ "paths": "p", "access": ["file_read"] }),
            "/tools/0/paths",
            "is not a list",
        ),
        (
            json!({ "resources": [7] }),
            "/tools/0/resources/0",
            "is not a text",
        ),
        (
            json!({ "input_schema": {} }),
            "/tools/0/input_schema",
            "the short form has input",
        ),
        (
            json!({ "path": ["p"] }),
            "/tools/0/path",
            "the short form has paths",
        ),
        (
            json!({ "lifecycle": "available" }),
            "/tools/0/lifecycle",
            "unknown field",
        ),
        (
            json!({ "schema_version": "0.2.0" }),
            "/tools/0/schema_version",
            "unknown field",
        ),
        (
            json!({ "paths": ["p"] }),
            "/tools/0/paths",
            "names neither file_read nor file_write",
        ),
        (
            json!({ "urls": ["u"] }),
            "/tools/0/urls",
            "does not name network",
        ),
        (
            json!({ "network_scope": "any" }),
            "/tools/0/network_scope",
            "does not name network",
        ),
        (
            json!({ "access": ["network"] }),
            "/tools/0/access",
            "neither urls nor network_scope",
        ),
        (
            json!({ "write_effects": ["local_draft"] }),
            "/tools/0/write_effects",
            "does not name file_write",
        ),
        (
            json!({ "write_effects": ["remote_mutation"] }),
            "/tools/0/write_effects",
            "reaches nothing",
        ),
        (
            json!({ "access": ["file_write"], "write_effects": ["none"] }),
            "/tools/0/access",
            "no effect on files",
        ),
        (
            json!({ "approval_reason": "why" }),
            "/tools/0/approval_reason",
            "approval_required is not true",
        ),
        (
            json!({ "access": ["network", "credential"], "urls": ["u"] }),
            "/tools/0/access",
            "credential_refs names no secret",
        ),
        (
            json!({ "access": ["network"], "urls": ["u"], "credential_refs": ["K"], "credential_uses": [{ "ref": "L" }] }),
            "/tools/0/credential_uses/0",
            "credential_refs does not",
        ),
    ] {
        let errors = refused(&one(more.clone()));
        assert_eq!(errors.len(), 1, "{more}: {errors:#?}");
        assert!(
            errors[0].starts_with(&format!("{place}: ")) && errors[0].contains(words),
            "{more}: {errors:#?}"
        );
    }
}

#[test]
fn what_is_wrong_with_the_toolkit_is_named_too() {
    let whole = one(json!({}));
    let tool = &whole["tools"][0];
    let table: [(Value, &[&str]); 11] = [
        (
            json!({ "tools": [tool] }),
            &[": the field namespace is missing"],
        ),
        (
            json!({ "namespace": 7, "tools": [tool] }),
            &["/namespace: is not a text"],
        ),
        (
            json!({ "namespace": "a b", "tools": [tool, 7] }),
            &["/tools/1: is not an object", "/namespace: the namespace"],
        ),
        (
            json!({ "namespace": "n", "tools": {} }),
            &["/tools: is not a list"],
        ),
        (
            json!({ "namespace": "n", "tools": [] }),
            &["/tools: the toolkit declares no tool"],
        ),
        (
            json!({ "namespace": "n", "tools": vec![tool; 257] }),
            &["/tools: the list has more than 256"],
        ),
        (
            json!({ "namespace": "n", "tools": [tool, tool] }),
            &["/tools/1/name: two tools are named"],
        ),
        (
            json!({ "namespace": "n", "tools": [tool], "declarations": [] }),
            &["/declarations: a toolkit has either"],
        ),
        (
            json!({ "namespace": "n", "tools": [tool], "interfaces": null }),
            &["/interfaces: a toolkit has either"],
        ),
        (
            json!({ "namespace": "n", "tools": [tool], "name_space": "m" }),
            &["/name_space: unknown field"],
        ),
        (
            json!({ "namespace": "n", "tools": [{}] }),
            &[
                "/tools/0: the field input",
                "/tools/0: the field name",
                "/tools/0: the field description",
            ],
        ),
    ];
    for (toolkit, expected) in table {
        let errors = refused(&toolkit);
        assert_eq!(errors.len(), expected.len(), "{errors:#?}");
        for start in expected {
            assert!(
                errors.iter().any(|error| error.starts_with(start)),
                "{start}: {errors:#?}"
            );
        }
    }
}

#[test]
fn all_errors_are_listed_at_once() {
    let mut toolkit =
        one(json!({ "paths": ["q"], "access": ["file_read", "netwrok"], "titel": "T" }));
    toolkit["tools"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "name": "u", "input": { "type": "object" } }));
    let errors = refused(&toolkit);
    let places: Vec<&str> = errors
        .iter()
        .map(|error| error.split(": ").next().unwrap())
        .collect();
    assert_eq!(
        places,
        [
            "/tools/0/titel",
            "/tools/0/paths/0",
            "/tools/1",
            "/tools/0/access/1"
        ],
        "{errors:#?}"
    );
}

#[test]
fn a_place_in_the_records_is_one_in_the_toolkit() {
    for (there, here) in [
        ("", ""),
        ("/elsewhere/0", "/elsewhere/0"),
        ("/declarations", "/tools"),
        ("/declarations/12", "/tools/12"),
        ("/declarations/1/name", "/tools/1/name"),
        ("/declarations/1/namespace", "/namespace"),
        ("/declarations/1/input_contract", "/tools/1"),
        (
            "/declarations/1/input_contract/model_input_schema/properties/a~1b",
            "/tools/1/input/properties/a~1b",
        ),
        (
            "/declarations/1/output_contract/content_types/3",
            "/tools/1/content_types/3",
        ),
        ("/interfaces/1/timeout_ms", "/tools/1/timeout_ms"),
        ("/interfaces/1/interface_id", "/tools/1"),
        ("/permission_profiles/1/access_kinds/0", "/tools/1/access/0"),
    ] {
        assert_eq!(
            placed(Finding::new(there, "m")),
            Some(Finding::new(here, "m")),
            "{there}"
        );
    }
    assert_eq!(placed(Finding::new("/declarations/1/tool_id", "m")), None);
}

fn schema() -> Value {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../schemas/toolkit-short.schema.json"
    );
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn the_shipped_schema_has_the_fields_that_are_read() {
    let schema = schema();
    let tool = schema["$defs"]["tool"]["properties"].as_object().unwrap();
    let mut shipped: Vec<&str> = tool.keys().map(String::as_str).collect();
    let mut read: Vec<&str> = FIELDS
        .iter()
        .map(|(name, ..)| *name)
        .chain(SUBJECTS.map(|(name, _)| name))
        .collect();
    shipped.sort_unstable();
    read.sort_unstable();
    assert_eq!(shipped, read);
}

#[test]
fn the_examples_of_the_shipped_schema_are_accepted() {
    let schema = schema();
    let examples = schema["examples"].as_array().unwrap();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let described =
            toolkit(&example.to_string()).unwrap_or_else(|errors| panic!("{errors:#?}"));
        assert_eq!(
            described.toolkit.declarations.len(),
            example["tools"].as_array().unwrap().len()
        );
        assert!(described.notes.is_empty(), "{:?}", described.notes);
    }
}
