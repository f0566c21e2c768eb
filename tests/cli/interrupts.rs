//! An interrupt cancels a call; the call still ends with a result, and the program exits soon after.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{example, guest};
use crate::support::{Ran, Toolcell, scratch};

/// Far more than the grace period of a call, far less than the tools would take.
const BOUND: Duration = Duration::from_secs(10);

#[track_caller]
pub(super) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "{what} took too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A field of `/proc/PID/status`.
fn status(child: &Child, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .unwrap();
    line.trim_start_matches(':').trim().to_owned()
}

/// Whether the program handles both signals yet; until then, a signal would kill it.
pub(super) fn listens(child: &Child) -> bool {
    let caught = u64::from_str_radix(&status(child, "SigCgt"), 16).unwrap();
    [Signal::INT, Signal::TERM]
        .iter()
        .all(|signal| caught & (1 << (signal.as_raw() - 1)) != 0)
}

/// CPU time of the process so far, in clock ticks.
pub(super) fn ticks(child: &Child) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = text.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

pub(super) fn interrupt(child: Child, signal: Signal) -> Ran {
    let begun = Instant::now();
    kill_process(Pid::from_child(&child), signal).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert!(begun.elapsed() < BOUND, "it took {:?}", begun.elapsed());
    ran
}

#[track_caller]
fn canceled(ran: Ran, message: &str) -> Value {
    let record = ran.exits(5).json();
    assert_eq!(record["invocation"]["status"], "canceled");
    assert_eq!(record["result"]["status"], "canceled");
    assert_eq!(record["result"]["error"]["message"], message);
    record
}

fn reason(record: &Value) -> &Value {
    let events = record["events"].as_array().unwrap();
    let requested = events
        .iter()
        .find(|event| event["event_type"] == "tool.invocation.cancel_requested");
    &requested.unwrap()["data"]["abort_reason"]
}

#[test]
fn ctrl_c_cancels_a_tool_that_writes_and_sleeps_and_it_writes_no_more() {
    let (_guard, folder) = scratch();
    let file = folder.join("lines");
    let input = json!({ "path": file }).to_string();
    let grant = format!("--allow-write={}", folder.display());
    let child = Toolcell::new([
        "call",
        &guest("hostile#busy_write"),
        &input,
        &grant,
        "--print-record",
    ])
    .spawn();
    let length = |file: &Path| std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    wait_until("writing", || length(&file) > 20);
    let record = canceled(interrupt(child, Signal::INT), "the call was canceled");
    assert_eq!(reason(&record), "user_interruption");
    assert!(
        record["result"]["usage"]["wall_ms"]["used"]
            .as_u64()
            .unwrap()
            > 0,
        "it ran"
    );
}

#[test]
fn ctrl_c_cancels_a_tool_that_spins() {
    let child = Toolcell::new(["call", &guest("hostile#spin"), "--print-record"]).spawn();
    wait_until("starting", || listens(&child));
    let begun = ticks(&child);
    // The compiled component comes from the cache, so this much CPU time is the guest's.
    wait_until("spinning", || ticks(&child) > begun + 50);
    let record = canceled(interrupt(child, Signal::INT), "the call was canceled");
    assert!(record["result"]["usage"]["fuel"]["used"].as_u64().is_some());
}

#[test]
fn termination_cancels_a_call_for_another_reason() {
    let (_guard, folder) = scratch();
    let file = folder.join("lines");
    let input = json!({ "path": file }).to_string();
    let grant = format!("--allow-write={}", folder.display());
    let child = Toolcell::new([
        "call",
        &guest("hostile#busy_write"),
        &input,
        &grant,
        "--print-record",
    ])
    .spawn();
    wait_until("writing", || file.exists());
    let record = canceled(interrupt(child, Signal::TERM), "toolcell is shutting down");
    assert_eq!(reason(&record), "runtime_shutdown");
}

#[test]
fn a_tool_that_listens_stops_in_good_order_and_its_answer_is_printed() {
    let input = "{\"ticks\": 10000, \"interval_ms\": 50}";
    let child = Toolcell::new(["call", &example("ticker"), input, "--print-record"]).spawn();
    wait_until("starting", || listens(&child));
    // No CPU time for a while means that the tool sleeps between two ticks.
    let mut seen = (u64::MAX, Instant::now());
    wait_until("ticking", || {
        let now = ticks(&child);
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        seen.1.elapsed() > Duration::from_millis(300)
    });
    let record = canceled(interrupt(child, Signal::INT), "the call was canceled");
    assert!(
        record["result"]["structured_content"]["ticks"]
            .as_u64()
            .unwrap()
            > 0,
        "{}",
        record["result"]
    );
    let said = record["result"]["content"].to_string();
    assert!(said.contains("of 10000 ticks"), "{said}");
}

#[test]
fn a_person_sees_one_line_for_an_interrupt() {
    let child = Toolcell::new(["call", &guest("hostile#sleep")]).spawn();
    wait_until("starting", || listens(&child));
    let ran = interrupt(child, Signal::INT).exits(5);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("", "error: the call was canceled [canceled/canceled]\n")
    );
}
