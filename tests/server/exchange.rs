//! `toolcell/export` and `toolcell/respond`: the messages of a model, for a client that stays connected.

use serde_json::{Value, json};

use super::approvals::{accept, forms, question, reply};
use super::place::Place;
use crate::support::{Client, Toolcell, fixture};

/// A message of a model with these calls: id, name, and the text of the arguments.
fn message(calls: &[(&str, &str, &str)]) -> Value {
    let call = |(id, name, text): &(&str, &str, &str)| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": text } });
    json!({ "role": "assistant", "content": null, "tool_calls": calls.iter().map(call).collect::<Value>() })
}

fn asks(message: &Value, form: &str) -> Value {
    json!({ "dialect": "openai", "form": form, "arguments": message })
}

fn run(client: &mut Client, message: &Value, form: &str) -> Value {
    let answer = client.request("toolcell/respond", asks(message, form));
    assert!(answer.get("result").is_some(), "{answer:#}");
    answer["result"].clone()
}

/// What a command prints about the same tools.
fn printed(command: &str, tools: &[&str], dialect: &str, stdin: &str, code: i32) -> Value {
    let tools = tools.iter().map(|tool| match tool.split_once('#') {
        Some((guest, name)) => format!("{}#{name}", fixture(guest).display()),
        None => fixture(tool).display().to_string(),
    });
    let options = [format!("--dialect={dialect}"), "--no-config".to_owned()];
    let arguments: Vec<String> = std::iter::once(command.to_owned())
        .chain(tools)
        .chain(options)
        .collect();
    Toolcell::new(arguments)
        .stdin(stdin)
        .run()
        .exits(code)
        .json()
}

#[test]
fn a_client_gets_what_the_commands_print() {
    let tools = [
        "probe#echo",
        "probe#good_structured",
        "probe#blocks",
        "probe#empty",
        "probe#fail",
    ];
    let mut client = Client::of(&tools);
    for dialect in ["openai", "openai-responses", "anthropic"] {
        let exported = client.request("toolcell/export", json!({ "dialect": dialect }));
        let auto = match dialect {
            "anthropic" => json!({ "type": "auto" }),
            _ => json!("auto"),
        };
        assert_eq!(exported["result"]["tool_choice"], auto);
        assert_eq!(
            exported["result"]["tools"],
            printed("export", &tools, dialect, "", 0),
            "{dialect}"
        );
    }
    let fails = json!({ "class": "dependency_unavailable", "message": "no answer" }).to_string();
    let message = message(&[
        ("one", "good_structured", "{}"),
        ("two", "echo", "{\"n\": "),
        ("three", "no_such_tool", "{}"),
        ("four", "fail", fails.as_str()),
        ("one", "blocks", "{}"),
        ("six", "empty", ""),
    ]);
    let answer = run(&mut client, &message, "messages");
    assert_eq!(
        answer["messages"],
        printed("respond", &tools, "openai", &message.to_string(), 2)
    );
    let facts: Vec<_> = answer["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| (&call["id"], &call["status"]))
        .collect();
    let ids: Vec<_> = facts.iter().map(|(id, _)| id.as_str().unwrap()).collect();
    assert_eq!(ids, ["one", "two", "three", "four", "one", "six"]);
    assert_eq!(answer["calls"][2]["error"]["class"], "unknown_tool");
    let plain = json!([{ "name": "good_structured" }, { "id": "x", "name": "no_such_tool" }]);
    let answer = client.request(
        "toolcell/respond",
        json!({ "dialect": "mcp", "form": "results", "arguments": plain }),
    );
    let results = &answer["result"]["results"];
    let alone = client.call("good_structured", json!({}));
    assert_eq!(
        results[0]["structuredContent"], alone["structuredContent"],
        "{answer:#}"
    );
    assert_eq!(
        (&results[0]["content"], &answer["result"]["calls"][1]["id"]),
        (&alone["content"], &json!("x"))
    );
    assert_eq!(
        results[1]["_meta"]["toolcell/error"]["class"], "unknown_tool",
        "{results:#}"
    );
    // One result for each call has no message behind it that could have its images.
    let results = run(&mut client, &message, "results")["results"].clone();
    let text = results[4]["content"].as_str().unwrap();
    assert!(
        results.as_array().unwrap().len() == 6 && text.contains("[image: image/png, "),
        "{results:#}"
    );
}

#[test]
fn calls_that_could_disturb_each_other_keep_their_order() {
    let place = Place::new();
    let mut arguments = vec![
        "mcp".to_owned(),
        format!("{}#append", fixture("probe").display()),
    ];
    arguments.extend(place.options(&["--no-config"]));
    let mut client = Client::run(place.toolcell(arguments));
    client.initialize("2025-11-25");
    let texts: Vec<String> = (0..20)
        .map(|at| place.line(&format!("line {at}")).to_string())
        .collect();
    let calls: Vec<_> = texts
        .iter()
        .map(|text| ("same", "append", text.as_str()))
        .collect();
    let answer = run(&mut client, &message(&calls), "messages");
    assert!(
        answer["calls"]
            .as_array()
            .unwrap()
            .iter()
            .all(|call| call["is_error"] == false),
        "{answer:#}"
    );
    assert_eq!(
        place.lines(),
        (0..20).map(|at| format!("line {at}")).collect::<Vec<_>>()
    );
    client.close();
    assert_eq!(place.records().len(), 20);
    place
        .records()
        .iter()
        .for_each(crate::support::check_record);
}

#[test]
fn each_call_has_its_own_progress_and_all_end_with_their_request() {
    let mut client = Client::of(&["probe#progress", "probe#hold"]);
    let count = json!({ "count": 3, "interval_ms": 50, "percent": "even" }).to_string();
    let message = message(&[("a", "progress", &count), ("b", "progress", &count)]);
    let mut params = asks(&message, "messages");
    params["_meta"] = json!({ "progressToken": "t" });
    let id = client.begin("toolcell/respond", params);
    assert_eq!(
        client.answer(&id)["result"]["messages"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    for token in ["t/0", "t/1"] {
        let of_call = client
            .seen()
            .into_iter()
            .filter(|frame| frame["params"]["progressToken"] == token);
        let numbers: Vec<f64> = of_call
            .map(|frame| frame["params"]["progress"].as_f64().unwrap())
            .collect();
        assert!(
            numbers.len() >= 3 && numbers.windows(2).all(|pair| pair[1] > pair[0]),
            "{numbers:?}"
        );
    }
    let hold = json!({ "ms": 60_000 }).to_string();
    let id = client.begin(
        "toolcell/respond",
        asks(&self::message(&[("a", "hold", &hold)]), "messages"),
    );
    client.notify("notifications/cancelled", json!({ "requestId": id }));
    // Otherwise the program would wait for the call.
    client.close();
}

#[test]
fn the_clients_user_is_asked_about_calls_of_a_message() {
    let place = Place::new();
    let mut arguments = vec![
        "mcp".to_owned(),
        format!("{}#append_approved", fixture("probe").display()),
    ];
    arguments.extend(place.options(&[]));
    let mut client = Client::run(place.toolcell(arguments)).can(forms());
    client.initialize("2025-11-25");
    let one = place.line("one").to_string();
    let two = place.line("two").to_string();
    for (text, answer, status) in [
        (&one, accept(json!({ "decision": "run once" })), "succeeded"),
        (&two, json!({ "action": "decline" }), "rejected"),
    ] {
        let message = message(&[("call", "append_approved", text)]);
        let id = client.begin("toolcell/respond", asks(&message, "messages"));
        let answered = client
            .seen()
            .iter()
            .filter(|frame| frame["method"] == "elicitation/create")
            .count();
        let asked = match answered {
            0 => question(&mut client),
            _ => {
                let first = question(&mut client)["id"].clone();
                client
                    .until(|frame| frame["method"] == "elicitation/create" && frame["id"] != first)
                    .1
            }
        };
        assert_eq!(
            asked["params"]["_meta"]["toolcell/approval"]["state"], "pending",
            "{asked:#}"
        );
        reply(&mut client, &asked, answer);
        assert_eq!(client.answer(&id)["result"]["calls"][0]["status"], status);
    }
    assert_eq!(place.lines(), ["one"]);
}

#[test]
fn what_cannot_be_read_runs_nothing() {
    let mut client = Client::of(&["probe#echo"]);
    let many = message(&vec![("one", "echo", "{}"); 129]);
    let long_name = "x".repeat(1025);
    let long_name = message(&[("one", long_name.as_str(), "{}")]);
    // In 16 MiB of JSON there is room for a million calls, which would be read before they are counted.
    let flood = Value::from(vec![json!({ "name": "" }); 60_000]);
    for (params, why) in [
        (json!({}), "missing field `dialect`"),
        (
            json!({ "dialect": "openai" }),
            "takes the message of a model as its arguments",
        ),
        (
            json!({ "dialect": "latin", "arguments": {} }),
            "there is no dialect \"latin\"; choose one of: mcp, openai",
        ),
        (
            json!({ "dialect": "mcp", "arguments": {} }),
            "cannot read the calls: invalid type",
        ),
        (
            json!({ "dialect": "agentool", "arguments": {} }),
            "the dialect agentool carries no calls",
        ),
        (
            json!({ "dialect": "openai", "arguments": {} }),
            "cannot find a message",
        ),
        (
            json!({ "dialect": "openai", "arguments": 7 }),
            "not a JSON object",
        ),
        (
            json!({ "dialect": "openai", "tool": "echo" }),
            "unknown field `tool`",
        ),
        (
            asks(&many, "messages"),
            "the message has 129 calls; send at most 128 at once",
        ),
        (
            asks(&long_name, "messages"),
            "the name of a tool has 1025 bytes; send at most 1024",
        ),
        (
            json!({ "dialect": "mcp", "arguments": flood }),
            "the frame holds more than 100000 values: send fewer",
        ),
    ] {
        let error = client.request("toolcell/respond", params)["error"].clone();
        assert!(
            error["message"].as_str().unwrap_or_default().contains(why),
            "{error}"
        );
    }
    let called = client.request("tools/call", json!({ "name": "x".repeat(1025) }));
    assert!(
        called["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .contains("send at most 1024"),
        "{called}"
    );
    let id = "x".repeat(4096);
    let name = "x".repeat(1024);
    let answer = run(
        &mut client,
        &message(&[(id.as_str(), name.as_str(), "{}")]),
        "messages",
    );
    assert_eq!(
        (
            &answer["calls"][0]["id"],
            &answer["calls"][0]["error"]["class"]
        ),
        (&json!(id), &json!("unknown_tool"))
    );
    let none = json!({ "role": "assistant", "content": "no call" });
    assert_eq!(
        run(&mut client, &none, "messages"),
        json!({ "calls": [], "messages": [] })
    );
}

#[test]
fn a_call_with_too_long_an_id_is_refused_and_the_others_run() {
    let place = Place::new();
    let mut arguments = vec![
        "mcp".to_owned(),
        format!("{}#append", fixture("probe").display()),
    ];
    arguments.extend(place.options(&["--no-config"]));
    let mut client = Client::run(place.toolcell(arguments));
    client.initialize("2025-11-25");
    // The last character would be cut in its middle.
    let long = format!("x{}", "é".repeat(2048));
    let texts = ["one", "two", "three"].map(|line| place.line(line).to_string());
    let ids = ["first", long.as_str(), "last"];
    let calls: Vec<_> = ids
        .iter()
        .zip(&texts)
        .map(|(id, text)| (*id, "append", text.as_str()))
        .collect();
    let answer = run(&mut client, &message(&calls), "messages");
    for (at, id) in ids.iter().enumerate() {
        // The API takes the answer only if each call has a result under the id that it gave.
        assert_eq!(
            (
                &answer["calls"][at]["id"],
                &answer["messages"][at]["tool_call_id"]
            ),
            (&json!(id), &json!(id))
        );
        assert_eq!(
            answer["calls"][at]["is_error"],
            json!(at == 1),
            "{answer:#}"
        );
    }
    let error = &answer["calls"][1]["error"];
    assert_eq!(
        (&error["class"], &error["code"]),
        (&json!("invalid_arguments"), &json!("call_id_too_long"))
    );
    let said = error["message"].as_str().unwrap();
    assert!(said.contains("has 4097 bytes; send at most 4096"), "{said}");
    assert_eq!(place.lines(), ["one", "three"]);
    client.close();
    let records = place.records();
    records.iter().for_each(crate::support::check_record);
    let lengths = records.iter().map(|record| {
        record["invocation"]["native_call_id"]
            .as_str()
            .unwrap()
            .len()
    });
    let mut lengths: Vec<usize> = lengths.collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [4, 5, 4095]);
}
