//! Files that a call leaves behind, and the limit on the search for all names of a file.
//!
//! Promise: One component, three profiles.
//! Promise: Denials hold inside grants.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use super::{example, guest};
use crate::support::{Ran, Toolcell, kept, scratch};

#[test]
fn drafts_are_removed_however_deep_they_are_nested() {
    let (_guard, home) = scratch();
    fs::create_dir_all(kept("home").join("cache")).unwrap();
    for shared in ["cache", "keys"] {
        symlink(kept("home").join(shared), home.join(shared)).unwrap();
    }
    let call = |input: &serde_json::Value| {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "ulimit -n 512 && exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_toolcell"),
            "call",
        ]);
        command.args([
            guest("probe#touch_drafts"),
            input.to_string(),
            "--json".to_owned(),
            "--no-config".to_owned(),
        ]);
        command.env("TOOLCELL_HOME", &home);
        Ran::from(command.output().unwrap())
    };
    let made = call(&json!({ "path": "x", "nested": 1_000 }))
        .exits(0)
        .json();
    assert_eq!(made["structured_content"]["nested"], 1_000, "{made}");
    let left = || {
        fs::read_dir(home.join("scratch"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect::<Vec<_>>()
    };
    assert!(
        left()
            .iter()
            .all(|name| !name.to_string_lossy().starts_with("call-")),
        "{:?}",
        left()
    );
    // The next call removes the leftovers of a host that was killed.
    fs::create_dir_all(home.join("scratch/call-dead").join("n/".repeat(1_000))).unwrap();
    call(&json!({ "path": "x" })).exits(0);
    assert!(
        left()
            .iter()
            .all(|name| !name.to_string_lossy().starts_with("call-")),
        "{:?}",
        left()
    );
}

/// A command that prints `half`, and exits with the error of opening the file `one`.
const READER: &str = r#"(module $reader
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "one")
  (data (i32.const 128) "half")
  (func (export "_start")
    (i32.store (i32.const 8) (i32.const 128))
    (i32.store (i32.const 12) (i32.const 4))
    (drop (call $fd_write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 16)))
    (call $proc_exit
      (call $path_open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 3) (i32.const 0)
        (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 20)))))"#;

#[test]
fn a_file_whose_names_cannot_all_be_looked_for_is_not_opened_and_the_call_says_why() {
    let (_guard, folder) = scratch();
    fs::create_dir(folder.join("closed")).unwrap();
    for name in 0..300 {
        fs::write(folder.join(format!("closed/{name}")), "").unwrap();
    }
    fs::write(folder.join("one"), "what is in it").unwrap();
    fs::hard_link(folder.join("one"), folder.join("two")).unwrap();
    let read = |options: &[&str]| {
        let tool = format!("{}#read", example("files"));
        let input = json!({ "path": "one" }).to_string();
        let mut arguments = vec![
            "call",
            &tool,
            &input,
            "--allow-read=.",
            "--no-config",
            "--print-record",
        ];
        arguments.extend(options);
        Toolcell::new(arguments).dir(&folder).run()
    };
    assert!(
        read(&["--deny-read=closed"])
            .exits(0)
            .stdout
            .contains("what is in it")
    );
    // More names than the limit of one call.
    for part in 0..10 {
        fs::create_dir(folder.join(format!("closed/part{part}"))).unwrap();
        for name in 0..10_001 {
            fs::write(folder.join(format!("closed/part{part}/{name}")), "").unwrap();
        }
    }
    let refused = read(&["--deny-read=closed"]).exits(4);
    assert!(!refused.stdout.contains("what is in it"));
    let error = refused.json()["result"]["error"].clone();
    assert_eq!(error["error_code"], "names_not_checked", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("several names") && message.contains("closed: more than 100000 names"),
        "{message}"
    );
    assert!(
        refused.stdout.contains("sandbox.denied"),
        "the denial is recorded"
    );
    // A command that fails keeps what it printed, and has the same verdict.
    fs::write(folder.join("reader.wasm"), wat::parse_str(READER).unwrap()).unwrap();
    let run = |denial: &str| {
        let arguments = [
            "call",
            "reader.wasm",
            "{}",
            "--json",
            "--allow-read=.",
            denial,
            "--no-config",
        ];
        Toolcell::new(arguments).dir(&folder).run()
    };
    let failed = run("--deny-read=closed").exits(4).json();
    assert_eq!(
        failed["error"]["error_code"], "names_not_checked",
        "{failed}"
    );
    assert_eq!(failed["structured_content"]["stdout"], "half", "{failed}");
    assert_eq!(
        run("--deny-read=closed/part0").exits(0).json()["structured_content"]["exit_code"],
        0
    );
    // A file with one name needs no search.
    fs::remove_file(folder.join("two")).unwrap();
    read(&["--deny-read=closed"]).exits(0);
}
