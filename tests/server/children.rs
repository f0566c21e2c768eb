//! Calls that a served tool makes of other tools.
//!
//! Promise: A tool that calls tools gains nothing by it.

use serde_json::json;

use crate::pipeline::doubles::internal;
use crate::support::{Client, Toolcell, check_record, fixture, records, scratch};

#[test]
fn a_served_tool_calls_those_that_are_served_and_granted_and_no_others() {
    let mut client = Client::with(
        &["caller#call", "probe#invocation"],
        ["--allow-tool=probe.*"],
    );
    let mut ask = |tool: &str| {
        let answer =
            client.call("call", json!({ "tool": tool, "input": {}, "list": true }))["structuredContent"].clone();
        assert_eq!(answer["listed"], json!(["probe.invocation"]));
        answer["answers"][0].clone()
    };
    assert!(ask("probe.invocation")["structured"]["invocation_id"].is_string());
    // Its component is loaded, and the tool is not served.
    assert_eq!(ask("probe.counter")["error"]["code"], "tool_not_callable");
    client.close();
}

#[test]
fn a_served_tool_calls_an_internal_one_that_no_client_has() {
    let (_guard, folder) = scratch();
    let inner = folder.join("inner.wasm");
    std::fs::write(&inner, internal("inner")).unwrap();
    let caller = format!("{}#call", fixture("caller").display());
    let arguments = [
        "mcp".to_owned(),
        caller,
        inner.display().to_string(),
        "--allow-tool=inner.*".to_owned(),
    ];
    let mut client = Client::run(Toolcell::new(arguments.clone()));
    client.initialize("2025-11-25");
    let answer = client.call("call", json!({ "tool": "inner.echo", "input": { "a": 1 } }))["structuredContent"].clone();
    assert_eq!(answer["answers"][0]["structured"]["a"], 1, "{answer:#}");
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    assert!(!listed.to_string().contains("inner"), "{listed:#}");
    client.close();
    // A role that does not have the tool has it nowhere.
    let settings = folder.join("role.toml");
    std::fs::write(
        &settings,
        "[surface]\nrole = \"one\"\n[surface.roles]\none = [\"caller.*\"]\n",
    )
    .unwrap();
    let mut client = Client::run(Toolcell::new(
        arguments
            .into_iter()
            .chain([format!("--config={}", settings.display())]),
    ));
    client.initialize("2025-11-25");
    let answer =
        client.call("call", json!({ "tool": "inner.echo", "input": {} }))["structuredContent"]
            .clone();
    assert_eq!(
        answer["answers"][0]["error"]["code"], "tool_not_callable",
        "{answer:#}"
    );
}

#[test]
fn the_file_of_records_has_the_calls_that_tools_make() {
    let (_guard, folder) = scratch();
    let file = folder.join("records");
    let options = [
        "--allow-tool=*".to_owned(),
        format!("--record-to={}", file.display()),
    ];
    let mut client = Client::with(&["caller", "probe#invocation"], options);
    client.call(
        "call",
        json!({ "tool": "caller.call_2", "input": { "tool": "probe.invocation", "input": {} } }),
    );
    client.close();
    let records = records(&file);
    let invocations: Vec<_> = records.iter().map(|record| &record["invocation"]).collect();
    let tools: Vec<_> = invocations
        .iter()
        .map(|invocation| invocation["tool_id"].as_str().unwrap())
        .collect();
    assert_eq!(tools, ["probe.invocation", "caller.call_2", "caller.call"]);
    for (below, above) in [(0, 1), (1, 2)] {
        assert_eq!(
            invocations[below]["parent_invocation_id"],
            invocations[above]["invocation_id"]
        );
        assert_eq!(
            invocations[below]["session_ref"],
            invocations[above]["session_ref"]
        );
    }
    records.iter().for_each(check_record);
}

#[test]
fn calls_of_several_callers_at_once_all_end() {
    let mut client = Client::with(&["caller", "probe#hold"], ["--allow-tool=*"]);
    let call = json!({ "tool": "caller.call_2", "input": { "tool": "probe.hold", "input": { "ms": 50 } } });
    let ids: Vec<_> = (0..40)
        .map(|_| client.begin_call("call", call.clone()))
        .collect();
    for id in ids {
        let answer = client.answer(&id)["result"]["structuredContent"]["answers"][0].clone();
        let inner = &answer["structured"]["answers"][0];
        assert!(inner["structured"]["left_ns"].is_number(), "{answer:#}");
    }
    client.close();
}
