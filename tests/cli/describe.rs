use serde_json::{Value, json};

use super::{echo_in, example, guest};
use crate::support::{Toolcell, check_one, scratch};

#[test]
fn a_person_sees_what_a_tool_does_takes_and_asks_for() {
    let ran = Toolcell::new(["describe", &format!("{}#search", example("files"))]).run().exits(0);
    let text = ran.stdout;
    assert!(text.starts_with("files.search\n"), "{text}");
    for words in
        ["Searches the text files", "pattern (string)", "ignore_case (boolean, optional)", "asks for: file_read"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("files.list"), "only the one that was named: {text}");
}

#[test]
fn all_tools_of_a_component_are_shown_unless_one_is_named() {
    let ran = Toolcell::new(["describe", &example("files")]).run().exits(0);
    for name in ["files.list\n", "files.read\n", "files.search\n"] {
        assert!(ran.stdout.contains(name), "{}", ran.stdout);
    }
    let ran = Toolcell::new(["describe", &example("jq")]).run().exits(0);
    assert!(ran.stdout.contains("asks for: nothing") && ran.stdout.contains("input (any, optional)"), "{}", ran.stdout);
}

#[test]
fn every_line_belongs_to_its_tool() {
    // A description of several lines stays below its heading.
    let ran = Toolcell::new(["describe", &example("files")]).run().exits(0);
    let heads: Vec<&str> = ran.stdout.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
    assert_eq!(heads, ["files.list", "files.read", "files.search"]);
}

#[test]
fn a_field_that_only_hooks_may_fill_is_not_shown_to_people_either() {
    let ran = Toolcell::new(["describe", &guest("probe#internal")]).run().exits(0);
    assert!(ran.stdout.contains("query (string)") && !ran.stdout.contains("zz_internal_7f3"), "{}", ran.stdout);
}

#[test]
fn the_records_follow_the_specification_and_refer_to_each_other() {
    for component in ["jq", "files", "patch", "ticker"].map(example) {
        let records = Toolcell::new(["describe", &component, "--json"]).run().exits(0).json();
        let ids = |list: &str, id: &str| -> Vec<Value> {
            records[list].as_array().unwrap().iter().map(|record| record[id].clone()).collect()
        };
        let (interfaces, executions) =
            (ids("interfaces", "interface_id"), ids("execution_profiles", "execution_profile_id"));
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
            records[list].as_array().unwrap().iter().for_each(|record| check_one(schema, record));
        }
    }
}

#[test]
fn what_an_execution_profile_says_is_what_the_host_saw() {
    let profile = |tool: &str| {
        let records = Toolcell::new(["describe", &guest(tool), "--json"]).run().exits(0).json();
        assert_eq!(records["declarations"].as_array().unwrap().len(), 1, "one tool was named");
        records["execution_profiles"][0].clone()
    };
    let facts = |profile: &Value| {
        ["supports_progress", "supports_partial_results", "cancel_mode", "validates_values"]
            .map(|fact| profile[fact].clone())
    };
    assert_eq!(facts(&profile("probe#echo")), [json!(true), json!(true), json!("forced"), json!(false)]);
    assert_eq!(facts(&profile("cancellable#polling")), [json!(false), json!(false), json!("both"), json!(false)]);
    assert_eq!(facts(&profile("validated#even")), [json!(false), json!(false), json!("forced"), json!(true)]);
    let probe = profile("probe#echo");
    assert_eq!(
        (&probe["sandboxed"], &probe["offline"], &probe["supports_retries"]),
        (&json!(true), &json!(true), &json!(false))
    );
}

#[test]
fn what_a_profile_says_of_the_network_credentials_and_canceling_is_no_constant() {
    let described = |tool: &str| Toolcell::new(["describe", tool, "--json"]).run().exits(0).json();
    let facts = |tool: &str| {
        let profile = described(&guest(tool))["execution_profiles"][0].clone();
        ["offline", "credential_delegation"].map(|fact| profile[fact].as_bool().unwrap())
    };
    assert_eq!(facts("courier#bearer"), [false, true]);
    assert_eq!(facts("courier#plain"), [false, false]);
    assert_eq!(facts("probe#net"), [false, false]);
    assert_eq!(facts("probe#echo"), [true, false]);

    let (_guard, folder) = scratch();
    let component = crate::pipeline::doubles::echoing("describe_claims", |toolkit| {
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
    assert!(described(&tool)["notes"].to_string().contains("/execution_profiles/0/supports_cancel"));
    let shown = Toolcell::new(["describe", &tool]).run().exits(0).stdout;
    assert!(shown.lines().any(|line| line.contains("supports_cancel") && line.contains("here true")), "{shown}");
}

#[test]
fn a_tool_that_cannot_be_shown_is_an_error_in_both_forms() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("garbage.wasm"), "garbage").unwrap();
    let (garbage, echo) = (folder.join("garbage.wasm").display().to_string(), format!("{}#none", echo_in(&folder)));
    for tool in [garbage.as_str(), &echo, "no/such/tool"] {
        let ran = Toolcell::new(["describe", tool]).run().exits(2);
        assert!(ran.stdout.is_empty() && ran.stderr.starts_with("error: "), "{ran:?}");
        let ran = Toolcell::new(["describe", tool, "--json"]).run().exits(2);
        assert!(ran.json()["error"]["error_class"].is_string());
    }
}
