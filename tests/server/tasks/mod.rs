//! Calls that a client asks about, instead of waiting for the response (SEP-2663).
//!
//! Promise: Clients are isolated.

mod ends;
mod suspended;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::approvals::accept;
use super::place::Place;
use crate::support::{Client, OLD, Toolcell, Web, check_record, fixture};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// A call that takes so long becomes a task.
const LONG_MS: u64 = 1_500;
const TOOLS: [&str; 4] = ["hold", "hold_background", "ask", "append_approved"];

impl Place {
    fn arguments(&self, command: &[&str], tools: &[&str]) -> Vec<String> {
        let mut arguments: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        arguments.extend(
            tools
                .iter()
                .map(|tool| format!("{}#{tool}", fixture("probe").display())),
        );
        arguments.extend(self.options(&[]));
        arguments
    }

    /// A client of 2026-07-28 with these capabilities, connected to a new server.
    fn new_client(&self, capabilities: Value) -> Client {
        self.new_client_of(&TOOLS, capabilities)
    }

    /// The same, of a server that offers these tools of `probe`.
    fn new_client_of(&self, tools: &[&str], capabilities: Value) -> Client {
        Self::speak(self.toolcell(self.arguments(&["mcp"], tools)), capabilities)
    }

    /// The same, of a server with more arguments.
    fn new_client_with(&self, capabilities: Value, more: &[String]) -> Client {
        let mut arguments = self.arguments(&["mcp"], &TOOLS);
        arguments.extend_from_slice(more);
        Self::speak(self.toolcell(arguments), capabilities)
    }

    fn speak(server: Toolcell, capabilities: Value) -> Client {
        let mut client = Client::run(server).can(capabilities);
        client.speak_new();
        client
    }
}

/// A client that knows tasks, and cannot ask its user.
fn tasks() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

/// A client that knows tasks, and asks its user.
fn tasks_and_forms() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": { "form": {} } })
}

fn call(client: &mut Client, tool: &str, arguments: Value) -> Value {
    client.request(
        "tools/call",
        json!({ "name": tool, "arguments": arguments }),
    )["result"]
        .clone()
}

/// Calls a tool whose call becomes a task. Returns the task.
#[track_caller]
fn begin(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let task = call(client, tool, arguments);
    assert_eq!(task["resultType"], "task", "{task:#}");
    for field in ["result", "error", "inputRequests", "requestState"] {
        assert!(task.get(field).is_none(), "{task:#}");
    }
    task
}

fn get(client: &mut Client, task: &Value) -> Value {
    client.request("tasks/get", json!({ "taskId": task["taskId"] }))["result"].clone()
}

/// Asks until the task has that status.
#[track_caller]
fn until(client: &mut Client, task: &Value, status: &str) -> Value {
    let began = Instant::now();
    loop {
        let now = get(client, task);
        if now["status"] == status {
            assert_eq!(
                (&now["resultType"], &now["taskId"]),
                (&json!("complete"), &task["taskId"]),
                "{now:#}"
            );
            return now;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "{status}: did not come: {now:#}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends `method` for the task, and expects an acknowledgement that says nothing else.
#[track_caller]
fn acknowledged(client: &mut Client, method: &str, params: Value) {
    let answer = client.request(method, params);
    let ack = answer["result"]
        .as_object()
        .unwrap_or_else(|| panic!("{answer:#}"));
    assert_eq!(ack.get("resultType"), Some(&json!("complete")));
    assert!(
        ack.keys().all(|key| key == "resultType" || key == "_meta"),
        "{answer:#}"
    );
}

#[track_caller]
fn update(client: &mut Client, task: &Value, responses: Value) {
    acknowledged(
        client,
        "tasks/update",
        json!({ "taskId": task["taskId"], "inputResponses": responses }),
    );
}

#[track_caller]
fn cancel(client: &mut Client, task: &Value) {
    acknowledged(client, "tasks/cancel", json!({ "taskId": task["taskId"] }));
}

fn yes() -> Value {
    accept(json!({ "decision": "run once" }))
}

/// The id of the call, which the name of the task begins with.
fn invocation(task: &Value) -> &str {
    task["taskId"].as_str().unwrap().split_once('-').unwrap().0
}

#[test]
fn a_long_call_is_a_task_and_its_result_is_there_later() {
    let place = Place::new();
    let mut client = place.new_client(tasks());
    let short = call(&mut client, "hold", json!({ "ms": 0 }));
    assert_eq!(
        (&short["resultType"], &short["isError"]),
        (&json!("complete"), &json!(false)),
        "{short:#}"
    );
    let task = begin(&mut client, "hold", json!({ "ms": LONG_MS }));
    assert_eq!(task["status"], "working");
    assert!(
        task["ttlMs"].as_u64() > Some(0) && task["pollIntervalMs"].as_u64() > Some(0),
        "{task:#}"
    );
    let working = get(&mut client, &task);
    assert_eq!(
        (&working["status"], &working["createdAt"]),
        (&json!("working"), &task["createdAt"]),
        "{working:#}"
    );
    assert!(working.get("result").is_none(), "{working:#}");
    let done = until(&mut client, &task, "completed");
    assert!(
        done["result"]["structuredContent"]["left_ns"].is_u64(),
        "{done:#}"
    );
    assert_eq!(
        done["result"]["_meta"]["toolcell/invocation_id"],
        invocation(&task)
    );
    // What has ended stays as it is.
    cancel(&mut client, &task);
    assert_eq!(get(&mut client, &task), done);
    client.close();
    let records = place.records();
    records.iter().for_each(check_record);
    assert_eq!(records[1]["invocation"]["invocation_id"], invocation(&task));
}

#[test]
fn a_client_without_the_extension_waits_and_is_told_what_it_lacks() {
    let place = Place::new();
    let mut client = place.new_client(json!({}));
    let done = call(&mut client, "hold", json!({ "ms": LONG_MS }));
    assert_eq!(
        (&done["resultType"], &done["isError"]),
        (&json!("complete"), &json!(false)),
        "{done:#}"
    );
    for (method, params) in [
        ("tasks/get", json!({ "taskId": "x" })),
        (
            "tasks/update",
            json!({ "taskId": "x", "inputResponses": {} }),
        ),
        ("tasks/cancel", json!({ "taskId": "x" })),
        // The tool takes too long to be waited for.
        (
            "tools/call",
            json!({ "name": "hold_background", "arguments": { "ms": 0 } }),
        ),
    ] {
        let error = client.request(method, params)["error"].clone();
        assert_eq!(error["code"], json!(-32021), "{method}: {error:#}");
        let required =
            &error["data"]["requiredCapabilities"]["extensions"]["io.modelcontextprotocol/tasks"];
        assert!(required.is_object(), "{method}: {error:#}");
    }
    for removed in ["tasks/result", "tasks/list"] {
        assert_eq!(
            client.request(removed, json!({ "taskId": "x" }))["error"]["code"],
            json!(-32601),
            "{removed}"
        );
    }
    client.close();
    assert_eq!(place.records().len(), 1, "what the client lacks is no call");
    let mut client = place.new_client(tasks());
    begin(&mut client, "hold_background", json!({ "ms": LONG_MS }));
}

#[test]
fn the_earlier_revision_has_no_tasks() {
    let place = Place::new();
    let mut client = Client::run(place.toolcell(place.arguments(&["mcp"], &TOOLS))).can(tasks());
    client.initialize(OLD);
    for tool in ["hold", "hold_background"] {
        let done = client.call(tool, json!({ "ms": LONG_MS }));
        assert!(
            done["structuredContent"]["left_ns"].is_u64() && done.get("taskId").is_none(),
            "{done:#}"
        );
    }
    assert_eq!(
        client.request("tasks/get", json!({ "taskId": "x" }))["error"]["code"],
        json!(-32601)
    );
}

#[test]
fn an_approval_is_asked_for_in_a_task_and_answered_there() {
    let place = Place::new();
    let mut client = place.new_client(tasks_and_forms());
    let task = begin(&mut client, "append_approved", place.line("one"));
    assert_eq!(task["status"], "input_required");
    let asked = get(&mut client, &task);
    let request = &asked["inputRequests"]["approval"];
    assert_eq!(
        (&asked["status"], &request["method"]),
        (&json!("input_required"), &json!("elicitation/create"))
    );
    assert!(
        request["params"]["message"]
            .as_str()
            .unwrap()
            .contains("Run this call?"),
        "{asked:#}"
    );
    assert_eq!(
        asked["_meta"]["toolcell/approval"]["invocation_id"],
        invocation(&task)
    );
    // Neither an unknown key nor anything but a clear yes lets it run.
    update(&mut client, &task, json!({ "other": yes() }));
    assert_eq!(get(&mut client, &task)["status"], "input_required");
    assert!(place.lines().is_empty());
    update(&mut client, &task, json!({ "approval": yes() }));
    let done = until(&mut client, &task, "completed");
    assert_eq!(done["result"]["isError"], json!(false), "{done:#}");
    assert_eq!(place.lines(), ["one"]);
    let task = begin(&mut client, "append_approved", place.line("two"));
    update(
        &mut client,
        &task,
        json!({ "approval": { "action": "decline" } }),
    );
    let done = until(&mut client, &task, "completed");
    assert_eq!(
        done["result"]["_meta"]["toolcell/error"]["code"], "approval_rejected",
        "{done:#}"
    );
    assert_eq!(place.lines(), ["one"]);
}

#[test]
fn the_operator_approves_where_the_client_cannot_ask() {
    let place = Place::new();
    let mut client = place.new_client(tasks());
    let task = begin(&mut client, "append_approved", place.line("one"));
    assert_eq!(
        task["status"], "working",
        "no client is asked what it cannot show"
    );
    let command = format!("toolcell approvals approve {}", invocation(&task));
    assert!(
        task["statusMessage"].as_str().unwrap().contains(&command),
        "{task:#}"
    );
    client.says(&command);
    // This client was not asked, so it does not answer.
    update(&mut client, &task, json!({ "approval": yes() }));
    let waits = get(&mut client, &task);
    assert!(
        waits["status"] == "working" && waits["statusMessage"].as_str().unwrap().contains(&command),
        "{waits:#}"
    );
    assert!(place.lines().is_empty());
    place
        .run(&["approvals", "approve", invocation(&task)])
        .exits(0);
    assert_eq!(
        until(&mut client, &task, "completed")["result"]["isError"],
        json!(false)
    );
    assert_eq!(place.lines(), ["one"]);
}

fn question(key: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    json!({ "key": key, "message": format!("Name of {key}?"), "schema": schema })
}

fn keys(task: &Value) -> Vec<&String> {
    task["inputRequests"].as_object().unwrap().keys().collect()
}

#[test]
fn a_tool_that_asks_later_gets_all_answers_of_a_round_together() {
    let place = Place::new();
    let mut client = place.new_client(tasks_and_forms());
    let name = |name: &str| accept(json!({ "name": name }));
    let rounds = json!([[question("a"), question("b")], [question("c")]]);
    // What it asks at once is asked in the response.
    let early = call(&mut client, "ask", json!({ "rounds": rounds }));
    assert_eq!(
        (&early["resultType"], keys(&early).len()),
        (&json!("input_required"), 2),
        "{early:#}"
    );
    let task = begin(
        &mut client,
        "ask",
        json!({ "rounds": rounds, "ms": LONG_MS }),
    );
    assert_eq!(
        keys(&until(&mut client, &task, "input_required")),
        ["a", "b"]
    );
    update(&mut client, &task, json!({ "b": name("Bob") }));
    let partly = get(&mut client, &task);
    assert!(
        partly["status"] == "input_required" && keys(&partly) == ["a"],
        "{partly:#}"
    );
    let large = json!({ "taskId": task["taskId"], "inputResponses": { "a": name(&"x".repeat(300 << 10)) } });
    assert_eq!(
        client.request("tasks/update", large)["error"]["code"],
        json!(-32602)
    );
    update(&mut client, &task, json!({ "a": name("Ada") }));
    assert_eq!(get(&mut client, &task)["status"], "working");
    // A key of a later round is another key.
    let asked = until(&mut client, &task, "input_required");
    assert_eq!(keys(&asked), ["c~2"]);
    update(&mut client, &task, json!({ "c~2": name("Cy") }));
    let done = until(&mut client, &task, "completed");
    let responses = json!({ "a": name("Ada"), "b": name("Bob"), "c": name("Cy") });
    assert_eq!(
        done["result"]["structuredContent"]["responses"], responses,
        "{done:#}"
    );
}

#[test]
fn a_canceled_task_stops_and_one_that_waits_never_runs() {
    let place = Place::new();
    let mut client = place.new_client(tasks_and_forms());
    let held = begin(&mut client, "hold", json!({ "ms": 600_000 }));
    let waits = begin(&mut client, "append_approved", place.line("never"));
    for task in [&held, &waits] {
        cancel(&mut client, task);
        let ended = until(&mut client, task, "cancelled");
        assert!(
            ended.get("result").is_none() && ended.get("error").is_none(),
            "{ended:#}"
        );
    }
    update(&mut client, &waits, json!({ "approval": yes() }));
    assert_eq!(get(&mut client, &waits)["status"], "cancelled");
    client.close();
    let records = place.records();
    let statuses: Vec<&Value> = records
        .iter()
        .map(|record| &record["invocation"]["status"])
        .collect();
    assert_eq!(statuses, ["canceled", "canceled"]);
    assert!(place.lines().is_empty());
}

#[test]
fn a_task_is_its_principals_alone() {
    let place = Place::new();
    let tokens = place.home.join("tokens");
    let anna = "0123456789abcdef0";
    let bert = "fedcba98765432100";
    std::fs::write(&tokens, format!("anna {anna}\nbert {bert}\n")).unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut arguments = place.arguments(&["serve", "--listen=127.0.0.1:0"], &TOOLS);
    arguments.push(format!("--token-file={}", tokens.display()));
    let mut web = Web::run(place.toolcell(arguments));
    let send = |web: &Web, method: &str, params: Value| {
        web.stateless(method, params, tasks_and_forms()).answer()
    };
    web.token = anna.to_owned();
    let call = json!({ "name": "append_approved", "arguments": place.line("one") });
    let task = send(&web, "tools/call", call)["result"].clone();
    assert_eq!(
        (&task["resultType"], &task["status"]),
        (&json!("task"), &json!("input_required")),
        "{task:#}"
    );
    let requests = |id: &str| {
        [
            ("tasks/get", json!({ "taskId": id })),
            (
                "tasks/update",
                json!({ "taskId": id, "inputResponses": { "approval": yes() } }),
            ),
            ("tasks/cancel", json!({ "taskId": id })),
        ]
    };
    let id = task["taskId"].as_str().unwrap().to_owned();
    // Another code, the bare id of the call, and what was never a name.
    let unknown = [
        format!("{}-{}", invocation(&task), "0".repeat(64)),
        invocation(&task).to_owned(),
        "x".to_owned(),
    ];
    web.token = bert.to_owned();
    for ((method, of_anna), unknown) in requests(&id).into_iter().zip(&unknown) {
        let refused = send(&web, method, of_anna);
        assert_eq!(
            refused["error"]["code"],
            json!(-32602),
            "{method}: {refused:#}"
        );
        let same = requests(unknown)
            .into_iter()
            .find(|(known, _)| *known == method)
            .unwrap()
            .1;
        assert_eq!(
            send(&web, method, same)["error"],
            refused["error"],
            "{method}: both are refused alike"
        );
    }
    assert!(place.lines().is_empty());
    // Each request has a connection of its own.
    web.token = anna.to_owned();
    let [(get, of_get), (update, of_update), _] = requests(&id);
    assert_eq!(
        send(&web, get, of_get.clone())["result"]["status"],
        "input_required"
    );
    send(&web, update, of_update);
    let began = Instant::now();
    while send(&web, get, of_get.clone())["result"]["status"] != "completed" {
        assert!(began.elapsed() < PATIENCE, "{:#}", send(&web, get, of_get));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(place.lines(), ["one"]);
}

/// Ends the server of a client, with a word or without.
fn end(client: Client, killed: bool) {
    if killed {
        // SIGKILL.
        drop(client)
    } else {
        drop(client.close())
    }
}

#[test]
fn a_result_outlives_the_process_of_its_call() {
    for killed in [false, true] {
        let place = Place::new();
        let mut client = place.new_client(tasks());
        let task = begin(&mut client, "hold", json!({ "ms": LONG_MS }));
        let done = until(&mut client, &task, "completed");
        end(client, killed);
        let mut later = place.new_client(tasks());
        let found = get(&mut later, &task);
        assert_eq!(
            (&found["status"], &found["result"]),
            (&json!("completed"), &done["result"]),
            "{found:#}"
        );
        assert_eq!(
            (&found["createdAt"], &found["ttlMs"]),
            (&done["createdAt"], &done["ttlMs"])
        );
        cancel(&mut later, &task);
    }
}

#[test]
fn a_call_that_ends_with_its_process_has_failed() {
    for (killed, word) in [
        (false, "shutting down"),
        (true, "the process that ran this call ended"),
    ] {
        let place = Place::new();
        let mut client = place.new_client(tasks());
        let task = begin(&mut client, "hold", json!({ "ms": 600_000 }));
        end(client, killed);
        let mut later = place.new_client(tasks());
        let failed = until(&mut later, &task, "failed");
        let error = &failed["error"];
        assert!(
            error["message"].as_str().unwrap().contains(word),
            "{failed:#}"
        );
        assert_eq!(
            (&error["code"], &error["data"]["toolcell/error"]["class"]),
            (&json!(-32603), &json!("canceled"))
        );
        assert!(failed.get("result").is_none(), "{failed:#}");
    }
}

#[test]
fn a_call_that_waits_for_an_approval_goes_on_in_a_later_process() {
    for killed in [false, true] {
        let place = Place::new();
        let mut client = place.new_client(tasks_and_forms());
        let [approved, denied, canceled] = ["approved", "denied", "canceled"]
            .map(|line| begin(&mut client, "append_approved", place.line(line)));
        let asked = get(&mut client, &approved);
        end(client, killed);
        let mut later = place.new_client(tasks_and_forms());
        let again = get(&mut later, &approved);
        assert_eq!(again["status"], "input_required", "{again:#}");
        assert_eq!(
            again["inputRequests"], asked["inputRequests"],
            "the same question"
        );
        assert!(place.lines().is_empty());
        let wrong = accept(json!({ "decision": "run once", "arguments": "{}" }));
        let params =
            json!({ "taskId": approved["taskId"], "inputResponses": { "approval": wrong } });
        let refused = later.request("tasks/update", params);
        assert_eq!(refused["error"]["code"], json!(-32602), "{refused:#}");
        update(&mut later, &approved, json!({ "approval": yes() }));
        let done = until(&mut later, &approved, "completed");
        assert_eq!(done["result"]["isError"], json!(false), "{done:#}");
        assert_eq!(
            done["result"]["_meta"]["toolcell/invocation_id"],
            invocation(&approved)
        );
        update(
            &mut later,
            &denied,
            json!({ "approval": { "action": "decline" } }),
        );
        let done = until(&mut later, &denied, "completed");
        assert_eq!(
            done["result"]["_meta"]["toolcell/error"]["code"], "approval_rejected",
            "{done:#}"
        );
        cancel(&mut later, &canceled);
        until(&mut later, &canceled, "cancelled");
        // An approval is for one run.
        update(&mut later, &approved, json!({ "approval": yes() }));
        later.close();
        assert_eq!(place.lines(), ["approved"]);
        place.records().iter().for_each(check_record);
    }
}

#[test]
fn an_approved_call_of_a_tool_that_is_not_offered_any_more_is_refused() {
    let role = "[surface]\nrole = \"r\"\n[surface.roles]\nr = [\"hold\"]\n";
    for (tools, config, code) in [
        (&["hold"][..], "", "unknown_tool"),
        (&["hold", "append_approved"], role, "role_not_allowed"),
    ] {
        let place = Place::new();
        let mut client = place.new_client(tasks_and_forms());
        let task = begin(&mut client, "append_approved", place.line("one"));
        until(&mut client, &task, "input_required");
        end(client, false);
        std::fs::write(place.home.join("toolcell.toml"), config).unwrap();
        let mut later = place.new_client_of(tools, tasks_and_forms());
        update(&mut later, &task, json!({ "approval": yes() }));
        let done = until(&mut later, &task, "completed");
        assert_eq!(
            done["result"]["_meta"]["toolcell/error"]["code"], code,
            "{done:#}"
        );
        later.close();
        assert!(place.lines().is_empty(), "it ran");
    }
}

#[test]
fn a_call_that_the_operator_approves_between_two_processes_has_its_result_later() {
    let place = Place::new();
    let mut client = place.new_client(tasks_and_forms());
    let task = begin(&mut client, "append_approved", place.line("one"));
    drop(client);
    place
        .run(&["approvals", "approve", invocation(&task)])
        .exits(0);
    let mut later = place.new_client(tasks_and_forms());
    let done = until(&mut later, &task, "completed");
    assert_eq!(done["result"]["isError"], json!(false), "{done:#}");
    assert_eq!(place.lines(), ["one"]);
}

#[test]
fn a_principal_has_so_many_tasks() {
    let place = Place::new();
    let mut client = place.new_client(tasks_and_forms());
    let waiting: Vec<Value> = (0..32)
        .map(|at| begin(&mut client, "append_approved", place.line(&format!("{at}"))))
        .collect();
    // The next one is asked about as by a server without tasks.
    let other = call(&mut client, "append_approved", place.line("other"));
    assert_eq!(other["resultType"], "input_required", "{other:#}");
    cancel(&mut client, &waiting[0]);
    until(&mut client, &waiting[0], "cancelled");
    begin(&mut client, "append_approved", place.line("another"));
}

#[test]
fn answers_that_came_with_the_call_count_although_it_is_a_task_by_then() {
    let place = Place::new();
    let mut client = place.new_client(tasks_and_forms());
    let name = |name: &str| accept(json!({ "name": name }));
    let arguments = json!({ "rounds": [[question("a")], [question("b")]], "ms": LONG_MS });
    let params =
        json!({ "name": "ask", "arguments": arguments, "inputResponses": { "a": name("Ada") } });
    let task = client.request("tools/call", params)["result"].clone();
    assert_eq!(task["resultType"], "task", "{task:#}");
    assert_eq!(keys(&until(&mut client, &task, "input_required")), ["b"]);
    update(&mut client, &task, json!({ "b": name("Bob") }));
    let done = until(&mut client, &task, "completed");
    let responses = json!({ "a": name("Ada"), "b": name("Bob") });
    assert_eq!(
        done["result"]["structuredContent"]["responses"], responses,
        "{done:#}"
    );
}

#[test]
fn those_who_follow_hear_that_a_call_became_a_task() {
    let place = Place::new();
    let mut client = place.new_client(tasks());
    let task = begin(&mut client, "hold", json!({ "ms": 600_000 }));
    let began = Instant::now();
    while !place
        .run(&["events", "--json"])
        .exits(0)
        .stdout
        .contains("\"backgrounded\"")
    {
        assert!(began.elapsed() < PATIENCE, "no event says so");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(get(&mut client, &task)["status"], "working");
    cancel(&mut client, &task);
    until(&mut client, &task, "cancelled");
    client.close();
    let record = place.records().remove(0);
    let told: Vec<&Value> = record["progress"]
        .as_array()
        .unwrap()
        .iter()
        .map(|told| &told["status"])
        .collect();
    assert_eq!(told, ["backgrounded", "canceled"], "{record:#}");
}
