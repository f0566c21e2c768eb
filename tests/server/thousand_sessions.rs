//! A thousand sessions at once, each with files of its own.
//!
//! Promise: A workspace is its owner's alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http_api::token_file;
use crate::support::{Coming, Reply, Toolcell, Web, frame, scratch};

const SESSIONS: usize = 1_000;
/// A principal has at most 64 sessions.
const PRINCIPALS: usize = 20;
/// Clients that send a call each at once.
const CLIENTS: usize = 64;
const STEPS_OF_SESSION: usize = 10;
/// The same in each session, so that a file that is seen where it does not belong is noticed.
const NAMES: [&str; 4] = ["a.txt", "b.txt", "c.txt", "d.txt"];
const TOOLS: [&str; 6] = [
    "probe#write",
    "probe#append",
    "probe#read",
    "probe#remove",
    "probe#rename",
    "probe#list",
];
/// Memory that may stay, in KiB: allocators round up, and each thread has its own.
const KEPT_KIB: u64 = 64 << 10;

/// One session, and what its files have to be.
struct Session {
    address: SocketAddr,
    token: String,
    id: String,
    number: usize,
    files: BTreeMap<&'static str, String>,
}

fn token(principal: usize) -> String {
    format!("{principal:0>20}")
}

pub(super) fn request(
    address: SocketAddr,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let mut text = format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{text}\r\n{body}").unwrap();
    Coming::head(stream).whole()
}

impl Session {
    fn begin(address: SocketAddr, number: usize) -> Self {
        let token = token(number % PRINCIPALS);
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
        let bearer = format!("Bearer {token}");
        let begun = request(
            address,
            "POST /mcp",
            &[("Authorization", &bearer)],
            &frame(json!(0), "initialize", params),
        );
        assert_eq!(begun.status, 200, "{begun:?}");
        let id = begun.header("mcp-session-id").unwrap();
        Self {
            address,
            token,
            id,
            number,
            files: BTreeMap::new(),
        }
    }

    fn send(&self, line: &str, body: &str) -> Reply {
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Mcp-Session-Id", &self.id),
            ("MCP-Protocol-Version", "2025-11-25"),
        ];
        request(self.address, line, &headers, body)
    }

    /// What the tool says; null if it failed.
    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let reply = self.send("POST /mcp", &frame(json!(1), "tools/call", params));
        let answer = reply.frames().pop().unwrap();
        let said = &answer["result"]["structuredContent"];
        assert!(said["ok"].is_boolean(), "{answer:#}");
        said["value"].clone()
    }

    /// One random step, here and in the oracle.
    fn step(&mut self, random: &mut fastrand::Rng) {
        let name = NAMES[random.usize(..NAMES.len())];
        let other = NAMES[random.usize(..NAMES.len())];
        let text = format!("{} {};", self.number, random.u32(..));
        match random.u8(..6) {
            0 | 1 => {
                self.call("write", &json!({ "path": name, "text": text }));
                self.files.insert(name, text);
            }
            2 => {
                self.call("append", &json!({ "path": name, "text": text }));
                self.files.entry(name).or_default().push_str(&text);
            }
            3 => {
                self.call("remove", &json!({ "path": name }));
                self.files.remove(name);
            }
            4 => {
                self.call("rename", &json!({ "from": name, "to": other }));
                if let Some(text) = self.files.remove(name) {
                    self.files.insert(other, text);
                }
            }
            _ => {
                let read = self.call("read", &json!({ "path": name }));
                let expected = self.files.get(name);
                assert_eq!(
                    read["text"].as_str(),
                    expected.map(String::as_str),
                    "{name}"
                );
            }
        }
    }

    /// All files, as the sandbox shows them.
    fn check(&self) {
        let listed = self.call("list", &json!({ "path": "/workspace" }));
        assert_eq!(listed, json!(self.files.keys().collect::<Vec<_>>()));
        for (name, text) in &self.files {
            let read = self.call("read", &json!({ "path": name }));
            assert_eq!(read["text"], text.as_str(), "{name}");
        }
    }
}

/// Runs one client for each of the lists of sessions.
fn together(sessions: &mut [Session], work: impl Fn(&mut [Session]) + Sync) {
    let share = sessions.len().div_ceil(CLIENTS);
    std::thread::scope(|scope| {
        for share in sessions.chunks_mut(share) {
            scope.spawn(|| work(share));
        }
    });
}

/// Descriptors, and resident KiB.
fn used(pid: u32) -> (usize, u64) {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.unwrap().trim().trim_end_matches(" kB");
    (descriptors, resident.parse().unwrap())
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// One session after the other, until all have begun; then their steps; then their ends.
fn round(address: SocketAddr, workspaces: &Path, seed: u64) {
    let mut sessions: Vec<Session> = (0..SESSIONS)
        .map(|number| Session::begin(address, number))
        .collect();
    together(&mut sessions, |mine| {
        let mut random = fastrand::Rng::with_seed(seed ^ mine[0].number as u64);
        for _ in 0..STEPS_OF_SESSION * mine.len() {
            let at = random.usize(..mine.len());
            mine[at].step(&mut random);
        }
        mine.iter().for_each(Session::check);
    });
    together(&mut sessions, |mine| {
        for session in mine {
            session.send("DELETE /mcp", "");
        }
    });
    wait_until("files of sessions that ended stay", || {
        std::fs::read_dir(workspaces).unwrap().count() == 0
    });
}

#[test]
#[ignore = "takes minutes: cargo test -- --ignored"]
fn of_a_thousand_sessions_none_sees_the_files_of_another() {
    let (_guard, path) = scratch();
    let home = path.join("home");
    std::fs::create_dir(&home).unwrap();
    let settings = "[workspace]\nper = \"session\"\n";
    std::fs::write(home.join("toolcell.toml"), settings).unwrap();
    let mut tokens = String::new();
    for principal in 0..PRINCIPALS {
        writeln!(tokens, "p{principal} {}", token(principal)).unwrap();
    }
    let tokens = token_file(&path, "tokens", &tokens);
    let words = Web::arguments(&TOOLS, [format!("--token-file={tokens}")]);
    let mut web = Web::run(Toolcell::at(&home, words));
    let (address, pid) = (web.address, web.pid());
    let workspaces = home.join("workspaces");
    // The first round fills caches for later calls.
    round(address, &workspaces, 1);
    let before = used(pid);
    round(address, &workspaces, 2);
    let mut after = used(pid);
    wait_until("descriptors or memory stay", || {
        after = used(pid);
        after.0 <= before.0 && after.1 <= before.1 + KEPT_KIB
    });
    println!(
        "descriptors and resident KiB: {before:?}, and after another {SESSIONS} sessions {after:?}"
    );
}
