//! How tasks end: canceled, with the server that runs them, or after their results had to leave its memory.

use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    LONG_MS, PATIENCE, Place, TOOLS, begin, cancel, get, invocation, tasks, tasks_and_forms, until,
    update, yes,
};
use crate::support::{Client, OLD, Web, fixture, frame};

/// Waits until `is_so`.
#[track_caller]
fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The options of a server with a tool that calls others.
fn caller() -> [String; 2] {
    [
        format!("{}#call_writing", fixture("caller").display()),
        "--allow-tool=probe.*".to_owned(),
    ]
}

/// A call of that tool, which has `line` appended by a tool that needs an approval.
fn calling(place: &Place, line: &str) -> Value {
    json!({ "tool": "probe.append_approved", "input": place.line(line) })
}

/// The id of the call that the operator has to approve, once the task waits for it.
fn waits_for(client: &mut Client, task: &Value) -> String {
    let mut id = String::new();
    wait("the task tells what it waits for", || {
        let now = get(client, task);
        let said = now["statusMessage"]
            .as_str()
            .and_then(|said| said.split_once("approvals approve "));
        id = said
            .map(|(_, rest)| rest.split(',').next().unwrap().to_owned())
            .unwrap_or_default();
        !id.is_empty()
    });
    id
}

/// The record of the call `id`.
fn record(place: &Place, id: &str) -> Value {
    place.run(&["show", id, "--json"]).exits(0).json()
}

/// The events about the call `id`, as followers get them.
fn heard(place: &Place, id: &str) -> Vec<Value> {
    let lines = place.run(&["events", "--json", "--id", id]).exits(0).stdout;
    lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone())
        .collect()
}

/// The types of the events about the call `id`.
fn events(place: &Place, id: &str) -> Vec<String> {
    heard(place, id)
        .iter()
        .map(|event| event["event_type"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_question_about_a_call_that_a_tool_makes_names_that_call() {
    let place = Place::new();
    let mut client = place.new_client_with(tasks(), &caller());
    let task = begin(&mut client, "call_writing", calling(&place, "one"));
    let child = waits_for(&mut client, &task);
    assert_ne!(child, invocation(&task));
    place.run(&["approvals", "approve", &child]).exits(0);
    let done = until(&mut client, &task, "completed");
    assert_eq!(
        done["result"]["structuredContent"]["answers"][0]["invocation_id"], child,
        "{done:#}"
    );
    client.close();
    let mut client = place.new_client_with(tasks_and_forms(), &caller());
    let task = begin(&mut client, "call_writing", calling(&place, "two"));
    let asked = until(&mut client, &task, "input_required");
    let subject = asked["_meta"]["toolcell/approval"]["invocation_id"]
        .as_str()
        .unwrap();
    assert_ne!(subject, invocation(&task));
    update(&mut client, &task, json!({ "approval": yes() }));
    until(&mut client, &task, "completed");
    assert_eq!(place.lines(), ["one", "two"]);
}

#[test]
fn a_call_whose_tool_waits_for_another_one_ends_with_its_server_and_has_a_result() {
    let place = Place::new();
    let mut client = place.new_client_with(tasks(), &caller());
    let task = begin(&mut client, "call_writing", calling(&place, "never"));
    let child = waits_for(&mut client, &task);
    client.close();
    let mut later = place.new_client_with(tasks(), &caller());
    let failed = until(&mut later, &task, "failed");
    assert_eq!(
        failed["error"]["data"]["toolcell/error"]["class"], "canceled",
        "{failed:#}"
    );
    for id in [child.as_str(), invocation(&task)] {
        assert_eq!(record(&place, id)["invocation"]["status"], "canceled");
    }
    assert!(place.lines().is_empty());
}

/// The latest events of a call are not noted at once. The next server goes on with it after the last of them.
#[test]
fn followers_hear_every_event_of_a_call_that_is_left_to_the_next_server() {
    let place = Place::new();
    let mut client = place.new_client(tasks_and_forms());
    let task = begin(&mut client, "append_approved", place.line("one"));
    let pid = Pid::from_raw(i32::try_from(client.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    client.end(Instant::now());
    let before = heard(&place, invocation(&task));
    assert_eq!(
        before.last().unwrap()["data"]["progress"]["status"],
        "backgrounded",
        "{before:#?}"
    );
    let mut later = place.new_client(tasks_and_forms());
    update(&mut later, &task, json!({ "approval": yes() }));
    until(&mut later, &task, "completed");
    let all = heard(&place, invocation(&task));
    assert_eq!(all[..before.len()], before);
    assert_eq!(json!(all), record(&place, invocation(&task))["events"]);
}

/// The log has the end of a call also if the store of approvals could not be told of it.
#[test]
fn a_call_whose_end_the_store_of_approvals_does_not_have_ends_once() {
    let place = Place::new();
    let mut client = place.new_client(tasks_and_forms());
    let task = begin(&mut client, "append_approved", place.line("one"));
    update(&mut client, &task, json!({ "approval": yes() }));
    let done = until(&mut client, &task, "completed");
    client.close();
    let store = rusqlite::Connection::open(place.home.join("journal/journal.db")).unwrap();
    let id = invocation(&task);
    assert_eq!(
        store
            .execute("UPDATE invocations SET result = NULL WHERE id = ?1", [id])
            .unwrap(),
        1
    );
    let claimed =
        "UPDATE approvals SET state = 'running' WHERE invocation = ?1 AND state = 'finished'";
    assert_eq!(store.execute(claimed, [id]).unwrap(), 1);
    drop(store);
    let mut later = place.new_client(tasks_and_forms());
    let found = get(&mut later, &task);
    assert_eq!(
        (&found["status"], &found["result"]),
        (&json!("completed"), &done["result"]),
        "{found:#}"
    );
    later.close();
    let ends = events(&place, id)
        .into_iter()
        .filter(|event| event == "tool.result.created")
        .count();
    assert_eq!((ends, place.lines()), (1, vec!["one".to_owned()]));
}

/// An approval that is given while the server stops: it is used there, or by the next server.
#[test]
fn what_is_approved_while_the_server_stops_is_not_lost() {
    let place = Place::new();
    let mut client = place.new_client(tasks_and_forms());
    let lines: Vec<String> = (0..8).map(|at| format!("line {at}")).collect();
    let tasks: Vec<Value> = lines
        .iter()
        .map(|line| begin(&mut client, "append_approved", place.line(line)))
        .collect();
    let responses = json!({ "approval": yes() });
    for task in &tasks {
        client.begin(
            "tasks/update",
            json!({ "taskId": task["taskId"], "inputResponses": responses }),
        );
    }
    let pid = Pid::from_raw(i32::try_from(client.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    client.end(Instant::now());
    let mut later = place.new_client(tasks_and_forms());
    for (task, line) in tasks.iter().zip(&lines) {
        let mut ended = Value::Null;
        wait("the task ends", || {
            ended = get(&mut later, task);
            // The server did not read the answer.
            if ended["status"] == "input_required" {
                update(&mut later, task, responses.clone());
            }
            ended["status"] != "input_required" && ended["status"] != "working"
        });
        let runs = place.lines().iter().filter(|ran| *ran == line).count();
        let record = record(&place, invocation(task));
        let status = &record["invocation"]["status"];
        let error = &record["result"]["error"];
        let steps = record["invocation"]["status_transitions"]
            .as_array()
            .unwrap();
        assert_eq!(
            steps.iter().filter(|step| step["to"] == "approved").count(),
            1,
            "{record:#}"
        );
        match ended["status"].as_str().unwrap() {
            // The approval was used before the stop, or by the next server.
            "completed" => {
                assert_eq!(
                    (&ended["result"]["isError"], runs),
                    (&json!(false), 1),
                    "{ended:#}"
                );
                assert_eq!(status, "succeeded", "{record:#}");
            }
            // The approval was used, and then the server stopped the call as it stops each call that runs.
            "failed" => {
                assert_eq!(
                    (status, &error["error_class"]),
                    (&json!("canceled"), &json!("canceled")),
                    "{record:#}"
                );
                let events = record["events"].as_array().unwrap().iter();
                let requested = events
                    .filter(|event| event["event_type"] == "tool.invocation.cancel_requested");
                let reasons: Vec<&Value> = requested
                    .map(|event| &event["data"]["abort_reason"])
                    .collect();
                assert_eq!(reasons, ["runtime_shutdown"], "{record:#}");
                // A tool that had begun may have written its line, and is not safe to repeat.
                let began = record["invocation"]["started_at"].is_string();
                assert!(runs <= usize::from(began), "{runs} runs: {record:#}");
                assert!(
                    !began || error["retry"]["safe"] == json!(false),
                    "{record:#}"
                );
            }
            other => panic!("{other}: {ended:#}"),
        }
    }
}

#[test]
fn a_task_that_waits_in_another_process_is_canceled_once() {
    let place = Place::new();
    let mut holder = place.new_client(tasks_and_forms());
    let mut other = place.new_client(tasks_and_forms());
    let task = begin(&mut holder, "append_approved", place.line("never"));
    for _ in 0..2 {
        cancel(&mut other, &task);
    }
    for client in [&mut other, &mut holder] {
        until(client, &task, "cancelled");
    }
    update(&mut other, &task, json!({ "approval": yes() }));
    assert_eq!(get(&mut other, &task)["status"], "cancelled");
    assert!(place.lines().is_empty());
    let told = events(&place, invocation(&task));
    for once in ["tool.invocation.cancel_requested", "tool.result.created"] {
        assert_eq!(
            told.iter().filter(|told| *told == once).count(),
            1,
            "{once}: {told:?}"
        );
    }
    assert_eq!(
        record(&place, invocation(&task))["invocation"]["status"],
        "canceled"
    );
}

#[test]
fn a_task_that_runs_in_another_process_is_not_canceled_and_the_client_is_told() {
    let place = Place::new();
    let mut holder = place.new_client(tasks());
    let mut other = place.new_client(tasks());
    let task = begin(&mut holder, "hold", json!({ "ms": 600_000 }));
    until(&mut other, &task, "working");
    let refused = other.request("tasks/cancel", json!({ "taskId": task["taskId"] }));
    let reason = &refused["error"]["data"]["toolcell/cancel_failed"]["reason"];
    assert_eq!(
        (&refused["error"]["code"], reason),
        (&json!(-32600), &json!("runs_elsewhere")),
        "{refused:#}"
    );
    assert_eq!(get(&mut holder, &task)["status"], "working");
    let told = events(&place, invocation(&task));
    assert!(
        told.contains(&"tool.invocation.cancel_failed".to_owned()),
        "{told:?}"
    );
    assert_eq!(place.failed_cancellations()[0]["reason"], "runs_elsewhere");
    cancel(&mut holder, &task);
    until(&mut other, &task, "cancelled");
    // Afterwards it is too late, in each process.
    cancel(&mut other, &task);
    assert_eq!(
        place.failed_cancellations()[1]["reason"],
        "already_terminal"
    );
}

#[test]
fn a_cancellation_of_what_has_ended_or_never_was_is_on_record() {
    let place = Place::new();
    let mut client = place.new_client(tasks());
    let task = begin(&mut client, "hold", json!({ "ms": LONG_MS }));
    let done = until(&mut client, &task, "completed");
    cancel(&mut client, &task);
    assert_eq!(get(&mut client, &task), done);
    let told = events(&place, invocation(&task));
    let end = [
        "tool.invocation.cancel_requested",
        "tool.invocation.cancel_failed",
    ];
    assert!(told.ends_with(&end.map(str::to_owned)), "{told:?}");
    client.request("tasks/cancel", json!({ "taskId": "never was" }));
    client.close();
    let mut client = Client::run(place.toolcell(place.arguments(&["mcp"], &TOOLS)));
    client.initialize(OLD);
    client.notify("notifications/cancelled", json!({ "requestId": 4_711 }));
    wait("the cancellations are on record", || {
        place.failed_cancellations().len() == 3
    });
    let failed = place.failed_cancellations();
    assert_eq!(failed[0]["reason"], "already_terminal");
    let ids: Vec<&Value> = failed[1..]
        .iter()
        .map(|data| &data["native_call_id"])
        .collect();
    assert_eq!(ids, ["never was", "4711"]);
    assert!(
        failed[1..]
            .iter()
            .all(|data| data["reason"] == "unknown_invocation"),
        "{failed:#?}"
    );
}

#[test]
fn a_flood_of_cancellations_of_nothing_does_not_fill_the_log() {
    let place = Place::new();
    let mut client = Client::run(place.toolcell(place.arguments(&["mcp"], &TOOLS)));
    client.initialize(OLD);
    let long = "x".repeat(10_000);
    for id in 0..1_050 {
        client.notify(
            "notifications/cancelled",
            json!({ "requestId": format!("{id}{long}") }),
        );
    }
    let told = || {
        place
            .run(&["events", "--json", "--type=tool.invocation.cancel_failed"])
            .exits(0)
            .stdout
    };
    wait("the first ones are on record", || {
        told().lines().count() >= 1_000
    });
    client.close();
    let told = told();
    assert_eq!(told.lines().count(), 1_000);
    assert!(told.len() < 2 << 20, "{} bytes", told.len());
}

/// A server over HTTP with the tools of these tests.
fn served(place: &Place) -> Web {
    Web::run(place.toolcell(place.arguments(&["serve", "--listen=127.0.0.1:0"], &TOOLS)))
}

#[test]
fn a_cancellation_over_http_of_what_is_answered_or_never_was_is_on_record() {
    let place = Place::new();
    let web = served(&place);
    let session = web.session(json!({}));
    let answer = web.call(&session, "hold", json!({ "ms": 1 }));
    assert_eq!(answer["id"], 1, "{answer:#}");
    let cancel = |more: &[(&str, &str)], id: Value| {
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        web.request("POST /mcp", more, &told.to_string()).status
    };
    let ids = || -> Vec<String> {
        let failed = place.failed_cancellations();
        assert!(
            failed
                .iter()
                .all(|data| data["reason"] == "unknown_invocation"),
            "{failed:#?}"
        );
        failed
            .iter()
            .map(|data| data["native_call_id"].as_str().unwrap().to_owned())
            .collect()
    };
    // The server may notice later that the client has the whole answer.
    wait("the answered request is on record", || {
        assert_eq!(cancel(&web.in_session(&session), json!(1)), 202);
        ids().contains(&"1".to_owned())
    });
    cancel(&web.in_session(&session), json!("never was"));
    cancel(
        &[("MCP-Protocol-Version", "2026-07-28")],
        json!("nor was this"),
    );
    wait("the others are on record", || {
        ["never was", "nor was this"]
            .iter()
            .all(|id| ids().iter().any(|told| told == id))
    });
}

#[test]
fn a_request_over_http_that_is_canceled_twice_was_canceled_once_in_vain() {
    let place = Place::new();
    let web = served(&place);
    let session = web.session(json!({}));
    let call =
        json!({ "name": "hold", "arguments": { "ms": 600_000 }, "_meta": { "progressToken": 1 } });
    let _coming = web.begin(
        "POST /mcp",
        &web.changed(&web.in_session(&session)),
        &frame(json!(7), "tools/call", call),
    );
    wait("the call runs", || {
        place
            .run(&["calls", "--json"])
            .exits(0)
            .stdout
            .contains("running")
    });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    for _ in 0..2 {
        assert_eq!(
            web.request("POST /mcp", &web.in_session(&session), &cancel.to_string())
                .status,
            202
        );
    }
    wait("the second one is on record", || {
        !place.failed_cancellations().is_empty()
    });
    assert_eq!(place.failed_cancellations().len(), 1);
    wait("the call ends", || {
        place
            .run(&["calls", "--json"])
            .exits(0)
            .stdout
            .contains("canceled")
    });
}

/// Without sessions, each request is handled by itself.
#[test]
fn a_flood_of_cancellations_over_http_does_not_fill_the_log() {
    let place = Place::new();
    let web = served(&place);
    let call = json!({ "name": "hold", "arguments": { "ms": LONG_MS } });
    let task = web.stateless("tools/call", call, tasks()).answer()["result"]["taskId"].clone();
    let ended = || {
        web.stateless("tasks/get", json!({ "taskId": task }), tasks())
            .answer()["result"]
            .clone()
    };
    wait("the task ends", || ended()["status"] == "completed");
    for id in 0..1_020 {
        let refused = web
            .stateless(
                "tasks/cancel",
                json!({ "taskId": format!("never-{id}") }),
                tasks(),
            )
            .answer();
        assert_eq!(refused["error"]["code"], -32602, "{refused:#}");
    }
    // One of a task that has ended is in vain too.
    let told = web
        .stateless("tasks/cancel", json!({ "taskId": task }), tasks())
        .answer();
    assert!(told.get("error").is_none(), "{told:#}");
    // So are those of calls through the plain API, which count with the others of their principal.
    let call = task.as_str().unwrap().split_once('-').unwrap().0;
    for (id, status) in [(call, 409), ("never", 404)] {
        assert_eq!(
            web.request(&format!("DELETE /v1/calls/{id}"), &[], "")
                .status,
            status
        );
    }
    assert_eq!(place.failed_cancellations().len(), 1_000);
}

/// Begins so many calls at once, all of which become tasks.
fn begin_all(client: &mut Client, count: usize) -> Vec<Value> {
    let ids: Vec<Value> = (0..count)
        .map(|_| client.begin_call("hold", json!({ "ms": LONG_MS })))
        .collect();
    ids.iter()
        .map(|id| {
            let task = client.answer(id)["result"].clone();
            assert_eq!(task["resultType"], "task", "{task:#}");
            task
        })
        .collect()
}

/// Makes so many calls at once, all of which become tasks, and waits until they have ended.
fn ended(place: &Place, client: &mut Client, count: usize) -> Vec<Value> {
    let before = place.records().len();
    let tasks = begin_all(client, count);
    wait("all have ended", || place.records().len() == before + count);
    tasks
}

#[test]
fn a_result_that_is_on_no_disk_leaves_the_memory_once_it_was_read_and_says_so() {
    let place = Place::new();
    std::fs::write(place.home.join("toolcell.toml"), "[log]\nkeep = \"none\"\n").unwrap();
    let mut client = place.new_client(tasks());
    let first = begin_all(&mut client, 20);
    wait("all have ended", || place.records().len() == 20);
    let (read, unread) = first.split_at(10);
    for task in read {
        until(&mut client, task, "completed");
    }
    let second: Vec<Value> = [20, 20, 12]
        .into_iter()
        .flat_map(|count| ended(&place, &mut client, count))
        .collect();
    // There is room for 64.
    wait("eight leave", || {
        read.iter()
            .filter(|task| get(&mut client, task)["status"] == "failed")
            .count()
            == 8
    });
    for task in unread.iter().chain(&second) {
        until(&mut client, task, "completed");
    }
    says_not_kept(
        &read
            .iter()
            .map(|task| get(&mut client, task))
            .find(|now| now["status"] == "failed")
            .unwrap(),
    );
}

/// Checks that a task failed because its result is on no disk and has left the memory.
#[track_caller]
fn says_not_kept(gone: &Value) {
    let data = &gone["error"]["data"];
    let error = &data["toolcell/error"];
    assert_eq!(
        (&error["class"], &error["code"]),
        (&json!("result_redacted"), &json!("result_not_kept")),
        "{gone:#}"
    );
    assert_eq!(
        (
            &error["retry_safe"],
            data["toolcell/invocation_id"].is_string()
        ),
        (&json!(false), true)
    );
}

/// Sets what the journal keeps, for servers that run as well.
fn keep(place: &Place, word: &str) {
    let next = place.home.join("next");
    std::fs::write(&next, format!("[log]\nkeep = {word:?}\n")).unwrap();
    std::fs::rename(next, place.home.join("toolcell.toml")).unwrap();
}

#[test]
fn results_that_the_journal_keeps_since_a_reload_leave_the_memory_before_those_that_it_does_not_have()
 {
    let place = Place::new();
    keep(&place, "none");
    let mut client = place.new_client(tasks());
    let unkept = begin_all(&mut client, 20);
    wait("all have ended", || place.records().len() == 20);
    keep(&place, "all");
    client.says("now serving the new version");
    let kept: Vec<Value> = (0..3)
        .flat_map(|_| ended(&place, &mut client, 20))
        .collect();
    // There is room for 64 results. Those that leave are read from the journal.
    for task in kept.iter().chain(&unkept) {
        until(&mut client, task, "completed");
    }
}

#[test]
fn a_result_that_left_the_memory_after_a_reload_turned_the_journal_off_is_not_kept() {
    let place = Place::new();
    keep(&place, "all");
    let mut client = place.new_client(tasks());
    // The server has read its settings once it answers.
    begin_all(&mut client, 1);
    wait("it has ended", || place.records().len() == 1);
    keep(&place, "none");
    client.says("now serving the new version");
    let first = begin_all(&mut client, 20);
    wait("all have ended", || place.records().len() == 21);
    (0..3).for_each(|_| _ = ended(&place, &mut client, 20));
    let mut gone = Value::Null;
    wait("one leaves", || {
        let mut now = first.iter().map(|task| get(&mut client, task));
        gone = now
            .find(|now| now["status"] == "failed")
            .unwrap_or_default();
        !gone.is_null()
    });
    says_not_kept(&gone);
}

/// Sets the maximum size of the files that the server of a client writes; `None` for no limit.
#[cfg(target_os = "linux")]
fn limit_files(client: &Client, bytes: Option<u64>) {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    let pid = Pid::from_raw(i32::try_from(client.pid()).unwrap());
    prlimit(
        pid,
        Resource::Fsize,
        Rlimit {
            current: bytes,
            maximum: getrlimit(Resource::Fsize).maximum,
        },
    )
    .unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_result_whose_end_could_not_be_written_and_that_left_the_memory_is_not_kept() {
    let place = Place::new();
    // A write beyond the limit fails, instead of ending the process.
    let mut command = std::process::Command::new("sh");
    command.args([
        "-c",
        "trap '' XFSZ; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_toolcell"),
    ]);
    command
        .args(place.arguments(&["mcp"], &TOOLS))
        .current_dir(&place.home);
    command
        .env("TOOLCELL_HOME", &place.home)
        .env("TOOLCELL_SESSION", "")
        .env("TOOLCELL_ACTOR", "");
    let mut client = Place::speak(crate::support::Toolcell::exactly(command), tasks());
    let task = begin(&mut client, "hold", json!({ "ms": 2 * LONG_MS }));
    limit_files(&client, Some(1));
    until(&mut client, &task, "completed");
    limit_files(&client, None);
    // It was read, so it leaves as soon as there is no room for 65 results.
    let succeeded = || place.events_of_type("tool.invocation.succeeded").len();
    for ended in [20, 40, 60, 80] {
        begin_all(&mut client, 20);
        wait("all have ended", || succeeded() == ended);
    }
    let mut gone = Value::Null;
    wait("it leaves", || {
        gone = get(&mut client, &task);
        gone["status"] != "completed"
    });
    assert_eq!(gone["status"], "failed", "{gone:#}");
    says_not_kept(&gone);
    assert!(
        gone["error"]["message"]
            .as_str()
            .unwrap()
            .contains("could not be written"),
        "{gone:#}"
    );
    // It has ended for good, and no other process has it.
    cancel(&mut client, &task);
    assert_eq!(get(&mut client, &task)["status"], "failed");
}
