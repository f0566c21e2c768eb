//! Callers of a server with rules of their own.
//!
//! Promise: A principal has at most what its server has.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolcell_spec::digest;

use super::http_api::{Api, Said, token_file};
use crate::support::{Ran, Reply, Toolcell, Web, fixture, scratch};

pub(super) const ROOT: &str = "root-token-0123456789";
pub(super) const ANNA: &str = "anna-token-0123456789";
pub(super) const BERT: &str = "bert-token-0123456789";

/// The second lines of both files: `token:2` and `approver:2` are two callers.
pub(super) const PLAIN: &str = "plain-token-0123456789";
pub(super) const PLAIN_APPROVES: &str = "plain-approver-0123456789";
pub(super) const ANNA_APPROVES: &str = "anna-approver-0123456789";

/// A server of `probe`, to which a folder with one folder for each principal is granted.
pub(super) struct Served {
    _guard: tempfile::TempDir,
    pub(super) home: PathBuf,
    pub(super) data: PathBuf,
    web: Option<Web>,
}

impl Served {
    /// `principals` has `ANNA` and `BERT` for the digests of their tokens, and `DATA` for the folder.
    pub(super) fn new(principals: &str) -> Self {
        let (guard, path) = scratch();
        let (home, data) = (path.join("home"), path.join("data"));
        for (folder, name) in [("anna", "a.txt"), ("bert", "b.txt")] {
            fs::create_dir_all(data.join(folder)).unwrap();
            fs::write(data.join(folder).join(name), folder).unwrap();
        }
        fs::create_dir(&home).unwrap();
        token_file(&home, "tokens", &format!("root {ROOT}\n{PLAIN}\n"));
        let approvers = format!("anna {ANNA_APPROVES}\n{PLAIN_APPROVES}\n");
        token_file(&home, "approvers", &approvers);
        let mut served = Self {
            _guard: guard,
            home,
            data,
            web: None,
        };
        served.write(principals);
        served
    }

    pub(super) fn write(&mut self, principals: &str) {
        let text = principals
            .replace("ANNA", &digest(ANNA.as_bytes()))
            .replace("BERT", &digest(BERT.as_bytes()))
            .replace("DATA", self.data.to_str().unwrap());
        let grants = format!("[grants]\nwrite = [{:?}]\n", self.data);
        fs::write(self.home.join("toolcell.toml"), grants + &text).unwrap();
    }

    pub(super) fn started(self) -> Self {
        self.started_with(&[])
    }

    pub(super) fn started_with(mut self, more: &[&str]) -> Self {
        let file =
            |option: &str, name: &str| format!("{option}={}", self.home.join(name).display());
        let files = [
            file("--token-file", "tokens"),
            file("--approver-token-file", "approvers"),
        ];
        let more = more.iter().map(|option| (*option).to_owned());
        let words = Web::arguments(&["probe"], files.into_iter().chain(more));
        self.web = Some(Web::run(Toolcell::at(&self.home, words)));
        self
    }

    pub(super) fn web(&self) -> &Web {
        self.web.as_ref().unwrap()
    }

    pub(super) fn ask(&self, token: &str, line: &str, body: &str) -> Reply {
        let bearer = format!("Bearer {token}");
        self.web()
            .request(line, &[("Authorization", bearer.as_str())], body)
    }

    pub(super) fn call(&self, token: &str, tool: &str, input: &Value) -> Value {
        let body = json!({ "tool": tool, "input": input }).to_string();
        self.ask(token, "POST /v1/calls", &body).value()
    }

    pub(super) fn read(&self, token: &str, path: &Path) -> Value {
        self.call(token, "read", &json!({ "path": path }))["structured_content"].clone()
    }

    fn tools(&self, token: &str) -> Vec<String> {
        let listed = self.ask(token, "GET /v1/tools", "").value();
        let tools = listed["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(super) fn run(&self, words: &[&str]) -> Ran {
        Toolcell::at(&self.home, words).run()
    }
}

const TWO: &str = r#"
[[principal]]
name = "anna"
tokens = ["ANNA"]
tools = ["probe.read", "probe.list"]
[principal.grants]
read = ["DATA/anna"]

[[principal]]
name = "bert"
tokens = ["BERT"]
mode = "plan"
[principal.limits]
timeout = "300ms"
[[principal.rule]]
behavior = "deny"
path = "DATA/anna"
reason = "not yours"
"#;

fn code(result: &Value) -> &str {
    result["error"]["error_code"].as_str().unwrap_or_default()
}

#[test]
fn each_has_tools_grants_rules_mode_and_limits_of_its_own() {
    let served = Served::new(TWO).started();
    let (a, b) = (
        served.data.join("anna/a.txt"),
        served.data.join("bert/b.txt"),
    );
    assert_eq!(served.tools(ANNA), ["probe_read", "probe_list"]);
    assert!(served.tools(ROOT).len() > 50);
    assert_eq!(served.read(ANNA, &a)["value"]["text"], "anna");
    assert_eq!(served.read(ANNA, &b)["ok"], false);
    assert_eq!(served.read(ROOT, &b)["value"]["text"], "bert");
    let write = json!({ "path": served.data.join("anna/c.txt"), "text": "x" });
    assert_eq!(code(&served.call(ANNA, "write", &write)), "unknown_tool");
    assert_eq!(code(&served.call(BERT, "write", &write)), "plan_mode");
    assert_eq!(served.call(ROOT, "write", &write)["status"], "succeeded");
    assert_eq!(served.read(BERT, &b)["value"]["text"], "bert");
    let denied = served.call(BERT, "read", &json!({ "path": a }));
    assert_ne!(denied["structured_content"]["ok"], true, "{denied:#}");
    let slow = json!({ "count": 10_000, "interval_ms": 100 });
    let began = std::time::Instant::now();
    assert_eq!(served.call(BERT, "progress", &slow)["status"], "timed_out");
    assert!(began.elapsed().as_secs() < 30, "its own limit counts");
    // Over MCP it is the same principal.
    let bearer = format!("Bearer {ANNA}");
    let params = json!({ "name": "probe_read", "arguments": { "path": b } });
    let frame = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let more = [
        ("Authorization", bearer.as_str()),
        ("Accept", "application/json, text/event-stream"),
    ];
    let listed = served.web().request(
        "POST /mcp",
        &more,
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {
            "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } } })
        .to_string(),
    );
    assert!(!listed.body.contains("probe_write"), "{listed:?}");
    let called = served.web().request("POST /mcp", &more, &frame.to_string());
    assert!(!called.body.contains("\"bert\""), "{called:?}");
}

#[test]
fn what_one_has_does_not_exist_for_another() {
    let served = Served::new(TWO).started();
    let a = json!({ "path": served.data.join("anna/a.txt") });
    let id = served.call(ANNA, "read", &a)["invocation_id"].clone();
    let path = format!("/v1/calls/{}", id.as_str().unwrap());
    assert_eq!(served.ask(ANNA, &format!("GET {path}"), "").status, 200);
    for line in [
        format!("GET {path}"),
        format!("GET {path}/events"),
        format!("DELETE {path}"),
        format!("GET {path}/artifacts/a"),
    ] {
        served.ask(BERT, &line, "").is_problem(404, "unknown_call");
    }
    // They name the tools of all.
    let metrics = |token: &str| served.ask(token, "GET /metrics", "").status;
    assert_eq!((metrics(BERT), metrics(ROOT)), (403, 404));
}

#[test]
fn a_quota_is_refused_with_a_time_and_counts_over_restarts() {
    let quotas = r#"
[telemetry]
metrics = true

[[principal]]
name = "anna"
tokens = ["ANNA"]
[principal.quotas]
calls_per_minute = 2
bytes_per_day = "1MiB"

[[principal]]
name = "bert"
tokens = ["BERT"]
[principal.quotas]
bytes_per_day = 100
"#;
    let mut served = Served::new(quotas).started();
    let a = json!({ "path": served.data.join("anna/a.txt") });
    for _ in 0..2 {
        assert_eq!(served.call(ANNA, "read", &a)["status"], "succeeded");
    }
    let body = json!({ "tool": "read", "input": a }).to_string();
    let refused = served.ask(ANNA, "POST /v1/calls", &body);
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(code(&refused.value()), "quota_exceeded");
    while code(&served.call(BERT, "read", &a)) != "quota_exceeded" {}
    assert_eq!(served.call(ROOT, "read", &a)["status"], "succeeded");
    assert_eq!(served.ask(ANNA, "GET /metrics", "").status, 403);
    let metrics = served.ask(ROOT, "GET /metrics", "").body;
    for line in [
        "toolcell_principals 2",
        "toolcell_principal_calls{principal=\"anna\"} 0",
        "toolcell_quota_limit{principal=\"anna\",quota=\"calls_per_minute\"} 2",
        "toolcell_quota_refused_total{principal=\"anna\",quota=\"calls_per_minute\"} 1",
        "toolcell_quota_refused_total{principal=\"anna\",quota=\"bytes_per_day\"} 0",
        "toolcell_quota_limit{principal=\"bert\",quota=\"bytes_per_day\"} 100",
        "toolcell_quota_refused_total{principal=\"bert\",quota=\"bytes_per_day\"} 1",
    ] {
        assert!(
            metrics.lines().any(|known| known == line),
            "{line}\n{metrics}"
        );
    }
    let used = "toolcell_quota_used{principal=\"bert\",quota=\"bytes_per_day\"} ";
    let used = metrics.lines().find_map(|line| line.strip_prefix(used));
    assert!(used.is_some_and(|used| used.parse::<u32>().unwrap() >= 100));
    assert!(
        !metrics.contains("calls_at_once"),
        "a quota that is not set"
    );
    served.web.take().unwrap().end();
    let served = served.started();
    assert_eq!(code(&served.call(BERT, "read", &a)), "quota_exceeded");
    assert_eq!(served.call(ANNA, "read", &a)["status"], "succeeded");
}

#[test]
fn an_approver_answers_for_those_that_it_may_and_never_for_itself() {
    let principals = r#"
[[rule]]
behavior = "ask"
tool = "probe.read"

[[principal]]
name = "anna"
tokens = ["ANNA"]

[[principal]]
name = "bert"
tokens = ["BERT"]
approves = ["anna", "bert"]
"#;
    let served = Served::new(principals).started();
    let begin = |token: &str| {
        let input = json!({ "path": served.data.join("anna/a.txt") });
        let body = json!({ "tool": "read", "input": input }).to_string();
        let bearer = format!("Bearer {token}");
        let more = [
            ("Authorization", bearer.as_str()),
            ("Prefer", "respond-async"),
        ];
        let begun = served.web().request("POST /v1/calls", &more, &body).value();
        begun["invocation_id"].as_str().unwrap().to_owned()
    };
    let (of_anna, of_bert, of_root) = (begin(ANNA), begin(BERT), begin(ROOT));
    let of_plain = begin(PLAIN);
    let listed = || served.ask(BERT, "GET /v1/approvals", "").value()["approvals"].clone();
    while listed().as_array().unwrap().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let answer = |token: &str, id: &str| {
        let line = format!("POST /v1/approvals/{id}");
        served.ask(token, &line, r#"{"approved": true}"#)
    };
    // Once these are answered, the questions of before are there, too.
    let began = std::time::Instant::now();
    for (approver, id) in [(PLAIN_APPROVES, &of_plain), (ANNA_APPROVES, &of_root)] {
        while answer(approver, id).status != 200 {
            assert!(began.elapsed().as_secs() < 20, "{:?}", answer(approver, id));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    for id in [&of_bert, &of_root, &of_plain] {
        answer(BERT, id).is_problem(404, "unknown_request");
    }
    answer(ANNA, &of_anna).is_problem(403, "not_an_approver");
    answer(ANNA_APPROVES, &of_anna).is_problem(404, "unknown_request");
    assert_eq!(answer(BERT, &of_anna).status, 200);
    let bearer = format!("Bearer {ANNA}");
    let line = format!("GET /v1/calls/{of_anna}");
    let more = [("Authorization", bearer.as_str())];
    let ended = || served.web().request(&line, &more, "").value()["status"].clone();
    while ended() != "succeeded" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(
        listed()
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["actor_ref"] == "token:anna")
    );
}

#[test]
fn a_change_counts_at_once_and_one_that_is_gone_has_no_access() {
    let mut served = Served::new(TWO).started();
    let a = served.data.join("anna/a.txt");
    assert_eq!(served.read(ANNA, &a)["value"]["text"], "anna");
    served.write(
        &TWO.replace("\"probe.read\", ", "")
            .replace("BERT", "sha256:00")
            .replace("tokens = [\"sha256:00\"]", ""),
    );
    let began = std::time::Instant::now();
    while served.tools(ANNA) != ["probe_list"] {
        assert!(began.elapsed().as_secs() < 20, "{:?}", served.tools(ANNA));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(served.ask(BERT, "GET /v1/tools", "").status, 401);
    assert_eq!(served.web().get("/readyz").status, 200);
}

#[test]
fn the_decision_on_a_call_is_told_for_a_principal() {
    let served = Served::new(TWO);
    let probe = fixture("probe");
    let check = |tool: &str, path: &Path, name: &str| {
        let tool = format!("{}#{tool}", probe.display());
        let path = format!("path={}", path.display());
        let name = format!("--principal={name}");
        served.run(&[
            "policy",
            "check",
            &tool,
            &path,
            &name,
            "--explain",
            "--json",
        ])
    };
    let told = check("read", &served.data, "anna").exits(0).json();
    let mounts = told["capability"]["mounts"].as_array().unwrap();
    assert_eq!(mounts.len(), 1, "{told:#}");
    assert_eq!(mounts[0]["writable"], false);
    check("size", &served.data, "anna").exits(2);
    let told = check("read", &served.data, "cara").exits(2);
    assert!(told.stdout.contains("unknown_principal"), "{told:?}");
}

#[test]
fn one_that_would_widen_is_refused_with_its_place() {
    let of = |text: &str| {
        let served = Served::new(&format!("[[principal]]\nname = \"anna\"\n{text}\n"));
        let probe = format!("{}#read", fixture("probe").display());
        let ran = served.run(&["policy", "check", &probe, "path=/", "--principal=anna"]);
        ran.stdout.clone() + &ran.stderr
    };
    for (text, why) in [
        (
            "grants = { read = [\"/usr\"] }",
            "the server itself is not granted this",
        ),
        (
            "grants = { net = [\"example.com\"] }",
            "the server itself is not granted this",
        ),
        ("rule = [{ behavior = \"allow\" }]", "denies or asks"),
        (
            "rule = [{ behavior = \"deny\", actor = \"x\" }]",
            "remove actor",
        ),
        ("tokens = [\"secret-token-0123\"]", "by their digest"),
        ("limits = { memory_total = 1 }", "memory_total"),
        ("mode = \"free\"", "not one of"),
        ("quotas = { calls = 1 }", "unknown field"),
        ("[[principal]]\nname = \"Anna\"", "give each its own"),
        ("[[principal]]\nname = \"../x\"", "begins with a letter"),
    ] {
        let told = of(text);
        assert!(told.contains(why), "{text}: {told}");
        assert!(!told.contains("secret-token-0123"), "{told}");
    }
}

/// KiB of memory of a server of so many principals, of whom one has called.
#[cfg(target_os = "linux")]
fn memory_of(principals: usize) -> u64 {
    let one = |number: usize| {
        let digest = digest(format!("token-of-the-principal-{number}").as_bytes());
        format!(
            "[[principal]]\nname = \"p{number}\"\ntokens = [\"{digest}\"]\ntools = [\"probe.e*\"]\n\
             quotas = {{ calls_at_once = 4 }}\n"
        )
    };
    let text: String = (0..principals).map(one).collect();
    let mut served = Served::new(&format!("[telemetry]\nmetrics = true\n{text}")).started();
    let called = served.call("token-of-the-principal-0", "echo", &json!({ "text": "hi" }));
    assert_eq!(called["status"], "succeeded", "{called}");
    // Not a series for each of any number.
    let metrics = served.ask(ROOT, "GET /metrics", "").body;
    let series = metrics
        .lines()
        .filter(|line| line.starts_with("toolcell_principal_calls{"));
    assert_eq!(series.count(), principals.min(101), "{metrics}");
    let others = "toolcell_quota_limit{principal=\"(others)\",quota=\"calls_at_once\"} 3600";
    assert_eq!(metrics.contains(others), principals == 1_000, "{metrics}");
    let status = format!("/proc/{}/status", served.web.as_mut().unwrap().pid());
    let status = fs::read_to_string(status).unwrap();
    let own = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .unwrap();
    own.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn of_a_thousand_principals_those_who_never_call_take_little_memory() {
    let (one, thousand) = (memory_of(1), memory_of(1_000));
    // Sessions, budgets and patterns of each would take three times that.
    assert!(
        thousand.saturating_sub(one) < 6_000,
        "{one} KiB, then {thousand}"
    );
}

#[test]
fn the_list_tells_who_has_rules_of_its_own_and_what_it_used_today() {
    let quotas = r#"
[[principal]]
name = "anna"
tokens = ["ANNA"]
tools = ["probe.read"]
page = true
[principal.quotas]
calls_at_once = 2
bytes_per_day = "1MiB"

[[principal]]
name = "bert"
approves = ["an*"]
"#;
    let mut served = Served::new(quotas).started();
    let a = json!({ "path": served.data.join("anna/a.txt") });
    assert_eq!(served.call(ANNA, "read", &a)["status"], "succeeded");
    served.web.take().unwrap().end();
    let listed = served
        .run(&["policy", "principals", "--json"])
        .exits(0)
        .json();
    let (anna, bert) = (&listed["principals"][0], &listed["principals"][1]);
    assert_eq!(anna["tools"], json!(["probe.read"]));
    assert_eq!((&anna["tokens"], &anna["page"]), (&json!(1), &json!(true)));
    assert_eq!(anna["quotas"][0]["limit"], 2.0);
    assert!(
        anna["quotas"][1]["used"].as_f64().unwrap() > 0.0,
        "{anna:#}"
    );
    assert_eq!(
        (&bert["approves"], &bert["tools"]),
        (&json!(["an*"]), &Value::Null)
    );
    let said = served.run(&["policy", "principals"]).exits(0).stdout;
    assert!(
        said.contains("known by   1 token") && said.contains("bytes per day: "),
        "{said}"
    );
    assert!(!said.contains(ANNA), "{said}");
}
