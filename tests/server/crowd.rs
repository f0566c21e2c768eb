//! A thousand calls of one client at once, and many one after the other.
//!
//! Promise: A door has limits.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Client, Web};

/// Calls that run at once; while these run, all others wait.
const RUN_AT_ONCE: usize = 64;
const CALLS: usize = 1_000;
/// Memory that may stay after the waves, in KiB: allocators round up, and each thread has its own.
const KEPT_KIB: u64 = 16 << 10;

/// Calls that run until they are canceled, each of which has shown that it runs.
fn occupy(client: &mut Client) -> Vec<Value> {
    let begin = |client: &mut Client| {
        let arguments = json!({ "count": 1_000_000, "interval_ms": 500 });
        let token = client.next_id();
        client.begin(
            "tools/call",
            json!({ "name": "progress", "arguments": arguments, "_meta": { "progressToken": token } }),
        )
    };
    let ids: Vec<Value> = (0..RUN_AT_ONCE).map(|_| begin(client)).collect();
    for id in &ids {
        client.until(|frame| frame["params"]["progressToken"] == *id);
    }
    ids
}

/// A thousand calls are all sent before the first is answered; then each is answered once.
fn wave(client: &mut Client) {
    let occupied = occupy(client);
    let ids: Vec<Value> = (0..CALLS)
        .map(|n| client.begin_call("echo", json!({ "n": n })))
        .collect();
    // The ping is read after all of them.
    client.request("ping", json!({}));
    let early = client
        .seen()
        .into_iter()
        .filter(|frame| ids.contains(&frame["id"]))
        .count();
    assert_eq!(early, 0, "some were answered while all places were taken");
    for id in occupied {
        client.notify("notifications/cancelled", json!({ "requestId": id }));
    }
    for (n, id) in ids.iter().enumerate() {
        let answer = client.answer(id);
        assert_eq!(
            answer["result"]["structuredContent"]["input"],
            json!({ "n": n }),
            "{answer}"
        );
    }
    // By now a duplicate answer would have arrived.
    client.request("ping", json!({}));
    let mut answers: HashMap<String, usize> = HashMap::new();
    for frame in client
        .forget()
        .iter()
        .filter(|frame| frame.get("method").is_none())
    {
        *answers.entry(frame["id"].to_string()).or_default() += 1;
    }
    assert!(
        ids.iter()
            .all(|id| answers.get(&id.to_string()) == Some(&1)),
        "{answers:?}"
    );
}

fn resident_kib(client: &Client) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", client.pid())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_thousand_calls_in_flight_are_answered_once_each_and_leave_no_memory_behind() {
    let mut client = Client::with(
        &["probe#echo", "probe#progress"],
        ["--timeout=10m", "--memory=16MiB"],
    );
    let mut after = || {
        wave(&mut client);
        resident_kib(&client)
    };
    // The first waves fill caches for later calls.
    let waves: Vec<u64> = (0..9).map(|_| after()).collect();
    let warm = waves[1..4].iter().max().unwrap();
    let at_last = waves[6..].iter().min().unwrap();
    assert!(
        *at_last <= warm + KEPT_KIB,
        "resident KiB, wave by wave: {waves:?}"
    );
}

/// Descriptors, or threads, of the server.
fn count(client: &Client, what: &str) -> usize {
    std::fs::read_dir(format!("/proc/{}/{what}", client.pid()))
        .unwrap()
        .count()
}

#[test]
fn the_memory_of_large_outputs_goes_back_to_the_system() {
    let mut client = Client::with(
        &[
            "probe#echo",
            "hostile#flood_structured",
            "hostile#flood_partial",
        ],
        ["--timeout=5m"],
    );
    // Fills caches for later calls.
    client.call("flood_structured", json!({ "mib": 1 }));
    let before = resident_kib(&client);
    for _ in 0..4 {
        client.call("flood_structured", json!({ "mib": 20 }));
        client.call("flood_partial", json!({ "count": 300, "bytes": 200_000 }));
    }
    client.forget();
    let waited = Instant::now();
    while resident_kib(&client) > before + KEPT_KIB {
        let now = resident_kib(&client);
        let within = Duration::from_secs(2);
        assert!(
            waited.elapsed() < within,
            "{before} KiB before, and {now} KiB {within:?} later"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// `TOOLCELL_CALLS=100000` makes as many calls.
#[test]
fn a_long_run_of_calls_leaves_nothing_behind() {
    let calls = std::env::var("TOOLCELL_CALLS").map_or(2_000, |calls| calls.parse().unwrap());
    let mut client = Client::of(&["probe#echo"]);
    let mut after = |calls: usize| {
        for n in 0..calls {
            assert_eq!(
                client.call("echo", json!({ "n": n }))["structuredContent"]["input"],
                json!({ "n": n })
            );
            client.forget();
        }
        // The journal's lines are folded beside the calls, and a fold has files open for a moment.
        let samples = (0..40).map(|_| {
            std::thread::sleep(Duration::from_millis(25));
            count(&client, "fd")
        });
        (
            resident_kib(&client),
            samples.min().unwrap(),
            count(&client, "task"),
        )
    };
    // The first calls fill caches for later ones.
    let before = after(500);
    let later = after(calls);
    let what = format!(
        "(resident KiB, descriptors, threads): {before:?}, and {calls} calls later {later:?}"
    );
    assert!(
        later.0 <= before.0 + KEPT_KIB && later.1 <= before.1 && later.2 <= before.2 + 1,
        "{what}"
    );
    println!("{what}");
}

#[test]
fn who_comes_while_all_connections_are_taken_is_answered_later() {
    let web = Web::of(&["probe#echo"]);
    let text = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", web.address);
    let ask = |mut stream: TcpStream| {
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let answered = |stream: &mut TcpStream| {
        let mut seen = Vec::new();
        let mut byte = [0];
        while !seen.ends_with(b"\r\n\r\nok") {
            stream.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
        }
    };
    let mut there: Vec<TcpStream> = (0..256).map(|_| ask(web.connect())).collect();
    // Answered, and the connections stay open.
    there.iter_mut().for_each(answered);
    let mut late: Vec<TcpStream> = (0..44).map(|_| ask(web.connect())).collect();
    drop(there);
    late.iter_mut().for_each(answered);
}
