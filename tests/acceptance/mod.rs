//! The 17 acceptance scenarios of Agent Tool 0.2.0 (AT-ACC), one test each, on the built program.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::approvals::{Place, waiting};
use crate::pipeline::doubles::{declaring, echoing};
use crate::support::{
    Client, Home, Toolcell, check_printed, check_record, fixture, records, root, scratch,
    share_compiled,
};

fn guest(tool: &str) -> String {
    let (name, tool) = tool.split_once('#').unwrap();
    format!("{}#{tool}", fixture(name).display())
}

/// A home with a journal of its own.
fn own_home() -> (tempfile::TempDir, PathBuf) {
    let (guard, home) = scratch();
    share_compiled(&home);
    (guard, home)
}

/// The record of one call of a test guest.
fn call(tool: &str, input: &Value, options: &[&str]) -> Value {
    let tool = guest(tool);
    let input = input.to_string();
    let record = Toolcell::new(
        ["call", &tool, &input, "--print-record"]
            .iter()
            .chain(options),
    )
    .run()
    .json();
    check_record(&record);
    record
}

/// The records of a batch, in the order of its calls.
fn batch(calls: &[Value], options: &[&str]) -> Vec<Value> {
    let text: String = calls.iter().map(|call| format!("{call}\n")).collect();
    let fixed = [
        "batch",
        "-",
        "--print-record",
        "--max-parallel=4",
        "--memory=16MiB",
        "--max-output=1MiB",
        "--no-config",
    ];
    let ran = Toolcell::new(fixed.iter().chain(options))
        .stdin(&text)
        .run();
    let records: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    records.iter().for_each(check_printed);
    assert_eq!(records.len(), calls.len(), "{}", ran.stderr);
    records
}

fn in_batch(id: &str, tool: &str, input: Value) -> Value {
    json!({ "id": id, "tool": guest(tool), "input": input })
}

fn error(record: &Value) -> (&str, &str) {
    let error = &record["result"]["error"];
    (
        error["error_class"].as_str().unwrap_or_default(),
        error["error_code"].as_str().unwrap_or_default(),
    )
}

fn event_types(record: &Value) -> Vec<&str> {
    record["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event_type"].as_str().unwrap())
        .collect()
}

fn never_started(record: &Value) {
    assert!(
        record["invocation"].get("started_at").is_none(),
        "{record:#}"
    );
}

/// When the guest of a record entered and left, by its own clock.
fn held(record: &Value) -> (u64, u64) {
    let said = &record["result"]["structured_content"];
    (
        said["entered_ns"].as_u64().unwrap(),
        said["left_ns"].as_u64().unwrap(),
    )
}

fn overlap(one: &Value, other: &Value) -> bool {
    let one = held(one);
    let other = held(other);
    one.0 < other.1 && other.0 < one.1
}

fn listed(client: &mut Client) -> Vec<String> {
    let answer = client.request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn at_acc_01_a_declaration_is_discovered_while_not_every_tool_is_in_the_context() {
    let mut client = Client::with(&["probe"], ["--max-listed=3"]);
    let names = listed(&mut client);
    assert!(
        names.len() == 6 && !names.contains(&"probe_summary".to_owned()),
        "{names:?}"
    );
    let found = client.call("search_tools", json!({ "query": "select:summary" }));
    let found = &found["structuredContent"]["matches"][0];
    assert_eq!(found["name"], "probe_summary");
    assert!(!found["description"].as_str().unwrap().is_empty());
    // The same holds for every tool that is available, and what is found of one has no schema.
    let described = Toolcell::new(["describe", fixture("probe").to_str().unwrap(), "--json"])
        .run()
        .exits(0)
        .json();
    let declarations = described["declarations"].as_array().unwrap().iter();
    let available = declarations.filter(|declaration| declaration["lifecycle"] == "available");
    let hidden: Vec<String> = available
        .map(|declaration| format!("probe_{}", declaration["name"].as_str().unwrap()))
        .collect();
    let hidden: Vec<String> = hidden
        .into_iter()
        .filter(|name| !names.iter().any(|listed| listed == name))
        .collect();
    assert!(hidden.len() > names.len(), "{hidden:?}");
    for name in hidden {
        let found = client.call("search_tools", json!({ "query": format!("select:{name}") }));
        let found = &found["structuredContent"]["matches"][0];
        assert_eq!(
            (found["name"].as_str(), found["loading_state"].as_str()),
            (Some(name.as_str()), Some("deferred"))
        );
        assert!(
            found.get("input_contract").is_none() && found.get("inputSchema").is_none(),
            "{found:#}"
        );
    }
}

#[test]
fn at_acc_02_a_deferred_tool_is_found_by_name_and_by_word_and_loaded_before_it_is_called() {
    let mut client = Client::with(&["probe#echo", "probe#counter"], ["--max-listed=0"]);
    for query in ["select:counter", "counts static"] {
        let found = client.call("search_tools", json!({ "query": query }));
        assert_eq!(
            found["structuredContent"]["matches"][0]["name"], "probe_counter",
            "{query}: {found:#}"
        );
    }
    let refused = client.call("counter", json!({}));
    assert_eq!(
        refused["_meta"]["toolcell/error"]["class"],
        "schema_not_loaded"
    );
    let loaded = client.call("load_tool", json!({ "name": "counter" }));
    assert_eq!(
        loaded["structuredContent"]["tool"]["inputSchema"]["type"], "object",
        "{loaded:#}"
    );
    // The refused call has not run: the first that runs is the first that counts.
    assert_eq!(
        client.call("counter", json!({}))["structuredContent"]["count"],
        1
    );
}

#[test]
fn at_acc_03_arguments_are_checked_against_the_schema_before_execution() {
    let record = call("probe#defaults", &json!({ "query": 5 }), &[]);
    assert_eq!(error(&record).0, "schema_validation_failed");
    assert!(event_types(&record).contains(&"tool.invocation.validation_failed"));
    never_started(&record);
}

#[test]
fn at_acc_04_a_tool_refuses_unsafe_values_before_it_can_touch_anything() {
    let record = call("validated#even", &json!({ "n": 3 }), &[]);
    assert_eq!(error(&record), ("invalid_arguments", "odd_number"));
    never_started(&record);
    // While it checks values, a tool reaches neither files nor the network nor the environment.
    let docs = root().join("docs");
    let grants = [
        format!("--allow-read={}", docs.display()),
        "--allow-net=127.0.0.1".to_owned(),
    ];
    let (guard, folder) = scratch();
    let input = json!({ "marker": folder.join("marker"), "file": docs.join("agent-tool.md"), "address": "127.0.0.1:9" });
    let record = call("validated#nosy", &input, &[&grants[0], &grants[1]]);
    assert_eq!(record["invocation"]["status"], "succeeded", "{record:#}");
    drop(guard);
}

#[test]
fn at_acc_05_sensitive_arguments_stay_out_of_records_events_and_files() {
    const TOKEN: &str = "acc-05-token-7fd1c";
    let (_guard, home) = own_home();
    let input = json!({ "user": "ada", "token": TOKEN }).to_string();
    let ran = Toolcell::at(
        &home,
        ["call", &guest("probe#sensitive"), &input, "--print-record"],
    )
    .run()
    .exits(0);
    assert!(
        !ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN),
        "{ran:?}"
    );
    assert_eq!(ran.json()["invocation"]["model_input"]["user"], "ada");
    let id = ran.json()["invocation"]["invocation_id"]
        .as_str()
        .unwrap()
        .to_owned();
    for told in [&["show", id.as_str(), "--json"][..], &["events", "--json"]] {
        let told = Toolcell::at(&home, told).run().exits(0).stdout;
        assert!(told.contains(&id) && !told.contains(TOKEN), "{told}");
    }
    let mut folders = vec![home.clone()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).unwrap();
                assert!(
                    !bytes
                        .windows(TOKEN.len())
                        .any(|part| part == TOKEN.as_bytes()),
                    "{:?}",
                    entry.path()
                );
                files += 1;
            }
        }
    }
    assert!(files > 0, "the call is in the journal");
}

#[test]
fn at_acc_06_the_four_inputs_stay_apart_after_hooks() {
    let (_guard, project) = scratch();
    let (_home_guard, home) = own_home();
    fs::copy(fixture("hooks"), project.join("hooks.wasm")).unwrap();
    fs::write(
        project.join("toolcell.toml"),
        "[[hook]]\ncomponent = \"hooks.wasm\"\ntimeout = \"20s\"\n",
    )
    .unwrap();
    Toolcell::at(&home, ["trust", "."])
        .dir(&project)
        .run()
        .exits(0);
    let script = |input: Value| json!([{ "updated_input": input }]);
    let input = json!({ "text": "sent", "hook": { "pre_tool_use": script(json!({ "text": "by the hook" })) } });
    let tool = guest("probe#lenient");
    let record = Toolcell::at(&home, ["call", &tool, &input.to_string(), "--print-record"])
        .dir(&project)
        .run()
        .json();
    let invocation = &record["invocation"];
    assert_eq!(
        (
            &invocation["model_input"],
            &invocation["call_input"]["text"]
        ),
        (&input, &json!("by the hook"))
    );
    assert_eq!(invocation["observable_input"]["text"], "sent");
    assert_eq!(invocation["permission_input"], invocation["call_input"]);
    assert_ne!(invocation["model_input_ref"], invocation["call_input_ref"]);
    let mutations = record["result"]["input_mutations"].as_array().unwrap();
    assert!(
        mutations
            .iter()
            .any(|mutation| mutation["source_type"] == "hook"),
        "{mutations:#?}"
    );
}

#[test]
fn at_acc_06_the_four_inputs_stay_apart_after_a_prompt() {
    let place = Place::of(&guest("probe#append_approved"));
    let sent = place.input("sent");
    let edited = place.input("edited");
    let grant = format!("--allow-write={}", place.folder.display());
    let (child, id) =
        waiting(place.toolcell(&["call", &place.tool, &sent, &grant, "--print-record"]));
    place
        .run(&["approvals", "approve", &id, "--edit", &edited])
        .exits(0);
    let record: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    let [sent, edited] = [sent, edited].map(|text| serde_json::from_str::<Value>(&text).unwrap());
    let invocation = &record["invocation"];
    for (input, expected) in [
        ("model_input", &sent),
        ("observable_input", &sent),
        ("permission_input", &sent),
        ("call_input", &edited),
    ] {
        assert_eq!(&invocation[input], expected, "{input}");
    }
    let [mutation] = record["result"]["input_mutations"]
        .as_array()
        .unwrap()
        .as_slice()
    else {
        panic!("{record:#}")
    };
    assert_eq!(mutation["source_type"], "permission_prompt");
    assert_eq!(place.lines(), ["edited"]);
}

#[test]
fn at_acc_07_a_risky_call_waits_for_an_approval_and_goes_on_under_its_id() {
    let place = Place::of(&guest("probe#append_approved"));
    let input = place.input("one");
    let grant = format!("--allow-write={}", place.folder.display());
    let (child, id) =
        waiting(place.toolcell(&["call", &place.tool, &input, &grant, "--print-record"]));
    assert!(place.lines().is_empty());
    place.run(&["approvals", "approve", &id]).exits(0);
    let output = child.wait_with_output().unwrap();
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&record["invocation"]["invocation_id"], place.lines()),
        (&json!(id), vec!["one".to_owned()])
    );
    let steps = record["invocation"]["status_transitions"]
        .as_array()
        .unwrap();
    let passed: Vec<&str> = steps
        .iter()
        .map(|step| step["to"].as_str().unwrap())
        .collect();
    let waited = passed
        .iter()
        .position(|status| *status == "awaiting_approval")
        .unwrap();
    assert_eq!(
        passed[waited..],
        ["awaiting_approval", "approved", "running", "succeeded"]
    );
}

#[test]
fn at_acc_08_a_denied_or_rejected_call_ends_in_a_terminal_error_result() {
    let denied = call(
        "probe#read",
        &json!({ "path": root().join("README.md") }),
        &[],
    );
    let place = Place::of(&guest("probe#append_approved"));
    let input = place.input("one");
    let grant = format!("--allow-write={}", place.folder.display());
    let (child, id) =
        waiting(place.toolcell(&["call", &place.tool, &input, &grant, "--print-record"]));
    place.run(&["approvals", "deny", &id]).exits(0);
    let rejected: Value =
        serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    for (record, status) in [(&denied, "denied"), (&rejected, "rejected")] {
        assert_eq!(
            (&record["invocation"]["status"], &record["result"]["status"]),
            (&json!("denied"), &json!(status))
        );
        assert_eq!(record["result"]["is_error"], true);
        never_started(record);
    }
    assert!(place.lines().is_empty());
}

#[test]
fn at_acc_09_progress_is_ordered_and_cancellation_is_what_the_profile_says() {
    let record = call(
        "probe#progress",
        &json!({ "count": 4, "interval_ms": 120 }),
        &[],
    );
    let progress = record["progress"].as_array().unwrap();
    let numbers: Vec<u64> = progress
        .iter()
        .map(|update| update["sequence"].as_u64().unwrap())
        .collect();
    assert!(
        numbers.len() >= 4 && (1..).zip(&numbers).all(|(next, number)| next == *number),
        "{numbers:?}"
    );
    let described = Toolcell::new(["describe", &guest("probe#progress"), "--json"])
        .run()
        .exits(0)
        .json();
    let profiles = described["execution_profiles"].as_array().unwrap();
    assert!(!profiles.is_empty(), "{described:#}");
    assert!(
        profiles
            .iter()
            .all(|profile| profile["supports_cancel"] == true),
        "{profiles:#?}"
    );
    let (_guard, folder) = scratch();
    let file = folder.join("records");
    let mut client = Client::with(
        &["probe#progress"],
        [format!("--record-to={}", file.display())],
    );
    let token = client.next_id();
    let params = json!({ "name": "progress", "arguments": { "count": 10_000, "interval_ms": 20 }, "_meta": { "progressToken": token } });
    let id = client.begin("tools/call", params);
    client.until(|frame| frame["method"] == "notifications/progress");
    client.notify("notifications/cancelled", json!({ "requestId": id }));
    client.request("ping", json!({}));
    client.close();
    let [record] = <[Value; 1]>::try_from(records(&file)).unwrap();
    assert_eq!(
        record["invocation"]["status"], "canceled",
        "{:#}",
        record["result"]
    );
    let events = event_types(&record);
    let ends = ["cancel_requested", "cancel_acknowledged", "canceled"];
    let at = ends.map(|end| {
        events
            .iter()
            .position(|event| event.strip_prefix("tool.invocation.") == Some(end))
    });
    assert!(
        at.iter().all(Option::is_some) && at.is_sorted(),
        "{events:?}"
    );
}

#[test]
fn at_acc_10_parallel_reads_run_together_and_exclusive_writes_in_order() {
    let (_guard, folder) = scratch();
    let writing = |id: &str| {
        in_batch(
            id,
            "probe#hold_writing",
            json!({ "path": folder, "ms": 300 }),
        )
    };
    let reading = |id: &str| in_batch(id, "probe#hold", json!({ "ms": 700 }));
    let grant = format!("--allow-write={}", folder.display());
    let records = batch(
        &[
            reading("a"),
            reading("b"),
            writing("first"),
            writing("second"),
        ],
        &[&grant],
    );
    let [a, b, first, second] = records.as_slice() else {
        panic!("{records:#?}")
    };
    assert!(overlap(a, b), "{:?} {:?}", held(a), held(b));
    assert!(
        held(first).1 <= held(second).0,
        "{:?} {:?}",
        held(first),
        held(second)
    );
}

#[test]
fn at_acc_11_a_failed_sibling_cancels_what_depends_on_it() {
    let after = |id: &str, other: &str| {
        let mut dependent = in_batch(id, "probe#counter", json!({}));
        dependent["depends_on"] = json!([other]);
        dependent
    };
    let failing = in_batch("a", "probe#fail", json!({ "class": "execution_failed" }));
    let alone = in_batch("c", "probe#counter", json!({}));
    let records = batch(
        &[failing, after("b", "a"), alone, after("d", "b")],
        &["--on-failure=cancel_dependent"],
    );
    for dependent in [&records[1], &records[3]] {
        assert_eq!(error(dependent), ("sibling_canceled", "sibling_canceled"));
        assert_eq!(dependent["result"]["status"], "synthetic_error");
        never_started(dependent);
    }
    assert_eq!(
        records[2]["invocation"]["status"], "succeeded",
        "{:#}",
        records[2]["result"]
    );
}

#[test]
fn at_acc_12_a_large_result_is_a_preview_and_a_reference() {
    let (_guard, home) = own_home();
    let tool = guest("probe#big");
    let input = json!({ "bytes": 200_000 }).to_string();
    let record = Toolcell::at(&home, ["call", &tool, &input, "--print-record"])
        .run()
        .exits(0)
        .json();
    check_record(&record);
    for content in ["content", "model_facing_content"] {
        let bytes = record["result"][content].to_string().len();
        assert!((1..20_000).contains(&bytes), "{content} has {bytes} bytes");
    }
    let persisted = record["persistence"].as_array().unwrap().last().unwrap();
    assert_eq!(
        persisted["strategy"], "preview_and_persist",
        "{persisted:#}"
    );
    assert!(persisted["original_size_bytes"].as_u64().unwrap() >= 200_000);
    // The reference leads to all of it, in another process.
    let uri = record["result"]["resource_refs"][0]["uri"]
        .as_str()
        .unwrap();
    let whole = Toolcell::at(&home, ["artifact", uri]).run().exits(0).stdout;
    assert!(
        whole.len() == 200_000 && whole.bytes().all(|byte| byte == b'x'),
        "{} bytes",
        whole.len()
    );
}

#[test]
fn at_acc_13_empty_output_differs_from_missing_output() {
    let empty = call("probe#empty", &json!({}), &[]);
    let crashed = call("hostile#panic", &json!({}), &[]);
    assert_eq!(
        (&empty["result"]["is_error"], &empty["result"]["content"]),
        (&json!(false), &json!([]))
    );
    assert_eq!(
        empty["result"]["empty_result"], true,
        "{:#}",
        empty["result"]
    );
    assert_eq!(
        (&crashed["result"]["is_error"], error(&crashed).0),
        (&json!(true), "execution_failed")
    );
    assert!(
        crashed["result"].get("empty_result").is_none(),
        "{:#}",
        crashed["result"]
    );
    let mut client = Client::of(&["probe#empty", "hostile#panic"]);
    let empty = client.call("empty", json!({}));
    let crashed = client.call("panic", json!({}));
    assert_eq!(
        (&empty["isError"], &empty["_meta"]["toolcell/empty_result"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(
        (
            &crashed["isError"],
            crashed["_meta"].get("toolcell/empty_result")
        ),
        (&json!(true), None)
    );
}

#[test]
fn at_acc_14_a_result_creates_an_artifact_that_can_be_fetched() {
    let (_guard, home) = own_home();
    let input =
        json!({ "files": [{ "name": "report.csv", "media_type": "text/csv", "text": "a,b\n" }] })
            .to_string();
    let ran = Toolcell::at(
        &home,
        ["call", &guest("probe#artifacts"), &input, "--print-record"],
    )
    .run()
    .exits(0)
    .json();
    let [artifact] = ran["result"]["artifact_refs"]
        .as_array()
        .unwrap()
        .as_slice()
    else {
        panic!("{ran:#}")
    };
    assert_eq!(
        (&artifact["name"], &artifact["media_type"]),
        (&json!("report.csv"), &json!("text/csv"))
    );
    let fetched = Toolcell::at(&home, ["artifact", artifact["uri"].as_str().unwrap()])
        .run()
        .exits(0);
    assert_eq!(fetched.stdout, "a,b\n");
}

#[test]
fn at_acc_15_the_evidence_says_which_tool_ran_under_which_id_and_why_its_result_is_not_trusted() {
    let (_guard, home) = own_home();
    let mut client = Client::run(Toolcell::at(&home, ["mcp", &guest("probe#counter")]));
    client.initialize(crate::support::OLD);
    let native = client.begin_call("counter", json!({}));
    let answer = client.answer(&native);
    let id = answer["result"]["_meta"]["toolcell/invocation_id"]
        .as_str()
        .unwrap();
    client.close();
    // From the log alone, whose chain is whole, after the server has ended.
    Toolcell::at(&home, ["log", "verify"]).run().exits(0);
    let record = Toolcell::at(&home, ["show", id, "--json"])
        .run()
        .exits(0)
        .json();
    let invocation = &record["invocation"];
    assert_eq!(
        (&invocation["tool_id"], &invocation["native_call_id"]),
        (&json!("probe.counter"), &json!(native.to_string()))
    );
    let component = invocation["runtime_refs"][0].as_str().unwrap();
    let printed = std::process::Command::new("sha256sum")
        .arg(fixture("probe"))
        .output()
        .unwrap()
        .stdout;
    let digest = String::from_utf8(printed).unwrap();
    assert_eq!(
        component,
        format!("component:sha256:{}", digest.split(' ').next().unwrap())
    );
    let provenance = &record["result"]["provenance"];
    assert_eq!(
        (&provenance["trust"], &provenance["written_by"]),
        (&json!("untrusted"), &json!("tool"))
    );
}

#[test]
fn at_acc_16_the_reason_why_a_tool_was_allowed_denied_deferred_or_waived_is_on_record() {
    let reason = |record: &Value| {
        record["decisions"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .clone()
    };
    let unasked = call("probe#counter", &json!({}), &[]);
    let component = unasked["invocation"]["runtime_refs"][0]
        .as_str()
        .unwrap()
        .strip_prefix("component:")
        .unwrap();
    let allowed = reason(&unasked);
    assert_eq!(allowed["behavior"], "allow", "{allowed:#}");
    let (_guard, folder) = scratch();
    let rules = folder.join("rules.toml");
    let config = format!("--config={}", rules.display());
    let ruled = |tool: &str, behavior: &str| {
        let name = tool.replace('#', ".");
        let subject = format!("tool = {name:?}\ncomponent = {component:?}");
        fs::write(
            &rules,
            format!("[[rule]]\nbehavior = {behavior:?}\n{subject}\nreason = \"as tested\"\n"),
        )
        .unwrap();
        reason(&call(tool, &json!({}), &[&config]))
    };
    let denied = ruled("probe#counter", "deny");
    assert_eq!(
        (&denied["behavior"], &denied["reason"]["type"]),
        (&json!("deny"), &json!("rule")),
        "{denied:#}"
    );
    assert!(
        denied["reason"].to_string().contains("as tested"),
        "{denied:#}"
    );
    let file = folder.join("records");
    let record = format!("--record-to={}", file.display());
    let mut client = Client::with(&["probe#counter"], ["--max-listed=0", record.as_str()]);
    let found = client.call("search_tools", json!({ "query": "select:counter" }));
    assert_eq!(
        found["structuredContent"]["matches"][0]["reason"], "deferred_until_discovered",
        "{found:#}"
    );
    client.call("counter", json!({}));
    client.close();
    let [deferred] = <[Value; 1]>::try_from(records(&file)).unwrap();
    assert_eq!(error(&deferred), ("schema_not_loaded", "schema_not_loaded"));
    assert_eq!(
        deferred["result"]["error"]["recoverability"],
        "discover_first"
    );
    never_started(&deferred);
    let permitted = ruled("probe#counter", "allow");
    assert_eq!(
        (&permitted["behavior"], &permitted["reason"]["type"]),
        (&json!("allow"), &json!("rule")),
        "{permitted:#}"
    );
    assert_eq!(permitted["reason"]["rule_ref"], permitted["rule_refs"][0]);
    let waived = waived_risk(&folder);
    assert_eq!(
        (&waived["behavior"], &waived["reason"]),
        (
            &json!("allow"),
            &json!({
                "type": "policy",
                "message": "a rule waives the approval (its risk is high): as tested",
                "waiver_ref": waived["rule_refs"][0],
            })
        ),
        "{waived:#}"
    );
}

/// The decision on a tool that needs an approval for its high risk alone, with a rule for its bytes.
fn waived_risk(folder: &Path) -> Value {
    let component = echoing("grave", |toolkit| {
        toolkit["declarations"][0]["permission_profile_ref"] = json!("p");
        toolkit["permission_profiles"] = json!([{
            "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "high",
        }]);
    });
    let file = folder.join("grave.wasm");
    fs::write(&file, &component).unwrap();
    let rules = folder.join("waiver.toml");
    let digest = toolcell_spec::digest(&component);
    let rule = format!(
        "[[rule]]\nbehavior = \"allow\"\ntool = \"grave.echo\"\ncomponent = {digest:?}\nreason = \"as tested\"\n"
    );
    fs::write(&rules, rule).unwrap();
    let config = format!("--config={}", rules.display());
    let file = file.to_str().unwrap();
    let decided = |options: &[&str]| {
        let fixed = ["call", file, "{}", "--print-record"];
        let ran = Toolcell::new(fixed.iter().chain(options)).run();
        ran.json()["decisions"][0].clone()
    };
    assert_eq!(decided(&["--mode=non_interactive"])["behavior"], "deny");
    decided(&[&config])
}

#[test]
fn at_acc_17_native_ids_of_every_protocol_are_preserved() {
    let mappings = json!([
        { "source": "mcp", "server_id": "s", "tool_name": "t", "jsonrpc_request_id": 7, "_meta": { "x": 1 } },
        { "source": "openapi", "operation_id": "getPet", "method": "GET", "path": "/pets/{id}", "security_scheme_refs": ["k"] },
        { "source": "function_calling", "tool_call_id": "call_1", "function_name": "f", "strict": true },
        { "source": "cli", "command_id": "git", "argv_ref": "a", "exit_code": 3 },
        { "source": "browser", "browser_session_id": "b", "page_id": "p", "action_id": "c" },
        { "source": "a2a", "agent_card_url": "https://a.example/card", "agent_skill_id": "k", "task_id": "t" },
    ]);
    let component = declaring("mapped", |declaration| {
        declaration["external_mappings"] = mappings.clone()
    });
    let (_guard, folder) = scratch();
    let file = folder.join("mapped.wasm");
    fs::write(&file, component).unwrap();
    // The operation needs the secret of its security scheme.
    let grant = "--allow-secret=k@https://pets.example";
    let file = file.to_str().unwrap();
    let home = Home::new();
    home.toolcell(&["call", file, "{}"]).run().exits(3);
    home.toolcell(&["secrets", "set", "k"])
        .stdin("the key of pets")
        .run()
        .exits(0);
    let record = home
        .toolcell(&["call", file, "{}", "--print-record", grant])
        .run()
        .exits(0)
        .json();
    assert_eq!(record["declaration"]["external_mappings"], mappings);
    let kept = folder.join("records");
    let record = format!("--record-to={}", kept.display());
    let mut client = Client::run(home.toolcell(&["mcp", file, grant, &record]));
    client.initialize(crate::support::OLD);
    let ids = [json!("own-id-9"), json!(70), json!("70")];
    for id in &ids {
        let params = json!({ "name": "echo", "arguments": {} });
        client
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
        assert_eq!(client.answer(id)["result"]["isError"], json!(false));
    }
    client.close();
    let records = records(&kept);
    let native = records
        .iter()
        .map(|record| &record["invocation"]["external_mappings"][0]["jsonrpc_request_id"]);
    assert!(native.eq(&ids), "{records:#?}");
}
