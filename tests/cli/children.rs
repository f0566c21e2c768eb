//! Calls that a tool makes of other tools, at the command line: how they are granted, shown, and what is left of them
//! after a kill.
//!
//! Promise: A tool that calls tools gains nothing by it.
//! Promise: Calls of tools end.

use serde_json::{Value, json};

use super::approvals::{Place, kill, waiting};
use super::guest;
use super::interrupts::wait_until;
use crate::pipeline::doubles::declaring;
use crate::support::{Toolcell, fixture, scratch};

fn calling(tool: &str, input: Value) -> String {
    json!({ "tool": tool, "input": input }).to_string()
}

/// `--with` for a component of the test guests.
fn tool(name: &str) -> String {
    format!("--with={}", fixture(name).display())
}

#[test]
fn a_tool_calls_another_one_that_was_named_and_granted() {
    let place = Place::of(&guest("caller#call"));
    let input = calling("probe.echo", json!({ "a": 1 }));
    let call = |options: &[&str]| {
        let arguments = [&["call", &place.tool, &input, "--json"], options].concat();
        place.run(&arguments).exits(0).json()["structured_content"]["answers"][0].clone()
    };
    let probe = tool("probe");
    let named = call(&[&probe, "--allow-tool=probe.*"]);
    assert_eq!(named["structured"]["input"], json!({ "a": 1 }));
    let lacking: [&[&str]; 3] = [
        &[&probe],
        &["--allow-tool=probe.*"],
        &[&probe, "--allow-tool=files.*"],
    ];
    for options in lacking {
        assert_eq!(
            call(options)["error"]["code"],
            "tool_not_callable",
            "{options:?}"
        );
    }
    let missing = place
        .run(&[
            "call",
            &place.tool,
            &input,
            "--allow-tool=*",
            "--with=nowhere.wasm",
        ])
        .exits(2);
    assert!(
        missing.stderr.contains("nowhere.wasm"),
        "{}",
        missing.stderr
    );
    let wrong = place
        .run(&["call", &place.tool, &input, "--allow-tool=probe echo"])
        .exits(2);
    assert!(wrong.stderr.contains("names no tool"), "{}", wrong.stderr);
}

#[test]
fn an_alias_means_a_tool_of_the_component_that_was_named() {
    let place = Place::of(&guest("caller#caller_alias"));
    // The name of this tool is an alias of `caller.call`.
    let other = declaring("other", |declaration| {
        declaration["name"] = json!("caller_alias")
    });
    let other_file = place.folder.join("other.wasm");
    let asking = place.folder.join("ask.toml");
    std::fs::write(&other_file, other).unwrap();
    std::fs::write(
        &asking,
        "[[rule]]\nbehavior = \"ask\"\ntool = \"caller.call\"\n",
    )
    .unwrap();
    let other = format!("--with={}", other_file.display());
    let asking = format!("--config={}", asking.display());
    let call = [
        "call",
        &place.tool,
        "{}",
        &other,
        "--allow-tool=*",
        "--print-record",
    ];
    let record = place.run(&call).exits(0).json();
    assert_eq!(record["invocation"]["tool_id"], "caller.call");
    assert_eq!(record["events"][0]["data"]["requested"], "caller_alias");
    assert_eq!(record["events"][1]["data"]["via"], "alias");
    let line = json!({ "id": "a", "tool": place.tool, "input": {} }).to_string();
    let ran = place
        .toolcell(&["batch", "-", &other, "--print-record"])
        .stdin(&line)
        .run()
        .exits(0);
    assert_eq!(ran.json()["invocation"]["tool_id"], "caller.call");
    // Another process that runs the call finds the same tool.
    let (child, id) = waiting(place.toolcell(&[&call[..], &[asking.as_str()][..]].concat()));
    kill(child);
    place.run(&["approvals", "approve", &id]).exits(0);
    assert_eq!(place.show(&id)["invocation"]["tool_id"], "caller.call");
}

#[test]
fn a_file_grants_calls_of_the_tools_that_it_names() {
    let (_guard, folder) = scratch();
    let file = folder.join("tools.toml");
    let text = format!(
        "[grants]\ntool = [\"probe.*\"]\n[[tool]]\ncomponent = {:?}\n",
        fixture("probe")
    );
    std::fs::write(&file, text).unwrap();
    let config = format!("--config={}", file.display());
    let caller = guest("caller#call");
    let input = calling("probe.invocation", json!({}));
    let answer = Toolcell::new(["call", &caller, &input, &config, "--json"])
        .run()
        .exits(0)
        .json();
    assert!(
        answer["structured_content"]["answers"][0]["structured"]["invocation_id"].is_string(),
        "{answer:#}"
    );
    // A tool that calls no others needs none of the tools of the file.
    std::fs::write(
        &file,
        "[grants]\ntool = [\"*\"]\n[[tool]]\ncomponent = \"gone.wasm\"\n",
    )
    .unwrap();
    Toolcell::new(["call", &guest("probe#echo"), "{}", &config])
        .run()
        .exits(0);
    let gone = Toolcell::new(["call", &caller, &input, &config])
        .run()
        .exits(2);
    assert!(gone.stderr.contains("gone.wasm"), "{}", gone.stderr);
    std::fs::copy(fixture("hooks"), folder.join("h.wasm")).unwrap();
    std::fs::write(
        &file,
        "[[hook]]\ncomponent = \"h.wasm\"\ngrants = { tool = [\"*\"] }\n",
    )
    .unwrap();
    let hook = Toolcell::new(["call", &guest("probe#echo"), "{}", &config]).run();
    assert!(
        hook.stderr
            .contains("a hook has no network and no secrets, and calls no tools"),
        "{}",
        hook.stderr
    );
}

#[test]
fn what_a_tool_may_call_is_told_before_it_runs() {
    let caller = guest("caller#call_narrow");
    let explain = |options: &[&str]| {
        let arguments = [&["policy", "check", "--explain", &caller, "{}"], options].concat();
        Toolcell::new(arguments).run().exits(0)
    };
    let text = explain(&["--allow-tool=probe.*"]).stdout;
    assert!(
        text.contains("may call the tool: probe.invocation, by --allow-tool=probe.*"),
        "{text}"
    );
    let granted = explain(&["--allow-tool=probe.*", "--allow-tool=files.*", "--json"]).json();
    assert_eq!(granted["capability"]["tools"], json!(["probe.*"]));
    let call = json!({
        "declared": "probe.invocation", "pattern": "probe.*", "grant": "--allow-tool=probe.*", "source": "cli_arg",
    });
    assert_eq!(granted["capability"]["tool_calls"], json!([call]));
    let note = "--allow-tool=files.* has no effect";
    assert!(
        granted["decision"]["notes"][0]
            .as_str()
            .unwrap()
            .starts_with(note),
        "{:#}",
        granted["decision"]
    );
    assert_eq!(
        explain(&["--json"]).json()["capability"]["tools"],
        json!([])
    );
    let described = Toolcell::new(["describe", &caller]).run().exits(0).stdout;
    assert!(
        described.contains("calls, if granted: probe.invocation"),
        "{described}"
    );
}

#[test]
fn the_calls_around_a_call_are_shown_with_it() {
    let place = Place::of(&guest("caller#call"));
    let input = calling(
        "caller.call_2",
        json!({ "tool": "probe.invocation", "input": {} }),
    );
    let record = place.run(&[
        "call",
        &place.tool,
        &input,
        &tool("probe"),
        &tool("caller"),
        "--allow-tool=*",
        "--print-record",
    ]);
    let record = record.exits(0).json();
    let own = &record["invocation"]["invocation_id"];
    let below = &record["invocation"]["child_invocation_ids"][0];
    let own = own.as_str().unwrap();
    let below = below.as_str().unwrap();
    let shown = place.run(&["show", own]).exits(0).stdout;
    assert!(
        shown.contains(&format!(
            "  called caller.call_2: {below} succeeded\n    called probe.invocation: "
        )),
        "{shown}"
    );
    let shown = place.run(&["show", below]).exits(0).stdout;
    assert!(
        shown.contains(&format!("made by caller.call: {own} succeeded")),
        "{shown}"
    );
    assert_eq!(
        place.run(&["show", below, "--json"]).exits(0).json()["invocation"]["parent_invocation_id"],
        own
    );
    assert_eq!(
        place.run(&["calls", "--json"]).exits(0).json()["calls"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

/// A call of a tool that calls one which needs an approval, to add `line`.
fn asking(place: &Place, text: &str) -> Toolcell {
    let append: Value = serde_json::from_str(&place.input(text)).unwrap();
    let input = calling("probe.append_approved", append);
    let grant = format!("--allow-write={}", place.folder.display());
    place.toolcell(&[
        "call",
        &place.tool,
        &input,
        &grant,
        &tool("probe"),
        "--allow-tool=probe.*",
        "--json",
    ])
}

#[test]
fn a_call_below_another_waits_for_its_own_approval() {
    let place = Place::of(&guest("caller#call_writing"));
    let (child, id) = waiting(asking(&place, "one"));
    let question = place.run(&["approvals", "show", &id]).exits(0).stdout;
    assert!(question.contains("caller.call_writing"), "{question}");
    place.run(&["approvals", "approve", &id]).exits(0);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(place.lines(), ["one"]);
}

#[test]
fn a_call_whose_caller_was_killed_never_runs() {
    let place = Place::of(&guest("caller#call_writing"));
    let (child, id) = waiting(asking(&place, "one"));
    kill(child);
    place.run(&["approvals", "approve", &id]).exits(5);
    assert!(place.lines().is_empty());
    let shown = place.show(&id);
    assert_eq!(
        shown["result"]["error"]["error_code"], "caller_ended",
        "{shown:#}"
    );
    wait_until("ending the caller", || {
        let calls = place.run(&["calls", "--json"]).exits(0).json()["calls"].clone();
        calls
            .as_array()
            .unwrap()
            .iter()
            .all(|call| call["status"] != "running")
    });
}
