//! Tools whose schemas are unions of documents: what models are shown of them, and what a wrong call is told.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::pipeline::doubles::echoing;
use crate::support::{Client, Home, Toolcell, scratch};

/// The keywords that some API refuses at the top of a schema.
const REFUSED: [&str; 10] = [
    "oneOf", "anyOf", "allOf", "not", "if", "enum", "$ref", "$defs", "$schema", "$id",
];

/// A branch as a generator writes it: a document with definitions of its own.
fn branch(action: &str, required: &[&str], properties: Value) -> Value {
    let mut all = json!({ "action": { "const": action, "type": "string" } });
    all.as_object_mut()
        .unwrap()
        .extend(properties.as_object().unwrap().clone());
    let required: Vec<&str> = [&["action"], required].concat();
    json!({
        "type": "object", "title": action, "properties": all, "required": required, "additionalProperties": false,
        "$defs": { "Place": { "type": "string", "description": format!("Where to {action}.") } },
    })
}

/// A spreadsheet tool: `action` decides what else it takes.
fn sheets(namespace: &str) -> Vec<u8> {
    let place = json!({ "$ref": "#/$defs/Place" });
    let rows = json!({ "type": "array", "items": { "type": "array", "items": { "$ref": "#/$defs/Cell" } } });
    let mut write = branch(
        "write_values",
        &["range", "rows"],
        json!({ "range": place, "rows": rows }),
    );
    write["$defs"]["Cell"] = json!({ "anyOf": [
        { "type": ["string", "number", "null"] },
        { "type": "object", "properties": { "formula": { "$ref": "#/$defs/Cell" } }, "required": ["formula"] },
    ] });
    let read = json!({ "range": place, "limit": { "type": "integer" }, "columns": { "type": "array", "items": { "type": "string" } } });
    echoing(namespace, |toolkit| {
        toolkit["declarations"][0]["description"] =
            json!("Reads and writes the cells of a spreadsheet.");
        toolkit["declarations"][0]["input_contract"] = json!({ "model_input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "oneOf": [branch("read_values", &["range"], read), write, branch("list_sheets", &[], json!({}))],
        } });
    })
}

struct Sheets {
    _guard: tempfile::TempDir,
    file: PathBuf,
    home: Home,
}

impl Sheets {
    fn new(namespace: &str) -> Self {
        let (guard, folder) = scratch();
        let file = folder.join("sheets.wasm");
        std::fs::write(&file, sheets(namespace)).unwrap();
        Self {
            _guard: guard,
            file,
            home: Home::new(),
        }
    }

    fn run(&self, words: &[&str]) -> Toolcell {
        let (command, rest) = words.split_first().unwrap();
        Toolcell::at(
            self.home.path(),
            [&[*command, self.file.to_str().unwrap()], rest].concat(),
        )
    }

    /// What a call with `arguments` is told.
    fn refused(&self, arguments: Value) -> String {
        let ran = self
            .run(&["call", &arguments.to_string(), "--json"])
            .run()
            .exits(2);
        ran.json()["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// Looks for what an API refuses at the top of `schema`, and for references anywhere.
#[track_caller]
fn is_taken(schema: &Value) {
    let text = schema.to_string();
    assert!(
        REFUSED.iter().all(|word| schema.get(word).is_none()),
        "{text}"
    );
    assert_eq!(schema["type"], "object", "{text}");
    assert!(
        !text.contains("\"$ref\"") && !text.contains("\"$defs\""),
        "{text}"
    );
    assert_eq!(
        schema["properties"]["action"]["enum"],
        json!(["read_values", "write_values", "list_sheets"]),
        "{text}"
    );
    assert_eq!(schema["required"], json!(["action"]), "{text}");
    assert_eq!(
        schema["properties"]["limit"],
        json!({ "type": "integer" }),
        "{text}"
    );
    let place = schema["properties"]["range"]["description"]
        .as_str()
        .unwrap_or_default();
    assert_eq!(
        place, "Where to read_values; or: Where to write_values.",
        "{text}"
    );
}

#[test]
fn every_dialect_lists_one_object() {
    let tool = Sheets::new("listed_dialects");
    for (dialect, pointer) in [
        ("mcp", "/0/inputSchema"),
        ("openai", "/0/function/parameters"),
        ("openai-responses", "/0/parameters"),
        ("anthropic", "/0/input_schema"),
        ("amplifier", "/0/input_schema"),
        ("amplifier-seed", "/0/input_schema"),
        ("agentool", "/0/parameters"),
    ] {
        let listed = tool
            .run(&["export", &format!("--dialect={dialect}")])
            .run()
            .exits(0)
            .json();
        let schema = listed
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{dialect}: {listed}"));
        is_taken(schema);
        let said = "Arguments by `action` (in brackets: optional):\\n- read_values: range, [limit], [columns]";
        assert!(listed.to_string().contains(said), "{dialect}: {listed}");
    }
    for dialect in ["otc", "otc-seed", "arcade"] {
        let listed = tool
            .run(&["export", &format!("--dialect={dialect}")])
            .run()
            .exits(0)
            .json();
        let parameters = listed[0]["input"]["parameters"].as_array().unwrap();
        let names: Vec<_> = parameters
            .iter()
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            ["action", "range", "limit", "columns", "rows"],
            "{dialect}"
        );
        assert_eq!(
            parameters[0]["value_schema"]["enum"]
                .as_array()
                .map(Vec::len),
            Some(3),
            "{dialect}: {listed}"
        );
    }
}

#[test]
fn a_client_of_mcp_gets_one_object_and_errors_that_name_field_and_action() {
    let tool = Sheets::new("listed_mcp");
    let mut client = Client::run(tool.run(&["mcp"]));
    client.initialize("2025-06-18");
    let listed = client.request("tools/list", json!({}))["result"]["tools"][0].clone();
    is_taken(&listed["inputSchema"]);
    let name = listed["name"].as_str().unwrap().to_owned();
    let told = |client: &mut Client, arguments: Value| client.call(&name, arguments).to_string();
    let missing = told(&mut client, json!({ "action": "read_values" }));
    assert!(
        missing.contains("range is required (for action read_values)"),
        "{missing}"
    );
    let sent = json!({ "action": "read_values", "range": "A1", "limit": null, "columns": null });
    let answered = client.call(&name, sent);
    assert_eq!(
        answered["structuredContent"],
        json!({ "action": "read_values", "range": "A1" }),
        "{answered}"
    );
}

#[test]
fn a_wrong_call_is_told_the_branch_that_it_is_meant_for() {
    let tool = Sheets::new("listed_errors");
    for (arguments, told) in [
        (
            json!({ "action": "read_values" }),
            "range is required (for action read_values)",
        ),
        (
            json!({ "action": "read_values", "range": 7 }),
            "(at /range) (for action read_values)",
        ),
        (
            json!({ "action": "list_sheets", "range": "A1" }),
            "'range' was unexpected) (for action list_sheets)",
        ),
        (
            json!({}),
            "action is required: one of read_values, write_values, list_sheets",
        ),
        (
            json!({ "action": "hunter2" }),
            "action must be one of read_values, write_values, list_sheets",
        ),
        (
            json!({ "action": "read_values", "range": null }),
            "range is required (for action read_values)",
        ),
        (
            json!({ "action": "read_values", "range": "A1", "columns": "[\"a\"]" }),
            "you sent JSON text; send the array itself (at /columns) (for action read_values)",
        ),
        (
            json!({ "action": "write_values", "range": "A1", "rows": [[{ "formula": {} }]] }),
            "formula is required (at /rows/0/0/formula) (for action write_values)",
        ),
    ] {
        let message = tool.refused(arguments.clone());
        assert!(message.contains(told), "{arguments}: {message}");
        assert!(
            !message.contains("hunter2") && !message.contains("schemas listed in"),
            "{message}"
        );
    }
    let text = tool.run(&["call", "\"{}\""]).run().exits(2).stderr;
    assert!(
        text.contains(
            "arguments must be a JSON object: you sent JSON text; send the object itself"
        ),
        "{text}"
    );
}

#[test]
fn null_for_an_optional_argument_leaves_it_out_and_the_record_says_so() {
    let tool = Sheets::new("listed_nulls");
    let sent = json!({ "action": "read_values", "range": "A1", "limit": null });
    let record = tool
        .run(&["call", &sent.to_string(), "--print-record"])
        .run()
        .exits(0)
        .json();
    assert_eq!(
        record["result"]["structured_content"],
        json!({ "action": "read_values", "range": "A1" }),
        "{record}"
    );
    assert_eq!(record["invocation"]["model_input"], sent);
    let change = &record["result"]["input_mutations"][0];
    assert_eq!(
        (&change["source_type"], &change["changed_fields"]),
        (&json!("runtime"), &json!(["/limit"])),
        "{record}"
    );
    assert!(
        change["reason"].as_str().unwrap().contains("left out"),
        "{change}"
    );
    // From a client of another protocol, what adapts its calls changed it.
    let mut client = Client::run(tool.run(&["mcp"]));
    client.initialize("2025-06-18");
    let listed = client.request("tools/list", json!({}))["result"]["tools"][0].clone();
    let name = listed["name"].as_str().unwrap().to_owned();
    client.call(&name, sent);
    client.close();
    let shown = Toolcell::at(tool.home.path(), ["show", "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(
        shown["result"]["input_mutations"][0]["source_type"], "adapter",
        "{shown}"
    );
    // A null that the schema accepts is a value.
    let cells = json!({ "action": "write_values", "range": "A1", "rows": [[null]] });
    let record = tool
        .run(&["call", &cells.to_string(), "--print-record"])
        .run()
        .exits(0)
        .json();
    assert_eq!(record["result"]["structured_content"], cells);
}

#[test]
fn a_union_behind_references_is_listed_and_refused_likewise() {
    let issue = |action: &str, field: &str| {
        json!({
            "type": "object", "required": ["action", field],
            "properties": { "action": { "const": action }, field: { "$ref": "#/$defs/Word" } },
        })
    };
    let union = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/issues",
        "$ref": "#/$defs/Args",
        "$defs": {
            "Args": { "anyOf": [{ "$ref": "#/$defs/Get" }, { "$ref": "#/$defs/Make" }] },
            "Get": issue("get_issue", "number"), "Make": issue("make_issue", "title"), "Word": { "type": "string" },
        },
    });
    let (_guard, folder) = scratch();
    let tool = echoing("listed_references", |toolkit| {
        toolkit["declarations"][0]["input_contract"] = json!({ "model_input_schema": union });
    });
    std::fs::write(folder.join("issues.wasm"), tool).unwrap();
    let home = Home::new();
    let run = |words: &[&str]| Toolcell::at(home.path(), words).dir(&folder).run();
    for (dialect, pointer) in [
        ("mcp", "/0/inputSchema"),
        ("openai", "/0/function/parameters"),
        ("openai-responses", "/0/parameters"),
        ("anthropic", "/0/input_schema"),
        ("amplifier", "/0/input_schema"),
        ("amplifier-seed", "/0/input_schema"),
        ("agentool", "/0/parameters"),
    ] {
        let listed = run(&["export", "issues.wasm", &format!("--dialect={dialect}")])
            .exits(0)
            .json();
        let schema = listed
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{dialect}: {listed}"));
        assert!(
            REFUSED.iter().all(|word| schema.get(word).is_none()),
            "{dialect}: {schema}"
        );
        assert!(
            !schema.to_string().contains("\"$ref\""),
            "{dialect}: {schema}"
        );
        assert_eq!(
            schema["properties"]["action"]["enum"],
            json!(["get_issue", "make_issue"]),
            "{dialect}: {schema}"
        );
        assert_eq!(
            schema["properties"]["number"]["type"], "string",
            "{dialect}: {schema}"
        );
    }
    for (arguments, told) in [
        (
            r#"{"action": "get_issue"}"#,
            "number is required (for action get_issue)",
        ),
        (
            r#"{"action": "make_issue", "title": 7}"#,
            "(at /title) (for action make_issue)",
        ),
        ("{}", "action is required: one of get_issue, make_issue"),
    ] {
        let refused = run(&["call", "issues.wasm", arguments, "--json"])
            .exits(2)
            .json();
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains(told), "{arguments}: {message}");
    }
}

#[test]
fn people_see_the_actions_and_their_arguments() {
    let tool = Sheets::new("listed_people");
    let text = tool.run(&["describe"]).run().exits(0).stdout;
    for words in [
        "action (\"read_values\" or \"write_values\" or \"list_sheets\", required)",
        "by action (in brackets: optional):",
        "read_values: range, [limit], [columns]",
        "list_sheets: no others",
        "{\"action\":\"read_values\",\"range\":\"RANGE\"}",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let checked = tool
        .run(&["check", "--json"])
        .run()
        .exits(0)
        .json()
        .to_string();
    assert!(
        !checked.contains("schema_open") && !checked.contains("listing_"),
        "{checked}"
    );
}

#[test]
fn a_schema_that_no_model_can_be_shown_is_an_error_of_check() {
    let (_guard, folder) = scratch();
    let no_object = echoing("listed_nothing", |toolkit| {
        toolkit["declarations"][0]["input_contract"] = json!({ "model_input_schema": { "anyOf": [{ "type": "string" }, { "type": "array" }] } });
    });
    std::fs::write(folder.join("tool.wasm"), no_object).unwrap();
    let checked = Toolcell::new(["check", "tool.wasm", "--json"])
        .dir(&folder)
        .run()
        .exits(1)
        .json();
    let found = &checked["findings"][0];
    assert_eq!(
        (&found["code"], &found["severity"]),
        (&json!("listing_impossible"), &json!("error")),
        "{checked}"
    );
}
