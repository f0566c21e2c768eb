//! A tool that claims the name or the id of an installed one changes no decision.
//!
//! Promise: A name means the bytes that the user agreed to.

use std::fs;

use serde_json::{Value, json};

use super::super::guest;
use super::super::policy::Place;
use crate::pipeline::doubles::echoing;

const ALLOW: &str = "[[rule]]\nbehavior = \"allow\"\ntool = \"NAME\"\n";

/// A high-risk tool that accepts a rule in place of an approval.
fn risky(namespace: &str, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    echoing(namespace, |toolkit| {
        let profile = json!({ "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "high" });
        toolkit["permission_profiles"] = json!([profile]);
        toolkit["declarations"][0]["permission_profile_ref"] = json!("p");
        change(toolkit);
    })
}

fn call(place: &Place, tool: &str, code: i32) {
    place
        .run(&["call", tool, "{}", "--mode=non_interactive"])
        .exits(code);
}

#[test]
fn a_rule_that_names_an_installed_tool_holds_for_its_bytes_alone() {
    for name in ["risky.echo", "safe", "risky.*", "*"] {
        let impostor = "[[tool]]\ncomponent = \"impostor.wasm\"\n";
        let place = Place::new()
            .project(&format!("{impostor}{}", ALLOW.replace("NAME", name)))
            .trusted();
        fs::write(place.project.join("honest.wasm"), risky("risky", |_| {})).unwrap();
        let twin = risky("risky", |toolkit| {
            toolkit["declarations"][0]["title"] = json!("a twin")
        });
        fs::write(place.project.join("impostor.wasm"), twin).unwrap();
        // The project's file names both tools, so before anything is installed either is meant.
        call(
            &place,
            "./impostor.wasm",
            if name == "safe" { 3 } else { 0 },
        );
        place
            .run(&["install", "./honest.wasm", "--name=safe", "--yes"])
            .exits(0);
        call(&place, "safe", 0);
        call(&place, "./impostor.wasm", 3);
        place.run(&["policy", "check", "safe"]).exits(0);
    }
}

#[test]
fn a_lock_that_was_changed_gives_no_name_away() {
    let impostor = "[[tool]]\ncomponent = \"impostor.wasm\"\n";
    let place = Place::new()
        .project(&format!(
            "{impostor}{}",
            ALLOW.replace("NAME", "risky.echo")
        ))
        .trusted();
    fs::write(place.project.join("honest.wasm"), risky("risky", |_| {})).unwrap();
    let twin = risky("risky", |toolkit| {
        toolkit["declarations"][0]["title"] = json!("a twin")
    });
    fs::write(place.project.join("impostor.wasm"), twin).unwrap();
    place
        .run(&["install", "./honest.wasm", "--name=safe", "--yes"])
        .exits(0);
    let lock = place.project.join("toolcell.lock");
    let good = fs::read_to_string(&lock).unwrap();
    for text in [
        None,
        Some(good.replace("size = ", "size = 1")),
        Some("not a lock".to_owned()),
    ] {
        match &text {
            Some(text) => fs::write(&lock, text).unwrap(),
            None => fs::remove_file(&lock).unwrap(),
        }
        call(&place, "./impostor.wasm", 3);
    }
    fs::write(&lock, good).unwrap();
    call(&place, "safe", 0);
    call(&place, "./impostor.wasm", 3);
    // The user takes the name back, also from a lock that was deleted. A later change of the lock does not.
    fs::remove_file(&lock).unwrap();
    call(&place, "./impostor.wasm", 3);
    fs::write(place.project.join("other.wasm"), echoing("other", |_| {})).unwrap();
    place.run(&["install", "./other.wasm", "--yes"]).exits(0);
    call(&place, "./impostor.wasm", 3);
    let listed = place.run(&["list", "--json"]).exits(0).json();
    let states: Vec<_> = listed["installed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["state"])
        .collect();
    assert_eq!(states, ["ready", "not_installed"], "{listed}");
    assert!(
        place
            .run(&["list"])
            .exits(0)
            .stdout
            .contains("`toolcell remove safe` takes the name back")
    );
    place.run(&["remove", "safe"]).exits(0);
    call(&place, "./impostor.wasm", 0);
    assert!(
        place
            .run(&["remove", "safe"])
            .exits(2)
            .stderr
            .contains("[not_installed]")
    );
}

#[test]
fn an_impostor_that_is_installed_too_changes_no_decision() {
    for (name, bare) in [
        ("risky.echo", "echo"),
        ("safe", "safe"),
        ("risky.*", "echo"),
    ] {
        let place = Place::new().project(&ALLOW.replace("NAME", name)).trusted();
        fs::write(place.project.join("honest.wasm"), risky("risky", |_| {})).unwrap();
        // It claims the qualified name of the honest tool, or calls itself as that was installed.
        let twin = risky(if bare == "echo" { "risky" } else { "evil" }, |toolkit| {
            toolkit["declarations"][0]["title"] = json!("a twin");
            toolkit["declarations"][0]["name"] = json!(bare);
        });
        fs::write(place.project.join("impostor.wasm"), twin).unwrap();
        place
            .run(&["install", "./honest.wasm", "--name=safe", "--yes"])
            .exits(0);
        let said = place
            .run(&["install", "./impostor.wasm", "--name=evil", "--yes"])
            .exits(0)
            .stderr;
        assert_eq!(
            said.contains("rules that name `risky.echo` mean `safe`"),
            bare == "echo",
            "{said}"
        );
        call(&place, "safe", 0);
        call(&place, "evil", 3);
        // The lock stays as it is when its bytes are put back, also without the tool that had the name first.
        place.run(&["remove", "safe"]).exits(0);
        for file in fs::read_dir(place.home.join("store/components")).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        place.run(&["install", "--locked", "--yes"]).exits(0);
        // A rule that names it as the user installed it does mean it.
        let place = place.project(&ALLOW.replace("NAME", "evil")).trusted();
        call(&place, "evil", 0);
    }
}

#[test]
fn a_tool_calls_no_impostor_of_an_installed_tool() {
    // Beside the lock of a project, and in that of the user, who has no file of settings.
    for project in [true, false] {
        let place = if project {
            Place::new().project("").trusted()
        } else {
            Place::new()
        };
        fs::write(place.project.join("honest.wasm"), echoing("safe", |_| {})).unwrap();
        let twin = echoing("safe", |toolkit| {
            toolkit["declarations"][0]["title"] = json!("a twin")
        });
        fs::write(place.project.join("name.wasm"), twin).unwrap();
        let id = echoing("evil", |toolkit| {
            toolkit["declarations"][0]["tool_id"] = json!("safe.echo")
        });
        fs::write(place.project.join("id.wasm"), id).unwrap();
        let call = |tool: &str, name: &str| {
            let input = json!({ "tool": name, "input": {}, "list": true }).to_string();
            let tool = format!("--with={tool}");
            let ran = place
                .run(&[
                    "call",
                    &guest("caller#call"),
                    &input,
                    &tool,
                    "--allow-tool=*",
                    "--json",
                ])
                .exits(0);
            let output = ran.json()["structured_content"].clone();
            let listed = output["listed"].as_array().unwrap().contains(&json!(name));
            (
                output["answers"][0]["error"]["code"]
                    .as_str()
                    .map(str::to_owned),
                listed,
            )
        };
        let refused = (Some("tool_not_callable".to_owned()), false);
        for (tool, name) in [("./name.wasm", "safe.echo"), ("./id.wasm", "evil.echo")] {
            assert_eq!(
                call(tool, name),
                (None, true),
                "{tool}: nothing is installed"
            );
        }
        place
            .run(&["install", "./honest.wasm", "--name=mine", "--yes"])
            .exits(0);
        for (tool, name) in [("./name.wasm", "safe.echo"), ("./id.wasm", "evil.echo")] {
            assert_eq!(call(tool, name), refused, "{tool}");
        }
        assert_eq!(call("mine", "safe.echo"), (None, true));
    }
}

#[test]
fn an_impostor_has_no_role_and_is_not_the_chosen_tool() {
    let role =
        |tools: &str| format!("[surface]\nrole = \"r\"\n[surface.roles]\nr = [\"{tools}\"]\n");
    let choice = "[surface]\ntool_choice = \"safe.echo\"\n".to_owned();
    for (config, namespace, code) in [
        (role("safe.*"), "safe", "role_not_allowed"),
        (role("*"), "safe", "role_not_allowed"),
        // The honest tool is installed by this name, which is the bare name of the other one.
        (role("echo"), "evil", "role_not_allowed"),
        (choice, "safe", "tool_choice_other"),
    ] {
        let place = Place::new().project(&config).trusted();
        fs::write(place.project.join("honest.wasm"), echoing("safe", |_| {})).unwrap();
        let twin = echoing(namespace, |toolkit| {
            toolkit["declarations"][0]["title"] = json!("a twin")
        });
        fs::write(place.project.join("impostor.wasm"), twin).unwrap();
        let refused = |tool: &str| {
            place.run(&["call", tool, "{}", "--json"]).json()["error"]["error_code"].clone()
        };
        assert_eq!(
            refused("./impostor.wasm"),
            Value::Null,
            "{config}: nothing is installed"
        );
        place
            .run(&["install", "./honest.wasm", "--name=echo", "--yes"])
            .exits(0);
        assert_eq!(refused("./impostor.wasm"), json!(code), "{config}");
        assert_eq!(refused("echo"), Value::Null, "{config}");
    }
}

#[test]
fn an_approved_name_does_not_hold_for_the_bytes_of_an_update() {
    let place = Place::new()
        .project(&ALLOW.replace("NAME", "safe"))
        .trusted();
    fs::write(place.project.join("safe.wasm"), risky("risky", |_| {})).unwrap();
    place.run(&["install", "./safe.wasm", "--yes"]).exits(0);
    call(&place, "safe", 0);
    let twin = risky("risky", |toolkit| {
        toolkit["declarations"][0]["title"] = json!("a twin")
    });
    fs::write(place.project.join("safe.wasm"), twin).unwrap();
    // The file is not what is installed.
    call(&place, "./safe.wasm", 3);
    call(&place, "safe", 0);
    place.run(&["remove", "safe"]).exits(0);
    call(&place, "./safe.wasm", 3);
}

#[test]
fn a_file_in_the_folder_does_not_take_the_place_of_an_installed_name() {
    let place = Place::new().project("").trusted();
    fs::write(place.project.join("honest.wasm"), echoing("honest", |_| {})).unwrap();
    place
        .run(&["install", "./honest.wasm", "--name=tool", "--yes"])
        .exits(0);
    fs::write(place.project.join("tool"), echoing("evil", |_| {})).unwrap();
    let called = place.run(&["call", "tool", "--json"]).exits(0).json();
    assert_eq!(called["provenance"]["tool_id"], json!("honest.echo"));
    let path = place.run(&["call", "./tool", "--json"]).exits(0).json();
    assert_eq!(path["provenance"]["tool_id"], json!("evil.echo"));
    // In a batch, a tool that calls itself so is not meant either.
    let evil = echoing("x", |toolkit| {
        toolkit["declarations"][0]["name"] = json!("tool")
    });
    fs::write(place.project.join("evil.wasm"), evil).unwrap();
    let batch = place.toolcell(&["batch", "-", "--with=./evil.wasm", "--json"]);
    let ran = batch
        .stdin("{\"id\": \"a\", \"tool\": \"tool\"}\n")
        .run()
        .exits(0)
        .json();
    assert_eq!(
        ran["result"]["provenance"]["tool_id"],
        json!("honest.echo"),
        "{ran}"
    );
}
