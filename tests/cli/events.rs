//! `toolcell events`: the events of all processes, while calls run and after their end.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{example, guest};
use crate::pipeline::doubles::crowd;
use crate::support::{Client, Home, OLD, Ran, check_printed, scratch};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

impl Home {
    /// The lines of `events --json`.
    fn events(&self, options: &[&str]) -> Vec<Value> {
        let ran = self
            .toolcell(&[&["events", "--json"], options].concat())
            .run()
            .exits(0);
        ran.stdout.lines().map(read).collect()
    }
}

fn read(line: &str) -> Value {
    let value: Value =
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    check_printed(&value);
    value
}

fn sequences(lines: &[Value]) -> Vec<u64> {
    lines
        .iter()
        .map(|line| {
            line["sequence"]
                .as_u64()
                .unwrap_or_else(|| panic!("{line}"))
        })
        .collect()
}

fn types(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["event"]["event_type"].as_str().unwrap())
        .collect()
}

/// A running `events --follow --json`.
struct Follower {
    child: Child,
    lines: Receiver<Value>,
    seen: Vec<Value>,
}

impl Follower {
    /// Starts one that follows what happens from now on, however soon it happens.
    fn start(home: &Home) -> Self {
        let from = format!("--from={}", home.events(&[]).len() + 1);
        let mut child = home
            .toolcell(&["events", "--follow", "--json", &from])
            .spawn();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if send.send(read(&line)).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Waits for the next event of this type, of any call.
    #[track_caller]
    fn wait_for(&mut self, event_type: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no {event_type} after {:#?}", self.seen)
            };
            self.seen.push(line.clone());
            if line["event"]["event_type"] == event_type {
                return line;
            }
        }
    }

    /// Presses Ctrl-C.
    fn stop(self) -> (Ran, Vec<Value>) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let ran = Ran::from(self.child.wait_with_output().unwrap());
        (
            ran,
            self.seen.into_iter().chain(self.lines.iter()).collect(),
        )
    }
}

#[test]
fn the_events_of_ended_calls_are_numbered_and_can_be_chosen() {
    let home = Home::new();
    assert!(home.events(&[]).is_empty());
    let first = home.call(
        &guest("probe#echo"),
        &json!({ "text": "one" }),
        &["--session=review"],
    );
    let second = home.call(&guest("probe#nowhere"), &json!({}), &[]);
    let all = home.events(&[]);
    assert_eq!(sequences(&all), (1..=all.len() as u64).collect::<Vec<_>>());
    let of = |record: &Value| record["events"].as_array().unwrap().clone();
    let printed: Vec<Value> = all.iter().map(|line| line["event"].clone()).collect();
    assert_eq!(printed, [of(&first), of(&second)].concat());
    let about = |line: &Value| line["event"]["subject"].as_str().unwrap().to_owned();
    let call = about(&all[0]);
    assert_eq!(
        home.toolcell(&["show", &call, "--json"])
            .run()
            .exits(0)
            .json()["invocation"],
        first["invocation"]
    );
    assert!(
        all[..of(&first).len()]
            .iter()
            .all(|line| about(line) == call),
        "{all:?}"
    );
    // Numbers stay what they are.
    let from = all.len() - 2;
    assert_eq!(home.events(&[&format!("--from={from}")]), all[from - 1..]);
    let id = first["invocation"]["invocation_id"].as_str().unwrap();
    let count = of(&first).len();
    assert_eq!(
        home.events(&["--id", &id[18..].to_lowercase()]),
        all[..count]
    );
    assert_eq!(home.events(&["--session=review"]), all[..count]);
    assert!(
        all[count]["session"].as_str().unwrap().starts_with("run:"),
        "{}",
        all[count]
    );
    assert!(
        home.events(&["--tool=probe.*"])
            .iter()
            .all(|line| line["event"]["tool_id"] == "probe.echo")
    );
    assert_eq!(
        types(&home.events(&["--type=tool.invocation.started"])),
        ["tool.invocation.started"]
    );
    assert!(home.events(&["--type=tool.result.*"]).len() >= 2);
    let people = home.toolcell(&["events"]).run().exits(0).stdout;
    assert_eq!(people.lines().count(), all.len());
    let line = people
        .lines()
        .find(|line| line.contains("tool.invocation.failed"))
        .unwrap();
    assert!(
        line.contains("error_code=unknown_tool") && line.trim_start().starts_with(char::is_numeric),
        "{line}"
    );
}

#[test]
fn what_is_asked_wrongly_is_exit_2() {
    let home = Home::new();
    home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    let next = home.events(&[]).len() as u64 + 1;
    assert!(home.events(&[&format!("--from={next}")]).is_empty());
    let ran = home
        .toolcell(&["events", &format!("--from={}", next + 1)])
        .run()
        .exits(2);
    assert!(
        ran.stderr.contains(&format!("the next one gets {next}")),
        "{}",
        ran.stderr
    );
    let ran = home
        .toolcell(&["events", "--type=tool.invocation.begun"])
        .run()
        .exits(2);
    assert!(ran.stderr.contains("event_type"), "{}", ran.stderr);
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let home = Home::new();
    home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    for options in [
        &["events"][..],
        &["events", "--follow", "--from=1"],
        &["events", "--follow"],
    ] {
        let mut child = home.toolcell(options).spawn();
        drop(child.stdout.take());
        let ran = Ran::from(child.wait_with_output().unwrap()).exits(0);
        assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    }
}

/// The whole way: a call in another process is seen while it runs, and so is its end when it is killed.
#[test]
fn a_follower_sees_a_call_of_another_process_run_and_die() {
    let home = Home::new();
    home.call(&guest("probe#echo"), &json!({ "text": "before" }), &[]);
    let before = home.events(&[]).len() as u64;
    let mut follower = Follower::start(&home);
    let ticker = example("ticker");
    let input = json!({ "ticks": 10_000, "interval_ms": 30 }).to_string();
    let mut call = home
        .toolcell(&["call", &ticker, &input, "--timeout=5m"])
        .spawn();
    let first = follower.wait_for("tool.invocation.progress");
    follower.wait_for("tool.invocation.progress");
    assert!(call.try_wait().unwrap().is_none(), "it still runs");
    // The events before it came first, and are those of this call.
    let planned = follower
        .seen
        .iter()
        .position(|line| line["event"]["event_type"] == "tool.invocation.planned");
    assert_eq!(planned, Some(0), "{:#?}", follower.seen);
    call.kill().unwrap();
    call.wait().unwrap();
    let end = follower.wait_for("tool.invocation.canceled");
    assert_eq!(end["event"]["data"]["error_code"], "runtime_shutdown");
    assert_eq!(
        end["event"]["invocation_id"],
        first["event"]["invocation_id"]
    );
    let (ran, seen) = follower.stop();
    ran.exits(0);
    // Without gaps and without repetition, from where it began, and again from any number.
    assert_eq!(
        sequences(&seen),
        (before + 1..=before + seen.len() as u64).collect::<Vec<_>>()
    );
    let again = home.events(&[&format!("--from={}", before + 3)]);
    assert_eq!(again, seen[2..]);
    // What was noted survives in the record.
    let id = first["event"]["invocation_id"].as_str().unwrap();
    let record = home.toolcell(&["show", id, "--json"]).run().exits(0).json();
    assert_eq!(record["events"].as_array().unwrap().len(), seen.len());
    assert!(record["progress"].as_array().unwrap().len() >= 2);
    home.toolcell(&["log", "verify"]).run().exits(0);
}

#[test]
fn a_silent_call_is_seen_to_start_and_one_that_waits_is_seen_to_ask() {
    let home = Home::new();
    let mut follower = Follower::start(&home);
    let mut silent = home
        .toolcell(&["call", &guest("hostile#sleep"), "{}", "--timeout=5m"])
        .spawn();
    let started = follower.wait_for("tool.invocation.started");
    assert!(silent.try_wait().unwrap().is_none(), "{started}");
    silent.kill().unwrap();
    silent.wait().unwrap();
    let (_guard, folder) = scratch();
    let input = json!({ "path": folder.join("lines"), "text": "x" }).to_string();
    let grant = format!("--allow-write={}", folder.display());
    let mut asking = home
        .toolcell(&["call", &guest("probe#append_approved"), &input, &grant])
        .spawn();
    let asked = follower.wait_for("tool.permission.requested");
    assert!(asking.try_wait().unwrap().is_none());
    let id = asked["event"]["data"]["approval_request_ref"]
        .as_str()
        .unwrap();
    home.toolcell(&["approvals", "approve", id]).run().exits(0);
    let end = follower.wait_for("tool.invocation.succeeded");
    assert_eq!(end["event"]["invocation_id"], id);
    assert!(asking.wait().unwrap().success());
    follower.stop().0.exits(0);
}

/// A call that reports nothing has a start and an end in the journal, and nothing else, although its events are followed.
#[test]
fn a_plain_call_is_two_lines() {
    let home = Home::new();
    home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    assert_eq!(lines(home.path()), 3);
    let mut follower = Follower::start(&home);
    home.call(&guest("probe#echo"), &json!({ "text": "two" }), &[]);
    follower.wait_for("tool.invocation.succeeded");
    follower.stop().0.exits(0);
    assert_eq!(lines(home.path()), 5);
    home.toolcell(&["log", "verify"]).run().exits(0);
}

/// The lines of the only segment, with the first one, which opens it.
fn lines(home: &Path) -> usize {
    let text = std::fs::read_to_string(home.join("journal/calls/0000000001.log")).unwrap();
    text.lines().count()
}

#[test]
fn calls_are_listed_by_their_session() {
    let home = Home::new();
    home.call(
        &guest("probe#echo"),
        &json!({ "text": "one" }),
        &["--session=review"],
    );
    home.call(&guest("probe#echo"), &json!({ "text": "two" }), &[]);
    let named = home.calls(&["--session=review"]);
    assert_eq!((named.len(), &named[0]["session"]), (1, &json!("review")));
    let run = home.calls(&[])[0]["session"].as_str().unwrap().to_owned();
    assert!(run.starts_with("run:"), "{run}");
    assert_eq!(home.calls(&["--session", &run]).len(), 1);
    assert!(home.calls(&["--session=other"]).is_empty());
    let id = named[0]["invocation_id"].as_str().unwrap();
    assert!(
        home.toolcell(&["show", id])
            .run()
            .exits(0)
            .stdout
            .contains("review")
    );
}

/// What a client finds and loads is in the journal, and its calls have one session.
#[test]
fn a_client_has_a_session_and_what_it_loads_is_an_event() {
    let home = Home::new();
    let (_guard, folder) = scratch();
    let file = folder.join("crowd.wasm");
    std::fs::write(&file, crowd("event_crowd", 3, |_| {})).unwrap();
    let mut client =
        Client::run(home.toolcell(&["mcp", "--max-listed=1", &file.display().to_string()]));
    client.initialize(OLD);
    client.call("search_tools", json!({ "query": "word2x" }));
    client.call("load_tool", json!({ "name": "t2" }));
    client.call("load_tool", json!({ "name": "t2" }));
    client.call("t2", json!({}));
    client.call("t0", json!({}));
    let events = home.events(&["--type=tool.deferred.*"]);
    assert_eq!(
        types(&events),
        ["tool.deferred.discovered", "tool.deferred.loaded"]
    );
    let created = home.events(&["--type=tool.surface.*"]);
    assert_eq!(types(&created), ["tool.surface.created"]);
    assert_eq!(
        created[0]["event"]["subject"],
        created[0]["event"]["data"]["surface_id"]
    );
    let declared = home.events(&["--type=tool.declared"]);
    let digests = declared
        .iter()
        .map(|line| line["event"]["data"]["declaration"].to_string());
    let digests: std::collections::BTreeSet<String> = digests.collect();
    assert_eq!(digests.len(), 3, "{declared:#?}");
    let about: Vec<&Value> = declared
        .iter()
        .map(|line| &line["event"]["subject"])
        .collect();
    assert_eq!(
        about,
        ["event_crowd.t0", "event_crowd.t1", "event_crowd.t2"]
    );
    assert!(
        sequences(&declared)
            .iter()
            .all(|number| *number < sequences(&created)[0]),
        "{declared:?}"
    );
    assert_eq!(
        events[0]["event"]["data"]["surface_id"],
        created[0]["event"]["data"]["surface_id"]
    );
    assert_eq!(events[0]["event"]["data"]["query"], "word2x");
    assert_eq!(
        events[1]["event"]["data"]["selection_ref"],
        "select:event_crowd_t2"
    );
    let session = events[1]["session"].as_str().unwrap();
    assert!(session.starts_with("mcp:"), "{session}");
    assert_eq!(home.calls(&["--session", session]).len(), 2);
}

/// What a component declares is in the log once this home compiled it, and not again with each call.
#[test]
fn a_component_that_is_new_is_declared_once() {
    let home = Home::new();
    let (_guard, folder) = scratch();
    let file = folder.join("news.wasm");
    // No cache has it: another home may have compiled a component of the same bytes.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let name = format!("event_news{}", now.unwrap().as_nanos());
    std::fs::write(&file, crowd(&name, 2, |_| {})).unwrap();
    let call = format!("{}#t0", file.display());
    for _ in 0..2 {
        home.toolcell(&["call", &call, "{}"]).run().exits(0);
        let declared = home.events(&["--type=tool.declared"]);
        let about: Vec<&Value> = declared
            .iter()
            .map(|line| &line["event"]["subject"])
            .collect();
        assert_eq!(
            about,
            [&json!(format!("{name}.t0")), &json!(format!("{name}.t1"))]
        );
    }
}

/// A call that waits is noted up to the progress that it waits. The process that goes on with it adds to that.
#[test]
fn a_follower_hears_every_event_of_a_call_that_another_process_goes_on_with() {
    let home = Home::new();
    let mut follower = Follower::start(&home);
    let (_guard, folder) = scratch();
    let input = json!({ "path": folder.join("lines"), "text": "x" }).to_string();
    let grant = format!("--allow-write={}", folder.display());
    let mut asking = home
        .toolcell(&["call", &guest("probe#append_approved"), &input, &grant])
        .spawn();
    let asked = follower.wait_for("tool.permission.requested");
    let waits = follower.wait_for("tool.invocation.progress");
    assert_eq!(
        waits["event"]["data"]["progress"]["status"],
        "waiting_for_permission"
    );
    asking.kill().unwrap();
    asking.wait().unwrap();
    let id = asked["event"]["data"]["approval_request_ref"]
        .as_str()
        .unwrap();
    home.toolcell(&["approvals", "approve", id]).run().exits(0);
    let end = follower.wait_for("tool.invocation.succeeded");
    assert_eq!(end["event"]["invocation_id"], id);
    let (ran, seen) = follower.stop();
    ran.exits(0);
    let record = home.toolcell(&["show", id, "--json"]).run().exits(0).json();
    let heard: Vec<Value> = seen
        .iter()
        .map(|line| line["event"].clone())
        .filter(|event| event["invocation_id"] == id)
        .collect();
    assert_eq!(heard, *record["events"].as_array().unwrap());
    assert_eq!(
        sequences(&seen),
        (1..=seen.len() as u64).collect::<Vec<_>>()
    );
    let times: Vec<u64> = record["progress"]
        .as_array()
        .unwrap()
        .iter()
        .map(|told| told["elapsed_ms"].as_u64().unwrap())
        .collect();
    assert!(times.len() >= 2 && times.is_sorted(), "{times:?}");
}
