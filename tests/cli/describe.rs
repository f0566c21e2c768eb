use serde_json::{Value, json};

use super::{echo_in, example, guest};
use crate::pipeline::doubles::echoing;
use crate::support::{Toolcell, check_one, kept, scratch};

#[test]
fn a_person_sees_what_a_tool_does_takes_and_asks_for() {
    let ran = Toolcell::new(["describe", &format!("{}#search", example("files"))])
        .run()
        .exits(0);
    let text = ran.stdout;
    assert!(text.starts_with("files.search\n"), "{text}");
    for words in [
        "Searches text files",
        "pattern (string, required)",
        "ignore_case (boolean, default false)",
        "asks for: file_read",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(
        !text.contains("files.list"),
        "only the one that was named: {text}"
    );
}

#[test]
fn all_tools_of_a_component_are_shown_unless_one_is_named() {
    let ran = Toolcell::new(["describe", &example("files")])
        .run()
        .exits(0);
    for name in [
        "files.list\n",
        "files.read\n",
        "files.search\n",
        "files.write\n",
        "files.edit\n",
    ] {
        assert!(ran.stdout.contains(name), "{}", ran.stdout);
    }
    let ran = Toolcell::new(["describe", &example("jq")]).run().exits(0);
    assert!(
        ran.stdout.contains("asks for: nothing") && ran.stdout.contains("input (any, optional)"),
        "{}",
        ran.stdout
    );
}

/// A component whose tool says everything that people are shown.
fn telling() -> Vec<u8> {
    echoing("describe_telling", |toolkit| {
        let declaration = &mut toolkit["declarations"][0];
        for (field, value) in [
            ("execution_profile_ref", "e"),
            ("permission_profile_ref", "p"),
        ] {
            declaration[field] = json!(value);
        }
        declaration["input_contract"] = json!({"model_input_schema": {
            "type": "object",
            "required": ["to", "mode"],
            "properties": {
                "to": {
                    "type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string"},
                    "description": "Who gets it.\n  risk: none\u{1b}[2J\u{202e} and a long explanation that does not fit into one row.",
                },
                "mode": {"enum": ["fast", "it's"]},
                "retries": {"type": "integer", "minimum": 0, "maximum": 9, "default": 2},
                "note": {"type": ["string", "null"], "maxLength": 1},
                "when": {"type": "object", "required": ["day"], "properties": {"day": {"type": "string", "format": "date"}}},
            },
        }});
        declaration["output_contract"] = json!({
            "content_types": ["text"], "max_inline_bytes": 4096,
            "structured_schema": {"type": "object", "properties": {"sent": {"type": "boolean"}}},
        });
        toolkit["execution_profiles"] = json!([{
            "schema_version": "0.2.0", "execution_profile_id": "e", "execution_kind": "embedded_runtime",
            "timeout_ms": 5000,
        }]);
        toolkit["permission_profiles"] = json!([{
            "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "high",
            "access_kinds": ["file_read", "credential"], "credential_refs": ["KEY"], "environment": ["LANG"],
        }]);
    })
}

#[test]
fn arguments_output_limits_and_permissions_are_shown_in_rows_that_fit() {
    let (_guard, folder) = scratch();
    let file = folder.join("t.wasm");
    std::fs::write(&file, telling()).unwrap();
    let text = Toolcell::new(["describe", "t.wasm"])
        .dir(&folder)
        .run()
        .exits(0)
        .stdout;
    for row in [
        "    to (array of string, required, 1 to 3 items) Who gets it. risk:",
        "    mode (\"fast\" or \"it's\", required)",
        "    retries (integer, default 2, 0 to 9)",
        "    note (string or null, optional, at most 1 character)",
        "    when (object, optional)",
        "      day (string, required, format date)",
        "  returns: text; structured:",
        "    sent (boolean)",
        "  asks for: file_read, credential",
        "  secrets: KEY",
        "  reads, if granted: LANG",
        "  risk: high",
        "  approval: needed for each call, unless a rule allows it: its risk is high",
        "  limits: 5000 ms for a call, 4096 bytes of output",
        "    toolcell call t.wasm '{\"to\":[\"TO\"],\"mode\":\"fast\"}' --allow-read=DIR --allow-secret=KEY@https://HOST",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(row)),
            "{row}\n{text}"
        );
    }
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    let wide: Vec<&str> = text
        .lines()
        .filter(|line| line.chars().count() > 80)
        .collect();
    // The command is copied, and a note begins with a place.
    assert!(
        wide.iter()
            .all(|line| line.starts_with("    toolcell call ") || line.starts_with("    /")),
        "{wide:#?}"
    );
    assert_eq!(
        text,
        Toolcell::new(["describe", "t.wasm"])
            .dir(&folder)
            .run()
            .exits(0)
            .stdout
    );
}

#[test]
fn the_command_that_is_shown_calls_the_tool() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("found.txt"), "x").unwrap();
    std::fs::copy(example("files"), folder.join("my tools.wasm")).unwrap();
    let text = Toolcell::new(["describe", "my tools.wasm#list"])
        .dir(&folder)
        .run()
        .exits(0)
        .stdout;
    let command = text
        .lines()
        .find_map(|line| line.strip_prefix("    toolcell "))
        .unwrap_or_else(|| panic!("{text}"));
    let line = format!(
        "exec {} {}",
        env!("CARGO_BIN_EXE_toolcell"),
        command.replace("DIR", ".")
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &line]).env("TOOLCELL_HOME", kept("home"));
    let ran = Toolcell::exactly(shell).dir(&folder).run().exits(0);
    assert!(ran.stdout.contains("found.txt"), "{ran:?}");
}

#[test]
fn every_line_belongs_to_its_tool() {
    // A description of several lines stays below its heading.
    let ran = Toolcell::new(["describe", &example("files")])
        .run()
        .exits(0);
    let heads: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(' '))
        .collect();
    assert_eq!(
        heads,
        [
            "files.list",
            "files.read",
            "files.search",
            "files.write",
            "files.edit"
        ]
    );
}

#[test]
fn a_field_that_only_hooks_may_fill_is_not_shown_to_people_either() {
    let ran = Toolcell::new(["describe", &guest("probe#internal")])
        .run()
        .exits(0);
    assert!(
        ran.stdout.contains("query (string") && !ran.stdout.contains("zz_internal_7f3"),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_records_follow_the_specification_and_refer_to_each_other() {
    for component in ["jq", "files", "patch", "ticker"].map(example) {
        let records = Toolcell::new(["describe", &component, "--json"])
            .run()
            .exits(0)
            .json();
        let ids = |list: &str, id: &str| -> Vec<Value> {
            records[list]
                .as_array()
                .unwrap()
                .iter()
                .map(|record| record[id].clone())
                .collect()
        };
        let interfaces = ids("interfaces", "interface_id");
        let executions = ids("execution_profiles", "execution_profile_id");
        let permissions = ids("permission_profiles", "permission_profile_id");
        for declaration in records["declarations"].as_array().unwrap() {
            check_one("tool-declaration", declaration);
            assert!(interfaces.contains(&declaration["interface_ref"]));
            assert!(executions.contains(&declaration["execution_profile_ref"]));
            assert!(permissions.contains(&declaration["permission_profile_ref"]));
        }
        for (list, schema) in [
            ("interfaces", "tool-interface"),
            ("execution_profiles", "execution-profile"),
            ("permission_profiles", "permission-profile"),
        ] {
            records[list]
                .as_array()
                .unwrap()
                .iter()
                .for_each(|record| check_one(schema, record));
        }
    }
}

#[test]
fn what_an_execution_profile_says_is_what_the_host_saw() {
    let profile = |tool: &str| {
        let records = Toolcell::new(["describe", &guest(tool), "--json"])
            .run()
            .exits(0)
            .json();
        assert_eq!(
            records["declarations"].as_array().unwrap().len(),
            1,
            "one tool was named"
        );
        records["execution_profiles"][0].clone()
    };
    let facts = |profile: &Value| {
        [
            "supports_progress",
            "supports_partial_results",
            "supports_artifacts",
            "cancel_mode",
            "validates_values",
        ]
        .map(|fact| profile[fact].clone())
    };
    let yes = || json!(true);
    let no = || json!(false);
    assert_eq!(
        facts(&profile("probe#echo")),
        [yes(), yes(), yes(), json!("forced"), no()]
    );
    assert_eq!(
        facts(&profile("cancellable#polling")),
        [no(), no(), no(), json!("both"), no()]
    );
    assert_eq!(
        facts(&profile("validated#even")),
        [no(), no(), yes(), json!("forced"), yes()]
    );
    let probe = profile("probe#echo");
    assert_eq!(
        (
            &probe["sandboxed"],
            &probe["offline"],
            &probe["supports_retries"]
        ),
        (&json!(true), &json!(true), &json!(true))
    );
    let later = profile("probe#hold_background");
    assert_eq!(
        (&later["requires_background"], &later["supports_background"]),
        (&yes(), &yes())
    );
    assert_eq!(
        profile("probe#hold_writing")["supports_retries"],
        json!(false)
    );
    let modifies = ["probe#echo", "modifier#modify", "modifier#modify_never"]
        .map(|tool| profile(tool)["supports_context_modifiers"].clone());
    assert_eq!(modifies, [no(), yes(), no()]);
}

#[test]
fn what_a_profile_says_of_the_network_credentials_and_canceling_is_no_constant() {
    let described = |tool: &str| {
        Toolcell::new(["describe", tool, "--json"])
            .run()
            .exits(0)
            .json()
    };
    let facts = |tool: &str| {
        let profile = described(&guest(tool))["execution_profiles"][0].clone();
        ["offline", "credential_delegation"].map(|fact| profile[fact].as_bool().unwrap())
    };
    assert_eq!(facts("courier#bearer"), [false, true]);
    assert_eq!(facts("courier#plain"), [false, false]);
    assert_eq!(facts("probe#net"), [false, false]);
    assert_eq!(facts("probe#echo"), [true, false]);

    let (_guard, folder) = scratch();
    let component = echoing("describe_claims", |toolkit| {
        let profile = json!({
            "schema_version": "0.2.0", "execution_profile_id": "e", "execution_kind": "native_app",
            "supports_cancel": false, "supports_progress": false, "offline": false,
        });
        toolkit["execution_profiles"] = json!([profile]);
        toolkit["declarations"][0]["execution_profile_ref"] = json!("e");
    });
    let file = folder.join("claims.wasm");
    std::fs::write(&file, component).unwrap();
    let tool = file.display().to_string();
    let profile = described(&tool)["execution_profiles"][0].clone();
    check_one("execution-profile", &profile);
    let seen = ["supports_cancel", "cancel_mode", "offline"].map(|fact| profile[fact].clone());
    assert_eq!(seen, [json!(true), json!("forced"), json!(true)]);
    // A contrary claim of the tool is reported, to programs and to people.
    assert!(
        described(&tool)["notes"]
            .to_string()
            .contains("/execution_profiles/0/supports_cancel")
    );
    let shown = Toolcell::new(["describe", &tool]).run().exits(0).stdout;
    assert!(
        shown
            .lines()
            .any(|line| line.contains("supports_cancel") && line.contains("here true")),
        "{shown}"
    );
}

#[test]
fn a_tool_that_cannot_be_shown_is_an_error_in_both_forms() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("garbage.wasm"), "garbage").unwrap();
    let garbage = folder.join("garbage.wasm").display().to_string();
    let echo = format!("{}#none", echo_in(&folder));
    for tool in [garbage.as_str(), &echo, "no/such/tool"] {
        let ran = Toolcell::new(["describe", tool]).run().exits(2);
        assert!(
            ran.stdout.is_empty() && ran.stderr.starts_with("error: "),
            "{ran:?}"
        );
        let ran = Toolcell::new(["describe", tool, "--json"]).run().exits(2);
        assert!(ran.json()["error"]["error_class"].is_string());
    }
}
