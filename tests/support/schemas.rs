//! Promise: One result.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;
use toolcell_engine::catalog::RecordSchema;

use super::root;

/// Maximum number of violations in the message of a failed check.
const VIOLATIONS_MAX: usize = 20;

/// Validates a recorded call against the schemas of this repository, those of the specification, if they are available,
/// and the invariants of every call: one terminal status, legal transitions in order, only events of the call.
#[track_caller]
pub(crate) fn check_record(record: &Value) {
    check_invariants(record);
    check_own("call-record", record);
    if !record["declaration"].is_null() {
        check_specified("tool-declaration", &record["declaration"]);
    }
    check_specified("invocation", &record["invocation"]);
    if let Some(policy) = record["invocation"].get("scheduler_policy") {
        check_specified("scheduler-policy", policy);
    }
    check_specified("result", &record["result"]);
    for (list, name) in [
        ("decisions", "permission-decision"),
        ("hooks", "hook"),
        ("progress", "progress"),
        ("persistence", "result-persistence"),
        ("events", "event"),
    ] {
        record[list]
            .as_array()
            .unwrap()
            .iter()
            .for_each(|value| check_specified(name, value));
    }
    for mutation in record["result"]["input_mutations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        check_specified("input-mutation", mutation);
    }
}

/// Validates one document against this repository's schema of that name, and the specification's, if it is available.
#[track_caller]
pub(crate) fn check_one(name: &str, value: &Value) {
    check_own(name, value);
    check_specified(name, value);
}

/// Validates a document that the program printed, if there is a schema for its kind.
#[track_caller]
pub(crate) fn check_printed(value: &Value) {
    match kind_of(value) {
        Some("call-record") => check_record(value),
        Some(name) => check_one(name, value),
        None => {}
    }
}

/// The name of the schema for a document with these fields.
fn kind_of(value: &Value) -> Option<&'static str> {
    let fields: Vec<&str> = value.as_object()?.keys().map(String::as_str).collect();
    match fields.as_slice() {
        ["checks"] => Some("doctor"),
        ["client", "file", ..] => Some("connect"),
        ["secrets"] => Some("secret-list"),
        ["workspaces"] => Some("workspace-list"),
        ["files"] | ["files", "more"] => Some("workspace-changes"),
        ["name", "created_at", "used_at", ..] => Some("workspace"),
        ["installed"] => Some("installed-list"),
        ["lock", "dry_run", "tools", "errors"] => Some("install"),
        ["codes"] => Some("error-codes"),
        ["code", "means", ..] => Some("error-code"),
        ["approvals"] => Some("approvals-list"),
        ["state", "approval", ..] => Some("approvals-show"),
        ["declarations", ..] => Some("describe"),
        ["error"] if value["error"]["error_class"].is_string() => Some("describe"),
        ["name", "wasm", ..] => Some("build"),
        ["bundled", ..] => Some("bundle"),
        ["wrapped", ..] => Some("wrap"),
        ["signed", ..] => Some("sign"),
        ["verified", ..] => Some("verify"),
        ["checked", ..] => Some("check"),
        ["pushed", ..] => Some("push"),
        ["id", "result" | "context_modifiers"] => Some("batch-result"),
        ["reference", "state", ..] => Some("artifact"),
        ["sequence", .., "event"] | ["missed"] => Some("events"),
        ["behavior", ..] if fields.contains(&"rules") => Some("policy-explain"),
        ["behavior", ..] if fields.contains(&"error") => Some("policy-check"),
        ["calls"] => Some("calls"),
        ["folder", "sound", _] => Some("journal-verify"),
        ["replay_of", "verdict", ..] => Some("replay"),
        _ if fields.contains(&"invocation") && fields.contains(&"result") => Some("call-record"),
        ["trace_id", ..] => Some("agentool-reasoning-trace"),
        _ if fields.contains(&"query_type") => Some("tool-search-result"),
        _ if fields.contains(&"progress_id") => Some("progress"),
        _ if fields.contains(&"surface_reason") => Some("tool-surface"),
        _ if fields.contains(&"result_id") => Some("result"),
        _ => None,
    }
}

/// The schemas of this repository, by name.
pub(crate) fn own() -> &'static BTreeMap<String, Value> {
    static OWN: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    OWN.get_or_init(|| {
        let mut schemas = BTreeMap::new();
        read_own(&root().join("schemas"), "", &mut schemas);
        schemas
    })
}

/// Adds the schemas in `folder`, whose names begin with `prefix`: a folder holds those of one dialect.
fn read_own(folder: &Path, prefix: &str, schemas: &mut BTreeMap<String, Value>) {
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if file.file_type().unwrap().is_dir() {
            read_own(&file.path(), &format!("{prefix}{name}/"), schemas);
            continue;
        }
        let name = name
            .strip_suffix(".schema.json")
            .unwrap_or_else(|| panic!("{name} is not a schema"));
        schemas.insert(
            format!("{prefix}{name}"),
            serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap(),
        );
    }
}

#[track_caller]
fn check_own(name: &str, value: &Value) {
    let problems = compiled(name).violations(value, VIOLATIONS_MAX);
    assert!(
        problems.is_empty(),
        "schemas/{name}.schema.json: {problems:#?}\n{value:#}"
    );
}

/// The schema of that name, compiled once.
#[track_caller]
fn compiled(name: &str) -> &'static RecordSchema {
    static COMPILED: OnceLock<BTreeMap<&str, OnceLock<RecordSchema>>> = OnceLock::new();
    let all = COMPILED.get_or_init(|| {
        own()
            .keys()
            .map(|name| (name.as_str(), OnceLock::new()))
            .collect()
    });
    let Some(schema) = all.get(name) else {
        panic!("there is no schema {name}")
    };
    schema.get_or_init(|| {
        let all: Vec<Value> = own().values().cloned().collect();
        RecordSchema::compile(&own()[name], &all).unwrap()
    })
}

/// Compiles the schemas of results and call records, so that they take no memory from then on.
pub(crate) fn prepare_schemas() {
    for name in ["call-record", "result"] {
        compiled(name);
    }
    specified();
}

/// Validates one object against the specification's schema of that name, if it is available.
#[track_caller]
fn check_specified(name: &str, value: &Value) {
    let Some(validator) = specified().and_then(|schemas| schemas.get(name)) else {
        return;
    };
    let problems: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert!(problems.is_empty(), "{name}: {problems:?}\n{value:#}");
}

#[track_caller]
fn check_invariants(record: &Value) {
    let invocation = &record["invocation"];
    let id = &invocation["invocation_id"];
    let terminal = [
        "denied",
        "succeeded",
        "failed",
        "canceled",
        "timed_out",
        "blocked",
    ];
    let status = invocation["status"].as_str().unwrap();
    assert!(terminal.contains(&status), "{status} is not terminal");
    let transitions = invocation["status_transitions"].as_array().unwrap();
    assert_eq!(transitions.last().unwrap()["to"], invocation["status"]);
    assert_eq!(
        transitions
            .iter()
            .filter(|t| terminal.contains(&t["to"].as_str().unwrap()))
            .count(),
        1
    );
    for pair in transitions.windows(2) {
        assert_eq!(pair[0]["to"], pair[1]["from"]);
    }
    assert_eq!(record["result"]["invocation_id"], *id);
    let events = record["events"].as_array().unwrap();
    assert!(events.iter().all(|event| event["invocation_id"] == *id));
    assert_eq!(events[0]["event_type"], "tool.invocation.planned");
    let ends = ["succeeded", "failed", "canceled", "timed_out"]
        .map(|end| format!("tool.invocation.{end}"));
    let is_end = |event: &&Value| ends.iter().any(|end| event["event_type"] == end.as_str());
    assert_eq!(events.iter().filter(is_end).count(), 1, "{events:?}");
    assert!(is_end(&events.last().unwrap()));
    let sequences: Vec<u64> = record["progress"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["sequence"].as_u64().unwrap())
        .collect();
    assert!(
        sequences.iter().copied().eq(1..=sequences.len() as u64),
        "{sequences:?}"
    );
}

/// The schemas of the specification, by name.
fn specified() -> Option<&'static HashMap<String, Validator>> {
    static SCHEMAS: OnceLock<Option<HashMap<String, Validator>>> = OnceLock::new();
    SCHEMAS
        .get_or_init(|| {
            let folder = root()
                .parent()?
                .join("shared/spec/agent-tool-0.2.0/schemas");
            let files = std::fs::read_dir(folder).ok()?;
            Some(
                files
                    .map(|file| {
                        let path = file.unwrap().path();
                        let name = path.file_name().unwrap().to_str().unwrap();
                        let name = name
                            .trim_start_matches("agenttool-")
                            .trim_end_matches(".schema.json")
                            .to_owned();
                        let schema: Value =
                            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
                        (name, jsonschema::validator_for(&schema).unwrap())
                    })
                    .collect(),
            )
        })
        .as_ref()
}
