//! `toolcell.lock`: declared tools, locks of others, and locks that were changed.
//!
//! Promise: A name means the bytes that the user agreed to.

use std::fs;

use serde_json::{Value, json};

use super::super::policy::Place;
use super::{greet, project, reaching, tool};
use crate::support::{Toolcell, share_compiled};

/// A project that declares `greet` and has installed it.
fn declaring() -> Place {
    let place = Place::new()
        .project("[tools]\ngreet = \"./greet.wasm\"\n")
        .trusted();
    greet(&place, |_| {});
    place.run(&["install", "--yes"]).exits(0);
    place
}

fn states(value: &Value) -> Vec<&str> {
    value["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["state"].as_str().unwrap())
        .collect()
}

#[test]
fn the_lock_is_made_true_from_what_the_project_declares() {
    let place = declaring();
    let before = fs::read_to_string(place.project.join("toolcell.lock")).unwrap();
    assert!(
        before.contains("declared = true") && before.contains("reference = \"./greet.wasm\""),
        "{before}"
    );
    assert_eq!(
        states(
            &place
                .run(&["install", "--locked", "--json"])
                .exits(0)
                .json()
        ),
        ["unchanged"]
    );
    // A server offers what is declared.
    assert!(
        place
            .run(&["search", "answers input"])
            .exits(0)
            .stdout
            .contains("describe greet#echo")
    );
    // The reference is the same, and so are the locked bytes, whatever the file has become.
    greet(&place, reaching("evil.example"));
    assert_eq!(
        states(&place.run(&["install", "--json"]).exits(0).json()),
        ["unchanged"]
    );
    place
        .run(&["install", "./greet.wasm", "--name=other", "--yes"])
        .exits(0);
    let place = place.project("").trusted();
    // What would be removed is said, and refused if the lock may not change.
    let dry = place
        .run(&["install", "--dry-run", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (states(&dry), &dry["dry_run"]),
        (vec!["removed", "removed"], &json!(true))
    );
    assert!(
        place
            .run(&["install", "--locked"])
            .exits(3)
            .stderr
            .contains("[lock_out_of_date]")
    );
    place.run(&["call", "greet"]).exits(0);
    assert_eq!(
        states(&place.run(&["install", "--json"]).exits(0).json()),
        ["removed", "removed"]
    );
    place.run(&["call", "greet"]).exits(2);
    place
        .run(&["call", "other", "--allow-net=evil.example"])
        .exits(2);
    // One that is declared and not installed is named with the next step.
    let place = place
        .project("[tools]\nmissing = \"./greet.wasm\"\n")
        .trusted();
    let refused = place.run(&["search", "x"]);
    assert!(
        refused.stderr.contains("`missing`, of [tools] in")
            && refused.stderr.contains("toolcell install")
    );
    assert!(
        place
            .run(&["install", "--locked", "--yes"])
            .exits(3)
            .stderr
            .contains("[lock_out_of_date]")
    );
}

#[test]
fn a_name_that_neither_the_project_nor_its_lock_has_any_more_is_given_back() {
    let place = declaring();
    fs::remove_file(place.project.join("toolcell.lock")).unwrap();
    let place = place.project("").trusted();
    let listed = || {
        place.run(&["list", "--json"]).exits(0).json()["installed"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        states(
            &place
                .run(&["install", "--locked", "--json"])
                .exits(0)
                .json()
        ),
        [""; 0]
    );
    assert_eq!(
        states(
            &place
                .run(&["install", "--dry-run", "--json"])
                .exits(0)
                .json()
        ),
        ["removed"]
    );
    assert_eq!(listed(), 1);
    assert_eq!(
        states(&place.run(&["install", "--json"]).exits(0).json()),
        ["removed"]
    );
    assert_eq!(listed(), 0);
}

#[test]
fn one_tool_that_cannot_be_installed_keeps_no_other_from_it() {
    let tools = "[tools]\na = \"https://example.invalid/a.wasm\"\nb = \"ftp://b\"\ngreet = \"./greet.wasm\"\n";
    let place = Place::new().project(tools).trusted();
    greet(&place, |_| {});
    // The exit code is the highest: that of a reference that is none, not that of a source that was not asked.
    let told = place
        .run(&["install", "--offline", "--yes", "--json"])
        .exits(2)
        .json();
    assert_eq!(
        (states(&told), &told["tools"][0]["tool"]["name"]),
        (vec!["installed"], &json!("greet"))
    );
    let codes: Vec<&Value> = told["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| &error["error_code"])
        .collect();
    assert_eq!(codes, ["offline", "bad_reference"]);
    let said = place
        .run(&["install", "--offline", "--yes"])
        .exits(2)
        .stderr;
    assert!(
        said.contains("a: ") && said.contains("b: ") && said.contains("already installed: greet"),
        "{said}"
    );
}

#[test]
fn a_name_that_the_project_declares_is_no_other_tool() {
    let place = Place::new()
        .project("[tools]\ngreet = \"./greet.wasm\"\n")
        .trusted();
    let file = greet(&place, |_| {});
    place
        .run(&["install", "./greet.wasm", "--user", "--yes"])
        .exits(0);
    // Neither what the user installed under this name for all projects, nor a file of this name is meant.
    fs::copy(file, place.project.join("greet")).unwrap();
    let refused = place.run(&["call", "greet", "--json"]).exits(2).json();
    assert_eq!(
        refused["error"]["error_code"],
        json!("not_installed"),
        "{refused}"
    );
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("run `toolcell install`"),
        "{refused}"
    );
    place.run_in(&place.home, &["call", "greet"]).exits(0);
    place.run(&["install", "--yes"]).exits(0);
    place.run(&["call", "greet"]).exits(0);
}

#[test]
fn the_lock_of_another_user_counts_once_it_was_installed() {
    let place = declaring();
    let other = place.home.parent().unwrap().join("other");
    fs::create_dir(&other).unwrap();
    share_compiled(&other);
    let run = |arguments: &[&str]| Toolcell::at(&other, arguments).dir(&place.project).run();
    run(&["trust"]).exits(0);
    let refused = run(&["call", "greet", "--json"]).exits(3).json();
    assert_eq!(refused["error"]["error_code"], json!("lock_not_confirmed"));
    assert!(
        run(&["install", "--locked"])
            .exits(3)
            .stderr
            .contains("[install_needs_consent]")
    );
    let before = fs::read(place.project.join("toolcell.lock")).unwrap();
    run(&["install", "--locked", "--yes"]).exits(0);
    assert_eq!(
        fs::read(place.project.join("toolcell.lock")).unwrap(),
        before
    );
    run(&["call", "greet"]).exits(0);
}

#[test]
fn locked_bytes_that_changed_are_refused() {
    let place = declaring();
    greet(&place, |toolkit| {
        toolkit["declarations"][0]["title"] = json!("other")
    });
    let entry = place.run(&["list", "--json"]).exits(0).json();
    fs::remove_file(super::stored(
        &place,
        &entry["installed"][0]["tool"]["component"],
    ))
    .unwrap();
    let refused = place.run(&["install", "--yes", "--json"]).exits(3).json();
    assert_eq!(refused["error"]["error_code"], json!("digest_mismatch"));
    place.run(&["call", "greet"]).exits(2);
    place.run(&["update", "--yes"]).exits(0);
    place.run(&["call", "greet"]).exits(0);
}

#[test]
fn a_lock_that_was_edited_does_not_count() {
    let place = declaring();
    let lock = place.project.join("toolcell.lock");
    let good = fs::read_to_string(&lock).unwrap();
    fs::write(
        place.project.join("evil.wasm"),
        crate::pipeline::doubles::echoing("evil", |_| {}),
    )
    .unwrap();
    let evil = tool(
        &place
            .run(&["install", "./evil.wasm", "--user", "--yes", "--json"])
            .exits(0),
    );
    // The bytes are in the store, and the user agreed to them, but not under this name.
    let component = evil["component"].as_str().unwrap();
    let line = good
        .lines()
        .find(|line| line.starts_with("component = "))
        .unwrap();
    fs::write(
        &lock,
        good.replace(line, &format!("component = \"{component}\"")),
    )
    .unwrap();
    let refused = place.run(&["call", "greet", "--json"]).exits(3).json();
    assert_eq!(refused["error"]["error_code"], json!("lock_not_confirmed"));
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("was changed since you installed it")
    );
    for (text, words) in [
        (
            good.replace("version = 1\n", "version = 9\n"),
            "this toolcell knows 1",
        ),
        (good.replace("size = ", "sise = "), "unknown field"),
        (format!("{good}more = true\n"), "unknown field"),
    ] {
        fs::write(&lock, text).unwrap();
        let refused = place.run(&["call", "greet", "--json"]).exits(2).json();
        assert_eq!(refused["error"]["error_code"], json!("lock_unreadable"));
        assert!(
            refused["error"]["message"]
                .as_str()
                .unwrap()
                .contains(words),
            "{refused}"
        );
    }
    // Words of others begin no line of a list.
    fs::write(
        &lock,
        good.replace("size = ", "version = \"1\\nforged 9.9\"\nsize = "),
    )
    .unwrap();
    let listed = place.run(&["list"]).exits(0).stdout;
    assert!(
        listed.contains("forged 9.9") && !listed.lines().any(|line| line.starts_with("forged")),
        "{listed}"
    );
    fs::write(&lock, good).unwrap();
    place.run(&["call", "greet"]).exits(0);
}

#[test]
fn a_name_that_a_lock_cannot_have_is_refused_where_it_is_declared() {
    let place = Place::new().project("[tools]\n\"a/b\" = \"./greet.wasm\"\n");
    greet(&place, |_| {});
    let refused = place.run(&["trust"]);
    assert!(
        refused.code != Some(0)
            && refused
                .stderr
                .contains("`a/b` cannot be the name of a tool"),
        "{refused:?}"
    );
    assert_ne!(place.run(&["install", "--yes"]).code, Some(0));
    assert!(!place.project.join("toolcell.lock").exists());
}

#[test]
fn many_installs_at_once_lose_nothing() {
    let place = project();
    greet(&place, |_| {});
    std::thread::scope(|scope| {
        for at in 0..6 {
            let place = &place;
            scope.spawn(move || {
                place
                    .run(&[
                        "install",
                        "./greet.wasm",
                        &format!("--name=greet{at}"),
                        "--yes",
                    ])
                    .exits(0);
            });
        }
    });
    assert_eq!(
        place.run(&["list", "--json"]).exits(0).json()["installed"]
            .as_array()
            .unwrap()
            .len(),
        6
    );
    place.run(&["store", "verify"]).exits(0);
    place.run(&["call", "greet3"]).exits(0);
}

#[test]
fn without_a_network_what_this_user_has_is_enough() {
    let place = project();
    greet(&place, |_| {});
    place
        .run(&["install", "./greet.wasm", "--yes", "--offline"])
        .exits(0);
    let ran = place
        .run(&[
            "install",
            "https://example.invalid/x.wasm",
            "--yes",
            "--offline",
            "--json",
        ])
        .exits(1)
        .json();
    assert_eq!(ran["error"]["error_code"], json!("offline"));
}
