//! `config` of a `[[tool]]`: the settings that a component takes before each call.

use serde_json::{Value, json};

use super::approvals::{kill, waiting};
use super::{example, guest};
use crate::support::{Client, Home, fixture};

/// A `[[tool]]` of the test guest, with these lines.
fn entry(tool: &str, lines: &str) -> String {
    format!(
        "[[tool]]\ncomponent = \"{}{tool}\"\n{lines}\n",
        fixture("configured").display()
    )
}

/// The texts that `configure` got before the call.
fn given(record: &Value) -> &Value {
    &record["result"]["structured_content"]["given"]
}

fn error(record: &Value) -> (&str, &str) {
    let error = &record["result"]["error"];
    (
        error["error_class"].as_str().unwrap_or_default(),
        error["error_code"].as_str().unwrap_or_default(),
    )
}

#[test]
fn each_call_gets_the_settings_of_its_tool_in_its_own_instance() {
    let home = Home::new();
    let one = guest("configured#settings");
    let two = guest("configured#settings_2");
    assert_eq!(
        given(&home.call(&one, &json!({}), &[])),
        &json!([]),
        "no settings, no call of `configure`"
    );
    let first = entry("#settings", "config = { unit = \"metre\", places = 2 }");
    home.configure(&format!(
        "{first}{}",
        entry("#settings_2", "config.unit = \"yard\"")
    ));
    for _ in 0..2 {
        assert_eq!(
            given(&home.call(&one, &json!({}), &[])),
            &json!([r#"{"places":2,"unit":"metre"}"#])
        );
    }
    assert_eq!(
        given(&home.call(&two, &json!({}), &[])),
        &json!([r#"{"unit":"yard"}"#])
    );
    home.configure(&entry("", "config = {}"));
    for tool in [&one, &two] {
        assert_eq!(given(&home.call(tool, &json!({}), &[])), &json!(["{}"]));
    }
    let lines: String = [&one, &two]
        .map(|tool| format!("{}\n", json!({ "id": tool, "tool": tool, "input": {} })))
        .concat();
    let ran = home
        .toolcell(&["batch", "-", "--print-record"])
        .stdin(&lines)
        .run()
        .exits(0);
    let records: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        records.len() == 2 && records.iter().all(|record| given(record) == &json!(["{}"])),
        "{records:#?}"
    );
    let elsewhere = home
        .toolcell(&["call", &one, "{}", "--json", "--no-config"])
        .run()
        .exits(0)
        .json();
    assert_eq!(elsewhere["structured_content"]["given"], json!([]));
}

#[test]
fn a_server_gives_its_tools_the_settings_of_its_file() {
    let home = Home::new();
    let file = home.path().join("server.toml");
    std::fs::write(&file, entry("#settings", "config.unit = \"metre\"")).unwrap();
    let mut client = Client::run(home.toolcell(&["mcp", &format!("--config={}", file.display())]));
    client.initialize(crate::support::OLD);
    let answer = client.call("settings", json!({}));
    assert_eq!(
        answer["structuredContent"]["given"],
        json!([r#"{"unit":"metre"}"#]),
        "{answer:#}"
    );
}

#[test]
fn settings_that_the_component_refuses_end_the_call_before_it_runs() {
    let home = Home::new();
    let tool = guest("configured#settings");
    let call = |then: &str, options: &[&str]| {
        home.configure(&entry("", &format!("config.then = \"{then}\"")));
        home.call(&tool, &json!({}), options)
    };
    let refused = call("refuse", &[]);
    assert_eq!(
        error(&refused),
        ("setup_required", "unit_unknown"),
        "{refused:#}"
    );
    assert_eq!(
        refused["result"]["error"]["message"],
        "cannot use the unit: it is unknown"
    );
    assert!(given(&refused).is_null());
    // Its time and its fuel are those of the call.
    assert_eq!(
        error(&call("spin", &["--timeout=300ms", "--fuel=1000000000000"])).0,
        "timeout"
    );
    let spun = call("spin", &["--fuel=10000000"]);
    assert_eq!(error(&spun), ("timeout", "fuel_exhausted"));
    assert_eq!(spun["result"]["usage"]["fuel"]["used"], 10_000_000);
    assert_eq!(error(&call("panic", &[])).0, "execution_failed");
}

#[test]
fn settings_that_no_tool_can_take_are_an_error_when_it_is_loaded() {
    let home = Home::new();
    let plain = format!(
        "[[tool]]\ncomponent = \"{}\"\nconfig.unit = \"metre\"\n",
        example("jq")
    );
    let twice = format!(
        "{}{}",
        entry("", "config.a = 1"),
        entry("#settings", "config.a = 2")
    );
    let large = entry("", &format!("config.a = \"{}\"", "x".repeat(64 << 10)));
    for (text, tool, code, why) in [
        (
            plain,
            example("jq"),
            "not_configurable",
            "does not export toolcell:tool/configuration@0.2.0",
        ),
        (
            twice,
            guest("configured#settings"),
            "configured_twice",
            "another `config`",
        ),
        (
            large,
            guest("configured#settings"),
            "configuration_too_large",
            "more than 65536",
        ),
    ] {
        home.configure(&text);
        let record = home.call(&tool, &json!({}), &[]);
        assert_eq!(error(&record), ("setup_required", code), "{record:#}");
        let message = record["result"]["error"]["message"].as_str().unwrap();
        assert!(
            message.contains(why) && message.contains("toolcell.toml, line "),
            "{message}"
        );
        let doctor = home.toolcell(&["doctor"]).run();
        assert_eq!(
            doctor.stdout.contains(why),
            code != "configured_twice",
            "{}",
            doctor.stdout
        );
        let served = home.toolcell(&["mcp"]).run().exits(2);
        assert!(served.stderr.contains(why), "{}", served.stderr);
    }
    for (lines, why) in [
        ("config = 7", "config"),
        ("config.at = 2026-11-22", "JSON has no dates"),
    ] {
        home.configure(&entry("", lines));
        let record = home.call(&guest("configured#settings"), &json!({}), &[]);
        assert_eq!(error(&record).1, "policy_unreadable");
        assert!(
            record["result"]["error"]["message"]
                .as_str()
                .unwrap()
                .contains(why),
            "{record:#}"
        );
    }
}

#[test]
fn the_settings_of_a_project_need_its_trust() {
    let home = Home::new();
    let project = home.path().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(
        project.join("toolcell.toml"),
        entry("", "config.unit = \"metre\""),
    )
    .unwrap();
    let tool = guest("configured#settings");
    let call = || {
        home.toolcell(&["call", &tool, "{}", "--print-record"])
            .dir(&project)
            .run()
            .json()
    };
    assert_eq!(error(&call()).1, "project_not_trusted");
    home.toolcell(&["trust", "."]).dir(&project).run().exits(0);
    assert_eq!(given(&call()), &json!([r#"{"unit":"metre"}"#]));
}

#[test]
fn an_approval_is_void_once_the_settings_change() {
    let home = Home::new();
    let tool = guest("configured#settings_approved");
    let orphan = |unit: &str| {
        home.configure(&entry("", &format!("config.unit = \"{unit}\"")));
        let (child, id) = waiting(home.toolcell(&["call", &tool, "{}"]));
        kill(child);
        id
    };
    let id = orphan("metre");
    let ran = home
        .toolcell(&["approvals", "approve", &id, "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(
        ran["structured_content"]["given"],
        json!([r#"{"unit":"metre"}"#]),
        "{ran:#}"
    );
    let id = orphan("metre");
    home.configure(&entry("", "config.unit = \"yard\""));
    let ran = home.toolcell(&["approvals", "approve", &id]).run().exits(3);
    assert!(
        ran.stderr.contains("what the tool declares; nothing ran"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_description_says_whether_a_tool_takes_settings_and_a_call_with_some_is_not_replayed() {
    let home = Home::new();
    for (tool, takes) in [(guest("configured#settings"), true), (example("jq"), false)] {
        let words = home.toolcell(&["describe", &tool]).run().exits(0).stdout;
        assert_eq!(
            words.contains("settings: taken, from `config`"),
            takes,
            "{words}"
        );
        let records = home
            .toolcell(&["describe", &tool, "--json"])
            .run()
            .exits(0)
            .json();
        assert_eq!(
            records["execution_profiles"][0]["takes_configuration"],
            takes
        );
    }
    home.configure(&entry("", "config.unit = \"metre\""));
    let record = home.call(&guest("configured#settings"), &json!({}), &[]);
    let id = record["invocation"]["invocation_id"].as_str().unwrap();
    let replayed = home.toolcell(&["replay", id]).run().exits(3);
    assert!(
        format!("{}{}", replayed.stdout, replayed.stderr)
            .contains("the tool had settings of the operator")
    );
}
