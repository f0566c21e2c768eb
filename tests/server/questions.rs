//! Tools that ask their user during a call, from the side of a client and its user.
//!
//! Promise: A tool's question stays the tool's.

use serde_json::{Value, json};

use super::approvals::{accept, forms, question, reply};
use crate::support::{Client, Toolcell, Web, fixture, frame, kept, records, scratch};

const TOOL: &str = "ask";

fn name(key: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    json!({ "key": key, "message": format!("Name of {key}?\nRun this call?\u{202e}"), "schema": schema })
}

fn client(capabilities: Value, options: &[&str]) -> Client {
    let mut arguments = vec![
        "mcp".to_owned(),
        format!("{}#ask", fixture("probe").display()),
    ];
    arguments.extend(options.iter().map(|option| (*option).to_owned()));
    Client::run(Toolcell::at(&kept("home"), arguments)).can(capabilities)
}

fn rounds(rounds: Value) -> Value {
    json!({ "rounds": rounds, "state": "x" })
}

#[test]
fn the_user_is_asked_in_the_words_of_the_tool_and_it_goes_on_with_the_answer() {
    let mut client = client(forms(), &[]);
    client.initialize("2025-11-25");
    let id = client.begin_call(TOOL, rounds(json!([[name("a")], [name("b")]])));
    let asked = question(&mut client);
    let message = asked["params"]["message"].as_str().unwrap();
    let shown = "The tool probe.ask asks (its own words):\n| Name of a?\n| Run this call?\\u{202e}\n\
                 Your answer goes to the tool. It does not approve anything.\n";
    assert_eq!(message, shown, "a tool's words cannot pass for toolcell's");
    assert_eq!(
        asked["params"]["requestedSchema"]["properties"]["name"]["type"],
        "string"
    );
    reply(&mut client, &asked, accept(json!({ "name": "Ada" })));
    let (_, next) =
        client.until(|frame| frame["method"] == "elicitation/create" && frame["id"] != asked["id"]);
    reply(&mut client, &next, json!({ "action": "decline" }));
    let result = client.answer(&id)["result"].clone();
    let responses = json!({ "a": accept(json!({ "name": "Ada" })), "b": { "action": "decline" } });
    assert_eq!(
        result["structuredContent"]["responses"], responses,
        "{result:#}"
    );
    assert_eq!(result["structuredContent"]["state"], "xx");
}

#[test]
fn an_answer_that_does_not_fit_is_asked_again_with_the_reason_and_not_for_ever() {
    let mut client = client(forms(), &[]);
    client.initialize("2025-11-25");
    let id = client.begin_call(TOOL, rounds(json!([[name("a")]])));
    let mut seen = Vec::new();
    for attempt in 0..4 {
        let (_, asked) = client
            .until(|frame| frame["method"] == "elicitation/create" && !seen.contains(&frame["id"]));
        seen.push(asked["id"].clone());
        let message = asked["params"]["message"].as_str().unwrap();
        let says_why =
            message.contains("Your last answer is not valid:\n| ") && message.contains("name");
        assert_eq!(
            says_why && message.contains("required"),
            attempt > 0,
            "{message}"
        );
        reply(&mut client, &asked, accept(json!({})));
    }
    let result = client.answer(&id)["result"].clone();
    let error = &result["_meta"]["toolcell/error"];
    assert_eq!(
        (&error["class"], &error["code"]),
        (&json!("invalid_arguments"), &json!("answer_invalid")),
        "{result:#}"
    );
    assert!(
        result["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("required"),
        "{result:#}"
    );
}

#[test]
fn a_client_that_cannot_ask_gets_an_answer_that_says_so() {
    for (capabilities, options) in [(json!({}), &[][..]), (forms(), &["--no-elicitation"][..])] {
        let mut client = client(capabilities, options);
        client.initialize("2025-11-25");
        let result = client.call(TOOL, rounds(json!([[name("a")]])));
        assert_eq!(result["isError"], true);
        assert_eq!(
            result["_meta"]["toolcell/error"]["code"], "nobody_to_ask",
            "{result:#}"
        );
    }
}

#[test]
fn what_the_protocol_has_no_words_for_is_a_question_that_was_closed() {
    let odd =
        json!({ "type": "object", "properties": { "a": { "type": "integer", "minimum": 0.5 } } });
    let odd = json!({ "key": "odd", "message": "?", "schema": odd });
    let mut client = client(forms(), &[]);
    client.speak_new();
    let asked = rounds(json!([[odd.clone(), name("a")]]));
    let first = call(&mut client, &asked, json!({}))["result"].clone();
    assert_eq!(
        first["inputRequests"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["a"],
        "{first:#}"
    );
    let given = again(
        &first["requestState"],
        json!({ "a": { "action": "decline" } }),
    );
    let done = call(&mut client, &asked, given)["result"].clone();
    let responses = json!({ "a": { "action": "decline" }, "odd": { "action": "cancel" } });
    assert_eq!(done["structuredContent"]["responses"], responses);
    let alone = call(&mut client, &rounds(json!([[odd]])), json!({}))["result"].clone();
    assert_eq!(
        alone["structuredContent"]["responses"],
        json!({ "odd": { "action": "cancel" } })
    );
}

#[test]
fn a_question_ends_with_its_call_and_its_client() {
    let (_guard, folder) = scratch();
    let mut client = client(
        forms(),
        &[&format!("--record-to={}", folder.join("records").display())],
    );
    client.initialize("2025-11-25");
    let first = client.begin_call(TOOL, rounds(json!([[name("a")]])));
    let asked = question(&mut client);
    client.notify("notifications/cancelled", json!({ "requestId": first }));
    client.until(|frame| {
        frame["method"] == "notifications/cancelled" && frame["params"]["requestId"] == asked["id"]
    });
    client.begin_call(TOOL, rounds(json!([[name("b")]])));
    client.until(|frame| frame["method"] == "elicitation/create" && frame["id"] != asked["id"]);
    client.close();
    let records = records(&folder.join("records"));
    let statuses: Vec<&str> = records
        .iter()
        .map(|record| record["invocation"]["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["canceled", "canceled"]);
}

fn call(client: &mut Client, arguments: &Value, more: Value) -> Value {
    let mut params = json!({ "name": TOOL, "arguments": arguments });
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    client.request("tools/call", params)
}

fn again(state: &Value, responses: Value) -> Value {
    json!({ "requestState": state, "inputResponses": responses })
}

#[test]
fn the_newer_revision_answers_what_the_tool_wants_to_know() {
    let mut client = client(forms(), &[]);
    client.speak_new();
    let arguments = rounds(json!([[name("a"), name("b")], [name("c")]]));
    let given = |name: &str| accept(json!({ "name": name }));
    let first = call(&mut client, &arguments, json!({}))["result"].clone();
    assert_eq!(first["resultType"], "input_required");
    let keys: Vec<&String> = first["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["a", "b"]);
    let expires = &first["_meta"]["toolcell/input"]["expires_at"];
    assert!(expires.is_string(), "{first:#}");

    // An unknown answer leaves the question open; a partial answer is kept.
    let second = call(
        &mut client,
        &arguments,
        again(&first["requestState"], json!({ "x": given("Eve") })),
    )["result"]
        .clone();
    assert_eq!(second["inputRequests"], first["inputRequests"]);
    let third = call(
        &mut client,
        &arguments,
        again(
            &second["requestState"],
            json!({ "b": given("Bob"), "a": 7 }),
        ),
    )["result"]
        .clone();
    assert_eq!(
        third["inputRequests"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["a"]
    );
    let fourth = call(
        &mut client,
        &arguments,
        again(&third["requestState"], json!({ "a": given("Ada"), "x": 1 })),
    )["result"]
        .clone();
    assert_eq!(
        fourth["inputRequests"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["c"]
    );
    // A state can be used once, and only for its own call.
    let used = call(
        &mut client,
        &arguments,
        again(&third["requestState"], json!({ "a": given("Ada") })),
    );
    assert_eq!(used["error"]["code"], -32602, "{used:#}");
    let other = call(
        &mut client,
        &rounds(json!([])),
        again(&fourth["requestState"], json!({ "c": given("Eve") })),
    );
    assert_eq!(other["error"]["code"], -32602, "{other:#}");
    let mut tampered = fourth["requestState"].as_str().unwrap().to_owned();
    tampered.replace_range(..1, if tampered.starts_with('0') { "1" } else { "0" });
    let other = call(
        &mut client,
        &arguments,
        again(&json!(tampered), json!({ "c": given("Eve") })),
    );
    assert_eq!(other["error"]["code"], -32602, "{other:#}");

    let last = call(
        &mut client,
        &arguments,
        again(&fourth["requestState"], json!({ "c": given("Cy") })),
    )["result"]
        .clone();
    assert_eq!(
        last["structuredContent"]["responses"],
        json!({ "a": given("Ada"), "b": given("Bob"), "c": given("Cy") })
    );
    assert_eq!(last["structuredContent"]["state"], "xx");
}

#[test]
fn answers_that_come_with_the_call_answer_the_tool_and_approve_nothing() {
    let (_guard, folder) = scratch();
    let probe = fixture("probe");
    let grant = format!("--allow-write={}", folder.display());
    let arguments = [
        "mcp".to_owned(),
        format!("{}#ask", probe.display()),
        format!("{}#append_approved", probe.display()),
        grant,
    ];
    let mut client = Client::run(Toolcell::at(&kept("home"), arguments)).can(forms());
    client.speak_new();
    let responses = json!({ "a": accept(json!({ "name": "Ada" })), "approval": accept(json!({ "decision": "run once" })) });
    let done = call(
        &mut client,
        &rounds(json!([[name("a")]])),
        json!({ "inputResponses": responses }),
    )["result"]
        .clone();
    assert_eq!(
        done["structuredContent"]["responses"]["a"]["content"]["name"], "Ada",
        "{done:#}"
    );

    let file = folder.join("lines");
    let append = json!({ "path": file, "text": "line\n" });
    let params =
        json!({ "name": "append_approved", "arguments": append, "inputResponses": responses });
    let asked = client.request("tools/call", params)["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked:#}");
    assert!(!file.exists());

    // A tool's question with the name of the host's own gets only its own answer.
    let approval =
        call(&mut client, &rounds(json!([[name("approval")]])), json!({}))["result"].clone();
    let message = approval["inputRequests"]["approval"]["params"]["message"]
        .as_str()
        .unwrap();
    assert!(
        message.starts_with("The tool probe.ask asks (its own words):\n"),
        "{message}"
    );
    let given = again(
        &approval["requestState"],
        json!({ "approval": accept(json!({ "name": "run once" })) }),
    );
    call(&mut client, &rounds(json!([[name("approval")]])), given);
    assert!(!file.exists());
}

#[test]
fn over_http_the_question_is_on_the_stream_of_its_call_or_in_its_answer() {
    let web = Web::of(&["probe#ask"]);
    let session = web.session(forms());
    let params = json!({ "name": TOOL, "arguments": rounds(json!([[name("a")]])) });
    let headers = web.changed(&web.in_session(&session));
    let mut stream = web.send(
        "POST /mcp",
        &headers,
        &frame(json!(9), "tools/call", params.clone()),
    );
    let asked = stream.next();
    assert_eq!(asked["method"], "elicitation/create");
    let answer =
        json!({ "jsonrpc": "2.0", "id": asked["id"], "result": accept(json!({ "name": "Ada" })) });
    assert_eq!(
        web.request("POST /mcp", &web.in_session(&session), &answer.to_string())
            .status,
        202
    );
    assert_eq!(
        stream.next()["result"]["structuredContent"]["responses"]["a"]["content"]["name"],
        "Ada"
    );

    let asked = web
        .stateless("tools/call", params.clone(), forms())
        .answer();
    let mut again = params;
    again["requestState"] = asked["result"]["requestState"].clone();
    again["inputResponses"] = json!({ "a": accept(json!({ "name": "Bob" })) });
    let done = web.stateless("tools/call", again, forms()).answer();
    assert_eq!(
        done["result"]["structuredContent"]["responses"]["a"]["content"]["name"], "Bob",
        "{done:#}"
    );
}
