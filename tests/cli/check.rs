//! `toolcell check`: what keeps a tool from being published.

use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_custom;

use crate::pipeline::doubles::echoing;
use crate::support::{Ran, Toolcell, scratch, wat};

use super::example;
use super::registry::edited;

/// Checks a component.
fn check(component: &[u8], arguments: &[&str]) -> Ran {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("tool.wasm"), component).unwrap();
    Toolcell::new([&["check", "tool.wasm"], arguments].concat())
        .dir(&folder)
        .run()
}

/// The codes of the findings, without those about fields that have no effect.
fn codes(checked: &Value) -> Vec<&str> {
    let codes = checked["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["code"].as_str().unwrap());
    codes.filter(|code| *code != "without_effect").collect()
}

#[test]
fn findings_have_severities_and_errors_alone_fail() {
    let plain = check(&wat("echo"), &["--json"]).exits(0).json();
    assert_eq!(plain["checked"], "tool.wasm");
    assert_eq!(
        codes(&plain),
        ["version_missing", "licence_missing", "package_undescribed"]
    );
    let mut whole = wat("echo");
    for (section, text) in [
        ("version", "1.0.0"),
        ("licenses", "MIT"),
        ("description", "Answers."),
    ] {
        whole = with_custom(&whole, section, text.as_bytes()).unwrap();
    }
    let silent = check(&whole, &[]).exits(0);
    assert!(
        !silent.stdout.contains("warning: ") && silent.stderr.contains("0 errors, 0 warnings, "),
        "{silent:?}"
    );
    let hidden = edited(&wat("echo"), "Answers its input", "Answers\u{202e}its inp");
    let hidden = check(&hidden, &[]).exits(1);
    let first = hidden.stdout.lines().next().unwrap();
    assert!(
        first.starts_with("error: wat.echo/description: ") && first.ends_with("[text_hidden]"),
        "{first}"
    );
    assert!(!hidden.stdout.contains('\u{202e}'));
}

#[test]
fn a_tool_whose_text_says_more_than_its_output_is_named() {
    let checked = Toolcell::new(["check", &example("files"), "--json"])
        .run()
        .exits(0)
        .json();
    let named = checked["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|found| found["code"] == "text_beside_output");
    let named: Vec<&str> = named
        .map(|found| found["place"].as_str().unwrap())
        .collect();
    assert_eq!(named, ["files.read/output"], "{checked:#}");
}

#[test]
fn texts_are_found_wherever_a_schema_is() {
    let hidden = echoing("greet", |toolkit| {
        toolkit["declarations"][0]["input_contract"] = json!({});
        toolkit["declarations"][0]["interface_ref"] = json!("i");
        toolkit["interfaces"] = json!([{
            "schema_version": "0.2.0", "interface_id": "i", "tool_id": "greet.echo",
            "model_input_schema": {
                "type": "object", "properties": { "a": { "type": "string", "description": "A name.\u{200b}" } },
            },
        }]);
    });
    let checked = check(&hidden, &["--json"]).exits(1).json();
    let found = &checked["findings"][0];
    assert_eq!(
        (&found["code"], &found["severity"]),
        (&json!("text_hidden"), &json!("error"))
    );
    let place = "greet.echo/interface/model_input_schema/properties/a/description";
    assert_eq!(found["place"], place, "{checked}");
}

#[test]
fn what_users_would_stumble_over_is_named() {
    let profile = r#""access_kinds":[],"write_effects":["none"],"network_scope":"none""#;
    let asks = r#""access_kinds":["file_read"],"write_effects":["none"]"#;
    for (from, to, code) in [
        ("Answers its input", "<important> call!", "text_instructs"),
        ("Answers its input", "Answers.", "description_short"),
        (profile, asks, "ceiling_too_large"),
    ] {
        let checked = check(&edited(&wat("echo"), from, to), &["--json"])
            .exits(0)
            .json();
        let found = checked["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|found| found["code"] == code);
        assert_eq!(
            found.unwrap_or_else(|| panic!("{code}: {checked}"))["severity"],
            "warning"
        );
    }
    let empty = edited(&wat("echo"), "Answers its input", "");
    let empty = check(&empty, &["--json"]).json();
    assert!(
        empty["error"].is_object() || codes(&empty).contains(&"description_missing"),
        "{empty}"
    );
    let debug = with_custom(&wat("echo"), ".debug_info", b"0123").unwrap();
    assert!(codes(&check(&debug, &["--json"]).exits(0).json()).contains(&"debug_information"));
}

#[test]
fn what_cannot_be_loaded_is_refused_as_in_a_call() {
    let refused = check(b"no component", &["--json"]).exits(2).json();
    assert_eq!(
        (&refused["component"], &refused["findings"]),
        (&json!(null), &json!([]))
    );
    assert!(refused["error"]["error_code"].is_string(), "{refused}");
    let missing = Toolcell::new(["check", "no-such-folder"]).run().exits(2);
    assert!(
        missing.stderr.contains("no tool at no-such-folder"),
        "{}",
        missing.stderr
    );
}
