//! Commands: components that export `wasi:cli/run`, and modules of WASI preview 1.
//!
//! Promise: Nothing without a grant.
//! Promise: A command reaches its own folder and what was granted.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_spec::{ErrorClass, ErrorCode, Refusal, digest};

use super::alone;
use crate::sandbox::{logged, snapshot};
use crate::support::{Test, Toolcell, scratch};

/// What the programs below import.
const IMPORTS: &str = r#"
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_symlink" (func $path_symlink (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
"#;

/// The descriptor of the working directory.
const OWN: u32 = 3;
/// The descriptor of a granted folder, if there is one.
const GRANTED: u32 = 4;

/// What the programs share. A path stands at 64.
const FUNCTIONS: &str = r#"
  (memory (export "memory") 4)
  (func $check (param $error i32)
    (if (local.get $error) (then (call $proc_exit (local.get $error)))))
  (func $write (param $to i32) (param $from i32) (param $length i32)
    (i32.store (i32.const 8) (local.get $from))
    (i32.store (i32.const 12) (local.get $length))
    (call $check (call $fd_write (local.get $to) (i32.const 8) (i32.const 1) (i32.const 16))))
  ;; Reads to 65536, and returns how much.
  (func $read (param $from i32) (result i32)
    (i32.store (i32.const 8) (i32.const 65536))
    (i32.store (i32.const 12) (i32.const 65536))
    (call $check (call $fd_read (local.get $from) (i32.const 8) (i32.const 1) (i32.const 16)))
    (i32.load (i32.const 16)))
  ;; Opens the path, whose length is given, for reading, or makes it and opens it for writing.
  (func $open (param $folder i32) (param $length i32) (param $make i32) (result i32)
    (call $check
      (call $path_open (local.get $folder) (i32.const 0) (i32.const 64) (local.get $length)
        (select (i32.const 9) (i32.const 0) (local.get $make))
        (select (i64.const 64) (i64.const 2) (local.get $make))
        (i64.const 0) (i32.const 0) (i32.const 20)))
    (i32.load (i32.const 20)))
  (func $copy (param $from i32) (param $to i32)
    (local $length i32)
    (loop $more
      (local.set $length (call $read (local.get $from)))
      (if (local.get $length)
        (then
          (call $write (local.get $to) (i32.const 65536) (local.get $length))
          (br $more)))))
"#;

/// A module of preview 1 that is named `probe`, with these data and this body.
fn program(data: &str, body: &str) -> Vec<u8> {
    let text =
        format!("(module $probe {IMPORTS} {FUNCTIONS} {data} (func (export \"_start\") {body}))");
    wat::parse_str(text).unwrap()
}

fn test(module: &[u8]) -> Test {
    alone(module.to_vec(), None)
}

/// Prints its arguments, each with a null character at its end.
fn printing(sizes: &str, get: &str) -> Vec<u8> {
    let body = format!(
        "(call $check (call ${sizes} (i32.const 0) (i32.const 4)))
         (call $check (call ${get} (i32.const 4096) (i32.const 65536)))
         (call $write (i32.const 1) (i32.const 65536) (i32.load (i32.const 4)))"
    );
    program("", &body)
}

/// Prints the file `path` of a folder.
fn reading(folder: u32, path: &str) -> Vec<u8> {
    let data = format!("(data (i32.const 64) {path:?})");
    let body = format!(
        "(call $copy (call $open (i32.const {folder}) (i32.const {}) (i32.const 0)) (i32.const 1))",
        path.len()
    );
    program(&data, &body)
}

/// Makes the file `path` of a folder, with the content `a,b`.
fn making(folder: u32, path: &str) -> Vec<u8> {
    let data = format!("(data (i32.const 64) {path:?}) (data (i32.const 1024) \"a,b\")");
    let body = format!(
        "(local $file i32)
         (local.set $file (call $open (i32.const {folder}) (i32.const {}) (i32.const 1)))
         (call $write (local.get $file) (i32.const 1024) (i32.const 3))
         (call $check (call $fd_close (local.get $file)))",
        path.len()
    );
    program(&data, &body)
}

fn spinning() -> Vec<u8> {
    program("", "(loop $more (br $more))")
}

#[tokio::test]
async fn arguments_variables_and_input_reach_a_command() {
    let called = test(&printing("args_sizes_get", "args_get"))
        .call(json!({ "args": ["-l", "", "\u{e4} b"] }))
        .await;
    let output =
        json!({ "exit_code": 0, "stdout": "probe\0-l\0\0\u{e4} b\0", "stderr": "", "files": [] });
    assert_eq!(called.succeeded(), output);
    let called = test(&printing("environ_sizes_get", "environ_get"))
        .call(json!({ "env": { "B": "2", "A": "" } }))
        .await;
    assert_eq!(called.succeeded()["stdout"], "A=\0B=2\0");
    let cat = program("", "(call $copy (i32.const 0) (i32.const 1))");
    let called = test(&cat)
        .call(json!({ "stdin": { "base64": "AP8K" } }))
        .await;
    assert_eq!(called.succeeded()["stdout"], json!({ "base64": "AP8K" }));
    let long = "line\n".repeat(100_000);
    let called = test(&cat).call(json!({ "stdin": long })).await;
    assert!(
        called.0.result.error.is_none(),
        "{:?}",
        called.0.result.error
    );
    let called = test(&cat).call(json!({})).await;
    assert_eq!(
        called.succeeded()["stdout"],
        "",
        "without input, nothing of the host's own is there"
    );
}

#[tokio::test]
async fn a_command_gets_files_and_what_it_makes_is_kept() {
    let called = test(&making(OWN, "a.csv"))
        .call(json!({ "files": { "given.txt": "x", "data/b": "y" } }))
        .await;
    let output = called.succeeded();
    let refs = &called.0.result.artifact_refs;
    assert_eq!(
        refs.len(),
        1,
        "what the caller gave is not given back: {refs:?}"
    );
    assert_eq!(
        (&refs[0]["name"], &refs[0]["media_type"]),
        (&json!("a.csv"), &json!("text/csv"))
    );
    assert_eq!(refs[0]["digest"], digest(b"a,b"));
    assert_eq!(
        output["files"],
        json!([{ "path": "a.csv", "reference": refs[0]["reference"] }])
    );
    let usage = called.0.result.usage.as_ref().unwrap().files.unwrap();
    assert!(
        usage.disk_bytes.used >= 5 && usage.files_created.used >= 4,
        "{usage:?}"
    );

    let called = test(&reading(OWN, "data/b"))
        .call(json!({ "files": { "data/b": { "base64": "AP8=" } } }))
        .await;
    assert_eq!(called.succeeded()["stdout"], json!({ "base64": "AP8=" }));
    let called = test(&making(OWN, "a.csv"))
        .call(json!({ "files": { "a.csv": "old" } }))
        .await;
    assert_eq!(
        called.0.result.artifact_refs[0]["digest"],
        digest(b"a,b"),
        "a file that it changed is its own"
    );
}

#[tokio::test]
async fn files_that_cannot_be_given_are_refused_before_the_command_starts() {
    for path in ["../a", "/a", "a/../../b"] {
        let called = test(&spinning())
            .call(json!({ "files": { path: "x" } }))
            .await;
        called.failed("invalid_arguments", "path_invalid");
    }
    let called = test(&spinning()).limit(|limits| limits.disk_bytes = 10);
    called
        .call(json!({ "files": { "a": "x".repeat(11) } }))
        .await
        .failed("sandbox_violation", "disk_limit");
    let called = test(&spinning()).limit(|limits| limits.files_created = 1);
    called
        .call(json!({ "files": { "a/b": "x" } }))
        .await
        .failed("sandbox_violation", "files_limit");
}

#[tokio::test]
async fn a_command_that_fails_says_why_and_loses_nothing() {
    let data = r#"(data (i32.const 1024) "half") (data (i32.const 2048) "no such thing\n")"#;
    let body = "(call $write (i32.const 1) (i32.const 1024) (i32.const 4))
        (call $write (i32.const 2) (i32.const 2048) (i32.const 14))
        (call $proc_exit (i32.const 3))";
    let called = test(&program(data, body)).call(json!({})).await;
    called.failed("partial_failure", "exit_3");
    assert_eq!(
        called.message(),
        "the command exited with status 3: no such thing"
    );
    let output =
        json!({ "exit_code": 3, "stdout": "half", "stderr": "no such thing\n", "files": [] });
    assert_eq!(called.0.result.structured_content, Some(output));
    let record = called.record();
    let (invocation, mapping) = (
        &record["invocation"],
        &record["invocation"]["external_mappings"][0],
    );
    assert_eq!(
        (
            &mapping["source"],
            &mapping["exit_code"],
            &mapping["signal"]
        ),
        (&json!("cli"), &json!(3), &Value::Null)
    );
    let input = invocation["call_input_ref"].as_str().unwrap();
    assert_eq!(mapping["argv_ref"], format!("{input}#/args"));
    let decision = record["decisions"][0]["decision_id"].as_str().unwrap();
    assert!(
        mapping["env_policy_ref"]
            .as_str()
            .unwrap()
            .ends_with(&format!("#decision/{decision}")),
        "{mapping}"
    );
    assert!(
        mapping["sandbox_ref"]
            .as_str()
            .unwrap()
            .starts_with("sandbox:"),
        "{mapping}"
    );
    assert_eq!(
        mapping["sandbox_ref"],
        record["decisions"][0]["sandbox_ref"]
    );
    assert_eq!(
        record["declaration"]["external_mappings"][0]["command_id"],
        mapping["command_id"]
    );
    assert_eq!(record["declaration"]["tool_kind"], "shell_command");
    let called = test(&program(
        data,
        "(call $proc_exit (i32.const 0)) unreachable",
    ))
    .call(json!({}))
    .await;
    assert_eq!(called.succeeded()["exit_code"], 0);
}

#[tokio::test]
async fn what_a_command_printed_before_a_crash_is_logged() {
    let data = r#"(data (i32.const 1024) "half") (data (i32.const 2048) "panic: x")"#;
    let body = "(call $write (i32.const 1) (i32.const 1024) (i32.const 4))
        (call $write (i32.const 2) (i32.const 2048) (i32.const 8))
        unreachable";
    let called = test(&program(data, body)).call(json!({})).await;
    called.failed("execution_failed", "guest_panicked");
    let record = called.record();
    assert_eq!(
        (
            logged(&record, "stdout").as_str(),
            logged(&record, "stderr").as_str()
        ),
        ("half", "panic: x")
    );
}

#[tokio::test]
async fn a_command_reads_what_is_granted_and_nothing_else() {
    let (_guard, folder) = scratch();
    fs::write(folder.join("a.txt"), "granted").unwrap();
    let module = reading(GRANTED, "a.txt");
    test(&module)
        .call(json!({}))
        .await
        .failed("partial_failure", "exit_44");
    assert_eq!(
        test(&module)
            .read(&folder)
            .call(json!({}))
            .await
            .succeeded()["stdout"],
        "granted"
    );
    for path in [
        "../a.txt",
        "/etc/hostname",
        "../../../../../../etc/hostname",
    ] {
        let called = test(&reading(GRANTED, path))
            .read(&folder)
            .call(json!({}))
            .await;
        let error = called.0.result.error.as_ref().unwrap();
        assert!(error.error_code.starts_with("exit_"), "{path}: {error:?}");
        assert_eq!(
            called.0.result.structured_content.as_ref().unwrap()["stdout"],
            ""
        );
    }
}

/// Programs in Go and Zig take the first folder for the working directory.
#[tokio::test]
async fn the_first_folder_of_a_command_is_its_own_whatever_is_granted() {
    let (_guard, folder) = scratch();
    let called = test(&making(OWN, "a.csv"))
        .read(&folder)
        .call(json!({}))
        .await;
    assert_eq!(called.succeeded()["files"][0]["path"], "a.csv");
}

#[tokio::test]
async fn a_command_writes_to_its_own_folder_alone() {
    let (_guard, folder) = scratch();
    fs::write(folder.join("a.txt"), "before").unwrap();
    let before = snapshot(&folder);
    for path in ["a.txt", "b.txt"] {
        let called = test(&making(GRANTED, path))
            .write(&folder)
            .call(json!({}))
            .await;
        let error = called.0.result.error.as_ref().unwrap();
        assert!(error.error_code.starts_with("exit_"), "{path}: {error:?}");
    }
    assert_eq!(snapshot(&folder), before);
}

#[tokio::test]
async fn a_link_that_a_command_leaves_leads_to_no_artifact() {
    let data = r#"(data (i32.const 64) "a") (data (i32.const 128) "link")"#;
    let body = "(drop (call $path_symlink (i32.const 64) (i32.const 1) (i32.const 3) (i32.const 128) (i32.const 4)))";
    let called = test(&program(data, body)).call(json!({})).await;
    let output = called.succeeded();
    assert_eq!(
        (&output["files"], &output["files_left_out"]),
        (&json!([]), &json!(1))
    );
    assert!(called.0.result.artifact_refs.is_empty());
}

#[tokio::test]
async fn more_files_than_a_call_may_keep_make_its_answer_partial() {
    // Each turn writes one letter more into the path.
    let body = "(local $at i32) (local $file i32)
        (loop $more
          (i32.store8 (i32.const 64) (i32.add (i32.const 97) (local.get $at)))
          (local.set $file (call $open (i32.const 3) (i32.const 1) (i32.const 1)))
          (call $check (call $fd_close (local.get $file)))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br_if $more (i32.lt_u (local.get $at) (i32.const 5))))";
    let called = test(&program("", body))
        .limit(|limits| limits.artifacts = 2)
        .call(json!({}))
        .await;
    called.failed("partial_failure", "files_not_kept");
    assert!(
        called
            .message()
            .contains("\"c\", and 2 more: this call created 2 artifacts"),
        "{}",
        called.message()
    );
    assert_eq!(called.0.result.artifact_refs.len(), 2);
    assert_eq!(
        called.0.result.structured_content.as_ref().unwrap()["files"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

/// Prints 64 KiB, `times` times.
fn flooding(to: u32, times: u32) -> Vec<u8> {
    let body = format!(
        "(local $left i32)
         (local.set $left (i32.const {times}))
         (loop $more
           (call $write (i32.const {to}) (i32.const 65536) (i32.const 65536))
           (local.set $left (i32.sub (local.get $left) (i32.const 1)))
           (br_if $more (local.get $left)))"
    );
    program("", &body)
}

#[tokio::test]
async fn a_command_that_prints_too_much_is_stopped() {
    for to in [1, 2] {
        // 100 MiB.
        let called = test(&flooding(to, 1_600)).call(json!({})).await;
        called.failed("result_too_large", "output_limit");
        assert!(
            called
                .message()
                .contains("prints more than the 8388608 bytes"),
            "{}",
            called.message()
        );
        let fuel = called.0.result.usage.as_ref().unwrap().fuel;
        let all = test(&flooding(to, 1)).call(json!({})).await;
        assert!(
            fuel.used < 200 * all.0.result.usage.as_ref().unwrap().fuel.used,
            "it went on to the end"
        );
    }
    let called = test(&flooding(1, 2))
        .limit(|limits| limits.output_bytes = 100_000)
        .call(json!({}))
        .await;
    called.failed("result_too_large", "output_limit");
    // As JSON, each of these quotes takes two bytes.
    let quotes = "(memory.fill (i32.const 65536) (i32.const 34) (i32.const 6000))
         (call $write (i32.const 1) (i32.const 65536) (i32.const 6000))";
    let called = test(&program("", quotes))
        .limit(|limits| limits.output_bytes = 10_000)
        .call(json!({}))
        .await;
    called.failed("result_too_large", "output_limit");
    assert_eq!(
        logged(&called.record(), "stdout").len(),
        6_000,
        "what it printed is in no log"
    );
}

#[tokio::test]
async fn a_command_without_a_memory_runs() {
    let spins = wat::parse_str("(module (func (export \"_start\") (loop (br 0))))").unwrap();
    assert!(spins.len() < 50, "{} bytes", spins.len());
    let called = test(&spins)
        .limit(|limits| limits.fuel = 1_000_000)
        .call(json!({}))
        .await;
    called.failed("timeout", "fuel_exhausted");
    let silent = wat::parse_str("(module (func (export \"_start\")))").unwrap();
    let output = json!({ "exit_code": 0, "stdout": "", "stderr": "", "files": [] });
    assert_eq!(test(&silent).call(json!({})).await.succeeded(), output);
}

#[tokio::test]
async fn a_module_for_another_engine_is_told_what_is_missing() {
    for (text, what) in [
        (
            "(module (type (struct)) (func (export \"_start\")))",
            "garbage collection",
        ),
        (
            "(module (memory 1 1 shared) (func (export \"_start\")))",
            "threads",
        ),
    ] {
        let refusal = refused(&wat::parse_str(text).unwrap()).await;
        assert!(
            refusal
                .message
                .contains(&format!("needs {what}, which toolcell does not have")),
            "{refusal:?}"
        );
    }
}

#[tokio::test]
async fn a_command_that_spins_ends_at_its_limits() {
    let module = spinning();
    let called = test(&module)
        .limit(|limits| limits.fuel = 1_000_000)
        .call(json!({}))
        .await;
    called.failed("timeout", "fuel_exhausted");
    let called = test(&module).timeout_ms(200).call(json!({})).await;
    called.failed("timeout", "epoch_deadline");
    let mapping = called.record()["invocation"]["external_mappings"][0].clone();
    assert_eq!(
        (&mapping["exit_code"], &mapping["signal"]),
        (&Value::Null, &json!("epoch_deadline"))
    );
    assert_eq!(
        called.0.result.error.as_ref().unwrap().native_error_ref,
        Some(json!("out of time"))
    );
    let began = Instant::now();
    let called = test(&module)
        .cancel_after(Duration::from_millis(100))
        .call(json!({}))
        .await;
    called
        .failed("canceled", "canceled")
        .ended("canceled", "canceled");
    assert!(began.elapsed() < Duration::from_secs(20));
    let growing = program(
        "",
        "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable",
    );
    let called = test(&growing)
        .limit(|limits| limits.memory_bytes = 8 << 20)
        .call(json!({}))
        .await;
    called.failed("sandbox_violation", "memory_limit");
    assert!(
        called.record()["result"]["error"]["native_error_ref"]
            .as_str()
            .unwrap()
            .starts_with("the limit of")
    );
}

/// A component that exports `wasi:cli/run`, of this version, with a function of this body and type.
fn component(version: &str, body: &str, result: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
             (core module $main (func (export "run") (result i32) {body}))
             (core instance $main (instantiate $main))
             (func $run (result {result}) (canon lift (core func $main "run")))
             (instance $runs (export "run" (func $run)))
             (export "wasi:cli/run@{version}" (instance $runs)))"#
    );
    wat::parse_str(text).unwrap()
}

#[tokio::test]
async fn a_component_that_exports_run_of_any_version_is_a_command() {
    for version in ["0.2.0", "0.2.6", "0.2.12"] {
        let module = component(version, "(i32.const 0)", "(result)");
        assert_eq!(test(&module).load().await.unwrap(), ["command.main"]);
        assert_eq!(
            test(&module).call(json!({})).await.succeeded()["exit_code"],
            0
        );
    }
    let failing = component("0.2.3", "(i32.const 1)", "(result)");
    let called = test(&failing).call(json!({})).await;
    called.failed("partial_failure", "exit_1");
    assert_eq!(called.message(), "the command exited with status 1");
    let called = test(&component("0.2.3", "(i32.const 7)", "(result)"))
        .call(json!({}))
        .await;
    assert_eq!(
        called.0.result.error.as_ref().unwrap().error_code,
        "guest_invalid",
        "the answer is neither ok nor err"
    );
}

async fn refused(bytes: &[u8]) -> Refusal {
    test(bytes).load().await.unwrap_err()
}

#[tokio::test]
async fn what_only_looks_like_a_command_is_refused() {
    let refusal = refused(&component("0.2.3", "(i32.const 1)", "u32")).await;
    assert_eq!(
        (refusal.class, refusal.code),
        (ErrorClass::SetupRequired, ErrorCode::ContractMismatch),
        "{refusal:?}"
    );
    assert!(refusal.message.contains("wasi:cli"), "{}", refusal.message);
    for (text, found) in [
        (
            "(module (func (export \"_initialize\")))",
            "exports no function `_start`",
        ),
        (
            "(module (import \"env\" \"f\" (func)) (func (export \"_start\")))",
            "imports from \"env\"",
        ),
        (
            "(module (import \"wasi_unstable\" \"f\" (func)) (func (export \"_start\")))",
            "imports from \"wasi_unstable\"",
        ),
        (
            "(module (memory i64 1) (func (export \"_start\")))",
            "not valid",
        ),
    ] {
        let refusal = refused(&wat::parse_str(text).unwrap()).await;
        assert_eq!(
            (refusal.class, refusal.code),
            (ErrorClass::SetupRequired, ErrorCode::ComponentInvalid),
            "{refusal:?}"
        );
        assert!(refusal.message.contains(found), "{}", refusal.message);
    }
    let whole = spinning();
    for length in [9, whole.len() / 2, whole.len() - 1] {
        assert_eq!(
            refused(&whole[..length]).await.code,
            ErrorCode::ComponentInvalid,
            "{length} bytes"
        );
    }
}

#[test]
fn the_program_describes_and_calls_a_command() {
    let (_guard, folder) = scratch();
    let file = folder.join("some name.wasm");
    fs::write(&file, making(OWN, "a.csv")).unwrap();
    let file = file.to_str().unwrap();
    let text = Toolcell::new(["describe", file]).run().exits(0).stdout;
    for words in [
        "command.probe\n",
        "args (array of string, optional",
        "stdin (",
        "asks for: file_read, file_write",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let described = Toolcell::new(["describe", file, "--json"])
        .run()
        .exits(0)
        .json();
    let profile = &described["permission_profiles"][0];
    assert_eq!(
        (&profile["risk_level"], &profile["write_effects"]),
        (&json!("medium"), &json!(["local_draft"]))
    );
    assert_eq!(
        described["execution_profiles"][0]["supports_artifacts"],
        true
    );
    let record: Value = Toolcell::new(["call", file, "{}", "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(record["artifact_refs"][0]["name"], "a.csv");
}

#[test]
fn a_command_works_in_the_workspace_of_its_caller() {
    let (_guard, home) = scratch();
    let call = |module: &[u8], input: Value| {
        let file = home.join("probe.wasm");
        fs::write(&file, module).unwrap();
        let file = file.to_str().unwrap();
        let words = ["call", file, &input.to_string(), "--workspace=w", "--json"];
        let ran = Toolcell::at(&home, words).run().exits(0);
        assert!(!ran.stderr.contains("read only"), "{ran:?}");
        ran.json()
    };
    let made = call(&making(OWN, "a.csv"), json!({}));
    assert_eq!(made["workspace"]["files"][0]["path"], "a.csv", "{made:#}");
    assert_eq!(made["artifact_refs"], json!([]));
    let read = call(&reading(OWN, "a.csv"), json!({}));
    assert!(
        read["structured_content"].to_string().contains("a,b"),
        "{read:#}"
    );
}
