//! From `toolcell new` to a call. This is the only test here that builds from scratch; compiled dependencies are kept.

use std::path::{Path, PathBuf};

use toolcell::config::Home;

use super::clients::started;
use super::{BUILDING, example};
use crate::support::{Toolcell, root, scratch};

/// The program with the user's state, in which the guest toolchain is installed.
pub(super) fn with_toolchain(dir: &Path, arguments: &[&str]) -> Toolcell {
    Toolcell::at(Home::find().unwrap().folder(), arguments).dir(dir)
}

#[test]
fn a_new_tool_builds_is_described_and_runs() {
    let _turn = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    let ran = with_toolchain(&place, &["new", "word-count", "--json"]).run().exits(0);
    assert_eq!(ran.json()["name"], "word-count");
    let project = place.join("word-count");

    let built = with_toolchain(&place, &["build", "word-count", "--json"]).run().exits(0).json();
    assert_eq!((built["name"].as_str(), built["fresh"].as_bool()), (Some("word-count"), Some(false)));
    let wasm = PathBuf::from(built["wasm"].as_str().unwrap());
    assert_eq!(&std::fs::read(&wasm).unwrap()[..4], b"\0asm");
    let again = with_toolchain(&project, &["build", "--json"]).run().exits(0).json();
    assert_eq!((again["fresh"].as_bool(), again["wasm"].as_str()), (Some(true), built["wasm"].as_str()));
    let plain = with_toolchain(&project, &["build"]).run().exits(0);
    assert_eq!(plain.stdout.trim_end(), wasm.display().to_string());

    let shown = with_toolchain(&place, &["describe", "word-count"]).run().exits(0);
    assert!(shown.stdout.starts_with("word-count.count\n"), "{}", shown.stdout);
    let call = |options: &[&str]| {
        let call = ["call", "word-count", "{\"text\": \"one two three\"}"];
        with_toolchain(&place, &[&call, options].concat()).run()
    };
    assert_eq!(call(&[]).exits(0).stdout, "3 words\n");
    // A client gets the built component, and runs no compiler.
    let printed = with_toolchain(&place, &["mcp", "word-count", "--print-config=cursor"]).run().exits(0);
    let whole: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
    let mut client = started(&whole["mcpServers"]["toolcell"]);
    assert_eq!(client.call("count", serde_json::json!({ "text": "one two" }))["content"][0]["text"], "2 words");

    // A changed source changes the tool only after the user agrees to a build.
    let source = project.join("src/lib.rs");
    let text = std::fs::read_to_string(&source).unwrap();
    std::fs::write(&source, text.replace("{} words", "{} words here")).unwrap();
    let refused = call(&["--json"]).exits(2).json();
    assert_eq!(refused["error"]["error_code"], "not_built");
    assert_eq!(call(&["--build"]).exits(0).stdout, "3 words here\n");
    assert_eq!(call(&[]).exits(0).stdout, "3 words here\n");

    // A compilation error is a refusal that contains the compiler's message.
    std::fs::write(&source, "fn broken(").unwrap();
    let broken = call(&["--build", "--json"]).exits(2).json();
    assert_eq!(broken["error"]["error_code"], "build_failed");
    assert!(broken["error"]["message"].as_str().unwrap().contains("src/lib.rs"), "{}", broken["error"]);
    with_toolchain(&place, &["build", "word-count"]).run().exits(2);
}

#[test]
fn a_tool_that_was_built_is_fresh() {
    let _turn = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    with_toolchain(&root(), &["build", "example-tools/ticker"]).run().exits(0);
    let built = with_toolchain(&root(), &["build", "example-tools/ticker", "--json"]).run().exits(0).json();
    assert_eq!((built["name"].as_str(), built["fresh"].as_bool()), (Some("ticker"), Some(true)));
}

#[test]
fn a_tool_that_was_built_is_called_without_any_toolchain() {
    example("ticker");
    let call = Toolcell::new(["call", "example-tools/ticker", "{\"ticks\": 1}"]).dir(&root());
    let ran = call.env("PATH", "/nowhere").env("TOOLCELL_GUEST_TOOLCHAIN", "installed").run().exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("1 of 1 ticks\n", ""));
}

#[test]
fn a_name_that_cannot_be_one_makes_no_folder() {
    let (_guard, folder) = scratch();
    for name in ["", "Upper", "2x", "-x", "a b", "../a", "a/b", "fn", "self", "std", "toolcell-guest", "\u{e4}"] {
        let arguments = ["new", "--", name];
        let ran = Toolcell::at(&folder.join("home"), arguments).dir(&folder).run().exits(2);
        assert!(ran.stderr.contains("cannot be a project's name"), "{name}: {}", ran.stderr);
    }
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["home"]);
}

#[test]
fn what_is_there_is_not_overwritten() {
    let (_guard, folder) = scratch();
    std::fs::create_dir(folder.join("mine")).unwrap();
    let ran = Toolcell::at(&folder.join("home"), ["new", "mine"]).dir(&folder).run().exits(2);
    assert!(ran.stderr.contains("is there already"), "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(folder.join("mine")).unwrap().count(), 0);
}

#[test]
fn a_folder_without_a_tool_says_what_to_do() {
    let (_guard, folder) = scratch();
    for command in ["build", "call", "describe"] {
        let ran = Toolcell::new([command, folder.to_str().unwrap()]).run().exits(2);
        assert!(ran.stderr.contains("toolcell new NAME"), "{command}: {}", ran.stderr);
    }
}
