use std::collections::HashMap;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

use super::root;

/// Validates a recorded call against the specification's schemas, if they are available, and against the invariants of
/// every call: one terminal status, legal transitions in order, only events of the call.
#[track_caller]
pub(crate) fn check_record(record: &Value) {
    check_invariants(record);
    if !record["declaration"].is_null() {
        check_one("tool-declaration", &record["declaration"]);
    }
    check_one("invocation", &record["invocation"]);
    check_one("result", &record["result"]);
    for (list, name) in [
        ("decisions", "permission-decision"),
        ("hooks", "hook"),
        ("progress", "progress"),
        ("persistence", "result-persistence"),
        ("events", "event"),
    ] {
        record[list].as_array().unwrap().iter().for_each(|value| check_one(name, value));
    }
    for mutation in record["result"]["input_mutations"].as_array().into_iter().flatten() {
        check_one("input-mutation", mutation);
    }
}

/// Validates one object against the specification's schema of that name, if it is available.
#[track_caller]
pub(crate) fn check_one(name: &str, value: &Value) {
    let Some(schemas) = schemas() else { return };
    let Some(validator) = schemas.get(name) else { panic!("there is no schema {name}") };
    let problems: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{error} at {}", error.instance_path())).collect();
    assert!(problems.is_empty(), "{name}: {problems:?}\n{value:#}");
}

#[track_caller]
fn check_invariants(record: &Value) {
    let invocation = &record["invocation"];
    let id = &invocation["invocation_id"];
    let terminal = ["denied", "succeeded", "failed", "canceled", "timed_out", "blocked"];
    let status = invocation["status"].as_str().unwrap();
    assert!(terminal.contains(&status), "{status} is not terminal");
    let transitions = invocation["status_transitions"].as_array().unwrap();
    assert_eq!(transitions.last().unwrap()["to"], invocation["status"]);
    assert_eq!(transitions.iter().filter(|t| terminal.contains(&t["to"].as_str().unwrap())).count(), 1);
    for pair in transitions.windows(2) {
        assert_eq!(pair[0]["to"], pair[1]["from"]);
    }
    assert_eq!(record["result"]["invocation_id"], *id);
    let events = record["events"].as_array().unwrap();
    assert!(events.iter().all(|event| event["invocation_id"] == *id));
    assert_eq!(events[0]["event_type"], "tool.invocation.planned");
    let ends = ["succeeded", "failed", "canceled", "timed_out"].map(|end| format!("tool.invocation.{end}"));
    let is_end = |event: &&Value| ends.iter().any(|end| event["event_type"] == end.as_str());
    assert_eq!(events.iter().filter(is_end).count(), 1, "{events:?}");
    assert!(is_end(&events.last().unwrap()));
    let sequences: Vec<u64> =
        record["progress"].as_array().unwrap().iter().map(|p| p["sequence"].as_u64().unwrap()).collect();
    assert!(sequences.iter().copied().eq(1..=sequences.len() as u64), "{sequences:?}");
}

fn schemas() -> Option<&'static HashMap<String, Validator>> {
    static SCHEMAS: OnceLock<Option<HashMap<String, Validator>>> = OnceLock::new();
    SCHEMAS
        .get_or_init(|| {
            let folder = root().parent()?.join("shared/spec/agent-tool-0.2.0/schemas");
            let files = std::fs::read_dir(folder).ok()?;
            Some(
                files
                    .map(|file| {
                        let path = file.unwrap().path();
                        let name = path.file_name().unwrap().to_str().unwrap();
                        let name = name.trim_start_matches("agenttool-").trim_end_matches(".schema.json").to_owned();
                        let schema: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
                        (name, jsonschema::validator_for(&schema).unwrap())
                    })
                    .collect(),
            )
        })
        .as_ref()
}
