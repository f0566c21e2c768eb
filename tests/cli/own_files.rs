//! Files of a component's own: `toolcell wrap --folder` puts them into it, and its calls see them.
//!
//! Promise: A component's own files are its own.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_large_custom;

use super::cache::on_disk;
use crate::pipeline::doubles::own_host;
use crate::sandbox::snapshot;
use crate::support::{Ran, Test, Toolcell, scratch, wat};

/// What the programs below import.
const IMPORTS: &str = r#"
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_create_directory" (func $mkdir (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file" (func $unlink (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_rename" (func $rename (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_link" (func $link (param i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_symlink" (func $symlink (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_set_times"
    (func $set_times (param i32 i32 i32 i32 i64 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "sub/words.txt")
  (data (i32.const 128) "new")
"#;

/// Its own folders come after the scratch folder, twice.
const OWN: u32 = 5;
/// After a granted folder.
const OWN_AFTER_ONE: u32 = 6;

/// A command that is named `probe`.
fn program(body: &str) -> Vec<u8> {
    program_with("", body)
}

fn program_with(data: &str, body: &str) -> Vec<u8> {
    let text = format!("(module $probe {IMPORTS} {data} (func (export \"_start\") {body}))");
    ::wat::parse_str(text).unwrap()
}

/// Prints `sub/words.txt` of the folder with this number, or exits with the error.
fn reading(folder: u32) -> Vec<u8> {
    program(&format!(
        "(local $error i32)
         (local.set $error (call $path_open (i32.const {folder}) (i32.const 0) (i32.const 64) (i32.const 13)
           (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 20)))
         (if (local.get $error) (then (call $proc_exit (local.get $error))))
         (i32.store (i32.const 8) (i32.const 1024))
         (i32.store (i32.const 12) (i32.const 4096))
         (drop (call $fd_read (i32.load (i32.const 20)) (i32.const 8) (i32.const 1) (i32.const 16)))
         (i32.store (i32.const 12) (i32.load (i32.const 16)))
         (drop (call $fd_write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 16)))"
    ))
}

/// Exits with the number of attempts that changed something: each of what a guest can do to a folder and a file.
fn changing() -> Vec<u8> {
    let old = "(i32.const 64) (i32.const 13)";
    let new = "(i32.const 128) (i32.const 3)";
    let own = format!("(i32.const {OWN})");
    let scratch = "(i32.const 3)";
    let open = |path: &str, how: u32| {
        format!(
            "(call $path_open {own} (i32.const 0) {path} (i32.const {how}) (i64.const 64) (i64.const 0) (i32.const 0) \
             (i32.const 20))"
        )
    };
    let attempts = [
        open(new, 1),
        open(old, 0),
        open(old, 8),
        format!("(call $mkdir {own} {new})"),
        format!("(call $symlink {old} {own} {new})"),
        format!("(call $link {own} (i32.const 0) {old} {own} {new})"),
        // A file of two names could be written under the other.
        format!("(call $link {own} (i32.const 0) {old} {scratch} {new})"),
        format!("(call $rename {own} {old} {own} {new})"),
        format!("(call $rename {own} {old} {scratch} {new})"),
        format!(
            "(call $set_times {own} (i32.const 0) {old} (i64.const 1) (i64.const 1) (i32.const 5))"
        ),
        format!("(call $unlink {own} {old})"),
    ];
    let count = attempts.map(|attempt| {
        format!("(local.set $done (i32.add (local.get $done) (i32.eqz {attempt})))")
    });
    program(&format!(
        "(local $done i32) {} (call $proc_exit (local.get $done))",
        count.join("\n")
    ))
}

fn library(folder: &Path) {
    fs::create_dir_all(folder.join("lib/sub")).unwrap();
    fs::create_dir_all(folder.join("lib/none/empty")).unwrap();
    fs::write(folder.join("lib/sub/words.txt"), "one two three").unwrap();
    fs::write(folder.join("lib/zeros"), vec![0; 2_000_000]).unwrap();
}

/// The file `name` of `folder`, with the files `lib` of its own.
fn wrapped(folder: &Path, name: &str, module: &[u8]) -> PathBuf {
    let own = folder.join(name);
    fs::write(folder.join("plain.wasm"), module).unwrap();
    library(folder);
    let shown = own.to_str().unwrap();
    toolcell(
        folder,
        &["wrap", "plain.wasm", "--folder=lib=/usr/lib", "-o", shown],
    )
    .exits(0);
    own
}

fn home(folder: &Path) -> PathBuf {
    folder.join("home")
}

fn toolcell(folder: &Path, arguments: &[&str]) -> Ran {
    Toolcell::at(&home(folder), arguments).dir(folder).run()
}

fn call(folder: &Path, tool: &Path, options: &[&str]) -> Value {
    let arguments = [&["call", tool.to_str().unwrap(), "{}", "--json"], options].concat();
    toolcell(folder, &arguments).json()
}

fn output(result: &Value) -> (&Value, &Value) {
    let said = &result["structured_content"];
    (&said["exit_code"], &said["stdout"])
}

#[track_caller]
fn reads(result: &Value) {
    assert_eq!(
        output(result),
        (&json!(0), &json!("one two three")),
        "{result}"
    );
}

fn unpacked(folder: &Path) -> Vec<PathBuf> {
    let kept = fs::read_dir(home(folder).join("cache/files")).unwrap();
    kept.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_component_reads_its_own_files_without_a_grant_and_no_other_component_does() {
    let (_guard, folder) = scratch();
    let tool = wrapped(&folder, "own.wasm", &reading(OWN));
    let called = call(&folder, &tool, &[]);
    reads(&called);
    // They are a part of the component, and nothing that the call was granted or touched.
    let text = called.to_string();
    assert!(
        !text.contains("words.txt") && !text.contains("/usr/lib"),
        "{text}"
    );
    let shown = toolcell(&folder, &["describe", "own.wasm"]).exits(0).stdout;
    let row = "files of its own, which its calls can read:\n  /usr/lib, 2 files, 2000013 bytes\n";
    assert!(shown.contains(row), "{shown}");
    let listed = toolcell(&folder, &["describe", "own.wasm", "--json"]).exits(0);
    assert_eq!(
        listed.json()["own_files"],
        json!([{ "path": "/usr/lib", "files": 2, "bytes": 2_000_013 }])
    );
    // The same module without them.
    let other = call(&folder, &folder.join("plain.wasm"), &[]);
    assert_eq!(output(&other).0, &json!(8), "no such descriptor: {other}");
    let shown = toolcell(&folder, &["describe", "plain.wasm"])
        .exits(0)
        .stdout;
    assert!(!shown.contains("files of its own"), "{shown}");
}

#[test]
fn a_component_changes_none_of_its_own_files() {
    let (_guard, folder) = scratch();
    let tool = wrapped(&folder, "own.wasm", &changing());
    let kept = home(&folder).join("cache/files");
    let before = snapshot(&kept);
    assert!(before.len() > 1, "{before:?}");
    let called = call(&folder, &tool, &[]);
    assert_eq!(
        output(&called).0,
        &json!(0),
        "so many attempts succeeded: {called}"
    );
    assert_eq!(snapshot(&kept), before);
}

#[test]
fn files_are_unpacked_once_and_again_if_they_were_removed() {
    let (_guard, folder) = on_disk();
    let tool = wrapped(&folder, "own.wasm", &reading(OWN));
    let identity = |folder: &Path| {
        let metadata = fs::metadata(folder).unwrap();
        // A new folder can have the number of one that was removed.
        (metadata.ino(), metadata.created().ok())
    };
    let [first] = &unpacked(&folder)[..] else {
        panic!("one folder was expected");
    };
    let (before, files) = (identity(first), snapshot(first));
    for _ in 0..3 {
        reads(&call(&folder, &tool, &[]));
    }
    assert_eq!(
        (unpacked(&folder), identity(first)),
        (vec![first.clone()], before)
    );
    fs::remove_dir_all(home(&folder).join("cache/files")).unwrap();
    reads(&call(&folder, &tool, &[]));
    assert_ne!(
        (unpacked(&folder), identity(first)),
        (vec![first.clone()], before)
    );
    assert_eq!(snapshot(first), files);
    // A call that finds a part of the cache alone.
    fs::remove_dir_all(home(&folder).join("cache/components")).unwrap();
    fs::remove_dir_all(first).unwrap();
    reads(&call(&folder, &tool, &[]));
    fs::write(
        home(&folder).join("toolcell.toml"),
        "[cache]\nmax = \"1MiB\"\n",
    )
    .unwrap();
    for _ in 0..2 {
        // Larger than the cache may be: it is removed when code is written, and not while a call uses it.
        fs::remove_dir_all(home(&folder).join("cache/components")).unwrap();
        reads(&call(&folder, &tool, &[]));
    }
}

#[tokio::test]
async fn a_host_that_goes_on_unpacks_them_again() {
    let (_guard, folder) = scratch();
    let tool = wrapped(&folder, "own.wasm", &reading(OWN));
    let own = own_host(|settings| settings.home(home(&folder)));
    for _ in 0..2 {
        let test = Test::of_bytes(fs::read(&tool).unwrap(), None).on(&own);
        let output = test.call(json!({})).await.succeeded();
        assert_eq!(output["stdout"], "one two three");
        fs::remove_dir_all(home(&folder).join("cache/files")).unwrap();
    }
}

#[test]
fn a_granted_folder_hides_none_of_them_and_closed_paths_do_not_close_them() {
    let (_guard, folder) = scratch();
    let tool = wrapped(&folder, "own.wasm", &reading(OWN_AFTER_ONE));
    fs::create_dir(folder.join("data")).unwrap();
    let refused = call(&folder, &tool, &["--allow-read=data=/usr/lib"]);
    assert_eq!(
        refused["error"]["error_code"], "world_not_available",
        "{refused}"
    );
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("files of its own in /usr/lib"),
        "{message}"
    );
    reads(&call(&folder, &tool, &["--allow-read=data=/usr"]));
    // The granted folder has toolcell's home, with the unpacked files, which is closed.
    let closed = format!("--deny-read={}", home(&folder).display());
    let around = format!("--allow-read={}", folder.display());
    reads(&call(&folder, &tool, &[&around, &closed]));
    // Through that folder, nobody gets there.
    let kept = &unpacked(&folder)[0];
    let path = kept.strip_prefix(&folder).unwrap().join("sub/words.txt");
    let path = path.to_str().unwrap();
    let data = format!("(data (i32.const 512) {path:?})");
    let length = path.len();
    let body = format!(
        "(call $proc_exit (call $path_open (i32.const 4) (i32.const 0) (i32.const 512) (i32.const {length})
           (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 20)))"
    );
    let around_it = program_with(&data, &body);
    fs::write(folder.join("around.wasm"), around_it).unwrap();
    let refused = call(&folder, &folder.join("around.wasm"), &[&around, &closed]);
    assert_eq!(output(&refused).0, &json!(2), "access: {refused}");
}

#[test]
fn the_same_files_give_the_same_component_and_links_are_refused() {
    let (_guard, folder) = scratch();
    let first = wrapped(&folder, "own.wasm", &reading(OWN));
    fs::rename(folder.join("lib"), folder.join("old")).unwrap();
    library(&folder);
    let again = [
        "wrap",
        "plain.wasm",
        "--folder=lib=/usr/lib",
        "-o",
        "again.wasm",
    ];
    toolcell(&folder, &again).exits(0);
    assert_eq!(
        fs::read(&first).unwrap(),
        fs::read(folder.join("again.wasm")).unwrap()
    );
    // Two folders, and one in the place of another.
    let more = [
        "wrap",
        "own.wasm",
        "--folder=lib/sub=/usr/lib",
        "--folder=old=/old",
        "-o",
        "more.wasm",
    ];
    toolcell(&folder, &more).exits(0);
    let shown = toolcell(&folder, &["describe", "more.wasm"])
        .exits(0)
        .stdout;
    assert!(
        shown.contains("  /usr/lib, 1 file, 13 bytes\n  /old, 2 files, 2000013 bytes\n"),
        "{shown}"
    );

    // A component instead of a module.
    fs::write(folder.join("echo.wasm"), wat("echo")).unwrap();
    let both = [
        "wrap",
        "echo.wasm",
        "--folder=old=/old",
        "-o",
        "component.wasm",
    ];
    toolcell(&folder, &both).exits(0);
    let shown = toolcell(&folder, &["describe", "component.wasm"])
        .exits(0)
        .stdout;
    assert!(shown.contains("  /old, 2 files"), "{shown}");
    toolcell(&folder, &["call", "component.wasm"]).exits(0);

    symlink("/etc/passwd", folder.join("lib/sub/link")).unwrap();
    for (options, why) in [
        (&["--folder=lib=/usr/lib"][..], "lib/sub/link is a link"),
        (
            &["--folder=lib"],
            "`--folder=lib` names no folder and its absolute path",
        ),
        (&["--folder=lib=usr"], "give DIR=/PATH"),
        (&["--folder=none=/usr/lib"], "cannot read none: "),
        (
            &["--folder=old=/a", "--folder=old=/a"],
            "two folders cannot both be at /a",
        ),
        (&["--folder=old=/usr/../lib"], "has `.` or `..` in its path"),
        (
            &["--folder=old=/workspace"],
            "in a place that toolcell gives to its calls",
        ),
    ] {
        let arguments = [&["wrap", "plain.wasm", "-o", "not.wasm"], options].concat();
        let refused = toolcell(&folder, &arguments).exits(2);
        assert!(
            refused.stderr.contains(why),
            "{options:?}: {}",
            refused.stderr
        );
        assert!(!folder.join("not.wasm").exists());
    }
}

#[test]
fn a_component_whose_archive_cannot_be_used_is_refused() {
    let (_guard, folder) = scratch();
    let file = folder.join("own.wasm");
    for (guest, archive) in [("/usr/lib", &b"no archive"[..]), ("usr/lib", b"")] {
        let name = format!("toolcell:files:{guest}");
        fs::write(
            &file,
            with_large_custom(&reading(OWN), &name, archive).unwrap(),
        )
        .unwrap();
        let refused = toolcell(&folder, &["call", "own.wasm", "{}", "--json"])
            .exits(2)
            .json();
        let error = &refused["error"];
        assert_eq!(error["error_code"], "component_invalid", "{refused}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("own files cannot be used") && message.contains(guest),
            "{message}"
        );
    }
}
