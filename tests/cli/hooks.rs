//! Hooks as a user configures them: `[[hook]]` in a `toolcell.toml`.
//!
//! Promise: A project grants nothing by itself.
//! Promise: A hook never hangs a call, and a call cannot go around it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::example;
use crate::support::{Ran, Toolcell, component, fixture, kept, scratch};

/// A folder with a `toolcell.toml`.
pub(super) fn configured(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("toolcell.toml");
    std::fs::write(&file, text).unwrap();
    file
}

pub(super) fn scripted(options: &str) -> String {
    format!(
        "[[hook]]\nid = \"scripted\"\ncomponent = {:?}\ntimeout = \"20s\"\n{options}",
        fixture("hooks")
    )
}

pub(super) fn echo(config: &Path, input: &Value, more: &[&str]) -> Ran {
    let tool = format!("{}#echo", fixture("probe").display());
    let mut arguments = vec![
        "call".to_owned(),
        tool,
        input.to_string(),
        "--config".to_owned(),
    ];
    arguments.push(config.display().to_string());
    arguments.extend(more.iter().map(|&more| more.to_owned()));
    Toolcell::new(arguments).run()
}

#[test]
fn a_hook_of_the_configuration_runs_around_a_call() {
    let (_guard, folder) = scratch();
    let config = configured(&folder, &scripted(""));
    let input = json!({"hook": {"pre_tool_use": [{"message": "checked\n\u{1b}[2J"}], "post_tool_use": [{"updated_output": 7}]}});
    let ran = echo(&config, &input, &[]).exits(0);
    assert_eq!(ran.stdout, "7\n");
    assert!(
        ran.stderr.starts_with("hook scripted| checked\n"),
        "{}",
        ran.stderr
    );
    let record = echo(&config, &input, &["--print-record"]).exits(0).json();
    assert_eq!(record["hooks"][0]["hook_id"], "scripted");
}

#[test]
fn a_hook_stops_a_call_with_exit_3() {
    let (_guard, folder) = scratch();
    let config = configured(&folder, &scripted(""));
    let ran = echo(
        &config,
        &json!({"hook": {"pre_tool_use": [{"stop": "not today"}]}}),
        &[],
    )
    .exits(3);
    assert_eq!(
        ran.stderr,
        "error: the hook scripted stopped the call: not today [hook_blocked/hook_stop]\n"
    );
    let ran = echo(
        &config,
        &json!({"hook": {"pre_tool_use": [{"fail": "own words"}]}}),
        &[],
    )
    .exits(3);
    let lines = "hook scripted| own words\n\
                 error: the hook scripted failed, and so the call may not go on [hook_blocked/hook_failed]\n";
    assert_eq!(ran.stderr, lines);
    let ran = echo(
        &config,
        &json!({"hook": {"pre_tool_use": [{"fail": "own words"}]}}),
        &["--json"],
    )
    .exits(3);
    assert!(
        !ran.stdout.contains("own words"),
        "the result may reach a model"
    );
}

#[test]
fn the_users_own_file_counts_without_being_named() {
    let (_guard, home) = scratch();
    for part in ["cache", "keys"] {
        std::fs::create_dir_all(kept("home").join(part)).unwrap();
        std::os::unix::fs::symlink(kept("home").join(part), home.join(part)).unwrap();
    }
    configured(&home, &scripted("events = [\"pre_tool_use\"]"));
    let tool = format!("{}#echo", fixture("probe").display());
    let input = json!({"hook": {"pre_tool_use": [{"stop": "the user says no"}]}}).to_string();
    let ran = Toolcell::at(&home, ["call", &tool, &input]).run().exits(3);
    assert!(ran.stderr.contains("the user says no"), "{}", ran.stderr);
}

#[test]
fn a_hook_that_is_missing_blocks_and_says_why() {
    let (_guard, folder) = scratch();
    let config = configured(&folder, "[[hook]]\ncomponent = \"gone.wasm\"");
    let ran = echo(&config, &json!({}), &[]).exits(3);
    assert!(
        ran.stderr
            .starts_with("warning: the hook gone could not be loaded: "),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("gone.wasm") && ran.stderr.contains("[hook_blocked/hook_not_loaded]"),
        "{}",
        ran.stderr
    );
    let config = configured(
        &folder,
        "[[hook]]\ncomponent = \"gone.wasm\"\non_failure = \"warn\"",
    );
    let ran = echo(&config, &json!({}), &[]).exits(0);
    assert!(
        ran.stderr
            .starts_with("warning: the hook gone could not be loaded: "),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_configuration_that_cannot_be_understood_runs_nothing() {
    let (_guard, folder) = scratch();
    let ran = echo(
        &configured(&folder, "[[hook]]\ncomponnt = 1"),
        &json!({}),
        &[],
    )
    .exits(3);
    assert!(
        ran.stderr.contains("componnt") && ran.stdout.is_empty(),
        "{}",
        ran.stderr
    );
    let twice = format!("{0}\n{0}", scripted(""));
    let ran = echo(&configured(&folder, &twice), &json!({}), &[]).exits(2);
    assert!(
        ran.stderr.contains("two hooks are called scripted") && ran.stdout.is_empty(),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_hook_of_a_project_runs_only_once_the_project_is_trusted() {
    let (_guard, folder) = scratch();
    configured(&folder, &scripted("events = [\"pre_tool_use\"]"));
    let (_home_guard, home) = scratch();
    for part in ["cache", "keys"] {
        std::os::unix::fs::symlink(kept("home").join(part), home.join(part)).unwrap();
    }
    let tool = format!("{}#echo", fixture("probe").display());
    let input = json!({"hook": {"pre_tool_use": [{"stop": "the project says no"}]}}).to_string();
    let call = || {
        Toolcell::at(&home, ["call", &tool, &input])
            .dir(&folder)
            .run()
            .exits(3)
    };
    assert!(call().stderr.contains("toolcell trust"));
    Toolcell::at(&home, ["trust", folder.to_str().unwrap()])
        .run()
        .exits(0);
    assert!(call().stderr.contains("the project says no"));
    // The hook's sources are not built, because that would run their code on this machine.
    configured(&folder, "[[hook]]\ncomponent = \"source\"");
    std::fs::create_dir(folder.join("source")).unwrap();
    let stderr = Toolcell::at(&home, ["trust", folder.to_str().unwrap()])
        .run()
        .exits(2)
        .stderr;
    assert!(
        stderr.contains("not built for a project") && stderr.contains("toolcell build"),
        "{stderr}"
    );
    assert!(call().stderr.contains("toolcell trust"));
}

#[test]
fn no_grant_of_a_hook_reaches_toolcells_own_state() {
    let (_guard, folder) = scratch();
    let grants = format!("grants = {{ write = [{:?}] }}", kept("home"));
    let ran = echo(&configured(&folder, &scripted(&grants)), &json!({}), &[]).exits(3);
    assert!(
        ran.stderr.contains("would expose toolcell's own data"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_source_folder_is_a_hook_too() {
    component("example-tools/redact-paths");
    let (_guard, folder) = scratch();
    let text = format!(
        "[[hook]]\ncomponent = {:?}\ntimeout = \"20s\"\non_failure = \"block\"",
        example("redact-paths")
    );
    let ran = echo(
        &configured(&folder, &text),
        &json!({"at": "/home/ada/x"}),
        &["--json"],
    )
    .exits(0)
    .json();
    assert_eq!(ran["structured_content"]["input"], json!({"at": "~/x"}));
}

/// A separate home that shares the compiled components.
pub(super) fn home() -> (tempfile::TempDir, PathBuf) {
    let (guard, home) = scratch();
    for part in ["cache", "keys"] {
        std::fs::create_dir_all(kept("home").join(part)).unwrap();
        std::os::unix::fs::symlink(kept("home").join(part), home.join(part)).unwrap();
    }
    (guard, home)
}

#[test]
fn a_source_folder_of_a_project_is_not_built_under_another_spelling() {
    let (_guard, folder) = scratch();
    let (_home_guard, home) = home();
    let source = folder.join("src1");
    std::fs::create_dir_all(source.join("src")).unwrap();
    let manifest = "[package]\nname = \"src1\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n[workspace]\n";
    std::fs::write(source.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(source.join("src/lib.rs"), "").unwrap();
    let marker = folder.join("ran");
    let script = format!("fn main() {{ std::fs::write({marker:?}, \"\").unwrap(); }}");
    std::fs::write(source.join("build.rs"), script).unwrap();
    configured(&folder, "[[hook]]\ncomponent = \"src1#x\"");
    Toolcell::at(&home, ["trust", folder.to_str().unwrap()]).run();
    let tool = format!("{}#echo", fixture("probe").display());
    let call = |options: &[&str]| {
        let mut arguments = vec!["call", tool.as_str(), "{}"];
        arguments.extend(options);
        Toolcell::at(&home, arguments)
            .dir(&folder)
            .run()
            .exits(3)
            .stderr
    };
    call(&[]);
    assert!(!marker.exists(), "a build script of the project ran");
    let stderr = call(&["--config=toolcell.toml"]);
    assert!(
        stderr.contains("has no #NAME") && stderr.contains("hook_not_loaded"),
        "{stderr}"
    );
    assert!(
        !marker.exists(),
        "what is named is a folder with a name, and no tool"
    );
}

#[test]
fn a_time_that_no_clock_can_hold_is_refused_like_any_other_word() {
    let (_guard, folder) = scratch();
    let text = format!(
        "[[hook]]\ncomponent = {:?}\ntimeout = \"18446744073709551615s\"",
        fixture("hooks")
    );
    let ran = echo(&configured(&folder, &text), &json!({}), &[]).exits(3);
    assert!(ran.stderr.contains("365 days"), "{}", ran.stderr);
    let text = "[limits]\ntimeout = \"18446744073709551615s\"";
    let ran = echo(&configured(&folder, text), &json!({}), &[]).exits(3);
    assert!(
        ran.stderr.contains("365 days") && ran.stderr.contains("line 2"),
        "{}",
        ran.stderr
    );
    let ran = echo(
        &configured(&folder, ""),
        &json!({}),
        &["--timeout=18446744073709551615s"],
    )
    .exits(2);
    assert!(ran.stderr.contains("365 days"), "{}", ran.stderr);
}
