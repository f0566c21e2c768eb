//! The components of hooks: a user trusts them with a project, and no tool or hook may change them.
//!
//! Promise: A project grants nothing by itself.
//! Promise: A guest cannot replace a hook.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::hooks::{configured, echo, home, scripted};
use crate::support::{Ran, Toolcell, component, fixture, scratch};

/// A project whose only hook stops every call that asks for it, and a home that trusts the project.
struct Guarded {
    _guards: (tempfile::TempDir, tempfile::TempDir),
    home: PathBuf,
    project: PathBuf,
}

impl Guarded {
    fn new(options: &str) -> Self {
        let (guard, project) = scratch();
        let (home_guard, home) = home();
        std::fs::create_dir(project.join("hooks")).unwrap();
        std::fs::copy(fixture("hooks"), project.join("hooks/guard.wasm")).unwrap();
        let text =
            format!("[[hook]]\ncomponent = \"hooks/guard.wasm\"\ntimeout = \"20s\"\n{options}");
        configured(&project, &text);
        let guarded = Self {
            _guards: (guard, home_guard),
            home,
            project,
        };
        guarded.trust().exits(0);
        guarded
    }

    fn component(&self) -> PathBuf {
        self.project.join("hooks/guard.wasm")
    }

    fn trust(&self) -> Ran {
        Toolcell::at(&self.home, ["trust", "."])
            .dir(&self.project)
            .run()
    }

    fn call(&self, tool: &str, input: &Value, options: &[&str]) -> Ran {
        let tool = format!("{}#{tool}", fixture("probe").display());
        let input = input.to_string();
        let mut arguments = vec!["call", tool.as_str(), &input, "--json"];
        arguments.extend(options);
        Toolcell::at(&self.home, arguments).dir(&self.project).run()
    }

    fn stopped(&self) {
        let ran = self
            .call(
                "echo",
                &json!({"hook": {"pre_tool_use": [{"stop": "guarded"}]}}),
                &[],
            )
            .exits(3);
        assert!(ran.stdout.contains("guarded"), "{ran:?}");
    }
}

#[test]
fn a_project_is_trusted_with_the_bytes_of_its_hooks() {
    component("example-tools/redact-paths");
    let project = Guarded::new("");
    project.stopped();
    let refused = |what: &str| {
        let ran = project.call("echo", &json!({}), &[]).exits(3);
        let error = ran.json()["error"].clone();
        assert_eq!(error["error_code"], "project_not_trusted", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("hooks/guard.wasm") && message.contains(what),
            "{message}"
        );
        assert!(message.contains("toolcell trust"), "{message}");
    };
    std::fs::copy(component("example-tools/redact-paths"), project.component()).unwrap();
    refused("changed");
    std::fs::remove_file(project.component()).unwrap();
    refused("changed");
    assert!(project.trust().exits(2).stderr.contains("hooks/guard.wasm"));
    std::fs::copy(fixture("hooks"), project.component()).unwrap();
    project.stopped();
    // The user has to trust a changed hook again.
    std::fs::copy(component("example-tools/redact-paths"), project.component()).unwrap();
    project.trust().exits(0);
    project.call("echo", &json!({}), &[]).exits(0);
}

#[test]
fn a_component_that_is_no_file_is_not_waited_for() {
    let project = Guarded::new("");
    std::fs::remove_file(project.component()).unwrap();
    assert!(
        std::process::Command::new("mkfifo")
            .arg(project.component())
            .status()
            .unwrap()
            .success()
    );
    project.call("echo", &json!({}), &[]).exits(3);
    project
        .call("echo", &json!({}), &["--config=toolcell.toml"])
        .exits(3);
    project.trust().exits(2);
}

/// Tries to change the hook at `component` in every way, in its folder `folder`. Returns the attempts that succeeded.
fn changes(call: impl Fn(&str, Value) -> Ran, component: &Path) -> Vec<String> {
    let at = component.display().to_string();
    let folder = component.parent().unwrap();
    let aside = folder.join("aside").display().to_string();
    let moved = folder.with_file_name("moved");
    std::fs::write(&aside, "no hook").unwrap();
    let mut done = Vec::new();
    for (tool, input) in [
        ("write", json!({ "path": at, "text": "no hook" })),
        ("append", json!({ "path": at, "text": "more" })),
        ("truncate", json!({ "path": at, "bytes": 0 })),
        ("rename", json!({ "from": aside, "to": at })),
        ("rename", json!({ "from": at, "to": format!("{at}.old") })),
        ("rename", json!({ "from": folder, "to": moved })),
        ("link", json!({ "from": at, "to": format!("{at}.link") })),
        ("remove", json!({ "path": at })),
    ] {
        let answer = call(tool, input.clone()).exits(0).json()["structured_content"].clone();
        if answer["ok"] == true {
            done.push(format!("{tool} {input}"));
        }
    }
    assert!(
        call(
            "write",
            json!({ "path": folder.join("other"), "text": "x" })
        )
        .exits(0)
        .json()["structured_content"]["ok"]
            == true
    );
    done
}

#[test]
fn no_tool_changes_a_hook_whoevers_file_names_it() {
    let project = Guarded::new("");
    let before = std::fs::read(project.component()).unwrap();
    let call = |options: &'static [&'static str]| {
        let project = &project;
        move |tool: &str, input| {
            project.call(tool, &input, &[&["--allow-write=."], options].concat())
        }
    };
    assert_eq!(
        changes(call(&[]), &project.component()),
        Vec::<String>::new()
    );
    assert_eq!(
        changes(call(&["--config=toolcell.toml"]), &project.component()),
        Vec::<String>::new()
    );
    // The hook of the user's own file, through a link that could be replaced.
    let own = project.project.join("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::copy(fixture("hooks"), own.join("real.wasm")).unwrap();
    std::os::unix::fs::symlink("real.wasm", own.join("link.wasm")).unwrap();
    let text = format!(
        "[[hook]]\ncomponent = {:?}\ntimeout = \"20s\"\n",
        own.join("link.wasm")
    );
    configured(&project.home, &text);
    assert_eq!(
        changes(call(&[]), &own.join("link.wasm")),
        Vec::<String>::new()
    );
    assert_eq!(
        changes(call(&[]), &own.join("real.wasm")),
        Vec::<String>::new()
    );
    // A tool cannot create a configured hook that does not exist yet.
    let text = "[[hook]]\ncomponent = \"hooks/later.wasm\"\non_failure = \"warn\"\n";
    let config = project.project.join("later.toml");
    std::fs::write(&config, text).unwrap();
    let later = project.project.join("hooks/later.wasm");
    let ran = project.call(
        "write",
        &json!({ "path": later, "text": "x" }),
        &["--allow-write=.", "--config=later.toml"],
    );
    assert_eq!(ran.exits(0).json()["structured_content"]["ok"], false);
    assert!(!later.exists());
    assert_eq!(std::fs::read(project.component()).unwrap(), before);
}

#[test]
fn no_hook_changes_a_hook() {
    let (_guard, folder) = scratch();
    std::fs::create_dir(folder.join("hooks")).unwrap();
    // The first hook writes `mark` into its granted folder.
    std::fs::copy(fixture("hooks"), folder.join("hooks/mark")).unwrap();
    let before = std::fs::read(folder.join("hooks/mark")).unwrap();
    let text = format!(
        "{}grants = {{ write = [\"hooks\"] }}\n[[hook]]\nid = \"marked\"\ncomponent = \"hooks/mark\"\ntimeout = \"20s\"\nevents = [\"post_tool_use\"]\n",
        scripted("events = [\"pre_tool_use\"]\n")
    );
    let input = json!({"hook": {"pre_tool_use": [{"attack": "look_around"}]}});
    let ran = echo(&configured(&folder, &text), &input, &[]).exits(0);
    assert!(
        ran.stderr.contains("folder ") && !ran.stderr.contains("write "),
        "{}",
        ran.stderr
    );
    assert_eq!(std::fs::read(folder.join("hooks/mark")).unwrap(), before);
}
