//! The examples, run as their first lines say.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs an example with `input`, and folders of its own, in which it leaves nothing. Returns its output.
fn run(example: &str, arguments: &[&str], input: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    // Cargo builds the examples with the tests, beside the folder of this test.
    let tests = std::env::current_exe().unwrap();
    let program = tests
        .parent()
        .and_then(Path::parent)
        .unwrap()
        .join("examples")
        .join(example);
    let mut child = Command::new(&program)
        .args(arguments)
        .env("TOOLCELL_HOME", home.path())
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("start {}: {error}", program.display()));
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    for folder in [&home, &temporary] {
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "a host in memory keeps nothing");
    }
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_program_calls_a_tool_under_a_grant_and_a_limit() {
    assert_eq!(run("embed", &[], ""), "{\"hello\":\"world\"}\n");
    let spin = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/guests/wat/spin.wat"
    );
    assert!(
        run("embed", &[spin], "").contains("1000 ms"),
        "the limit of the request ends the tool"
    );
}

#[test]
fn an_approver_of_the_program_decides() {
    let asked = run("approve", &[], "y\n");
    assert!(
        asked.contains("Run this call?") && asked.ends_with("{\"hello\":\"world\"}\n"),
        "{asked}"
    );
    assert!(run("approve", &[], "n\n").contains("the call was not approved"));
}
