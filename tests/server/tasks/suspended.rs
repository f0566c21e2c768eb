//! Calls whose tools ask their users, and whose processes end before the answer.
//!
//! Promise: Answers to a tool's question are used once, and for one thing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{
    LONG_MS, PATIENCE, Place, begin, call, cancel, end, get, invocation, keys, question,
    tasks_and_forms, until, update,
};
use crate::server::approvals::accept;
use crate::support::{Client, check_record, fixture};

/// A word that no file of toolcell may have as it is.
const SECRET: &str = "correct horse battery";

impl Place {
    /// A client of a server with the tool `ask`, whose options are those of these tests and `more`.
    fn asking(&self, more: &[&str]) -> Client {
        let mut arguments = self.arguments(&["mcp"], &["ask"]);
        arguments.extend(more.iter().map(|option| (*option).to_owned()));
        Self::speak(self.toolcell(arguments), tasks_and_forms())
    }

    fn configure(&self, text: &str) {
        std::fs::write(self.home.join("toolcell.toml"), text).unwrap();
    }

    fn store(&self) -> PathBuf {
        self.home.join("journal/journal.db")
    }

    /// How many rows the table of the store has.
    fn rows(&self, table: &str) -> u32 {
        let store = Connection::open(self.store()).unwrap();
        store
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
                row.get(0)
            })
            .unwrap()
    }

    fn record(&self, task: &Value) -> Value {
        self.run(&["show", invocation(task), "--json"])
            .exits(0)
            .json()
    }

    /// The record of a call that has ended, once, with all that is true of each such call. Its state is on no disk any more.
    #[track_caller]
    fn ended(&self, task: &Value) -> Value {
        let record = self.record(task);
        check_record(&record);
        let events = record["events"].as_array().unwrap();
        let ids: BTreeSet<&str> = events
            .iter()
            .map(|event| event["event_id"].as_str().unwrap())
            .collect();
        assert_eq!(
            ids.len(),
            events.len(),
            "an event is there twice: {record:#}"
        );
        let ends = ["succeeded", "failed", "canceled", "timed_out"]
            .map(|end| format!("tool.invocation.{end}"));
        let is_end = |event: &&Value| ends.iter().any(|end| event["event_type"] == end.as_str());
        assert_eq!(events.iter().filter(is_end).count(), 1, "{record:#}");
        let told = self
            .run(&["events", "--json", "--id", invocation(task)])
            .exits(0)
            .stdout;
        let told = told
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone());
        // A cancellation in vain is no event of the call, and names no tool.
        let is_own = |event: &Value| {
            event.get("tool_id").is_some() || event["event_type"] == "tool.invocation.planned"
        };
        let told: Vec<String> = told.filter(is_own).map(|event| line(&event)).collect();
        let recorded: Vec<String> = events.iter().map(line).collect();
        assert_eq!(told, recorded, "followers hear each event once");
        self.run(&["log", "verify"]).exits(0);
        if self.store().exists() {
            assert_eq!(self.rows("suspended"), 0, "its state is gone");
        }
        record
    }

    /// Whether a file of the data folder has `text`.
    fn has_on_disk(&self, text: &str) -> bool {
        let mut folders = vec![
            self.home.join("journal"),
            self.home.join("scratch"),
            self.home.join("payloads"),
        ];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)
                .into_iter()
                .flatten()
                .map(|entry| entry.unwrap())
            {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path())
                } else {
                    let bytes = std::fs::read(entry.path()).unwrap();
                    if bytes
                        .windows(text.len())
                        .any(|part| part == text.as_bytes())
                    {
                        return true;
                    }
                }
            }
        }
        false
    }
}

fn line(event: &Value) -> String {
    format!(
        "{} {}",
        event["event_id"].as_str().unwrap(),
        event["event_type"].as_str().unwrap()
    )
}

fn name(name: &str) -> Value {
    accept(json!({ "name": name }))
}

/// Arguments of a call that asks `rounds` of questions, and becomes a task before.
fn rounds(rounds: Value) -> Value {
    json!({ "rounds": rounds, "ms": LONG_MS, "state": "x" })
}

/// A task that waits for the answer `a`.
fn asks(client: &mut Client) -> Value {
    let task = begin(client, "ask", rounds(json!([[question("a")]])));
    until(client, &task, "input_required");
    task
}

fn error(task: &Value) -> &Value {
    &task["result"]["_meta"]["toolcell/error"]
}

#[test]
fn a_question_of_a_tool_outlives_its_process_and_the_call_goes_on_with_the_answers() {
    for killed in [false, true] {
        let place = Place::new();
        let mut client = place.asking(&[]);
        let task = begin(
            &mut client,
            "ask",
            rounds(json!([[question("a"), question("b")], [question("c")]])),
        );
        let asked = until(&mut client, &task, "input_required");
        end(client, killed);
        let mut client = place.asking(&[]);
        let again = get(&mut client, &task);
        assert_eq!(again["status"], "input_required", "{again:#}");
        for same in ["inputRequests", "createdAt", "ttlMs", "_meta"] {
            assert_eq!(again[same], asked[same], "the same question");
        }
        // An answer of another question changes nothing, and one of two is kept.
        update(
            &mut client,
            &task,
            json!({ "c": name("Eve"), "a~2": name("Eve") }),
        );
        assert_eq!(
            get(&mut client, &task)["inputRequests"],
            asked["inputRequests"]
        );
        update(&mut client, &task, json!({ "b": name("Bob") }));
        assert_eq!(keys(&get(&mut client, &task)), ["a"]);
        update(&mut client, &task, json!({ "a": name("Ada") }));
        let later = until(&mut client, &task, "input_required");
        assert_eq!(
            keys(&later),
            ["c~2"],
            "a key of a later round is another key"
        );
        end(client, killed);
        let mut client = place.asking(&[]);
        assert_eq!(
            get(&mut client, &task)["inputRequests"],
            later["inputRequests"]
        );
        update(&mut client, &task, json!({ "c~2": name("Cy") }));
        let done = until(&mut client, &task, "completed");
        let output = &done["result"]["structuredContent"];
        assert_eq!(
            output["responses"],
            json!({ "a": name("Ada"), "b": name("Bob"), "c": name("Cy") }),
            "{done:#}"
        );
        assert_eq!(
            (&output["state"], &output["invocation_id"]),
            (&json!("xx"), &json!(invocation(&task)))
        );
        // What is answered again, or canceled, stays as it is.
        update(&mut client, &task, json!({ "c~2": name("Eve") }));
        cancel(&mut client, &task);
        assert_eq!(get(&mut client, &task), done);
        client.close();
        let record = place.ended(&task);
        assert_eq!(
            record["result"]["content"]
                .to_string()
                .matches("entered")
                .count(),
            3,
            "{record:#}"
        );
        assert!(
            record["result"]["usage"]["wall_ms"]["used"]
                .as_u64()
                .unwrap()
                >= 3 * LONG_MS,
            "{record:#}"
        );
        for table in ["invocations", "approvals"] {
            assert_eq!(place.rows(table), 0, "{table}");
        }
        let locks = std::fs::read_dir(place.home.join("journal/waiting"))
            .unwrap()
            .count();
        assert_eq!(locks, 0);
    }
}

/// Between two processes, nothing is there that a person or a program could read.
#[test]
fn what_is_stored_of_a_suspended_call_is_sealed() {
    let place = Place::new();
    let mut client = place.asking(&[]);
    let arguments = json!({ "rounds": [[question("a")], [question("b")]], "ms": LONG_MS, "secret": SECRET, "state": SECRET });
    let task = begin(&mut client, "ask", arguments);
    until(&mut client, &task, "input_required");
    update(&mut client, &task, json!({ "a": name(SECRET) }));
    while keys(&until(&mut client, &task, "input_required")) != ["b~2"] {}
    end(client, true);
    assert_eq!(place.rows("suspended"), 1);
    assert!(!place.has_on_disk(SECRET));
    let mut client = place.asking(&[]);
    update(&mut client, &task, json!({ "b~2": name("Bob") }));
    until(&mut client, &task, "completed");
    client.close();
    place.ended(&task);
    assert!(!place.has_on_disk(SECRET));
}

#[test]
fn what_a_suspended_call_has_spent_is_not_given_back() {
    let place = Place::new();
    let mut client = place.asking(&[]);
    let arguments = rounds(json!([[question("a")]]));
    let meta = json!({ "toolcell/timeout_ms": LONG_MS * 19 / 10 });
    let params = json!({ "name": "ask", "arguments": arguments, "_meta": meta });
    let task = client.request("tools/call", params)["result"].clone();
    until(&mut client, &task, "input_required");
    end(client, true);
    let mut client = place.asking(&[]);
    update(&mut client, &task, json!({ "a": name("Ada") }));
    let done = until(&mut client, &task, "completed");
    assert_eq!(
        error(&done)["class"],
        "timeout",
        "half of its time was over: {done:#}"
    );
    client.close();
    assert_eq!(place.ended(&task)["invocation"]["status"], "timed_out");
}

#[test]
fn a_suspended_call_is_canceled_in_a_later_process() {
    let place = Place::new();
    let mut client = place.asking(&[]);
    let task = asks(&mut client);
    end(client, true);
    let mut client = place.asking(&[]);
    cancel(&mut client, &task);
    until(&mut client, &task, "cancelled");
    update(&mut client, &task, json!({ "a": name("Ada") }));
    cancel(&mut client, &task);
    until(&mut client, &task, "cancelled");
    client.close();
    let record = place.ended(&task);
    assert_eq!(record["invocation"]["status"], "canceled");
    assert!(
        record["result"]["usage"]["wall_ms"]["used"]
            .as_u64()
            .unwrap()
            >= LONG_MS,
        "{record:#}"
    );
    assert_eq!(
        record["result"]["content"]
            .to_string()
            .matches("entered")
            .count(),
        0,
        "{record:#}"
    );
}

/// Its client may never come back, and so each server looks when it starts.
#[test]
fn a_suspended_call_that_is_not_answered_in_time_ends_with_the_next_server() {
    let place = Place::new();
    place.configure("[approvals]\ntimeout = \"3s\"\n");
    let mut client = place.asking(&[]);
    let task = asks(&mut client);
    end(client, true);
    std::thread::sleep(Duration::from_millis(3_100));
    let mut client = place.asking(&[]);
    let began = Instant::now();
    while place.rows("suspended") > 0 {
        assert!(began.elapsed() < PATIENCE, "it is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    update(&mut client, &task, json!({ "a": name("Ada") }));
    let done = until(&mut client, &task, "completed");
    assert_eq!(error(&done)["code"], "input_expired", "{done:#}");
    client.close();
    let record = place.ended(&task);
    assert_eq!(record["invocation"]["status"], "timed_out", "{record:#}");
    assert_eq!(
        record["result"]["usage"]["fuel"]["used"]
            .as_u64()
            .map(|fuel| fuel > 0),
        Some(true),
        "{record:#}"
    );
}

#[test]
fn a_suspended_call_of_a_tool_that_is_not_the_same_any_more_does_not_run() {
    let place = Place::new();
    let tool = place.home.join("tool.wasm");
    let probe = std::fs::read(fixture("probe")).unwrap();
    // One more custom section: another component with the same tools.
    let other = [&probe[..], &[0, 2, 1, b'x']].concat();
    let serve = |bytes: &[u8], tool_name: &str, more: &[&str]| {
        std::fs::write(&tool, bytes).unwrap();
        let mut arguments = vec!["mcp".to_owned(), format!("{}#{tool_name}", tool.display())];
        arguments.extend(more.iter().map(|option| (*option).to_owned()));
        Place::speak(place.toolcell(arguments), tasks_and_forms())
    };
    let ask = "[[rule]]\nbehavior = \"ask\"\ntool = \"probe.ask\"\n";
    let deny = "[[rule]]\nbehavior = \"deny\"\ntool = \"probe.ask\"\n";
    for (bytes, tool_name, config, code) in [
        (&other, "ask", "", "question_outdated"),
        (&probe, "hold", "", "unknown_tool"),
        (&probe, "ask", ask, "question_outdated"),
        (&probe, "ask", deny, "rule"),
        (
            &probe,
            "ask",
            "[limits]\ntimeout = \"77s\"\n",
            "question_outdated",
        ),
    ] {
        place.configure("");
        let mut client = serve(&probe, "ask", &[]);
        let task = asks(&mut client);
        end(client, true);
        place.configure(config);
        let mut client = serve(bytes, tool_name, &[]);
        assert_eq!(get(&mut client, &task)["status"], "input_required");
        update(&mut client, &task, json!({ "a": name("Ada") }));
        let done = until(&mut client, &task, "completed");
        assert!(
            error(&done)["code"].as_str().unwrap().contains(code),
            "{code}: {done:#}"
        );
        client.close();
        let record = place.ended(&task);
        let entered = record["events"].as_array().unwrap().iter();
        assert_eq!(
            entered
                .filter(|event| event["event_type"] == "tool.invocation.resumed")
                .count(),
            0,
            "{record:#}"
        );
    }
}

/// What the tool did with the answers is not known, so they are used once.
#[test]
fn a_call_that_is_killed_after_the_answer_is_not_run_a_second_time() {
    let place = Place::new();
    let mut client = place.asking(&[]);
    let task = asks(&mut client);
    end(client, true);
    let mut client = place.asking(&[]);
    update(&mut client, &task, json!({ "a": name("Ada") }));
    // It takes its time again.
    std::thread::sleep(Duration::from_millis(LONG_MS / 2));
    assert_eq!(get(&mut client, &task)["status"], "working");
    end(client, true);
    let mut client = place.asking(&[]);
    let failed = until(&mut client, &task, "failed");
    assert_eq!(
        failed["error"]["data"]["toolcell/error"]["class"], "canceled",
        "{failed:#}"
    );
    update(&mut client, &task, json!({ "a": name("Ada") }));
    assert_eq!(get(&mut client, &task), failed);
    client.close();
    assert_eq!(place.ended(&task)["invocation"]["status"], "canceled");
}

/// The states that a killed process can leave, one for each step.
#[test]
fn whenever_its_process_is_killed_a_suspended_call_ends_once() {
    for (state, status, code) in [
        ("running", "failed", "interrupted"),
        ("canceled", "cancelled", "canceled"),
    ] {
        let place = Place::new();
        let mut client = place.asking(&[]);
        let task = asks(&mut client);
        end(client, true);
        let store = Connection::open(place.store()).unwrap();
        assert_eq!(
            store
                .execute("UPDATE suspended SET state = ?1", [state])
                .unwrap(),
            1
        );
        drop(store);
        let mut client = place.asking(&[]);
        update(&mut client, &task, json!({ "a": name("Ada") }));
        until(&mut client, &task, status);
        client.close();
        let record = place.ended(&task);
        assert_eq!(record["result"]["error"]["error_code"], code, "{record:#}");
    }
}

/// The folder `journal` may be moved away, and a machine may lose power.
#[test]
fn a_suspended_call_whose_state_is_gone_is_lost() {
    let place = Place::new();
    let mut client = place.asking(&[]);
    let task = asks(&mut client);
    end(client, true);
    let store = Connection::open(place.store()).unwrap();
    assert_eq!(store.execute("DELETE FROM suspended", []).unwrap(), 1);
    drop(store);
    let mut client = place.asking(&[]);
    let failed = until(&mut client, &task, "failed");
    assert_eq!(
        failed["error"]["data"]["toolcell/error"]["code"], "call_lost",
        "{failed:#}"
    );
}

/// The row of a call that the log has ended leads to no second end.
#[test]
fn a_suspended_call_that_the_log_has_ended_stays_so() {
    let place = Place::new();
    let mut client = place.asking(&[]);
    let task = asks(&mut client);
    end(client, true);
    let copy = place.home.join("copy");
    std::fs::create_dir(&copy).unwrap();
    let files = ["journal.db", "journal.db-wal"]
        .map(|file| (place.home.join("journal").join(file), copy.join(file)));
    for (from, to) in &files {
        std::fs::copy(from, to).unwrap();
    }
    let mut client = place.asking(&[]);
    cancel(&mut client, &task);
    until(&mut client, &task, "cancelled");
    end(client, true);
    // As if its process had been killed before it removed the row.
    let _ = std::fs::remove_file(place.home.join("journal/journal.db-shm"));
    for (from, to) in &files {
        std::fs::copy(to, from).unwrap();
    }
    assert_eq!(place.rows("suspended"), 1);
    let mut client = place.asking(&[]);
    update(&mut client, &task, json!({ "a": name("Ada") }));
    until(&mut client, &task, "cancelled");
    client.close();
    place.ended(&task);
}

#[test]
fn of_two_processes_one_goes_on_with_a_suspended_call() {
    let place = Place::new();
    let mut first = place.asking(&[]);
    let task = asks(&mut first);
    // As long as its process lives, it is that of the call.
    let mut other = place.asking(&[]);
    assert_eq!(get(&mut other, &task)["status"], "working");
    update(&mut other, &task, json!({ "a": name("Eve") }));
    assert_eq!(get(&mut first, &task)["status"], "input_required");
    let refused = other.request("tasks/cancel", json!({ "taskId": task["taskId"] }));
    let reason = &refused["error"]["data"]["toolcell/cancel_failed"]["reason"];
    assert_eq!(reason, "runs_elsewhere", "{refused:#}");
    end(first, true);
    let mut third = place.asking(&[]);
    until(&mut other, &task, "input_required");
    until(&mut third, &task, "input_required");
    let params =
        |who: &str| json!({ "taskId": task["taskId"], "inputResponses": { "a": name(who) } });
    let one = other.begin("tasks/update", params("Ada"));
    let two = third.begin("tasks/update", params("Bob"));
    other.answer(&one);
    third.answer(&two);
    let done = until(&mut other, &task, "completed");
    assert_eq!(
        until(&mut third, &task, "completed")["result"]["structuredContent"],
        done["result"]["structuredContent"]
    );
    other.close();
    third.close();
    let record = place.ended(&task);
    assert_eq!(
        record["result"]["content"]
            .to_string()
            .matches("entered")
            .count(),
        2,
        "{record:#}"
    );
}

#[test]
fn a_call_that_was_approved_and_then_asks_needs_no_second_approval() {
    let place = Place::new();
    place.configure("[[rule]]\nbehavior = \"ask\"\ntool = \"probe.ask\"\n");
    let mut client = place.asking(&[]);
    let task = begin(&mut client, "ask", rounds(json!([[question("a")]])));
    update(
        &mut client,
        &task,
        json!({ "approval": accept(json!({ "decision": "run once", "accept_partial_view": true })) }),
    );
    let asked = until(&mut client, &task, "input_required");
    assert_eq!(keys(&asked), ["a~2"]);
    end(client, true);
    // Its approval is used, and the call not over.
    let listed = place.run(&["approvals", "list", "--json"]).exits(0).stdout;
    assert!(listed.contains("running"), "{listed}");
    let mut client = place.asking(&[]);
    assert_eq!(
        get(&mut client, &task)["inputRequests"],
        asked["inputRequests"]
    );
    update(&mut client, &task, json!({ "a~2": name("Ada") }));
    let done = until(&mut client, &task, "completed");
    assert_eq!(
        done["result"]["structuredContent"]["responses"],
        json!({ "a": name("Ada") }),
        "{done:#}"
    );
    client.close();
    let record = place.ended(&task);
    let steps = record["invocation"]["status_transitions"]
        .as_array()
        .unwrap();
    assert_eq!(
        steps.iter().filter(|step| step["to"] == "approved").count(),
        1,
        "{record:#}"
    );
    let store = Connection::open(place.store()).unwrap();
    let state: String = store
        .query_row("SELECT state FROM approvals", [], |row| row.get(0))
        .unwrap();
    assert_eq!(state, "finished");
}

/// Those stay in their process, and end with it.
#[test]
fn a_call_whose_output_may_be_on_no_disk_is_not_stored() {
    for config in [
        "[results]\npersistence = \"never_persist\"\n",
        "[log]\nkeep = \"failures\"\n",
    ] {
        let place = Place::new();
        place.configure(config);
        let mut client = place.asking(&[]);
        let task = asks(&mut client);
        assert!(!place.store().exists() || place.rows("suspended") == 0);
        end(client, true);
        let mut client = place.asking(&[]);
        let failed = until(&mut client, &task, "failed");
        update(&mut client, &task, json!({ "a": name("Ada") }));
        assert_eq!(get(&mut client, &task), failed, "{failed:#}");
    }
}

/// A caller that cannot come back costs no disk.
#[test]
fn a_question_that_is_asked_before_there_is_a_task_is_not_stored() {
    let place = Place::new();
    let mut client = place.asking(&[]);
    let arguments = json!({ "rounds": [[question("a")]] });
    let asked = call(&mut client, "ask", arguments.clone());
    assert_eq!(asked["resultType"], "input_required", "{asked:#}");
    let again = json!({ "name": "ask", "arguments": arguments, "requestState": asked["requestState"],
        "inputResponses": { "a": name("Ada") } });
    let done = client.request("tools/call", again)["result"].clone();
    assert_eq!(
        done["structuredContent"]["responses"],
        json!({ "a": name("Ada") }),
        "{done:#}"
    );
    client.close();
    assert!(!place.store().exists());
}

#[test]
fn an_answer_that_does_not_fit_is_asked_for_again_in_a_later_process_and_not_for_ever() {
    let place = Place::new();
    let mut client = place.asking(&[]);
    let task = asks(&mut client);
    update(&mut client, &task, json!({ "a": accept(json!({})) }));
    let asked = until(&mut client, &task, "input_required");
    let message = |asked: &Value, key: &str| {
        asked["inputRequests"][key]["params"]["message"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(
        message(&asked, "a~2").contains("Your last answer is not valid:"),
        "{asked:#}"
    );
    end(client, true);
    let mut client = place.asking(&[]);
    let mut asked = get(&mut client, &task);
    assert!(
        message(&asked, "a~2").contains("Your last answer is not valid:"),
        "{asked:#}"
    );
    for key in ["a~2", "a~3", "a~4"] {
        assert_eq!(keys(&asked), [key]);
        update(&mut client, &task, json!({ key: accept(json!({})) }));
        let began = Instant::now();
        while get(&mut client, &task)["status"] == "working" {
            assert!(began.elapsed() < PATIENCE);
        }
        asked = get(&mut client, &task);
    }
    assert_eq!(error(&asked)["code"], "answer_invalid", "{asked:#}");
    client.close();
    place.ended(&task);
}
