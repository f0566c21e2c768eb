//! Random requests of many principals over every interface: what one of them made is never seen by another.
//!
//! Promise: Clients are isolated.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Mutex;

use serde_json::{Value, json};
use toolcell_spec::digest;

use super::http_api::token_file;
use super::thousand_sessions::request;
use crate::support::{Reply, Toolcell, Web, frame, scratch};

const PRINCIPALS: usize = 50;
const CLIENTS: usize = 10;
const NEW: &str = "2026-07-28";
/// Names that all of them use.
const KEYS: [&str; 3] = ["one", "two", "three"];
const FILES: [&str; 3] = ["a.txt", "b.txt", "c.txt"];
/// What all may call, and one more, by the number of the principal.
const TOOLS: [&str; 4] = ["empty", "stat", "list", "read"];

/// One principal, and what its requests have to find.
struct Caller {
    number: usize,
    address: SocketAddr,
    files: BTreeMap<&'static str, String>,
    /// By key: the arguments of its first call, and the call.
    keys: BTreeMap<&'static str, (Value, String)>,
    calls: Vec<(String, String)>,
    /// Keys over MCP.
    used: BTreeSet<&'static str>,
    asked: Option<String>,
}

/// The calls of all, with their principals.
type Calls = Mutex<Vec<(usize, String)>>;

fn token(number: usize) -> String {
    format!("token-of-the-principal-{number}")
}

/// In everything that a principal sends.
fn mark(number: usize, random: &mut fastrand::Rng) -> String {
    format!("mark-{number}-{}", random.u32(..))
}

/// Principals whose numbers begin with 1 are approved by number 0.
fn settings() -> String {
    let mut text = "[workspace]\nper = \"principal\"\n\
                    [[rule]]\nbehavior = \"ask\"\ntool = \"probe.counter\"\n"
        .to_owned();
    for number in 0..PRINCIPALS {
        let digest = digest(token(number).as_bytes());
        let tool = TOOLS[number % TOOLS.len()];
        write!(
            text,
            "[[principal]]\nname = \"p{number}\"\ntokens = [\"{digest}\"]\n\
             tools = [\"probe.echo\", \"probe.counter\", \"probe.{tool}\"]\n"
        )
        .unwrap();
        if number == 0 {
            text.push_str("approves = [\"p1*\"]\n");
        }
    }
    text
}

impl Caller {
    fn new(address: SocketAddr, number: usize) -> Self {
        Self {
            number,
            address,
            files: BTreeMap::new(),
            keys: BTreeMap::new(),
            calls: Vec::new(),
            used: BTreeSet::new(),
            asked: None,
        }
    }

    /// No answer has a word of another principal.
    fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let bearer = format!("Bearer {}", token(self.number));
        let headers = [&[("Authorization", bearer.as_str())], headers].concat();
        let reply = request(self.address, line, &headers, body);
        for rest in reply.body.split("mark-").skip(1) {
            let owner = rest.split('-').next().unwrap();
            assert_eq!(owner, self.number.to_string(), "{line}: {reply:?}");
        }
        for other in (0..PRINCIPALS).filter(|other| *other != self.number) {
            let is_approved = self.number == 0 && other.to_string().starts_with('1');
            let named = format!("\"token:p{other}\"");
            assert!(
                is_approved || !reply.body.contains(&named),
                "{line}: {reply:?}"
            );
        }
        reply
    }

    fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET {path}"), &[], "")
    }

    fn mcp(&self, method: &str, mut params: Value) -> Value {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(NEW);
        params["_meta"]["io.modelcontextprotocol/clientInfo"] =
            json!({ "name": "test", "version": "1" });
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let named = [&params["name"], &params["taskId"], &params["uri"]];
        let name = named
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or_default();
        let headers = [
            ("MCP-Protocol-Version", NEW),
            ("Mcp-Method", method),
            ("Mcp-Name", name),
        ];
        let body = frame(json!(1), method, params.clone());
        self.send("POST /mcp", &headers, &body).answer()
    }

    fn tools(&self) -> BTreeSet<String> {
        let own = TOOLS[self.number % TOOLS.len()];
        ["echo", "counter", own]
            .map(|name| format!("probe_{name}"))
            .into()
    }

    /// A call with a key that others use, too: the first of each principal runs, and later ones are the same call.
    fn call(&mut self, calls: &Calls, random: &mut fastrand::Rng) {
        let key = KEYS[random.usize(..KEYS.len())];
        let mark = mark(self.number, random);
        let known = self.keys.get(key).cloned();
        let (input, same) = match known {
            Some((input, id)) => (input, Some(id)),
            None => (json!({ "text": mark }), None),
        };
        let body = json!({ "tool": "echo", "input": input }).to_string();
        let reply = self.send("POST /v1/calls", &[("Idempotency-Key", key)], &body);
        let result: Value = serde_json::from_str(&reply.body).unwrap();
        let id = result["invocation_id"].as_str().unwrap().to_owned();
        assert!(
            reply.body.contains(input["text"].as_str().unwrap()),
            "{reply:?}"
        );
        match same {
            Some(same) => assert_eq!(id, same, "{reply:?}"),
            None => {
                calls.lock().unwrap().push((self.number, id.clone()));
                self.calls
                    .push((id.clone(), input["text"].as_str().unwrap().to_owned()));
                self.keys.insert(key, (input, id));
            }
        }
    }

    fn call_over_mcp(&mut self, random: &mut fastrand::Rng) {
        let text = mark(self.number, random);
        let key = KEYS[random.usize(..KEYS.len())];
        let meta = json!({ "toolcell/idempotency_key": key });
        let params = json!({ "name": "probe_echo", "arguments": { "text": text }, "_meta": meta });
        let answer = self.mcp("tools/call", params);
        if self.used.insert(key) {
            assert!(answer.to_string().contains(&text), "{answer:#}");
        } else {
            assert_eq!(
                answer["error"]["data"]["state"], "idempotency_key_reused",
                "{answer:#}"
            );
        }
    }

    /// A call of another one is as unknown as one that never was.
    fn look(&self, calls: &Calls, random: &mut fastrand::Rng) {
        let found = {
            let calls = calls.lock().unwrap();
            let at = random.usize(..calls.len().max(1));
            calls.get(at).cloned()
        };
        let Some((owner, id)) = found else { return };
        let never = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let lines = [
            "GET /v1/calls/ID",
            "GET /v1/calls/ID/events",
            "GET /v1/calls/ID/artifacts/a",
            "DELETE /v1/calls/ID",
            "GET /v1/approvals/ID",
            "POST /v1/approvals/ID",
        ];
        let line = lines[random.usize(..lines.len())];
        let task = json!({ "taskId": id });
        if owner == self.number {
            if line == lines[0] {
                let (_, text) = self.calls.iter().find(|(own, _)| *own == id).unwrap();
                assert!(self.get(&format!("/v1/calls/{id}")).body.contains(text));
            }
            return;
        }
        let ask = |id: &str| {
            let reply = self.send(&line.replace("ID", id), &[], r#"{"approved": true}"#);
            (reply.status, reply.body.replace(id, "ID"))
        };
        assert_eq!(ask(&id), ask(never), "{line}");
        let known = self.mcp("tasks/get", task).to_string().replace(&id, "ID");
        let unknown = self.mcp("tasks/get", json!({ "taskId": never }));
        assert_eq!(known, unknown.to_string().replace(never, "ID"));
    }

    fn files(&mut self, random: &mut fastrand::Rng) {
        let name = FILES[random.usize(..FILES.len())];
        let path = format!("/v1/workspaces/default/files/{name}");
        match random.u8(..4) {
            0 => {
                let text = mark(self.number, random);
                let line = format!("PUT {path}");
                let written = self.send(&line, &[], &text);
                assert!((200..300).contains(&written.status), "{written:?}");
                self.files.insert(name, text);
            }
            1 => {
                let read = self.get(&path);
                let found = (read.status == 200).then_some(read.body);
                assert_eq!(found.as_ref(), self.files.get(name));
            }
            2 => {
                let uri = format!("toolcell://workspace/default/{name}");
                let read = self.mcp("resources/read", json!({ "uri": uri }));
                let text = read["result"]["contents"][0]["text"].as_str();
                assert_eq!(text, self.files.get(name).map(String::as_str), "{read:#}");
            }
            _ => {
                let listed = self.mcp("resources/list", json!({}));
                let files = listed["result"]["resources"].as_array().unwrap().iter();
                let names: BTreeSet<&str> = files
                    .filter_map(|file| {
                        file["uri"]
                            .as_str()?
                            .strip_prefix("toolcell://workspace/default/")
                    })
                    .collect();
                assert_eq!(names, self.files.keys().copied().collect());
            }
        }
    }

    fn list(&self, random: &mut fastrand::Rng) {
        let names = |tools: &Value| -> BTreeSet<String> {
            let tools = tools.as_array().unwrap().iter();
            tools
                .map(|tool| tool["name"].as_str().unwrap().to_owned())
                .collect()
        };
        let value = |path: &str| -> Value { serde_json::from_str(&self.get(path).body).unwrap() };
        match random.u8(..4) {
            0 => assert_eq!(names(&value("/v1/tools")["tools"]), self.tools()),
            1 => {
                let listed = self.mcp("tools/list", json!({}));
                let mut listed = names(&listed["result"]["tools"]);
                // The host's own.
                listed.remove("read_result");
                assert_eq!(listed, self.tools());
            }
            2 => {
                let listed = self.get("/v1/dialects/otc/tools");
                let others = TOOLS
                    .iter()
                    .filter(|name| !self.tools().contains(&format!("probe_{name}")));
                for other in others {
                    assert!(
                        !listed.body.contains(&format!("probe.{other}\"")),
                        "{listed:?}"
                    );
                }
            }
            _ => {
                let call = |tool: &str| {
                    let body = json!({ "tool": tool, "input": {} }).to_string();
                    let reply = self.send("POST /v1/calls", &[], &body);
                    let result: Value = serde_json::from_str(&reply.body).unwrap();
                    let message = result["error"]["message"].as_str().unwrap().to_owned();
                    (reply.status, message.replace(tool, "TOOL"))
                };
                let other = TOOLS[(self.number + 1) % TOOLS.len()];
                assert_eq!(call(other), call("none"));
            }
        }
    }

    fn approvals(&mut self) {
        let listed = self.get("/v1/approvals");
        if self.number > 0 {
            assert_eq!(listed.status, 403, "{listed:?}");
            if self.asked.is_none() {
                let body = r#"{"tool": "counter", "input": {}}"#;
                let begun = self.send("POST /v1/calls", &[("Prefer", "respond-async")], body);
                let begun: Value = serde_json::from_str(&begun.body).unwrap();
                self.asked = begun["invocation_id"].as_str().map(str::to_owned);
            }
            return;
        }
        let listed: Value = serde_json::from_str(&listed.body).unwrap();
        for question in listed["approvals"].as_array().unwrap() {
            let actor = question["actor_ref"].as_str().unwrap();
            assert!(actor.starts_with("token:p1"), "{listed:#}");
        }
    }

    fn step(&mut self, calls: &Calls, random: &mut fastrand::Rng) {
        match random.u8(..16) {
            0..3 => self.call(calls, random),
            3..5 => self.call_over_mcp(random),
            5..9 => self.look(calls, random),
            9..13 => self.files(random),
            13..15 => self.list(random),
            _ => self.approvals(),
        }
    }
}

fn run(steps: usize) {
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("toolcell.toml"), settings()).unwrap();
    let tokens = token_file(&folder, "tokens", "root root-token-0123456789\n");
    let words = Web::arguments(&["probe"], [format!("--token-file={tokens}")]);
    let web = Web::run(Toolcell::at(&home, words));
    let mut callers: Vec<Caller> = (0..PRINCIPALS)
        .map(|number| Caller::new(web.address, number))
        .collect();
    let calls = Calls::default();
    std::thread::scope(|scope| {
        for mine in callers.chunks_mut(PRINCIPALS / CLIENTS) {
            let calls = &calls;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(steps as u64 ^ mine[0].number as u64);
                for _ in 0..steps / CLIENTS {
                    let at = random.usize(..mine.len());
                    mine[at].step(calls, &mut random);
                }
            });
        }
    });
    assert!(calls.lock().unwrap().len() > PRINCIPALS / 2);
}

#[test]
fn what_one_of_fifty_made_is_never_seen_by_another() {
    run(1_000);
}

#[test]
#[ignore = "long: `just nightly` runs it"]
fn ten_thousand_requests_of_fifty_show_nothing_of_another() {
    run(10_000);
}
