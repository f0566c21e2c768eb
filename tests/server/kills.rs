//! Clients that are killed during a call: only the kernel tells the server.
//!
//! Promise: A client that disconnects stops its calls.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Toolcell, Web, check_record, fixture, frame, records, scratch};

/// Longer than any step takes on a busy machine; the tools would run longer.
const PATIENCE: Duration = Duration::from_secs(30);
const TOOLS: [&str; 4] = [
    "hostile#spin",
    "hostile#sleep",
    "hostile#busy_write",
    "cancellable#acknowledge_and_stay",
];

/// The folder in which one tool shows that it runs, and the records.
struct Place {
    _guard: tempfile::TempDir,
    folder: PathBuf,
}

impl Place {
    fn new() -> Self {
        let (guard, folder) = scratch();
        Self {
            _guard: guard,
            folder,
        }
    }

    fn options(&self) -> [String; 3] {
        let record = self.folder.join("records");
        [
            format!("--allow-write={}", self.folder.display()),
            format!("--record-to={}", record.display()),
            "--timeout=10m".to_owned(),
        ]
    }

    fn records(&self) -> Vec<Value> {
        records(&self.folder.join("records"))
    }

    /// The number of bytes that `busy_write` wrote so far.
    fn beats(&self) -> usize {
        std::fs::read(self.folder.join("beats")).map_or(0, |bytes| bytes.len())
    }

    fn arguments(&self, tool: &str) -> Value {
        match tool {
            "busy_write" => json!({ "path": self.folder.join("beats") }),
            _ => json!({}),
        }
    }

    /// Waits until `busy_write` writes again.
    fn beats_on(&self) {
        let before = self.beats();
        wait("a beat", || self.beats() > before);
    }

    /// Checks that every call has its record, all are canceled, and no tool wrote after its record.
    fn is_over(&self, calls: usize) {
        wait("the records", || self.records().len() == calls);
        let beats = self.beats();
        for record in self.records() {
            assert_eq!(record["invocation"]["status"], "canceled", "{record:#}");
            check_record(&record);
        }
        assert_eq!(self.beats(), beats, "a tool wrote after its record");
    }
}

#[track_caller]
fn wait(what: &str, mut there: impl FnMut() -> bool) {
    let began = Instant::now();
    while !there() {
        assert!(began.elapsed() < PATIENCE, "{what}: did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    TOOLS
        .into_iter()
        .filter_map(|tool| tool.split_once('#'))
        .map(|(_, name)| name)
}

/// Another process that holds the client's ends of the pipes, and does nothing.
fn holder(reads: impl Into<Stdio>, writes: impl Into<Stdio>) -> Child {
    Command::new("sleep")
        .arg("600")
        .stdin(reads)
        .stdout(writes)
        .spawn()
        .unwrap()
}

/// Kills a process with SIGKILL, so that it cannot notify the server.
fn kill(mut holder: Child) {
    holder.kill().unwrap();
    holder.wait().unwrap();
}

fn end_of(mut server: Child) -> ExitStatus {
    let mut status = None;
    wait("the end of the server", || {
        status = server.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// A server on its standard streams that runs all tools, and has confirmed it.
fn running(place: &Place) -> Child {
    let tools = TOOLS
        .map(|tool| tool.split_once('#').unwrap())
        .map(|(guest, name)| (fixture(guest), name));
    let tools = tools.map(|(path, name)| format!("{}#{name}", path.display()));
    let mut server = Toolcell::new(
        ["mcp".to_owned()]
            .into_iter()
            .chain(tools)
            .chain(place.options()),
    )
    .spawn_piped();
    let stdin = server.stdin.as_mut().unwrap();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let greeting = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
    let mut frames = vec![frame(json!(0), "initialize", params), greeting];
    for (id, name) in names().enumerate() {
        let params = json!({ "name": name, "arguments": place.arguments(name) });
        frames.push(frame(json!(id + 1), "tools/call", params));
    }
    frames.push(frame(json!("last"), "ping", json!({})));
    stdin
        .write_all((frames.join("\n") + "\n").as_bytes())
        .unwrap();
    // The server handles frames in order, so it has taken up the calls before this one.
    let mut lines = BufReader::new(server.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("\"last\"")));
    place.beats_on();
    server
}

#[test]
fn a_killed_client_on_standard_streams_takes_server_and_tools_with_it() {
    let place = Place::new();
    let mut server = running(&place);
    let holder = holder(server.stdout.take().unwrap(), server.stdin.take().unwrap());
    // The client is now another process; nothing else has changed.
    place.beats_on();
    assert!(server.try_wait().unwrap().is_none() && place.records().is_empty());
    kill(holder);
    assert!(end_of(server).success());
    place.is_over(TOOLS.len());
}

#[test]
fn a_killed_client_that_others_started_with_leaves_its_requests_canceled() {
    // Another process keeps the client's end of standard output open, so only standard input shows its end.
    let place = Place::new();
    let mut server = running(&place);
    let _keeps_reading = server.stdout.take();
    let nothing = std::fs::File::open("/dev/null").unwrap();
    kill(holder(nothing, server.stdin.take().unwrap()));
    assert!(end_of(server).success());
    place.is_over(TOOLS.len());
}

/// A call from a separate process, before it gets any answer.
fn over_http(web: &Web, place: &Place, session: Option<&str>, tool: &str) -> Child {
    let params = json!({ "name": tool, "arguments": place.arguments(tool) });
    let stream = match session {
        Some(session) => {
            let headers = web.changed(&web.in_session(session));
            web.begin(
                "POST /mcp",
                &headers,
                &frame(json!(tool), "tools/call", params),
            )
        }
        None => web.begin_stateless("tools/call", params, json!({})),
    };
    let other_end = OwnedFd::from(stream.try_clone().unwrap());
    holder(OwnedFd::from(stream), other_end)
}

fn http_client_is_killed(session: impl FnOnce(&Web) -> Option<String>) {
    let place = Place::new();
    let mut tools = TOOLS.to_vec();
    tools.push("probe#counter");
    let web = Web::with(&tools, place.options());
    let session = session(&web);
    let clients: Vec<Child> = names()
        .map(|tool| over_http(&web, &place, session.as_deref(), tool))
        .collect();
    place.beats_on();
    // Another client of the same server, before and after the kill.
    let works = |web: &Web| {
        let reply = web.stateless(
            "tools/call",
            json!({ "name": "counter", "arguments": {} }),
            json!({}),
        );
        assert_eq!(
            reply.answer()["result"]["structuredContent"]["count"],
            json!(1),
            "{reply:?}"
        );
    };
    works(&web);
    wait("the record of the neighbour", || place.records().len() == 1);
    clients.into_iter().for_each(kill);
    wait("the records", || place.records().len() == TOOLS.len() + 1);
    let beats = place.beats();
    works(&web);
    assert_eq!(place.beats(), beats, "a tool wrote after its record");
    let ends = place.records();
    let canceled = ends
        .iter()
        .filter(|record| record["invocation"]["status"] == "canceled");
    assert_eq!(canceled.count(), TOOLS.len());
    ends.iter().for_each(check_record);
}

#[test]
fn a_killed_client_over_http_takes_its_tools_with_it_and_no_other() {
    http_client_is_killed(|_| None);
}

#[test]
fn a_killed_client_of_a_session_takes_its_tools_with_it_and_no_other() {
    http_client_is_killed(|web| Some(web.session(json!({}))));
}
