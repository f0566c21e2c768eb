//! `--json` is for programs: one `tool_result` on standard output, whatever the outcome of the call.

use serde_json::{Value, json};

use super::{echo_in, example, guest};
use crate::support::{Ran, Toolcell, scratch};

/// The only record on standard output.
#[track_caller]
fn result(ran: &Ran) -> Value {
    let result = ran.json();
    assert_eq!(ran.stdout.lines().count(), 1, "one line: {}", ran.stdout);
    assert!(
        result["result_id"].is_string() && result["invocation_id"].is_string(),
        "{result}"
    );
    assert_eq!(
        result["is_error"].as_bool().unwrap(),
        result.get("error").is_some(),
        "{result}"
    );
    result
}

#[test]
fn a_success_is_one_record() {
    let ran = Toolcell::new(["call", &guest("probe#summary"), "--json"])
        .run()
        .exits(0);
    let result = result(&ran);
    assert_eq!(
        (&result["status"], &result["structured_content"]),
        (&json!("succeeded"), &json!({"words": "for the program"}))
    );
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
}

#[test]
fn a_tool_that_cannot_be_loaded_is_one_record() {
    let (_guard, folder) = scratch();
    let file = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).unwrap();
        folder.join(name).display().to_string()
    };
    let echo = echo_in(&folder);
    let cut = std::fs::read(&echo).unwrap();
    for (tool, class) in [
        (
            folder.join("missing.wasm").display().to_string(),
            "unknown_tool",
        ),
        (file("garbage.wasm", b"not a component"), "setup_required"),
        (file("empty.wasm", b""), "setup_required"),
        (
            file("core.wasm", &crate::support::wat("core-module")),
            "setup_required",
        ),
        (file("cut.wasm", &cut[..cut.len() / 2]), "setup_required"),
        (
            file("other.wasm", &crate::support::wat("not-a-tool")),
            "setup_required",
        ),
        (
            file("imports.wasm", &crate::support::wat("unknown-import")),
            "capability_gap",
        ),
        (format!("{echo}#other"), "unknown_tool"),
        (guest("probe#no_such_tool"), "unknown_tool"),
        (
            guest("probe#").trim_end_matches('#').to_owned(),
            "unknown_tool",
        ),
        (folder.display().to_string(), "setup_required"),
    ] {
        let ran = Toolcell::new(["call", &tool, "{}", "--json"]).run();
        let result = result(&ran);
        let error = &result["error"];
        assert_eq!(
            (&error["error_class"], &result["status"]),
            (&json!(class), &json!("failed")),
            "{tool}: {error}"
        );
        assert!(!error["message"].as_str().unwrap().is_empty());
        assert_eq!(
            ran.code,
            Some(if class == "capability_gap" { 3 } else { 2 }),
            "{tool}: {error}"
        );
        assert!(result.get("usage").is_none(), "nothing ran");
    }
}

#[test]
fn a_call_that_is_refused_or_fails_is_one_record() {
    let search = format!("{}#search", example("files"));
    for (tool, input, code, class) in [
        (guest("probe#strict"), "{not JSON", 2, "invalid_arguments"),
        (guest("probe#strict"), "[]", 2, "invalid_arguments"),
        (
            guest("probe#strict"),
            "{\"text\": 7}",
            2,
            "schema_validation_failed",
        ),
        (
            guest("probe#lifecycle_deferred"),
            "{}",
            2,
            "schema_not_loaded",
        ),
        (guest("probe#lifecycle_disabled"), "{}", 3, "policy_blocked"),
        (search, "{\"pattern\": \"x\"}", 3, "permission_denied"),
        (guest("hostile#panic"), "{}", 1, "execution_failed"),
        (
            guest("hostile#exit"),
            "{\"code\": 0}",
            1,
            "execution_failed",
        ),
        (guest("probe#partial"), "{}", 1, "partial_failure"),
        (
            guest("hostile#memory"),
            "{\"mib\": 512}",
            4,
            "sandbox_violation",
        ),
    ] {
        let ran = Toolcell::new(["call", &tool, input, "--json"])
            .run()
            .exits(code);
        assert_eq!(result(&ran)["error"]["error_class"], class, "{tool}");
    }
}

#[test]
fn what_a_tool_prints_stays_inside_the_record() {
    let ran = Toolcell::new(["call", &guest("hostile#forged_record"), "--json"]).run();
    result(&ran);
    let input = json!({"out": "{\"result_id\": 1}\n", "err": "forged\n"}).to_string();
    let ran = Toolcell::new(["call", &guest("probe#stdio"), &input, "--json"])
        .run()
        .exits(0);
    assert_eq!(result(&ran)["content"][0]["stream"], "stdout");
    assert!(!ran.stderr.contains("forged"));
}

#[test]
fn a_record_holds_everything_that_is_known_of_a_call() {
    let ran = Toolcell::new([
        "call",
        &example("ticker"),
        "{\"ticks\": 3, \"partial\": true}",
        "--print-record",
    ])
    .run()
    .exits(0);
    let record = ran.json();
    assert_eq!(ran.stdout.lines().count(), 1);
    let keys: Vec<&str> = record
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let all =
        "declaration invocation decisions hooks progress result_mappings persistence result events";
    assert_eq!(keys, all.split(' ').collect::<Vec<_>>());
    assert_eq!(
        (
            record["progress"].as_array().unwrap().len(),
            record["decisions"].as_array().unwrap().len()
        ),
        (5, 1)
    );
    let bytes = std::fs::read(example("ticker")).unwrap();
    let component = format!("component:{}", toolcell_spec::digest(&bytes));
    let session = format!(
        "session:{}",
        record["invocation"]["session_ref"].as_str().unwrap()
    );
    assert_eq!(
        record["invocation"]["runtime_refs"],
        json!([
            component,
            concat!("toolcell/", env!("CARGO_PKG_VERSION")),
            toolcell_sandbox::ENGINE_VERSION.replace(' ', "/"),
            session
        ]),
        "which component it was, and where it ran"
    );
    let scheduler = &record["invocation"]["scheduler"];
    assert_eq!(
        (&scheduler["is_read_only"], &scheduler["resource_locks"]),
        (&json!(true), &json!([]))
    );
    assert_eq!(
        (
            &scheduler["context_modifier_policy"],
            scheduler.as_object().unwrap().len()
        ),
        (&Value::Null, 7)
    );
}

#[test]
fn a_refused_call_has_a_record_too() {
    let ran = Toolcell::new(["call", "no/such/tool", "{\"a\": 1}", "--print-record"])
        .run()
        .exits(2);
    let record = ran.json();
    assert_eq!(record["invocation"]["tool_id"], "unresolved:no/such/tool");
    assert_eq!(record["invocation"]["model_input"], json!({"a": 1}));
    assert!(record["declaration"].is_null());
}

#[test]
fn one_form_of_output_at_a_time() {
    let ran = Toolcell::new(["call", "x", "{}", "--json", "--print-record"])
        .run()
        .exits(2);
    assert!(ran.stderr.contains("--print-record"), "{}", ran.stderr);
}
