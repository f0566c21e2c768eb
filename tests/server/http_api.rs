//! The plain HTTP API, `/v1`: the same door, tokens, limits and approvals as MCP over HTTP.

mod approvals;
mod batches;
mod keys;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::place::Place;
use crate::support::{Reply, Toolcell, Web, check_one, component, records, root, scratch};

/// Longer than any step takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);

pub(super) const ANNA: &str = "0123456789abcdef0";
pub(super) const BERT: &str = "fedcba98765432100";

/// A call that runs until it is canceled.
fn endless() -> Value {
    json!({ "tool": "progress", "input": { "count": 10_000, "interval_ms": 100 } })
}

pub(super) trait Api {
    fn get(&self, path: &str) -> Reply;
    fn post(&self, path: &str, more: &[(&str, &str)], body: &Value) -> Reply;
    fn begin_call(&self, body: &Value) -> String;
    fn ended(&self, id: &str) -> Value;
}

impl Api for Web {
    fn get(&self, path: &str) -> Reply {
        self.request(&format!("GET {path}"), &[], "")
    }

    fn post(&self, path: &str, more: &[(&str, &str)], body: &Value) -> Reply {
        self.request(&format!("POST {path}"), more, &body.to_string())
    }

    /// Begins a call without waiting for it. Returns its id.
    #[track_caller]
    fn begin_call(&self, body: &Value) -> String {
        let reply = self.post("/v1/calls", &[("Prefer", "respond-async")], body);
        assert_eq!(reply.status, 202, "{reply:?}");
        let id = reply.value()["invocation_id"].as_str().unwrap().to_owned();
        assert_eq!(reply.header("location"), Some(format!("/v1/calls/{id}")));
        assert_eq!(
            reply.header("preference-applied").as_deref(),
            Some("respond-async")
        );
        id
    }

    /// Waits for the end of a call. Returns its document.
    #[track_caller]
    fn ended(&self, id: &str) -> Value {
        let began = Instant::now();
        loop {
            let reply = self.get(&format!("/v1/calls/{id}"));
            assert_eq!(reply.status, 200, "{reply:?}");
            let call = reply.value();
            if !call["result"].is_null() {
                check_one("result", &call["result"]);
                return call;
            }
            assert!(began.elapsed() < SOON, "{call:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub(super) trait Said {
    fn value(&self) -> Value;
    fn is_problem(&self, status: u16, code: &str) -> Value;
}

impl Said for Reply {
    #[track_caller]
    fn value(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    #[track_caller]
    fn is_problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type").as_deref(),
            Some("application/problem+json"),
            "{self:?}"
        );
        let problem = self.value();
        assert_eq!(
            (&problem["status"], &problem["code"]),
            (&json!(status), &json!(code)),
            "{problem:#}"
        );
        assert!(
            problem["title"].is_string()
                && problem["detail"].is_string()
                && problem["type"] == "about:blank"
        );
        problem
    }
}

pub(super) fn token_file(folder: &std::path::Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    file.display().to_string()
}

/// A server with two principals; the token is Anna's at first.
pub(super) fn of_two(tools: &[&str], options: &[&str]) -> Web {
    let (_guard, path) = scratch();
    let file = format!(
        "--token-file={}",
        token_file(&path, "tokens", &format!("anna {ANNA}\nbert {BERT}\n"))
    );
    let mut web = Web::with(tools, options.iter().copied().chain([file.as_str()]));
    web.token = ANNA.to_owned();
    web
}

/// The events of a stream: number, type and record.
fn events(body: &str) -> Vec<(u64, String, Value)> {
    let parts = body.split("\n\n").filter(|part| part.starts_with("id: "));
    let field = |part: &str, name: &str| {
        let prefix = format!("{name}: ");
        part.lines()
            .find_map(|line| line.strip_prefix(&prefix))
            .unwrap()
            .to_owned()
    };
    parts
        .map(|part| {
            let record: Value = serde_json::from_str(&field(part, "data")).unwrap();
            check_one("event", &record);
            (
                field(part, "id").parse().unwrap(),
                field(part, "event"),
                record,
            )
        })
        .collect()
}

#[test]
fn a_rule_is_for_the_caller_that_it_names() {
    let (_guard, path) = scratch();
    let file = path.join("rules.toml");
    let rule = "[[rule]]\nbehavior = \"deny\"\nactor = \"token:an*\"\ntool = \"probe.echo\"\n";
    std::fs::write(&file, rule).unwrap();
    let config = format!("--config={}", file.display());
    let mut web = of_two(&["probe#echo", "probe#counter"], &[config.as_str()]);
    let call = |web: &Web, tool: &str| {
        let reply = web.post("/v1/calls", &[], &json!({ "tool": tool }));
        let result = reply.value();
        check_one("result", &result);
        (reply.status, result["error"]["error_code"].clone())
    };
    assert_eq!(call(&web, "echo"), (403, json!("denied_by_rule")));
    assert_eq!(call(&web, "counter").0, 200, "the rule names one tool");
    web.token = BERT.to_owned();
    assert_eq!(call(&web, "echo").0, 200, "the rule names another caller");
}

#[test]
fn a_call_answers_with_its_result_and_the_status_of_its_error() {
    let web = Web::of(&["probe#echo", "probe#fail", "probe#defaults"]);
    let reply = web.post(
        "/v1/calls",
        &[],
        &json!({ "tool": "echo", "input": { "n": 1 }, "native_call_id": "mine" }),
    );
    assert_eq!(reply.status, 200, "{reply:?}");
    let result = reply.value();
    check_one("result", &result);
    assert_eq!(
        (&result["status"], &result["is_error"]),
        (&json!("succeeded"), &json!(false))
    );
    let place = reply.header("location").unwrap();
    let call = web.get(&place).value();
    assert_eq!(
        place,
        format!("/v1/calls/{}", result["invocation_id"].as_str().unwrap())
    );
    assert_eq!(
        (&call["status"], &call["result"]["result_id"]),
        (&json!("succeeded"), &result["result_id"])
    );
    let unknown = web.post("/v1/calls", &[], &json!({ "tool": "nothing" }));
    assert_eq!(
        (unknown.status, &unknown.value()["error"]["error_class"]),
        (404, &json!("unknown_tool"))
    );
    for (class, status) in [
        ("invalid_arguments", 422),
        ("dependency_unavailable", 503),
        ("execution_failed", 200),
        ("result_too_large", 413),
        ("capability_gap", 501),
        ("setup_required", 424),
    ] {
        let reply = web.post(
            "/v1/calls",
            &[],
            &json!({ "tool": "fail", "input": { "class": class } }),
        );
        let result = reply.value();
        check_one("result", &result);
        assert_eq!(
            (&result["is_error"], &result["error"]["error_class"]),
            (&json!(true), &json!(class)),
            "{result:#}"
        );
        assert_eq!(reply.status, status, "{class}: {reply:?}");
    }
}

#[test]
fn a_timeout_can_only_be_shortened() {
    let web = Web::with(&["probe#progress"], ["--timeout=2s"]);
    let call = |timeout: u64| {
        let mut body = endless();
        body["timeout_ms"] = json!(timeout);
        let began = Instant::now();
        let reply = web.post("/v1/calls", &[], &body);
        assert_eq!(
            (reply.status, &reply.value()["error"]["error_class"]),
            (504, &json!("timeout")),
            "{reply:?}"
        );
        began.elapsed()
    };
    let short = call(300);
    let long = call(600_000);
    assert!(
        short < Duration::from_millis(1_900) && long < SOON,
        "{short:?} {long:?}"
    );
    let mut none = endless();
    none["timeout_ms"] = json!(0);
    web.post("/v1/calls", &[], &none)
        .is_problem(400, "body_invalid");
}

#[test]
fn the_arguments_arrive_and_are_recorded_as_they_were_sent() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let web = Web::with(&["probe#echo"], [format!("--record-to={}", file.display())]);
    let body = r#"{"tool": "echo", "input": {"n": 1.50, "s": "A"}, "native_call_id": "call-7"}"#;
    assert_eq!(web.request("POST /v1/calls", &[], body).status, 200);
    web.end();
    let record = records(&file).pop().unwrap();
    crate::support::check_record(&record);
    assert_eq!(record["invocation"]["native_call_id"], "call-7");
    assert_eq!(record["invocation"]["actor_ref"], "token:generated");
    assert_eq!(
        record["invocation"]["model_input_text"],
        r#"{"n": 1.50, "s": "A"}"#
    );
    let mapping = &record["invocation"]["external_mappings"][0];
    assert_eq!(
        (&mapping["source"], &mapping["method"]),
        (&json!("http"), &json!("POST /v1/calls"))
    );
}

#[test]
fn nothing_is_answered_without_the_token_or_for_another_host_or_origin() {
    let web = Web::of(&["probe#echo"]);
    let paths = [
        "/v1/tools",
        "/v1/search?q=echo",
        "/v1/surface",
        "/v1/openapi.json",
        "/v1/calls/x",
        "/v1/approvals",
        "/v1/nothing",
    ];
    for path in paths {
        for wrong in ["", "Bearer 0123456789abcdef0123", "Basic x"] {
            let reply = web.request(&format!("GET {path}"), &[("Authorization", wrong)], "");
            reply.is_problem(401, "unauthorized");
            assert_eq!(reply.header("www-authenticate").as_deref(), Some("Bearer"));
        }
        for wrong in [
            ("Host", "evil.test"),
            ("Origin", "https://evil.test"),
            ("Origin", "null"),
        ] {
            web.request(&format!("GET {path}"), &[wrong], "")
                .is_problem(403, "host_or_origin_refused");
        }
    }
    let body = json!({ "tool": "echo" });
    let refused = web.post("/v1/calls", &[("Authorization", "")], &body);
    assert_eq!(
        refused.header("www-authenticate").as_deref(),
        Some("Bearer")
    );
    refused.is_problem(401, "unauthorized");
    // A page in a browser can send a form, but not this type.
    web.post("/v1/calls", &[("Content-Type", "text/plain")], &body)
        .is_problem(415, "media_type_unsupported");
    assert_eq!(web.post("/v1/calls", &[], &body).status, 200);
}

#[test]
fn what_cannot_be_read_is_a_problem() {
    let web = Web::of(&["probe#echo"]);
    for body in [
        "",
        "not JSON",
        "[]",
        "7",
        "{}",
        r#"{"tool": 7}"#,
        r#"{"tool": "echo", "inputs": {}}"#,
        r#"["echo"]"#,
    ] {
        web.request("POST /v1/calls", &[], body)
            .is_problem(400, "body_invalid");
    }
    let long = "x".repeat(1025);
    web.post("/v1/calls", &[], &json!({ "tool": long }))
        .is_problem(400, "body_invalid");
    web.post("/v1/batches", &[], &json!([{ "id": "a", "tool": long }]))
        .is_problem(422, "batch_invalid");
    let large = json!({ "tool": "echo", "input": { "x": "x".repeat(4 << 20) } });
    // The end of the answer can be lost, because the server does not read the rest of the body.
    assert_eq!(web.post("/v1/calls", &[], &large).status, 413);
    for query in ["?q=a&limit=0", "?q=a&limit=51", "?limit=x", "?unknown=1"] {
        web.get(&format!("/v1/tools{query}"))
            .is_problem(400, "query_invalid");
    }
    web.get("/v1/search").is_problem(400, "query_invalid");
    web.get("/v1/search?q=%20").is_problem(422, "query_empty");
    web.get("/v1/nothing").is_problem(404, "unknown_path");
    for id in ["x", "%FF", "01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
        assert_eq!(web.get(&format!("/v1/calls/{id}")).status, 404, "{id}");
    }
}

#[test]
fn a_path_answers_to_its_methods_alone() {
    let web = Web::of(&["probe#echo"]);
    for (line, allowed) in [
        ("PUT /v1/calls", "POST"),
        ("GET /v1/calls", "POST"),
        ("OPTIONS /v1/calls", "POST"),
        ("POST /v1/tools", "GET,HEAD"),
        ("DELETE /v1/batches", "POST"),
    ] {
        let reply = web.request(line, &[], "");
        reply.is_problem(405, "method_not_allowed");
        assert_eq!(reply.header("allow").as_deref(), Some(allowed), "{line}");
    }
    let get = web.get("/v1/tools");
    let head = web.request("HEAD /v1/tools", &[], "");
    assert_eq!(
        (get.status, head.status, head.body.as_str()),
        (200, 200, "")
    );
    assert_eq!(get.header("content-type"), head.header("content-type"));
}

#[test]
fn tools_are_listed_searched_and_shown() {
    let web = Web::of(&["probe#echo", "probe#progress"]);
    let list = web.get("/v1/tools").value();
    let names: Vec<&str> = list["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["probe_echo", "probe_progress"]);
    assert!(
        list["surface_id"].is_string()
            && list["tools"][1]["input_schema"]["properties"]["count"].is_object()
    );
    let one = web.get("/v1/tools/progress");
    assert_eq!((one.status, one.value()), (200, list["tools"][1].clone()));
    web.get("/v1/tools/nothing").is_problem(404, "unknown_tool");
    let found = web.get("/v1/search?q=select:progress").value();
    check_one("tool-search-result", &found);
    assert_eq!(found["matches"][0]["name"], "probe_progress");
    let found = web.get("/v1/tools?q=reports+progress&limit=1").value();
    assert_eq!(
        (
            found["tools"].as_array().unwrap().len(),
            &found["tools"][0]["name"]
        ),
        (1, &json!("probe_progress"))
    );
}

#[test]
fn a_deferred_tool_can_be_called_once_its_caller_has_its_schema() {
    let mut web = of_two(&["probe#echo", "probe#empty"], &["--max-listed=1"]);
    let listed = |web: &Web| {
        web.get("/v1/tools").value()["tools"]
            .as_array()
            .unwrap()
            .len()
    };
    let call = |web: &Web| {
        web.post("/v1/calls", &[], &json!({ "tool": "empty" }))
            .status
    };
    assert_eq!((listed(&web), call(&web)), (1, 409));
    assert_eq!(web.get("/v1/tools/empty").status, 200);
    assert_eq!((listed(&web), call(&web)), (2, 200));
    web.token = BERT.to_owned();
    assert_eq!(
        (listed(&web), call(&web)),
        (1, 409),
        "what one caller loads, another has not"
    );
}

#[test]
fn a_call_that_is_not_waited_for_can_be_followed_from_any_event_on_and_ends_its_stream() {
    let web = Web::of(&["probe#progress"]);
    let body =
        json!({ "tool": "progress", "input": { "count": 5, "interval_ms": 200 }, "wait": false });
    let reply = web.post("/v1/calls", &[], &body);
    assert_eq!(reply.status, 202, "{reply:?}");
    let id = reply.value()["invocation_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/calls/{id}/events");
    let stream = web.get(&path);
    assert_eq!(
        stream.header("content-type").as_deref(),
        Some("text/event-stream")
    );
    let all = events(&stream.body);
    assert!(
        all.iter()
            .map(|(number, ..)| *number)
            .eq(1..=all.len() as u64),
        "{all:?}"
    );
    assert!(
        all.iter()
            .all(|(_, name, event)| event["event_type"] == name.as_str()
                && event["invocation_id"] == id.as_str())
    );
    assert_eq!(all.first().unwrap().1, "tool.invocation.planned");
    assert_eq!(all.last().unwrap().1, "tool.invocation.succeeded");
    assert!(
        all.iter()
            .filter(|(_, name, _)| name == "tool.invocation.progress")
            .count()
            >= 5,
        "{all:?}"
    );
    assert_eq!(web.ended(&id)["status"], "succeeded");
    // Resumed, by the header of browsers or by the query.
    let last = all.len() as u64;
    let resumed = events(
        &web.request(&format!("GET {path}?from=1"), &[("Last-Event-ID", "3")], "")
            .body,
    );
    assert_eq!(resumed, &all[3..]);
    assert_eq!(
        events(&web.get(&format!("{path}?from={last}")).body),
        &all[all.len() - 1..]
    );
    let over = web.request(
        &format!("GET {path}"),
        &[("Last-Event-ID", &last.to_string())],
        "",
    );
    assert_eq!((over.status, over.body.as_str()), (204, ""));
    for wrong in ["?from=0", "?from=x", "?from=-1"] {
        assert_eq!(web.get(&format!("{path}{wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn events_come_while_the_call_runs() {
    let web = Web::of(&["probe#progress"]);
    let id = web.begin_call(&endless());
    let stream = web.begin(&format!("GET /v1/calls/{id}/events"), &web.headers(), "");
    let mut lines = BufReader::new(stream).lines();
    let seen = lines
        .by_ref()
        .map_while(Result::ok)
        .find(|line| line == "event: tool.invocation.progress");
    assert!(seen.is_some(), "the stream ended");
    assert_eq!(
        web.request(&format!("DELETE /v1/calls/{id}"), &[], "")
            .status,
        202
    );
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(
        rest.iter()
            .any(|line| line == "event: tool.invocation.canceled"),
        "{rest:#?}"
    );
}

#[test]
fn a_call_that_may_not_run_beside_another_one_of_its_tool_is_queued() {
    let web = Web::of(&["probe#hold_unstated"]);
    let reaches = |id: &str, status: &str| {
        let began = Instant::now();
        loop {
            let call = web.get(&format!("/v1/calls/{id}")).value();
            if call["status"] == status {
                break;
            }
            let may_yet = call["result"].is_null() && began.elapsed() < SOON;
            assert!(may_yet, "never {status}: {call:#}");
        }
    };
    let hold = |ms: u64| json!({ "tool": "hold_unstated", "input": { "ms": ms } });
    let first = web.begin_call(&hold(600_000));
    // A call has its turn when it starts: the second one cannot come before it.
    let stream = web.begin(&format!("GET /v1/calls/{first}/events"), &web.headers(), "");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "event: tool.invocation.started"));
    let second = web.begin_call(&hold(1));
    reaches(&second, "queued");
    let path = format!("/v1/calls/{first}");
    assert_eq!(web.get(&path).value()["status"], "running");
    let ended = web.request(&format!("DELETE {path}"), &[], "");
    assert_eq!(ended.status, 202);
    assert_eq!(web.ended(&first)["status"], "canceled");
    assert_eq!(web.ended(&second)["status"], "succeeded");
}

#[test]
fn a_running_call_is_canceled_once() {
    let web = Web::of(&["probe#progress"]);
    // A caller that tries the same call in another way gives this attempt up.
    let replaced = web.begin_call(&endless());
    let path = format!("/v1/calls/{replaced}");
    web.request(&format!("DELETE {path}?reason=boredom"), &[], "")
        .is_problem(400, "query_invalid");
    assert_eq!(
        web.request(&format!("DELETE {path}?reason=fallback"), &[], "")
            .status,
        202
    );
    let result = &web.ended(&replaced)["result"];
    assert_eq!(
        (&result["status"], &result["abort_reason"]),
        (&json!("discarded"), &json!("fallback"))
    );
    assert_eq!(
        result["error"]["error_class"],
        "streaming_fallback_discarded"
    );
    let id = web.begin_call(&endless());
    let path = format!("/v1/calls/{id}");
    assert_eq!(web.get(&path).value()["status"], "running");
    let reply = web.request(&format!("DELETE {path}"), &[], "");
    assert_eq!(
        (reply.status, reply.header("location")),
        (202, Some(path.clone()))
    );
    let call = web.ended(&id);
    assert_eq!(
        (&call["status"], &call["result"]["error"]["error_class"]),
        (&json!("canceled"), &json!("canceled"))
    );
    web.request(&format!("DELETE {path}"), &[], "")
        .is_problem(409, "already_ended");
    web.request("DELETE /v1/calls/01ARZ3NDEKTSV4RRFFQ69G5FAV", &[], "")
        .is_problem(404, "unknown_call");
}

#[test]
fn a_cancellation_of_a_call_that_has_ended_or_is_not_the_callers_is_on_record() {
    let place = Place::new();
    let tokens = token_file(
        &place.home,
        "tokens",
        &format!("anna {ANNA}\nbert {BERT}\n"),
    );
    let arguments = Web::arguments(&["probe#progress"], [format!("--token-file={tokens}")]);
    let mut web = Web::run(Toolcell::at(&place.home, arguments));
    web.token = ANNA.to_owned();
    let body = json!({ "tool": "progress", "input": { "count": 1 } });
    let path = web
        .post("/v1/calls", &[], &body)
        .header("location")
        .unwrap();
    web.request(&format!("DELETE {path}"), &[], "")
        .is_problem(409, "already_ended");
    web.token = BERT.to_owned();
    for unknown in [path.as_str(), "/v1/calls/never-was"] {
        web.request(&format!("DELETE {unknown}"), &[], "")
            .is_problem(404, "unknown_call");
    }
    let failed = place.failed_cancellations();
    let told: Vec<[&Value; 2]> = failed
        .iter()
        .map(|data| [&data["reason"], &data["native_call_id"]])
        .collect();
    let id = path.rsplit('/').next().unwrap();
    // Nothing is said of the call of the other principal, only the id that was given.
    let unknown = [
        ["unknown_invocation", id],
        ["unknown_invocation", "never-was"],
    ];
    assert_eq!(
        json!(told),
        json!([["already_terminal", null], unknown[0], unknown[1]])
    );
}

#[test]
fn a_client_that_goes_away_cancels_the_call_that_it_waits_for() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let web = Web::with(
        &["probe#progress"],
        [
            format!("--record-to={}", file.display()),
            "--timeout=60s".to_owned(),
        ],
    );
    let waiting = web.begin("POST /v1/calls", &web.headers(), &endless().to_string());
    std::thread::sleep(Duration::from_millis(500));
    drop(waiting);
    let began = Instant::now();
    while records(&file).is_empty() {
        assert!(began.elapsed() < SOON, "the call goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(records(&file)[0]["invocation"]["status"], "canceled");
}

#[test]
fn a_caller_sees_its_own_calls_alone() {
    let mut web = of_two(&["probe#progress", "probe#artifacts"], &[]);
    let running = web.begin_call(&endless());
    let files = json!({ "files": [{ "name": "a.txt", "text": "a" }] });
    let done = web
        .post(
            "/v1/calls",
            &[],
            &json!({ "tool": "artifacts", "input": files }),
        )
        .header("location")
        .unwrap();
    web.token = BERT.to_owned();
    for path in [format!("/v1/calls/{running}"), done.clone()] {
        web.get(&path).is_problem(404, "unknown_call");
        web.get(&format!("{path}/events"))
            .is_problem(404, "unknown_call");
        web.get(&format!("{path}/artifacts/0"))
            .is_problem(404, "unknown_call");
        web.request(&format!("DELETE {path}"), &[], "")
            .is_problem(404, "unknown_call");
    }
    web.token = ANNA.to_owned();
    assert_eq!(
        web.get(&format!("/v1/calls/{running}")).value()["status"],
        "running"
    );
    assert_eq!(web.get(&format!("{done}/artifacts/0")).body, "a");
}

#[test]
fn a_call_is_found_after_a_restart() {
    let place = Place::new();
    let serve = || {
        let tokens = token_file(&place.home, "tokens", &format!("anna {ANNA}\n"));
        let arguments = Web::arguments(&["probe#progress"], [format!("--token-file={tokens}")]);
        let mut web = Web::run(Toolcell::at(&place.home, arguments));
        web.token = ANNA.to_owned();
        web
    };
    let web = serve();
    let body = json!({ "tool": "progress", "input": { "count": 2 } });
    let path = web
        .post("/v1/calls", &[], &body)
        .header("location")
        .unwrap();
    let all = events(&web.get(&format!("{path}/events")).body);
    web.end();
    let web = serve();
    assert_eq!(web.get(&path).value()["status"], "succeeded");
    assert_eq!(events(&web.get(&format!("{path}/events")).body), all);
    assert_eq!(
        events(&web.get(&format!("{path}/events?from=4")).body),
        &all[3..]
    );
}

#[test]
fn an_artifact_that_was_removed_is_gone_and_its_call_is_not() {
    let place = Place::new();
    let serve = || {
        let tokens = token_file(&place.home, "tokens", &format!("anna {ANNA}\n"));
        let arguments = Web::arguments(&["probe#artifacts"], [format!("--token-file={tokens}")]);
        let mut web = Web::run(Toolcell::at(&place.home, arguments));
        web.token = ANNA.to_owned();
        web
    };
    let web = serve();
    let files = json!({ "files": [{ "name": "a.txt", "text": "a" }] });
    let reply = web.post(
        "/v1/calls",
        &[],
        &json!({ "tool": "artifacts", "input": files }),
    );
    let path = reply.header("location").unwrap();
    let result = reply.value();
    let digest = result["artifact_refs"][0]["digest"].as_str().unwrap();
    std::fs::remove_file(
        place
            .home
            .join("payloads")
            .join(digest.trim_start_matches("sha256:")),
    )
    .unwrap();
    let is_gone = |web: &Web| {
        for name in ["a.txt", "0", digest] {
            web.get(&format!("{path}/artifacts/{name}"))
                .is_problem(410, "artifact_removed");
        }
        assert_eq!(
            web.get(&path).value()["result"]["artifact_refs"],
            result["artifact_refs"]
        );
    };
    is_gone(&web);
    // From the log, too.
    web.end();
    is_gone(&serve());
}

#[test]
fn an_artifact_is_fetched_whole_or_in_part() {
    let web = Web::of(&["probe#artifacts"]);
    let size = 3 << 20;
    let files = json!([
        { "name": "report.csv", "media_type": "text/csv", "text": "a,b\n1,2\n" },
        { "name": "large.bin", "text": "begin", "bytes": size - 5, "chunk": 1 << 20 },
    ]);
    let reply = web.post(
        "/v1/calls",
        &[],
        &json!({ "tool": "artifacts", "input": { "files": files } }),
    );
    let path = format!("{}/artifacts", reply.header("location").unwrap());
    let digest = reply.value()["artifact_refs"][0]["digest"]
        .as_str()
        .unwrap()
        .to_owned();
    for name in ["report.csv", "0", &digest] {
        let report = web.get(&format!("{path}/{name}"));
        assert_eq!(
            (report.status, report.body.as_str()),
            (200, "a,b\n1,2\n"),
            "{name}"
        );
        assert_eq!(report.header("content-type").as_deref(), Some("text/csv"));
        assert_eq!(
            report.header("content-disposition").as_deref(),
            Some("attachment")
        );
        assert_eq!(
            report.header("x-content-type-options").as_deref(),
            Some("nosniff")
        );
        assert_eq!(
            (
                report.header("content-length").as_deref(),
                report.header("etag")
            ),
            (Some("8"), Some(format!("\"{digest}\"")))
        );
    }
    let large = web.get(&format!("{path}/large.bin"));
    assert_eq!(large.body.len(), size);
    assert!(large.body.starts_with("begin") && large.body.ends_with("xxx"));
    let part = web.request(&format!("GET {path}/1"), &[("Range", "bytes=3-6")], "");
    assert_eq!((part.status, part.body.as_str()), (206, "inxx"));
    assert_eq!(
        part.header("content-range"),
        Some(format!("bytes 3-6/{size}"))
    );
    web.request(&format!("GET {path}/1"), &[("Range", "bytes=9999999-")], "")
        .is_problem(416, "range_not_satisfiable");
    web.get(&format!("{path}/2"))
        .is_problem(404, "unknown_artifact");
    let head = web.request(&format!("HEAD {path}/large.bin"), &[], "");
    assert_eq!(
        (head.status, head.body.len(), head.header("content-length")),
        (200, 0, Some(size.to_string()))
    );
}

#[test]
fn so_many_calls_of_a_principal_run_without_a_request() {
    let mut web = of_two(&["probe#progress", "probe#echo"], &[]);
    let started: Vec<String> = (0..64).map(|_| web.begin_call(&endless())).collect();
    let refused = web.post("/v1/calls", &[("Prefer", "respond-async")], &endless());
    refused.is_problem(429, "too_many_open_calls");
    assert_eq!(refused.header("retry-after").as_deref(), Some("1"));
    web.token = BERT.to_owned();
    let other = web.begin_call(&json!({ "tool": "echo" }));
    assert_eq!(web.ended(&other)["status"], "succeeded");
    web.token = ANNA.to_owned();
    assert_eq!(
        web.request(&format!("DELETE /v1/calls/{}", started[0]), &[], "")
            .status,
        202
    );
    web.ended(&started[0]);
    web.begin_call(&json!({ "tool": "echo" }));
}

#[test]
fn a_flood_of_requests_is_answered_or_refused_and_leaves_room_for_another_principal() {
    let mut web = of_two(&["probe#progress", "probe#echo"], &["--timeout=2m"]);
    let body = endless().to_string();
    // More than all connections with a token.
    let held: Vec<TcpStream> = (0..256)
        .map(|_| web.begin("POST /v1/calls", &web.headers(), &body))
        .collect();
    web.token = BERT.to_owned();
    let began = Instant::now();
    assert_eq!(
        web.post("/v1/calls", &[], &json!({ "tool": "echo" }))
            .status,
        200
    );
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(held);
    web.token = ANNA.to_owned();
    assert_eq!(
        web.post("/v1/calls", &[], &json!({ "tool": "echo" }))
            .status,
        200
    );
}

#[test]
fn requests_on_one_connection_are_answered_in_turn() {
    let web = Web::of(&["probe#echo"]);
    let head: String = web
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let body = json!({ "tool": "echo" }).to_string();
    let call = format!(
        "POST /v1/calls HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let last = format!("GET /v1/tools HTTP/1.1\r\n{head}Connection: close\r\n\r\n");
    let mut stream = web.connect();
    stream
        .write_all(format!("{call}{call}{last}").as_bytes())
        .unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3, "{answers}");
}

#[test]
fn the_description_names_every_path_and_is_served() {
    let web = Web::of(&["probe#echo"]);
    let document = web.get("/v1/openapi.json").value();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths.len(), 28, "{paths:?}");
    for path in paths {
        // Any value but that of a path that there is not.
        let path = path
            .replace("{id}", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
            .replace("{name}", "x")
            .replace("{dialect}", "otc");
        let reply = web.get(&path);
        assert!(
            reply.status != 404 || reply.value()["code"] != "unknown_path",
            "{path}: {reply:?}"
        );
    }
}

/// The request that the page about HTTP sends with curl.
#[test]
fn the_request_of_the_book_is_answered() {
    let page = std::fs::read_to_string(root().join("docs/dialects/http.md")).unwrap();
    let line = page
        .lines()
        .find(|line| line.starts_with("curl http://127.0.0.1:4780/"))
        .unwrap();
    let path = line
        .split(' ')
        .nth(1)
        .unwrap()
        .strip_prefix("http://127.0.0.1:4780")
        .unwrap();
    let body = line
        .split_once("-d '")
        .and_then(|(_, rest)| rest.strip_suffix('\''))
        .unwrap();
    for header in [
        "Authorization: Bearer $TOKEN",
        "Content-Type: application/json",
    ] {
        assert!(line.contains(&format!("-H \"{header}\"")), "{line}");
    }
    let web = Web::with(&[], [component("example-tools/jq")]);
    let reply = web.request(&format!("POST {path}"), &[], body);
    assert_eq!(
        (reply.status, &reply.value()["is_error"]),
        (200, &json!(false)),
        "{reply:?}"
    );
    assert!(
        reply.value()["content"].to_string().contains('3'),
        "{reply:?}"
    );
}
