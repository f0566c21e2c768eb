//! From `toolcell new` to a call. Only two tests here build from scratch; compiled dependencies are kept.

use std::path::{Path, PathBuf};
use std::process::Command;

use toolcell::Home;

use crate::support::{Ran, Toolcell, root, scratch};

use super::clients::started;
use super::{BUILDING, example};

/// The program with the user's state, in which the guest toolchain is installed.
pub(crate) fn with_toolchain(dir: &Path, arguments: &[&str]) -> Toolcell {
    Toolcell::at(Home::find().unwrap().folder(), arguments).dir(dir)
}

#[test]
fn a_new_tool_builds_is_described_and_runs() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    let ran = with_toolchain(&place, &["new", "word-count", "--json"])
        .run()
        .exits(0);
    assert_eq!(ran.json()["name"], "word-count");
    let project = place.join("word-count");

    let built = with_toolchain(&place, &["build", "word-count", "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(
        (built["name"].as_str(), built["fresh"].as_bool()),
        (Some("word-count"), Some(false))
    );
    let wasm = PathBuf::from(built["wasm"].as_str().unwrap());
    assert_eq!(&std::fs::read(&wasm).unwrap()[..4], b"\0asm");
    let again = with_toolchain(&project, &["build", "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(
        (again["fresh"].as_bool(), again["wasm"].as_str()),
        (Some(true), built["wasm"].as_str())
    );
    let plain = with_toolchain(&project, &["build"]).run().exits(0);
    assert_eq!(plain.stdout.trim_end(), wasm.display().to_string());
    // A pipe in place of the user's copy has no end, and is replaced.
    std::fs::remove_file(&wasm).unwrap();
    let made = Command::new("mkfifo").arg(&wasm).status().unwrap();
    assert!(made.success());
    with_toolchain(&project, &["build"]).run().exits(0);
    assert!(wasm.symlink_metadata().unwrap().is_file());

    // The build has compiled the component, so that the first call need not.
    let compiled = || {
        let entries = std::fs::read_dir(Home::find().unwrap().components()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let before = compiled();
    let shown = with_toolchain(&place, &["describe", "word-count"])
        .run()
        .exits(0);
    assert_eq!(compiled(), before);
    assert!(
        shown.stdout.starts_with("word-count.count\n"),
        "{}",
        shown.stdout
    );
    let call = |options: &[&str]| {
        let call = ["call", "word-count", "{\"text\": \"one two three\"}"];
        with_toolchain(&place, &[&call, options].concat()).run()
    };
    assert_eq!(call(&[]).exits(0).stdout, "3 words\n");
    // A client gets the built component, and runs no compiler.
    let printed = with_toolchain(&place, &["mcp", "word-count", "--print-config=cursor"])
        .run()
        .exits(0);
    let whole: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
    let mut client = started(&whole["mcpServers"]["toolcell"]);
    assert_eq!(
        client.call("count", serde_json::json!({ "text": "one two" }))["content"][0]["text"],
        "2 words"
    );

    // What no build reads changes nothing, and a changed source nothing before the user agrees to a build.
    let source = project.join("src/lib.rs");
    let text = std::fs::read_to_string(&source).unwrap();
    std::fs::write(project.join("notes.txt"), "unrelated").unwrap();
    let ran = call(&[]).exits(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("3 words\n", "")
    );
    std::fs::write(&source, text.replace("{} words", "{} words here")).unwrap();
    let older = call(&[]).exits(0);
    assert_eq!(older.stdout, "3 words\n");
    assert_eq!(
        older
            .stderr
            .matches("word-count is older than its sources: src/lib.rs has changed")
            .count(),
        1,
        "{older:?}"
    );
    let mut client = crate::support::Client::run(with_toolchain(&place, &["mcp", "word-count"]));
    client.initialize("2025-11-25");
    assert_eq!(
        client.call("count", serde_json::json!({ "text": "one two" }))["content"][0]["text"],
        "2 words"
    );
    assert_eq!(call(&["--build"]).exits(0).stdout, "3 words here\n");
    let ran = call(&[]).exits(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("3 words here\n", "")
    );

    // A compilation error is a refusal that contains the compiler's message.
    std::fs::write(&source, "fn broken(").unwrap();
    let broken = call(&["--build", "--json"]).exits(2).json();
    assert_eq!(broken["error"]["error_code"], "build_failed");
    assert!(
        broken["error"]["message"]
            .as_str()
            .unwrap()
            .contains("src/lib.rs"),
        "{}",
        broken["error"]
    );
    with_toolchain(&place, &["build", "word-count"])
        .run()
        .exits(2);
}

/// The command `toolcell WORD ..` among the lines that `toolcell new` printed, run by a shell in `dir`.
fn shown(printed: &str, word: &str, dir: &Path) -> Ran {
    let start = format!("toolcell {word} ");
    let line = printed
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with(&start))
        .unwrap_or_else(|| panic!("{printed}"));
    let mut shell = std::process::Command::new("sh");
    let program = Path::new(env!("CARGO_BIN_EXE_toolcell")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    shell
        .args(["-c", line])
        .env("PATH", path)
        .env("TOOLCELL_HOME", Home::find().unwrap().folder());
    Toolcell::exactly(shell).dir(dir).run()
}

#[test]
fn a_new_hook_builds_and_stops_calls_and_a_tool_after_it_compiles_itself_alone() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    let made = with_toolchain(&place, &["new", "--hook", "no-secrets"])
        .run()
        .exits(0)
        .stdout;
    assert!(
        made.contains("[[hook]]") && made.contains("no-secrets/README.md"),
        "{made}"
    );
    let wasm = PathBuf::from(shown(&made, "build", &place).exits(0).stdout.trim_end());
    let entry = format!("[[hook]]\ncomponent = {wasm:?}\ntimeout = \"20s\"\n");
    std::fs::write(place.join("config.toml"), entry).unwrap();
    for name in [".env", "note"] {
        std::fs::write(place.join(name), "what is in it").unwrap();
    }
    let files = format!("{}#read", example("files"));
    let read = |path: &str| {
        let input = serde_json::json!({ "path": path }).to_string();
        Toolcell::new([
            "call",
            &files,
            &input,
            "--allow-read=.",
            "--config=config.toml",
        ])
        .dir(&place)
        .run()
    };
    assert!(
        read(".env")
            .exits(3)
            .stderr
            .contains("dotfiles are private")
    );
    assert!(read("note").exits(0).stdout.contains("what is in it"));
    let unknown = with_toolchain(&place, &["describe", "no-secrets"])
        .run()
        .exits(2);
    assert!(unknown.stderr.contains("not_a_tool"), "{}", unknown.stderr);

    let made = with_toolchain(&place, &["new", "second"])
        .run()
        .exits(0)
        .stdout;
    // The same versions, although the registry may have newer ones since.
    let lock = std::fs::read_to_string(place.join("no-secrets/Cargo.lock")).unwrap();
    std::fs::write(
        place.join("second/Cargo.lock"),
        lock.replace("\"no-secrets\"", "\"second\""),
    )
    .unwrap();
    let built = shown(&made, "build", &place).exits(0);
    let compiled: Vec<&str> = built
        .stderr
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("Compiling "))
        .collect();
    assert!(
        compiled.len() == 1 && compiled[0].starts_with("second "),
        "{compiled:?}"
    );
    assert_eq!(shown(&made, "call", &place).exits(0).stdout, "3 words\n");
    assert!(
        shown(&made, "describe", &place)
            .exits(0)
            .stdout
            .starts_with("second.count\n")
    );

    // What `describe` would refuse, the build refuses, in the same words.
    let source = place.join("second/src/lib.rs");
    let text = std::fs::read_to_string(&source).unwrap();
    let wrong = text.replace(
        "#[tool(read_only,",
        "#[tool(paths = [\"nowhere\"], access = [\"file_read\"], read_only,",
    );
    assert_ne!(text, wrong);
    std::fs::write(&source, wrong).unwrap();
    let errors = |ran: Ran| -> Vec<String> {
        assert!(ran.stdout.is_empty() && ran.code != Some(0), "{ran:?}");
        ran.stderr
            .lines()
            .skip_while(|line| !line.starts_with("error: "))
            .map(str::to_owned)
            .collect()
    };
    let refused = errors(with_toolchain(&place, &["build", "second"]).run());
    assert!(refused.concat().contains("nowhere"), "{refused:?}");
    assert_eq!(
        refused,
        errors(with_toolchain(&place, &["describe", "second"]).run())
    );
    let refused = with_toolchain(&place, &["build", "second", "--json"])
        .run()
        .json();
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("nowhere"),
        "{refused}"
    );
}

#[test]
fn a_tool_that_was_built_is_fresh() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    with_toolchain(&root(), &["build", "example-tools/ticker"])
        .run()
        .exits(0);
    let built = with_toolchain(&root(), &["build", "example-tools/ticker", "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(
        (built["name"].as_str(), built["fresh"].as_bool()),
        (Some("ticker"), Some(true))
    );
}

#[test]
fn a_tool_that_was_built_is_called_without_any_toolchain() {
    example("ticker");
    let call = Toolcell::new(["call", "example-tools/ticker", "{\"ticks\": 1}"]).dir(&root());
    let ran = call
        .env("PATH", "/nowhere")
        .env("TOOLCELL_GUEST_TOOLCHAIN", "installed")
        .run()
        .exits(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("1 of 1 ticks\n", "")
    );
}

#[test]
fn a_name_that_cannot_be_one_makes_no_folder() {
    let (_guard, folder) = scratch();
    for name in [
        "",
        "Upper",
        "2x",
        "-x",
        "a b",
        "..",
        "a/B",
        "fn",
        "self",
        "std",
        "toolcell-guest",
        "\u{e4}",
    ] {
        let arguments = ["new", "--", name];
        let ran = Toolcell::at(&folder.join("home"), arguments)
            .dir(&folder)
            .run()
            .exits(2);
        assert!(
            ran.stderr.contains("cannot be a project's name"),
            "{name}: {}",
            ran.stderr
        );
    }
    let left: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["home"]);
}

#[test]
fn the_last_part_of_a_path_is_the_name() {
    let (_guard, folder) = scratch();
    let new = |path: &str, json: &[&str]| {
        let arguments = [&["new", path, "--lang=c"], json].concat();
        Toolcell::at(&folder.join("home"), arguments)
            .dir(&folder)
            .run()
            .exits(0)
    };
    let made = new("deep/tools/count", &["--json"]).json();
    assert_eq!(
        (&made["name"], &made["folder"]),
        (&"count".into(), &"deep/tools/count".into())
    );
    assert!(folder.join("deep/tools/count/tool.c").is_file());
    let printed = new("my tools/other/", &[]).stdout;
    assert!(
        printed.contains("toolcell build 'my tools/other'\n"),
        "{printed}"
    );
}

#[test]
fn new_projects_in_rust_are_as_rustfmt_writes_them() {
    let (_guard, folder) = scratch();
    for arguments in [&["new", "tool"] as &[&str], &["new", "--hook", "hook"]] {
        Toolcell::at(&folder.join("home"), arguments)
            .dir(&folder)
            .run()
            .exits(0);
    }
    let checked = Command::new("rustfmt")
        .args(["--check", "--edition=2024"])
        .args(["tool/src/lib.rs", "hook/src/lib.rs"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let difference = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{difference}");
}

#[test]
fn what_is_there_is_not_overwritten() {
    let (_guard, folder) = scratch();
    std::fs::create_dir(folder.join("mine")).unwrap();
    let ran = Toolcell::at(&folder.join("home"), ["new", "mine"])
        .dir(&folder)
        .run()
        .exits(2);
    assert!(ran.stderr.contains("is there already"), "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(folder.join("mine")).unwrap().count(), 0);
}

#[test]
fn a_folder_without_a_tool_says_what_to_do() {
    let (_guard, folder) = scratch();
    for command in ["build", "call", "describe"] {
        let ran = Toolcell::new([command, folder.to_str().unwrap()])
            .run()
            .exits(2);
        assert!(
            ran.stderr.contains("toolcell new NAME"),
            "{command}: {}",
            ran.stderr
        );
    }
}
