//! What a tool in Python says and may do: the SDK in a component, and its own unit tests.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::BUILDING;
use super::build::with_toolchain;
use crate::support::{root, scratch};

const TOOLS: &str = include_str!("../guests/python/tool.py");

/// The record of a call of one tool of the project `every`, in `place`.
fn call(place: &Path, tool: &str, input: &Value, options: &[&str]) -> Value {
    let target = format!("every#{tool}");
    let input = input.to_string();
    let mut arguments = vec!["call", target.as_str(), input.as_str(), "--print-record"];
    arguments.extend(options);
    with_toolchain(place, &arguments).run().json()
}

fn error(record: &Value) -> (&str, &str) {
    let error = &record["result"]["error"];
    (
        error["error_class"].as_str().unwrap_or_default(),
        error["error_code"].as_str().unwrap_or_default(),
    )
}

fn files(place: &Path) {
    std::fs::write(place.join("three.txt"), "a\nb\nc\n").unwrap();
    let path = place.join("three.txt").display().to_string();
    let denied = call(place, "scan", &json!({ "path": path }), &[]);
    assert_eq!(
        denied["result"]["error"]["error_class"], "permission_denied",
        "{denied:#}"
    );
    let allowed = format!("--allow-read={}", place.display());
    let granted = call(place, "scan", &json!({ "path": path }), &[&allowed]);
    assert_eq!(
        granted["result"]["structured_content"],
        json!({ "lines": 3, "unit": "lines" }),
        "{granted:#}"
    );
    let progress = granted["progress"].as_array().unwrap();
    // The last event is the host's own.
    let said: Vec<_> = progress
        .iter()
        .filter_map(|event| event["message"].as_str())
        .collect();
    assert_eq!(said, ["a", "b", "c"], "{progress:#?}");
    // A relative path is one in the folder of the caller.
    let relative = call(place, "scan", &json!({ "path": "three.txt" }), &[&allowed]);
    assert_eq!(
        relative["result"]["structured_content"]["lines"], 3,
        "{relative:#}"
    );
    let missing = call(place, "scan", &json!({ "path": "none.txt" }), &[&allowed]);
    assert_eq!(
        error(&missing),
        ("execution_failed", "file_not_found_error"),
        "{missing:#}"
    );

    let words = json!({ "path": "new.txt", "words": ["a", "b"] });
    let written = call(
        place,
        "write",
        &words,
        &[&format!("--allow-write={}", place.display())],
    );
    assert!(written["result"]["error"].is_null(), "{written:#}");
    assert_eq!(
        std::fs::read_to_string(place.join("new.txt")).unwrap(),
        "a\nb"
    );
}

fn failures(place: &Path) {
    let fail = |how: &str| call(place, "fail", &json!({ "how": how }), &[]);
    let bug = fail("bug");
    assert_eq!(error(&bug), ("execution_failed", "key_error"));
    let detail = bug["invocation"]["error_detail"].as_str().unwrap();
    assert!(
        detail.contains("return {}[\"missing\"]") && detail.contains("tool.py"),
        "{detail}"
    );
    assert!(
        !bug["result"].to_string().contains("Traceback"),
        "the model does not read the traceback: {bug:#}"
    );
    assert_eq!(error(&fail("own")), ("invalid_arguments", "not_found"));
    assert_eq!(error(&fail("exit")), ("execution_failed", "exit"));
    assert_eq!(error(&fail("other")).0, "schema_validation_failed");
    // Text that is no UTF-8, and fields of another type, end no call as a crash.
    let bytes = fail("bytes");
    assert_eq!(
        bytes["result"]["error"]["message"], "a\u{fffd}o",
        "{bytes:#}"
    );
    assert_eq!(fail("text")["result"]["content"][0]["text"], "a\u{fffd}o");
    // A check runs before the decision, with no file.
    let refused = call(place, "write", &json!({ "path": "x", "words": [""] }), &[]);
    assert_eq!(error(&refused).1, "unusable_value", "{refused:#}");
}

#[test]
#[ignore = "componentize-py takes minutes: `just nightly` runs it"]
fn a_tool_in_python_reports_fails_and_reaches_what_was_granted() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    with_toolchain(&place, &["new", "every", "--lang", "python"])
        .run()
        .exits(0);
    let source = place.join("every/tool.py");
    std::fs::write(&source, TOOLS).unwrap();
    with_toolchain(&place, &["build", "every"]).run().exits(0);
    files(&place);
    failures(&place);

    let [one, two] = [(), ()]
        .map(|()| call(&place, "luck", &json!({}), &[])["result"]["structured_content"].clone());
    let differ = |at: usize| one[at].is_string() && one[at] != two[at];
    assert!(
        differ(0) && differ(1),
        "each call has random numbers of its own: {one} {two}"
    );
    let partial = call(&place, "report", &json!({ "rows": 1 }), &[]);
    assert_eq!(
        partial["result"]["content"][1]["type"], "artifact_ref",
        "{partial:#}"
    );

    // An error of the author has its place, and no line of the SDK's own.
    std::fs::write(
        &source,
        "from toolcell import tool\n\n@tool\ndef count(text):\n    \"\"\"Counts.\"\"\"\n",
    )
    .unwrap();
    let copy = place.join("every/toolcell/_errors.py");
    let sdk = root().join("guest-sdk/python/toolcell/_errors.py");
    std::fs::write(&copy, "of another version").unwrap();
    let broken = with_toolchain(&place, &["build", "every"])
        .run()
        .exits(2)
        .stderr;
    let [copy, sdk] = [copy, sdk].map(|file| std::fs::read_to_string(file).unwrap());
    assert_eq!(copy, sdk, "tests of the project use the SDK of the build");
    assert!(
        broken.contains("count: the parameter text has no type"),
        "{broken}"
    );
}

#[test]
fn the_package_for_python_passes_its_own_tests() {
    let ran = Command::new("python3")
        .args(["-B", "-m", "unittest", "discover", "-t", ".", "-s", "tests"])
        .current_dir(root().join("guest-sdk/python"))
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}
