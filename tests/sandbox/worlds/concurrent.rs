//! Commands of WASI 0.3: the same grants, quotas and limits as those of WASI 0.2.
//!
//! Promise: A command reaches its own folder and what was granted.

use std::fs;

use serde_json::json;
use toolcell_spec::digest;

use super::alone;
use crate::sandbox::snapshot;
use crate::support::{Called, Ran, Test, Toolcell, fixture, scratch};

fn test() -> Test {
    alone(fs::read(fixture("concurrent")).unwrap(), None)
}

async fn run(arguments: &[&str]) -> Called {
    test().call(json!({ "args": arguments })).await
}

#[tokio::test]
async fn a_command_reads_and_prints_and_exits() {
    let long = "line\n".repeat(3_000);
    let called = test().call(json!({ "args": ["cat"], "stdin": long })).await;
    assert_eq!(called.succeeded()["stdout"], long);
    assert_eq!(
        run(&["arguments", "a b"]).await.succeeded()["stdout"],
        "concurrent arguments a b"
    );
    let called = run(&["complain"]).await;
    called.failed("partial_failure", "exit_3");
    assert_eq!(
        called.message(),
        "the command exited with status 3: no such thing"
    );
    run(&["fail"]).await.failed("partial_failure", "exit_1");
    run(&["none"])
        .await
        .failed("execution_failed", "guest_panicked");
    assert_eq!(
        run(&["wait", "1000000"]).await.succeeded()["stdout"],
        "waited"
    );
    assert_eq!(
        run(&["socket"]).await.succeeded()["stdout"],
        "Some(ErrorCode::AccessDenied)"
    );
}

#[tokio::test]
async fn files_of_its_folder_are_given_and_kept() {
    let input = json!({ "args": ["read", "data/a.txt"], "files": { "data/a.txt": "given" } });
    assert_eq!(test().call(input).await.succeeded()["stdout"], "given");
    let called = run(&["write", "a.csv", "a,b"]).await;
    assert_eq!(called.succeeded()["files"][0]["path"], "a.csv");
    assert_eq!(called.0.result.artifact_refs[0]["digest"], digest(b"a,b"));
    let called = run(&["two"]).await;
    let files = called.succeeded()["files"].as_array().unwrap().clone();
    assert_eq!(
        files.len(),
        2,
        "two files are written at the same time: {files:?}"
    );
    let usage = called.0.result.usage.as_ref().unwrap().files.unwrap();
    assert_eq!(usage.files_created.used, 2);
}

#[tokio::test]
async fn it_reaches_what_was_granted_and_not_what_is_denied() {
    let (_guard, folder) = scratch();
    fs::write(folder.join("a.txt"), "granted").unwrap();
    fs::write(folder.join("closed.txt"), "closed").unwrap();
    std::os::unix::fs::symlink(folder.join("closed.txt"), folder.join("link")).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let closed = path("closed.txt");
    let before = snapshot(&folder);
    let granted = || {
        test()
            .read(&folder)
            .grant(|grants| grants.deny_read(&closed).unwrap())
    };
    let read = async |name: &str| {
        granted()
            .call(json!({ "args": ["read", path(name)] }))
            .await
    };
    assert_eq!(read("a.txt").await.succeeded()["stdout"], "granted");
    for name in ["closed.txt", "link", "../../../../../../etc/hostname"] {
        let called = read(name).await;
        called.failed("partial_failure", "exit_1");
        let output = called.0.result.structured_content.as_ref().unwrap();
        let said = output["stdout"].as_str().unwrap();
        assert!(said.contains("ErrorCode::"), "{name}: {said}");
    }
    run(&["read", &path("a.txt")])
        .await
        .failed("partial_failure", "exit_1");
    let listed = granted().call(json!({ "args": ["list", path(".")] })).await;
    assert_eq!(listed.succeeded()["stdout"], "a.txt closed.txt link");
    for name in ["a.txt", "new.txt"] {
        let called = test()
            .write(&folder)
            .call(json!({ "args": ["write", path(name), "x"] }))
            .await;
        called.failed("partial_failure", "exit_1");
    }
    assert_eq!(snapshot(&folder), before);
}

#[tokio::test]
async fn quotas_and_limits_hold() {
    let test_with = |bytes: u64| test().limit(|limits| limits.disk_bytes = bytes);
    let fill = json!({ "args": ["fill", "a", "200000"] });
    test_with(300_000).call(fill.clone()).await.succeeded();
    test_with(100_000)
        .call(fill)
        .await
        .failed("sandbox_violation", "disk_limit");
    let called = test().limit(|limits| limits.files_created = 1);
    called
        .call(json!({ "args": ["two"] }))
        .await
        .failed("sandbox_violation", "files_limit");
    run(&["flood"])
        .await
        .failed("result_too_large", "output_limit");
    for arguments in [["wait", "3600000000000"], ["spin", ""]] {
        let called = test()
            .timeout_ms(500)
            .call(json!({ "args": arguments }))
            .await;
        assert_eq!(
            called.0.result.error.as_ref().unwrap().error_class.as_str(),
            "timeout"
        );
    }
    let called = test().cancel_after(std::time::Duration::from_millis(100));
    let called = called
        .call(json!({ "args": ["wait", "3600000000000"] }))
        .await;
    called.failed("canceled", "canceled");
    let called = test().limit(|limits| limits.fuel = 50_000_000);
    called
        .call(json!({ "args": ["spin"] }))
        .await
        .failed("timeout", "fuel_exhausted");
}

/// All calls share the 128 threads for files. A thread that has ended its work is not yet idle, so that a busy machine
/// starts more than the operations need: some run stays below half.
#[test]
#[cfg(target_os = "linux")]
fn a_call_takes_few_threads_however_many_operations_it_begins() {
    let (_guard, folder) = scratch();
    let file = folder.join("a.txt");
    fs::write(&file, "").unwrap();
    let input = json!({ "args": ["swarm", "500", file] }).to_string();
    let runs: Vec<usize> = (0..5).map(|_| file_threads(&folder, &input)).collect();
    assert!(runs.iter().any(|most| *most < 64), "{runs:?} threads");
    assert!(runs.iter().all(|most| *most > 0), "{runs:?} threads");
}

/// The most threads for files that a call of `concurrent` had.
#[cfg(target_os = "linux")]
fn file_threads(folder: &std::path::Path, input: &str) -> usize {
    let component = fixture("concurrent");
    let words = ["call", component.to_str().unwrap(), input, "--json"];
    let grant = format!("--allow-read={}", folder.display());
    let child = Toolcell::new(words.into_iter().chain([grant.as_str()])).spawn();
    let tasks = format!("/proc/{}/task", child.id());
    let threads = std::thread::spawn(move || {
        let mut most = 0;
        while let Ok(tasks) = fs::read_dir(&tasks) {
            let names = tasks
                .flatten()
                .map(|task| fs::read_to_string(task.path().join("comm")));
            let is_meant = |name: &String| name.starts_with("guest-files");
            let now = names
                .map(Result::unwrap_or_default)
                .filter(is_meant)
                .count();
            most = most.max(now);
        }
        most
    });
    let ran = Ran::from(child.wait_with_output().unwrap()).exits(0).json();
    assert_eq!(ran["structured_content"]["stdout"], "0 failed", "{ran:#}");
    threads.join().unwrap()
}
