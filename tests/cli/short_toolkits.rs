//! The short form of a toolkit: `describe` shows the records that the host derives, and names what is wrong where its author
//! wrote it.

use std::path::Path;

use serde_json::{Value, json};

use crate::pipeline::doubles::describing;
use crate::support::{Toolcell, own_schemas, scratch};

fn write(folder: &Path, toolkit: &Value) -> String {
    let file = folder.join("tool.wasm");
    std::fs::write(&file, describing(&toolkit.to_string())).unwrap();
    file.display().to_string()
}

fn reader() -> Value {
    json!({
        "namespace": "short_cli",
        "tools": [{
            "name": "read",
            "description": "Reads a file.",
            "input": { "type": "object", "properties": { "file": { "type": "string" } }, "required": ["file"] },
            "access": ["file_read"],
            "paths": ["file"],
        }],
    })
}

#[test]
fn describe_shows_what_is_derived_and_has_nothing_to_note() {
    let (_guard, folder) = scratch();
    let tool = write(&folder, &reader());
    let people = Toolcell::new(["describe", &tool]).run().exits(0).stdout;
    assert!(
        people.starts_with("short_cli.read\n") && people.contains("asks for: file_read"),
        "{people}"
    );
    assert!(
        people.contains("file (string, required)") && !people.contains("notes:"),
        "{people}"
    );
    // The printed records are checked against their schemas.
    let printed = Toolcell::new(["describe", &tool, "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(printed["declarations"][0]["tool_id"], "short_cli.read");
    assert_eq!(
        printed["interfaces"][0]["permission_subjects"],
        json!({ "/file": "path" })
    );
    assert_eq!(
        printed["permission_profiles"][0]["access_kinds"],
        json!(["file_read"])
    );
    assert_eq!(
        printed["permission_profiles"][0]["write_effects"],
        json!(["none"])
    );
}

#[test]
fn a_tool_of_a_short_toolkit_is_called_and_loaded_again() {
    let (_guard, folder) = scratch();
    let tool = write(&folder, &reader());
    let call = |input: &str, options: &[&str]| {
        let arguments = [&["call", &tool, input, "--json"], options].concat();
        Toolcell::new(arguments).dir(&folder).run()
    };
    let denied = call(r#"{"file":"a.txt"}"#, &[]).exits(3).json();
    assert_eq!(
        denied["error"]["needs_authorization"]["access_kind"],
        "file_read"
    );
    // The second call takes the records from the cache.
    for _ in 0..2 {
        let called = call(r#"{"file":"a.txt"}"#, &["--allow-read=."])
            .exits(0)
            .json();
        assert_eq!(
            called["structured_content"],
            json!({ "file": folder.join("a.txt") })
        );
    }
    let unknown = call(r#"{"file":"a.txt","fiel":"b"}"#, &["--allow-read=."])
        .exits(2)
        .json();
    assert_eq!(unknown["error"]["error_class"], "schema_validation_failed");
}

#[test]
fn everything_that_is_wrong_is_listed_where_it_was_written() {
    let (_guard, folder) = scratch();
    let mut toolkit = reader();
    toolkit["tools"][0]["paths"] = json!(["fiel"]);
    toolkit["tools"][0]["input_schema"] = json!({});
    toolkit["tools"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "name": "read", "input": {}, "access": ["netwrok"] }));
    toolkit["interfaces"] = json!([]);
    let ran = Toolcell::new(["describe", &write(&folder, &toolkit)])
        .run()
        .exits(2);
    assert!(
        ran.stdout.is_empty() && ran.stderr.contains("[description_invalid]"),
        "{ran:?}"
    );
    let places: Vec<&str> = ran
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(": ").next())
        .collect();
    let expected = [
        "/interfaces",
        "/tools/0/input_schema",
        "/tools/0/paths/0",
        "/tools/1",
        "/tools/1/access/0",
        "/tools/1/name",
    ];
    let mut found = places.clone();
    found.sort_unstable();
    assert_eq!(found, expected, "{}", ran.stderr);
}

#[test]
fn a_schema_that_cannot_be_compiled_is_named_by_its_tool() {
    let (_guard, folder) = scratch();
    let mut toolkit = reader();
    toolkit["tools"][0]["input"]["properties"]["file"]["pattern"] = json!("(");
    let ran = Toolcell::new(["describe", &write(&folder, &toolkit)])
        .run()
        .exits(2);
    assert!(
        ran.stderr
            .contains("\n  /tools/0: the tool short_cli.read: "),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_examples_of_the_schema_are_valid_and_load() {
    let (_guard, folder) = scratch();
    let examples = own_schemas()["toolkit-short"]["examples"]
        .as_array()
        .unwrap();
    assert!(!examples.is_empty());
    for example in examples {
        let validate = ["schema", "validate", "toolkit-short"];
        Toolcell::new(validate)
            .stdin(&example.to_string())
            .run()
            .exits(0);
        let mut misspelt = example.clone();
        misspelt["tools"][0]["acess"] = json!([]);
        Toolcell::new(validate)
            .stdin(&misspelt.to_string())
            .run()
            .exits(2);
        for (toolkit, exit) in [(example, 0), (&misspelt, 2)] {
            Toolcell::new(["describe", &write(&folder, toolkit)])
                .run()
                .exits(exit);
        }
    }
}
