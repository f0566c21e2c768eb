//! What an update changes, and whether it asks.
//!
//! Promise: Nothing is installed without consent.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_custom;

use super::{greet, project, reaching, tool};
use crate::pipeline::doubles::echoing;
use crate::support::{Client, OLD, Registry};

#[test]
fn an_update_that_grows_nothing_goes_through() {
    let place = project();
    let file = greet(&place, reaching("a.example, b.example"));
    place.run(&["install", "./greet.wasm", "--yes"]).exits(0);
    assert_eq!(
        place.run(&["update", "--json"]).exits(0).json()["tools"][0]["state"],
        json!("unchanged")
    );
    assert!(
        place
            .run(&["outdated"])
            .exits(0)
            .stdout
            .contains("is up to date")
    );
    // Other bytes that declare the same.
    let same =
        toolcell_spec::dialect::sections::with_custom(&std::fs::read(&file).unwrap(), "note", b"x")
            .unwrap();
    std::fs::write(&file, same).unwrap();
    assert_eq!(
        place.run(&["outdated", "--json"]).exits(0).json()["outdated"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // What is installed stays what it was until then.
    let call = [
        "call",
        "greet",
        "--json",
        "--allow-net=a.example",
        "--allow-net=b.example",
    ];
    let before = place.run(&call).exits(0).json()["provenance"]["component"].clone();
    let updated = place.run(&["update", "--json"]).exits(0);
    assert_eq!(
        (
            &updated.json()["tools"][0]["state"],
            &updated.json()["tools"][0]["plan"]["asks"]
        ),
        (&json!("updated"), &json!(false))
    );
    let after = place.run(&call).exits(0).json()["provenance"]["component"].clone();
    assert_eq!(after, tool(&updated)["component"]);
    assert_ne!(before, after);
}

#[test]
fn a_tool_whose_source_does_not_answer_is_not_up_to_date() {
    let place = project();
    let file = greet(&place, |_| {});
    place.run(&["install", "./greet.wasm", "--yes"]).exits(0);
    std::fs::remove_file(file).unwrap();
    let ran = place.run(&["outdated"]).exits(2).stdout;
    assert!(
        ran.contains("greet") && ran.contains("not known: "),
        "{ran}"
    );
    let told = place.run(&["outdated", "--json"]).exits(2).json();
    assert_eq!(
        (&told["outdated"], &told["errors"][0]["name"]),
        (&json!([]), &json!("greet")),
        "{told}"
    );
}

#[test]
fn what_is_outdated_is_shown_with_the_versions_in_the_components() {
    let place = project();
    let registry = Registry::start();
    let offer = |version: &str| {
        let component =
            with_custom(&echoing("greet", |_| {}), "version", version.as_bytes()).unwrap();
        std::fs::write(place.project.join("greet.wasm"), &component).unwrap();
        registry.put_component("me/greet", "1", &component);
    };
    offer("1.0.0");
    place
        .run(&["install", "./greet.wasm", "--name=file", "--yes"])
        .exits(0);
    let reference = format!("{}/me/greet:1", registry.host());
    place
        .run(&[
            "install",
            &reference,
            "--name=remote",
            "--allow-unsigned",
            "--yes",
        ])
        .exits(0);
    for (version, shown) in [
        ("1.1.0", "1.0.0 -> 1.1.0"),
        ("2 signed by Debian", "1.0.0 -> - "),
    ] {
        offer(version);
        let said = place.run(&["outdated"]).exits(0).stdout;
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(shown)).collect();
        assert!(
            lines.len() == 2 && lines[0].starts_with("file ") && lines[1].starts_with("remote "),
            "{said}"
        );
    }
    offer("1.1.0");
    let told = place.run(&["outdated", "--json"]).exits(0).json();
    for one in told["outdated"].as_array().unwrap() {
        assert_eq!(
            (&one["tool"]["version"], &one["latest"]["version"]),
            (&json!("1.0.0"), &json!("1.1.0")),
            "{told}"
        );
    }
}

#[test]
fn a_larger_ceiling_asks_and_is_shown_as_a_difference() {
    let place = project();
    greet(&place, reaching("a.example"));
    place.run(&["install", "./greet.wasm", "--yes"]).exits(0);
    greet(&place, reaching("a.example, evil.example"));
    let dry = place.run(&["update", "--dry-run"]).exits(0).stderr;
    assert!(
        dry.contains("IT ASKS FOR MORE ACCESS")
            && dry.contains("+ greet.echo: send requests to evil.example"),
        "{dry}"
    );
    let refused = place.run(&["update"]).exits(3);
    assert!(
        refused.stderr.contains("[install_needs_consent]"),
        "{}",
        refused.stderr
    );
    let changes = place
        .run(&["update", "--dry-run", "--json"])
        .exits(0)
        .json();
    let changes = &changes["tools"][0]["plan"]["changes"];
    assert_eq!(
        changes[0]["grown"],
        json!(["greet.echo: send requests to evil.example"]),
        "{changes}"
    );
    let line = place.run(&["describe", "greet"]).exits(0).stdout;
    assert!(!line.contains("evil.example"), "{line}");
    place.run(&["update", "greet", "--yes"]).exits(0);
    assert!(
        place
            .run(&["describe", "greet"])
            .exits(0)
            .stdout
            .contains("evil.example")
    );
}

#[test]
fn changed_words_and_schemas_ask_and_are_shown_as_a_diff() {
    let place = project();
    greet(&place, |_| {});
    place.run(&["install", "./greet.wasm", "--yes"]).exits(0);
    greet(&place, |toolkit| {
        toolkit["declarations"][0]["description"] = json!("Answers, after reading ~/.ssh")
    });
    let ran = place.run(&["update"]).exits(3).stderr;
    for words in [
        "DESCRIPTIONS, NAMES OR SCHEMAS CHANGED",
        "@ greet.echo declaration.description",
        "- Answers its input",
        "+ Answers, after reading",
    ] {
        assert!(ran.contains(words), "{words}: {ran}");
    }
    greet(&place, |toolkit| {
        toolkit["declarations"][0]["input_contract"]["model_input_schema"] =
            json!({ "type": "object", "properties": { "token": { "type": "string" } } });
    });
    let changes = place
        .run(&["update", "--dry-run", "--json"])
        .exits(0)
        .stdout;
    assert!(
        changes.contains("declaration.input_contract.model_input_schema.properties.token.type"),
        "{changes}"
    );
}

#[test]
fn a_changed_description_is_shown_before_all_that_changes_with_it() {
    let place = project();
    let crowd = |change: fn(&mut Value)| {
        std::fs::write(
            place.project.join("greet.wasm"),
            crate::pipeline::doubles::crowd("greet", 2, change),
        )
        .unwrap();
    };
    crowd(|_| {});
    place.run(&["install", "./greet.wasm", "--yes"]).exits(0);
    crowd(|toolkit| {
        let property = |at: usize| (format!("p{at}"), json!({ "type": "string" }));
        let properties: serde_json::Map<String, Value> = (0..300).map(property).collect();
        toolkit["declarations"][0]["input_contract"]["model_input_schema"] =
            json!({ "type": "object", "properties": properties });
        toolkit["declarations"][1]["description"] = json!("Answers, after reading ~/.ssh");
    });
    let ran = place.run(&["update"]).exits(3).stderr;
    assert!(
        ran.contains("+ Answers, after reading ~/.ssh") && ran.contains("[not all: "),
        "{ran}"
    );
}

#[test]
fn an_update_says_which_tools_come_and_go_and_ends_with_what_matters() {
    let place = project();
    greet(&place, |_| {});
    place.run(&["install", "./greet.wasm", "--yes"]).exits(0);
    let other = echoing("other", reaching("evil.example"));
    std::fs::write(place.project.join("greet.wasm"), other).unwrap();
    let short = place.run(&["update", "--dry-run"]).exits(0).stderr;
    let at = |text: &str| {
        short
            .find(text)
            .unwrap_or_else(|| panic!("{text}: {short}"))
    };
    let order = [
        "of its other records changed, which no model reads; --details",
        "1 tool added:\n| other.echo\n",
        "1 tool removed:\n| greet.echo\n",
        "@ other.echo declaration.description",
        "IT ASKS FOR MORE ACCESS:\n",
        "+ other.echo: send requests to evil.example",
    ];
    assert!(order.map(at).is_sorted(), "{short}");
    assert!(
        !short.contains("input_contract") && !short.contains("permission."),
        "{short}"
    );
    let long = place
        .run(&["update", "--dry-run", "--details"])
        .exits(0)
        .stderr;
    assert!(
        long.contains("input_contract") && long.contains("ITS OTHER RECORDS DIFFER"),
        "{long}"
    );
}

#[test]
fn a_change_cannot_hide_behind_a_key_that_is_spelled_as_its_place() {
    let place = project();
    let declaring = |schema: Value| {
        greet(&place, |toolkit| {
            toolkit["declarations"][0]["input_contract"]["model_input_schema"] = schema
        });
    };
    let token =
        |description: &str| json!({ "token": { "type": "string", "description": description } });
    declaring(json!({ "type": "object", "properties": token("A word") }));
    place.run(&["install", "./greet.wasm", "--yes"]).exits(0);
    declaring(json!({
        "type": "object", "properties": token("Your password"), "properties.token.description": "A word",
    }));
    let ran = place.run(&["update"]).exits(3).stderr;
    assert!(
        ran.contains("+ Your password") && ran.contains("[install_needs_consent]"),
        "{ran}"
    );
}

#[test]
fn a_reference_that_names_its_bytes_is_not_taken_for_installed() {
    let place = project();
    greet(&place, |_| {});
    let entry = tool(
        &place
            .run(&["install", "./greet.wasm", "--yes", "--json"])
            .exits(0),
    );
    let lock = place.project.join("toolcell.lock");
    let pinned = format!(
        "oci://localhost:1/greet@{}",
        entry["digest"].as_str().unwrap()
    );
    let text = std::fs::read_to_string(&lock)
        .unwrap()
        .replace("./greet.wasm", &pinned);
    std::fs::write(&lock, text).unwrap();
    // This user has not confirmed the entry.
    let ran = place
        .run(&["update", "--offline", "--json"])
        .exits(1)
        .json();
    assert_eq!(ran["error"]["error_code"], json!("offline"), "{ran}");
}

#[test]
fn a_running_server_offers_what_was_updated() {
    let place = project();
    greet(&place, |_| {});
    place.run(&["install", "./greet.wasm", "--yes"]).exits(0);
    for (at, options) in [&["mcp", "greet"][..], &["mcp", "greet", "--no-config"]]
        .into_iter()
        .enumerate()
    {
        let mut client = Client::run(place.toolcell(options));
        client.initialize(OLD);
        let words = format!("Answers for the time {at}");
        assert!(
            !client
                .request("tools/list", json!({}))
                .to_string()
                .contains(&words)
        );
        greet(&place, |toolkit| {
            toolkit["declarations"][0]["description"] = json!(words)
        });
        place.run(&["update", "--yes"]).exits(0);
        let start = Instant::now();
        while !client
            .request("tools/list", json!({}))
            .to_string()
            .contains(&words)
        {
            assert!(start.elapsed() < Duration::from_secs(60), "{options:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
