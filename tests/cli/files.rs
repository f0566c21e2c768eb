//! Files that a call leaves behind, the limit on the search for all names of a file, and the tools of `files` that change
//! files.
//!
//! Promise: One component, three profiles.
//! Promise: Denials hold inside grants.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::readme::commands_of;
use super::{example, guest};
use crate::support::{Ran, Toolcell, kept, root, scratch};

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
      (call $path_open (i32.const 4) (i32.const 0) (i32.const 64) (i32.const 3) (i32.const 0)
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

/// Calls a tool of `files` in `folder`.
fn files(folder: &Path, tool: &str, input: &Value, options: &[&str]) -> Ran {
    let (tool, input) = (format!("{}#{tool}", example("files")), input.to_string());
    let arguments = [&["call", &tool, &input, "--json", "--no-config"], options].concat();
    Toolcell::new(arguments).dir(folder).run()
}

fn edit(old: &str, new: &str) -> Value {
    json!({ "path": "sub/a.txt", "edits": [{ "old": old, "new": new }] })
}

#[test]
fn a_text_is_written_and_edited_in_a_granted_folder() {
    let (_guard, folder) = scratch();
    let write = json!({ "path": "sub/deep/a.txt", "text": "one\ntwo\n" });
    let written = files(&folder, "write", &write, &["--allow-write=."])
        .exits(0)
        .json();
    let output = &written["structured_content"];
    assert_eq!(
        (&output["bytes"], &output["created"]),
        (&json!(8), &json!(true))
    );
    let edits = json!({ "path": "sub/deep/a.txt", "edits": [
        { "old": "two", "new": "three" },
        { "old": "e", "new": "é", "all": true },
    ] });
    // The tool gets only the folder of its file, and needs no more.
    let edited = files(&folder, "edit", &edits, &["--allow-write=."])
        .exits(0)
        .json();
    assert_eq!(edited["structured_content"]["replaced"], json!([1, 3]));
    assert_eq!(
        fs::read_to_string(folder.join("sub/deep/a.txt")).unwrap(),
        "oné\nthréé\n"
    );
    let left: Vec<_> = fs::read_dir(folder.join("sub/deep")).unwrap().collect();
    assert_eq!(left.len(), 1, "no file is left beside it: {left:?}");
    let again = files(&folder, "write", &write, &["--allow-write=sub"])
        .exits(0)
        .json();
    assert_eq!(again["structured_content"]["created"], false);
}

#[test]
fn without_the_right_to_write_no_byte_changes() {
    let (_guard, folder) = scratch();
    fs::create_dir(folder.join("sub")).unwrap();
    fs::write(folder.join("sub/a.txt"), "one").unwrap();
    let write = |path: &str| json!({ "path": path, "text": "mine" });
    for (tool, input, options) in [
        ("write", write("sub/a.txt"), &[][..]),
        ("write", write("sub/a.txt"), &["--allow-read=."]),
        ("write", write("sub/new/b.txt"), &["--allow-read=."]),
        ("write", write("../b.txt"), &["--allow-write=sub"]),
        ("edit", edit("one", "two"), &["--allow-read=."]),
        (
            "edit",
            edit("one", "two"),
            &["--allow-write=.", "--deny-read=sub/a.txt"],
        ),
    ] {
        let refused = files(&folder, tool, &input, options).exits(3).json();
        assert_eq!(refused["is_error"], true, "{input}: {refused:#}");
    }
    for (tool, input) in [("write", write("sub/a.txt")), ("edit", edit("one", "two"))] {
        let options = ["--allow-write=.", "--deny-write=sub/a.txt"];
        let refused = files(&folder, tool, &input, &options).exits(1).json();
        assert_eq!(
            refused["error"]["error_code"], "access_refused",
            "{refused:#}"
        );
    }
    let kept: Vec<_> = fs::read_dir(folder.join("sub")).unwrap().collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read_to_string(folder.join("sub/a.txt")).unwrap(), "one");
    // The tools that only look at files get no right to write from a grant to write.
    let read = files(
        &folder,
        "read",
        &json!({ "path": "sub/a.txt" }),
        &["--allow-write=."],
    )
    .exits(0);
    assert!(
        read.stderr.contains("does not declare `file_write`"),
        "{}",
        read.stderr
    );
}

#[test]
fn a_file_is_written_in_place_if_no_other_may_be_made_beside_it() {
    let (_guard, folder) = scratch();
    fs::create_dir(folder.join("sub")).unwrap();
    let file = folder.join("sub/a.txt");
    fs::write(&file, "one").unwrap();
    let inode = || fs::metadata(&file).unwrap().ino();
    let before = inode();
    let options = ["--allow-write=.", "--deny-write=sub/.files-0.tmp"];
    files(&folder, "edit", &edit("one", "1"), &options).exits(0);
    assert_eq!(
        (fs::read_to_string(&file).unwrap().as_str(), inode()),
        ("1", before)
    );
    files(&folder, "edit", &edit("1", "one"), &options[..1]).exits(0);
    assert_ne!(inode(), before, "another file took its place");
}

#[test]
fn edits_apply_all_or_not_at_all() {
    let (_guard, folder) = scratch();
    fs::create_dir(folder.join("sub")).unwrap();
    fs::write(folder.join("sub/a.txt"), "one\ntwo\none\n").unwrap();
    let refused = |edits: Value| {
        let input = json!({ "path": "sub/a.txt", "edits": edits });
        let answer = files(&folder, "edit", &input, &["--allow-write=."])
            .exits(2)
            .json();
        let error = &answer["error"];
        (
            error["error_code"].clone(),
            error["message"].as_str().unwrap().to_owned(),
        )
    };
    let (code, message) =
        refused(json!([{ "old": "two", "new": "2" }, { "old": "one", "new": "1" }]));
    assert_eq!(code, "old_ambiguous");
    assert!(
        message.contains("edit 2 of 2: `old` occurs 2 times, in lines 1 and 3;")
            && message.ends_with("; nothing was changed"),
        "{message}"
    );
    let (code, message) = refused(json!([{ "old": "one\n two", "new": "1" }]));
    assert_eq!(code, "old_not_found");
    assert!(
        message.contains("has \"two\" in line 2, where `old` has \" two\""),
        "{message}"
    );
    assert_eq!(refused(json!([{ "old": "", "new": "1" }])).0, "old_empty");
    assert_eq!(refused(json!([])).0, "schema_mismatch");
    assert_eq!(
        fs::read_to_string(folder.join("sub/a.txt")).unwrap(),
        "one\ntwo\none\n"
    );
}

#[test]
fn a_text_is_written_and_edited_in_a_workspace() {
    let (_guard, home) = scratch();
    let call = |tool: &str, input: &Value| {
        let (tool, input) = (format!("{}#{tool}", example("files")), input.to_string());
        let words = ["call", &tool, &input, "--json", "--workspace=w"];
        Toolcell::at(&home, words).run().exits(0).json()
    };
    let written = call("write", &json!({ "path": "a.txt", "text": "one" }));
    assert_eq!(
        written["workspace"]["files"][0]["change"], "added",
        "{written:#}"
    );
    let edits = json!({ "path": "a.txt", "edits": [{ "old": "one", "new": "two" }] });
    let edited = call("edit", &edits);
    let changed = edited["workspace"]["files"].as_array().unwrap();
    assert_eq!(
        (changed.len(), &changed[0]["path"], &changed[0]["change"]),
        (1, &json!("a.txt"), &json!("changed"))
    );
    let read = call("read", &json!({ "path": "a.txt" }));
    assert_eq!(read["content"][0]["text"], "two", "{read:#}");
}

#[test]
fn the_readme_of_files_shows_what_it_does_and_what_each_tool_asks_for() {
    let printed = commands_of("example-tools/files");
    assert_eq!(printed.len(), 3, "{printed:?}");
    assert!(printed[1].contains("\"bytes\": 9,"), "{printed:?}");
    assert!(
        printed[2].starts_with("edited /workspace/plans/today.md"),
        "{printed:?}"
    );
    let readme = fs::read_to_string(root().join("example-tools/files/README.md")).unwrap();
    let mut tools = 0;
    for row in readme.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<String> = row
            .split('|')
            .map(|cell| cell.trim().replace('`', ""))
            .collect();
        let tool = format!("{}#{}", example("files"), cells[1]);
        let described = Toolcell::new(["describe", &tool]).run().exits(0).stdout;
        let line = format!("  asks for: {}\n", cells[4]);
        assert!(described.contains(&line), "{line} is not in\n{described}");
        tools += 1;
    }
    assert_eq!(tools, 5);
}
