//! `toolcell wrap`: documentation, a namespace and a profile in a copy of a component.
//!
//! Promise: A component of another world gets no more.

use std::path::Path;

use serde_json::json;

use crate::sandbox::worlds::json_command::CAT;
use crate::support::{Ran, Toolcell, scratch, wat};

const WIT: &str = "package acme:plain@0.1.0;

interface tools {
  /// Adds two numbers.
  add: func(a: u64, b: option<s32>) -> u64;
}

world plain {
  export tools;
  export acme:deps/more@0.1.0;
  /// Runs until it is stopped.
  export spin: func();
}
";

const DEPENDENCY: &str = "package acme:deps@0.1.0;

interface more {
  /// Does more.
  more: func();
}

interface tools {
  /// Adds something else.
  add: func();
}
";

/// A folder with the component `plain` and its WIT package.
fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let (guard, folder) = scratch();
    std::fs::write(folder.join("plain.wasm"), wat("plain")).unwrap();
    std::fs::create_dir_all(folder.join("wit/deps/more")).unwrap();
    std::fs::write(folder.join("wit/plain.wit"), WIT).unwrap();
    std::fs::write(folder.join("wit/deps/more/more.wit"), DEPENDENCY).unwrap();
    (guard, folder)
}

fn toolcell(folder: &Path, arguments: &[&str]) -> Ran {
    Toolcell::new(arguments).dir(folder).run()
}

#[test]
fn names_and_documentation_come_along() {
    let (_guard, folder) = place();
    let wrapped = toolcell(
        &folder,
        &[
            "wrap",
            "plain.wasm",
            "--wit=wit",
            "--name=sums",
            "-o",
            "sums.wasm",
        ],
    )
    .exits(0);
    assert_eq!(wrapped.stdout, "sums.wasm\n");
    assert!(
        wrapped.stderr.contains("note: "),
        "what is not offered is noted: {}",
        wrapped.stderr
    );
    assert_eq!(
        std::fs::read(folder.join("plain.wasm")).unwrap(),
        wat("plain"),
        "the component stays as it was"
    );
    let shown = toolcell(&folder, &["describe", "sums.wasm"])
        .exits(0)
        .stdout;
    for words in [
        "sums.tools-add\n",
        "Adds two numbers.",
        "sums.spin\n",
        "Runs until it is stopped.",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(!shown.contains("Adds something else."), "{shown}");
    let called = toolcell(
        &folder,
        &["call", "sums.wasm#tools-add", "{\"a\": 40, \"b\": 2}"],
    )
    .exits(0);
    assert_eq!(called.stdout.trim_end(), "42");
    // The documentation of an interface of another package that the world exports.
    let bytes = std::fs::read(folder.join("sums.wasm")).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("Does more."));
}

#[test]
fn a_profile_is_written_and_a_later_name_keeps_it() {
    let (_guard, folder) = place();
    let profile =
        json!({ "tools": { "spin": { "description": "Never ends.", "read_only": true } } });
    std::fs::write(folder.join("profile.json"), profile.to_string()).unwrap();
    let first = toolcell(
        &folder,
        &[
            "wrap",
            "plain.wasm",
            "--profile=profile.json",
            "-o",
            "a.wasm",
            "--json",
        ],
    )
    .exits(0)
    .json();
    assert_eq!(
        (&first["wrapped"], &first["error"]),
        (&json!("a.wasm"), &json!(null))
    );
    assert!(
        first["tools"]
            .as_array()
            .unwrap()
            .contains(&json!("acme-plain.spin")),
        "{first}"
    );
    toolcell(&folder, &["wrap", "a.wasm", "--name=other", "-o", "b.wasm"]).exits(0);
    let records = toolcell(&folder, &["describe", "b.wasm#spin", "--json"])
        .exits(0)
        .json();
    assert_eq!(records["declarations"][0]["tool_id"], "other.spin");
    assert_eq!(records["declarations"][0]["description"], "Never ends.");
    assert_eq!(records["interfaces"][0]["is_read_only"], true);
}

#[test]
fn a_policy_of_wassette_is_a_ceiling_that_a_later_profile_keeps() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("show.wasm"), wat("plain-network")).unwrap();
    let policy =
        "version: \"1.0\"\npermissions:\n  network:\n    allow:\n    - host: https://example.com\n";
    std::fs::write(folder.join("policy.yaml"), policy).unwrap();
    std::fs::write(
        folder.join("closed.yaml"),
        "version: '1.0'\ndescription: None of it.\n",
    )
    .unwrap();
    std::fs::write(
        folder.join("profile.json"),
        json!({ "tools": { "show": { "read_only": true } } }).to_string(),
    )
    .unwrap();
    let wrap = |from: &str, what: &str, to: &str| {
        toolcell(&folder, &["wrap", from, what, "-o", to]).exits(0)
    };
    wrap("show.wasm", "--policy=policy.yaml", "open.wasm");
    wrap("open.wasm", "--profile=profile.json", "profiled.wasm");
    wrap("open.wasm", "--policy=closed.yaml", "closed.wasm");
    let profile = |file: &str| {
        let records = toolcell(&folder, &["describe", file, "--json"])
            .exits(0)
            .json();
        records["permission_profiles"][0].clone()
    };
    for (file, scope) in [
        ("show.wasm", "any"),
        ("open.wasm", "https://example.com"),
        ("profiled.wasm", "https://example.com"),
    ] {
        let profile = profile(file);
        assert_eq!(
            (&profile["access_kinds"], &profile["network_scope"]),
            (&json!(["network"]), &json!(scope)),
            "{file}"
        );
    }
    assert_eq!(profile("closed.wasm")["access_kinds"], json!([]));
    // A ceiling grants nothing, and a tool that asks for no network needs no grant.
    let call = |file: &str, more: &[&str]| {
        let arguments = [
            &["call", file, "{\"path\": \"/a\"}", "--json", "--no-config"][..],
            more,
        ]
        .concat();
        toolcell(&folder, &arguments)
    };
    call("open.wasm", &["--allow-net=https://example.com"]).exits(0);
    let refused = call("open.wasm", &[]).json();
    assert_eq!(
        refused["error"]["error_class"], "permission_denied",
        "{refused}"
    );
    call("closed.wasm", &[]).exits(0);
}

#[test]
fn a_policy_that_cannot_be_kept_to_is_refused_at_its_place() {
    let (_guard, folder) = place();
    std::fs::write(folder.join("command.wasm"), command()).unwrap();
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
    for (component, policy, why) in [
        (
            "plain.wasm",
            "version: '1.0'\npermissions: {network: {alow: []}}\n",
            "permissions.network.alow: ",
        ),
        (
            "plain.wasm",
            "version: '1.0'\npermissions: {network: {deny: [{host: a}]}}\n",
            "permissions.network.deny: ",
        ),
        (
            "plain.wasm",
            "version: 1.0\nversion: 1.1\n",
            "line 2: \"version\" is a duplicate key",
        ),
        ("plain.wasm", bomb, "line 1: an anchor"),
        ("plain.wasm", "{", "cannot use the policy policy.yaml: "),
        (
            "command.wasm",
            "version: '1.0'\n",
            "only components of plain functions",
        ),
    ] {
        std::fs::write(folder.join("policy.yaml"), policy).unwrap();
        let refused = toolcell(
            &folder,
            &["wrap", component, "--policy=policy.yaml", "-o", "new.wasm"],
        )
        .exits(2);
        assert!(refused.stderr.contains(why), "{why}: {}", refused.stderr);
        assert!(!folder.join("new.wasm").exists(), "{why}");
    }
}

#[test]
fn what_cannot_be_honoured_is_refused_and_nothing_is_written() {
    let (_guard, folder) = place();
    std::fs::write(folder.join("echo.wasm"), wat("echo")).unwrap();
    std::fs::write(folder.join("command.wasm"), command()).unwrap();
    for (name, text) in [
        (
            "unknown.json",
            json!({ "tools": { "tools-sub": {} } }).to_string(),
        ),
        (
            "widening.json",
            json!({ "tools": { "spin": { "network": true } } }).to_string(),
        ),
        (
            "misspelt.json",
            json!({ "tools": { "spin": { "readonly": true } } }).to_string(),
        ),
        (
            "command.json",
            json!({ "tools": { "main": { "read_only": true } } }).to_string(),
        ),
        ("broken.json", "{".to_owned()),
        ("large.json", " ".repeat((1 << 20) + 1)),
        ("broken.wit", "package a:b; interface {".to_owned()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    for (arguments, why) in [
        (&["plain.wasm"][..], "nothing to write"),
        (
            &["plain.wasm", "--profile=unknown.json"],
            "\"tools-sub\", which is none of its tools",
        ),
        (
            &["plain.wasm", "--profile=widening.json"],
            "does not import wasi:http",
        ),
        (
            &["plain.wasm", "--profile=misspelt.json"],
            "unknown field `readonly`",
        ),
        (&["plain.wasm", "--profile=broken.json"], "broken.json"),
        (
            &["plain.wasm", "--profile=large.json"],
            "larger than 1048576 bytes; write a smaller profile",
        ),
        (&["plain.wasm", "--profile=missing.json"], "missing.json"),
        (
            &["plain.wasm", "--wit=broken.wit"],
            "cannot read the WIT package broken.wit",
        ),
        (&["plain.wasm", "--wit=missing"], "cannot read missing"),
        (
            &["plain.wasm", "--name=a b"],
            "characters other than letters",
        ),
        (&["echo.wasm", "--name=other"], "not made for toolcell"),
        (
            &["command.wasm", "--profile=command.json"],
            "only components of plain functions",
        ),
        (
            &["command.wasm", "--wit=wit", "--name=other"],
            "leave out --wit",
        ),
        (&["echo.wasm", "--wit=wit"], "leave out --wit"),
        (&["missing.wasm", "--name=other"], "missing.wasm"),
        (&["broken.json", "--name=other"], "the component"),
    ] {
        let refused = toolcell(
            &folder,
            &[&["wrap"][..], arguments, &["-o", "new.wasm"]].concat(),
        )
        .exits(2);
        assert!(
            refused.stderr.contains(why),
            "{arguments:?}: {}",
            refused.stderr
        );
        assert!(
            refused.stdout.is_empty() && !folder.join("new.wasm").exists(),
            "{arguments:?}"
        );
    }
    let refused = toolcell(
        &folder,
        &[
            "wrap",
            "plain.wasm",
            "--profile=widening.json",
            "-o",
            "new.wasm",
            "--json",
        ],
    );
    let refused = refused.exits(2).json();
    assert_eq!(
        (&refused["wrapped"], &refused["error"]["error_code"]),
        (&json!(null), &json!("description_invalid"))
    );
}

/// A program that does nothing, and whose linker named it `main`.
fn command() -> Vec<u8> {
    let text = r#"(module $main (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
        (memory (export "memory") 1) (func (export "_start")))"#;
    wat::parse_str(text).unwrap()
}

#[test]
fn two_commands_of_one_name_are_told_apart_by_a_namespace() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("one.wasm"), command()).unwrap();
    let named = |name: &str, file: &str| {
        toolcell(&folder, &["wrap", "one.wasm", name, "-o", file]).exits(0)
    };
    named("--name=first", "first.wasm");
    named("--name=second", "second.wasm");
    let names = |files: &[&str]| {
        toolcell(
            &folder,
            &[&["surface"][..], files, &["--no-config"]].concat(),
        )
    };
    let both = names(&["first.wasm", "second.wasm"]).exits(0).stdout;
    assert!(
        both.contains("first.main") && both.contains("second.main"),
        "{both}"
    );
    let called = toolcell(
        &folder,
        &["call", "second.wasm", "{}", "--json", "--no-config"],
    )
    .exits(0)
    .json();
    assert_eq!(called["structured_content"]["exit_code"], 0, "{called}");
    // Another program of this name: the error says how to tell them apart.
    std::fs::write(
        folder.join("other.wasm"),
        [&command()[..], b"\0\x05\x04note"].concat(),
    )
    .unwrap();
    let clash = names(&["one.wasm", "other.wasm"]).exits(2);
    assert!(
        clash.stderr.contains("toolcell wrap --name"),
        "{}",
        clash.stderr
    );
}

#[test]
fn a_file_is_replaced_only_if_that_is_wanted() {
    let (_guard, folder) = place();
    std::fs::write(folder.join("kept.wasm"), "kept").unwrap();
    let wrap = ["wrap", "plain.wasm", "--name=other", "-o", "kept.wasm"];
    let refused = toolcell(&folder, &wrap).exits(2);
    assert!(
        refused
            .stderr
            .contains("kept.wasm exists; --force replaces it"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        std::fs::read_to_string(folder.join("kept.wasm")).unwrap(),
        "kept"
    );
    toolcell(&folder, &[&wrap[..], &["--force"]].concat()).exits(0);
    toolcell(&folder, &["describe", "kept.wasm#spin"]).exits(0);
    let left: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 3, "a draft was left: {left:?}");
}

#[test]
fn a_command_gets_the_interface_that_a_profile_says() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("cat.wasm"), ::wat::parse_str(CAT).unwrap()).unwrap();
    let profile = json!({ "namespace": "mine", "command": {
        "name": "same", "description": "Answers with its input.",
        "input_schema": { "type": "object", "properties": { "structured": { "type": "object" } } },
    } });
    std::fs::write(folder.join("profile.json"), profile.to_string()).unwrap();
    let words = [
        "wrap",
        "cat.wasm",
        "--profile=profile.json",
        "-o",
        "same.wasm",
    ];
    toolcell(&folder, &words).exits(0);
    let shown = toolcell(&folder, &["describe", "same.wasm"])
        .exits(0)
        .stdout;
    for words in [
        "mine.same\n",
        "Answers with its input.",
        "structured (object, optional)",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let input = r#"{"structured": {"n": 1}}"#;
    let called = toolcell(&folder, &["call", "same.wasm", input, "--json"])
        .exits(0)
        .json();
    assert_eq!(called["structured_content"], json!({ "n": 1, "files": [] }));
    let wrong = profile.to_string().replace("description", "describes");
    std::fs::write(folder.join("profile.json"), wrong).unwrap();
    let words = [
        "wrap",
        "cat.wasm",
        "--profile=profile.json",
        "-o",
        "other.wasm",
    ];
    let refused = toolcell(&folder, &words).exits(2);
    assert!(
        refused.stderr.contains("unknown field `describes`"),
        "{}",
        refused.stderr
    );
}
