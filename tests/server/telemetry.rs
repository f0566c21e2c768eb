//! Telemetry: what a collector gets of calls, what it does not get, and what its failures mean for calls.
//!
//! Promise: Telemetry is off, and tells no arguments.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http_api::Api;
use crate::cli::approvals;
use crate::support::{
    Canary, Client, Home, Identity, Server, Web, check_record, fixture, frame, records, scratch,
};

const CANARY: Canary = Canary::new("otel-9c4/xw-kq-a7-long-enough");
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
/// Longer than a process may wait for its collector, and shorter than one request to it.
const BOUND: Duration = Duration::from_secs(2);
/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const TAKEN: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// A collector of OTLP over HTTP.
struct Collector {
    address: SocketAddr,
    got: Arc<Mutex<Got>>,
}

/// The requests, each with its head and its body; connections that have no answer.
#[derive(Default)]
struct Got {
    requests: Vec<(String, Value)>,
    held: Vec<TcpStream>,
}

impl Collector {
    /// Answers every request with `answer`; with nothing at all if that is empty.
    fn answering(answer: &'static str) -> Self {
        Self::answering_at_first(answer, answer)
    }

    /// Answers the first request with `first`, and the others with `answer`.
    fn answering_at_first(first: &'static str, answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let got = Arc::<Mutex<Got>>::default();
        let into = Arc::clone(&got);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let request = read(&stream);
                let mut got = into.lock().unwrap();
                let answer = if got.requests.is_empty() {
                    first
                } else {
                    answer
                };
                got.requests.extend(request);
                if answer.is_empty() {
                    got.held.push(stream)
                } else {
                    _ = stream.write_all(answer.as_bytes())
                }
            }
        });
        Self { address, got }
    }

    /// A home whose calls are told here, with more settings.
    fn home(&self, more: &str) -> Home {
        let home = Home::new();
        home.configure(&format!(
            "[telemetry]\nexport = true\nendpoint = \"http://{}\"\n{more}",
            self.address
        ));
        home
    }

    fn requests(&self, path: &str) -> Vec<(String, Value)> {
        let requests = self.got.lock().unwrap().requests.clone();
        requests
            .into_iter()
            .filter(|(head, _)| head.starts_with(&format!("POST {path} ")))
            .collect()
    }

    /// All spans so far.
    fn spans(&self) -> Vec<Value> {
        let list = |value: &Value| value.as_array().unwrap().clone();
        let resources = self
            .requests("/v1/traces")
            .iter()
            .flat_map(|(_, body)| list(&body["resourceSpans"]))
            .collect();
        let scopes = |all: Vec<Value>| {
            all.iter()
                .flat_map(|one| list(&one["scopeSpans"]))
                .collect::<Vec<_>>()
        };
        scopes(resources)
            .iter()
            .flat_map(|scope| list(&scope["spans"]))
            .collect()
    }

    /// The span of a call that is on record.
    #[track_caller]
    fn span_of(&self, record: &Value) -> Value {
        let id = &record["invocation"]["invocation_id"];
        let spans = self.spans();
        let found = spans
            .iter()
            .find(|span| attribute(span, "toolcell.invocation.id") == *id);
        found
            .unwrap_or_else(|| panic!("no span of {id}: {spans:#?}"))
            .clone()
    }
}

/// Reads one request: its head, and its body if it is JSON.
fn read(stream: &TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length:")?
            .trim()
            .parse()
            .ok()
    });
    let mut body = vec![0; length?];
    reader.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).ok()?))
}

/// The value of an attribute, whatever its type; null if there is none.
fn attribute(span: &Value, key: &str) -> Value {
    let attributes = span["attributes"].as_array().unwrap();
    let value = attributes
        .iter()
        .find(|one| one["key"] == key)
        .map(|one| one["value"].clone());
    value
        .and_then(|value| {
            value
                .as_object()
                .and_then(|value| value.values().next().cloned())
        })
        .unwrap_or_default()
}

fn guest(tool: &str) -> String {
    let (guest, name) = tool.split_once('#').unwrap();
    format!("{}#{name}", fixture(guest).display())
}

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

/// The span is that of the trace of agentool, and has its steps.
#[track_caller]
fn is_trace(span: &Value, trace: &Value) {
    let id = trace["trace_id"].as_str().unwrap();
    let digits = id.strip_prefix("tr_").unwrap();
    assert!(
        span["traceId"].as_str().unwrap().starts_with(digits),
        "{span:#}"
    );
    let names = span["events"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|event| event["name"].as_str().unwrap()).collect();
    let kinds = trace["steps"].as_array().unwrap().iter();
    let kinds: Vec<String> = kinds
        .map(|step| format!("agentool.{}", step["type"].as_str().unwrap()))
        .collect();
    assert_eq!(names, kinds);
    assert_eq!(
        attribute(span, "agentool.steps"),
        json!(kinds.len().to_string())
    );
}

/// The arguments of `probe#sensitive`.
fn sensitive() -> Value {
    json!({ "user": "ada-of-the-test", "token": CANARY.value() })
}

#[test]
fn a_batch_is_one_tree_with_its_calls_and_those_that_tools_make() {
    let collector = Collector::answering(TAKEN);
    let home = collector.home("headers = { Authorization = \"Bearer otel-secret-77\" }");
    let lines = [
        json!({ "id": "a", "tool": guest("caller#call"), "input": { "tool": "probe.echo", "input": {} } }),
        json!({ "id": "b", "tool": guest("probe#no_such_tool"), "input": {} }),
        json!({ "id": "c", "tool": guest("probe#fail"), "input": { "class": "rate_limited", "code": "busy" } }),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let probe = format!("--with={}", fixture("probe").display());
    let ran = home
        .toolcell(&[
            "batch",
            "-",
            "--print-record",
            &probe,
            "--allow-tool=probe.*",
        ])
        .stdin(&text)
        .run();
    assert!(
        !ran.stderr.contains("telemetry") && !ran.stderr.contains("otel-secret"),
        "{}",
        ran.stderr
    );
    let records: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    records.iter().for_each(check_record);
    let spans = collector.spans();
    assert_eq!(
        spans.len(),
        5,
        "three calls, one that a tool made, and the batch: {spans:#?}"
    );
    let batch = spans
        .iter()
        .find(|span| span["name"] == "invoke_agent")
        .unwrap();
    let session = records[0]["invocation"]["session_ref"].as_str().unwrap();
    let arguments = ["trace", &format!("--session={session}"), "--json"];
    let trace = home.toolcell(&arguments).run().exits(0).json();
    is_trace(batch, &trace);
    assert_eq!(
        (
            batch.get("parentSpanId"),
            attribute(batch, "toolcell.calls")
        ),
        (None, json!("3"))
    );
    assert!(
        spans
            .iter()
            .all(|span| span["traceId"] == batch["traceId"] && span["kind"] == 1),
        "{spans:#?}"
    );
    for record in &records {
        let span = collector.span_of(record);
        let reference = &record["invocation"]["telemetry_refs"][0];
        assert_eq!(
            (&reference["trace_id"], &reference["span_id"]),
            (&span["traceId"], &span["spanId"])
        );
        assert_eq!(&record["result"]["telemetry_refs"][0], reference);
        assert_eq!(
            reference["tool_name"],
            attribute(&span, "gen_ai.tool.name"),
            "also of the unknown tool"
        );
        assert_eq!(
            reference["tool_call_id"],
            record["invocation"]["native_call_id"]
        );
        assert!(
            reference["duration_ms"].is_u64() && reference["result_size_bytes"].is_u64(),
            "{reference}"
        );
        assert_eq!(span["parentSpanId"], batch["spanId"]);
        assert_eq!(
            attribute(&span, "gen_ai.tool.call.id"),
            record["invocation"]["native_call_id"]
        );
        assert_eq!(
            attribute(&span, "toolcell.result.size_bytes"),
            reference["result_size_bytes"].to_string()
        );
        let (phases, told): (Vec<&Value>, Vec<&Value>) = span["events"]
            .as_array()
            .unwrap()
            .iter()
            .partition(|event| event["name"] == "toolcell.phase");
        let told = told.into_iter().map(|event| &event["name"]);
        assert!(
            told.eq(record["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| &event["event_type"]))
        );
        let phases: Vec<Value> = phases
            .into_iter()
            .map(|event| attribute(event, "toolcell.phase"))
            .collect();
        let steps = record["invocation"]["status_transitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| &step["to"]);
        assert!(phases.iter().eq(steps), "{phases:?}");
    }
    let [called, refused, failed] = [0, 1, 2].map(|at| collector.span_of(&records[at]));
    let below = spans
        .iter()
        .find(|span| span["name"] == "execute_tool probe.echo")
        .unwrap();
    assert_eq!(
        (&below["parentSpanId"], &called["name"]),
        (&called["spanId"], &json!("execute_tool caller.call"))
    );
    assert_eq!(called["status"], json!({}));
    assert_eq!(
        (
            attribute(&refused, "error.type"),
            &refused["status"]["code"]
        ),
        (json!("unknown_tool"), &json!(2))
    );
    assert_eq!(
        (attribute(&failed, "error.type"), &failed["name"]),
        (json!("rate_limited"), &json!("execute_tool probe.fail"))
    );
    // `busy` is the tool's own code.
    assert_eq!(attribute(&failed, "toolcell.error.code"), "tool_failed");
    assert!(
        !failed.to_string().contains("busy")
            && attribute(&refused, "toolcell.error.code") == "unknown_tool"
    );
    assert_eq!(attribute(&failed, "gen_ai.operation.name"), "execute_tool");
    assert_eq!(attribute(&failed, "gen_ai.tool.type"), "function");
    assert!(
        attribute(&failed, "gen_ai.tool.description")
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
    for (head, _) in [
        collector.requests("/v1/traces"),
        collector.requests("/v1/metrics"),
    ]
    .concat()
    {
        assert!(
            head.to_ascii_lowercase()
                .contains("authorization: bearer otel-secret-77\r\n"),
            "{head}"
        );
    }
    let metrics = collector.requests("/v1/metrics");
    let (_, last) = metrics.last().unwrap();
    assert!(
        last.to_string().contains("toolcell_calls") && last.to_string().contains("probe.fail"),
        "{last:#}"
    );
}

#[test]
fn arguments_stay_here_unless_they_are_wanted_and_are_redacted_then() {
    for (setting, wanted) in [("", false), ("arguments = true", true)] {
        let collector = Collector::answering(TAKEN);
        let record = collector
            .home(setting)
            .call(&guest("probe#sensitive"), &sensitive(), &[]);
        let span = collector.span_of(&record);
        let arguments = attribute(&span, "gen_ai.tool.call.arguments");
        assert_eq!(
            arguments
                .as_str()
                .is_some_and(|text| text.contains("ada-of-the-test")),
            wanted,
            "{span:#}"
        );
        let all = format!("{:?}", collector.got.lock().unwrap().requests);
        assert_eq!(all.contains("ada-of-the-test"), wanted);
        CANARY.is_not_in("what the collector got", &all);
    }
}

#[test]
fn the_steps_of_an_agent_are_events_of_one_span_above_its_calls() {
    for setting in ["", "arguments = true"] {
        let collector = Collector::answering(TAKEN);
        let home = collector.home(setting);
        let add = |steps: Value| {
            let arguments = ["trace", "add", "--session=review", "-"];
            let ran = home
                .toolcell(&arguments)
                .stdin(&steps.to_string())
                .run()
                .exits(0);
            assert!(!ran.stderr.contains("telemetry"), "{}", ran.stderr);
        };
        let spans = |name: &str| -> Vec<Value> {
            collector
                .spans()
                .into_iter()
                .filter(|span| span["name"] == name)
                .collect()
        };
        add(json!({ "type": "start", "input": CANARY.value() }));
        let record = home.call(&guest("probe#echo"), &json!({}), &["--session=review"]);
        let call = collector.span_of(&record);
        add(json!([
            { "type": "reasoning", "content": CANARY.value(), "context_tokens": 1200 },
            { "type": "memory_write", "key": CANARY.value(), "content": "c" },
        ]));
        // Each of three processes sent what it knew by then, under the same ids.
        let sent = spans("invoke_agent");
        let [first, of_call, last] = sent.as_slice() else {
            panic!("{sent:#?}")
        };
        let trace = home
            .toolcell(&["trace", "--session=review", "--json"])
            .run()
            .exits(0)
            .json();
        let id = trace["trace_id"].as_str().unwrap().strip_prefix("tr_");
        for span in [first, of_call, last] {
            assert_eq!(
                (&span["traceId"], &span["spanId"], span.get("parentSpanId")),
                (&call["traceId"], &call["parentSpanId"], None)
            );
            assert_eq!(attribute(span, "gen_ai.operation.name"), "invoke_agent");
            assert!(span["traceId"].as_str().unwrap().starts_with(id.unwrap()));
        }
        let names = |span: &Value| -> Vec<String> {
            let events = span["events"].as_array().unwrap().iter();
            events
                .map(|event| event["name"].as_str().unwrap().to_owned())
                .collect()
        };
        let of_calls = ["agentool.tool_call", "agentool.tool_result"];
        assert_eq!(names(of_call), of_calls);
        let steps = ["agentool.reasoning", "agentool.memory_write"];
        assert_eq!(names(last), [of_calls, steps].concat());
        assert_eq!(attribute(&last["events"][2], "agentool.tokens"), "1200");
        CANARY.is_not_in(
            "what the collector got",
            &format!("{:?}", collector.got.lock().unwrap().requests),
        );
    }
    // The steps are added although no collector answers.
    let home = Home::new();
    home.configure("[telemetry]\nexport = true\nendpoint = \"http://127.0.0.1:1\"\n");
    let step = json!({ "type": "reasoning", "content": "c" }).to_string();
    let ran = home
        .toolcell(&["trace", "add", "--session=review", "-"])
        .stdin(&step)
        .run()
        .exits(0);
    assert!(
        ran.stderr
            .contains("warning: the collector of telemetry cannot be reached"),
        "{}",
        ran.stderr
    );
    let trace = home
        .toolcell(&["trace", "--session=review", "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(trace["steps"].as_array().unwrap().len(), 1);
}

#[test]
fn a_call_without_a_session_is_below_the_span_of_its_own_trace() {
    let collector = Collector::answering(TAKEN);
    let home = collector.home("");
    let record = home.call(&guest("probe#echo"), &json!({}), &[]);
    let call = collector.span_of(&record);
    let spans = collector.spans();
    let [agent] = spans
        .iter()
        .filter(|span| span["name"] == "invoke_agent")
        .collect::<Vec<_>>()[..]
    else {
        panic!("{spans:#?}")
    };
    assert_eq!(
        (&call["parentSpanId"], &call["traceId"]),
        (&agent["spanId"], &agent["traceId"])
    );
    let trace = home.toolcell(&["trace", "--json"]).run().exits(0).json();
    is_trace(agent, &trace);
}

#[test]
fn a_call_that_another_process_ends_has_its_span_below_that_of_its_session() {
    for (answer, status) in [("approve", "succeeded"), ("deny", "rejected")] {
        let collector = Collector::answering(TAKEN);
        let home = collector.home("");
        let (_guard, folder) = scratch();
        let input = json!({ "path": folder.join("lines"), "text": "one\n" }).to_string();
        let grant = format!("--allow-write={}", folder.display());
        let tool = guest("probe#append_approved");
        let call = home.toolcell(&["call", &tool, &input, &grant, "--session=review"]);
        let (child, id) = approvals::waiting(call);
        approvals::kill(child);
        assert_eq!(collector.spans(), Vec::<Value>::new());
        home.toolcell(&["approvals", answer, &id]).run();
        let spans = collector.spans();
        let named = |name: &str| -> &Value {
            let is_named = |span: &&Value| span["name"].as_str().unwrap().starts_with(name);
            spans.iter().find(is_named).unwrap()
        };
        let (call, agent) = (named("execute_tool"), named("invoke_agent"));
        assert_eq!(attribute(call, "toolcell.invocation.id"), id);
        assert_eq!(attribute(call, "toolcell.result.status"), status);
        assert_eq!(
            (&call["parentSpanId"], &call["traceId"]),
            (&agent["spanId"], &agent["traceId"])
        );
        let arguments = ["trace", "--session=review", "--json"];
        is_trace(agent, &home.toolcell(&arguments).run().exits(0).json());
    }
}

#[test]
fn a_batch_over_http_has_a_span_of_its_own_above_its_calls() {
    let collector = Collector::answering(TAKEN);
    let home = collector.home("");
    let arguments = Web::arguments(&["probe#echo"], [""; 0]);
    let arguments: Vec<String> = arguments
        .into_iter()
        .map(|one| one.into_string().unwrap())
        .collect();
    let web = Web::run(home.toolcell(&arguments.iter().map(String::as_str).collect::<Vec<_>>()));
    let calls = ["a", "b"].map(|id| json!({ "id": id, "tool": "echo", "input": {} }));
    for _ in 0..2 {
        let answered = web.post("/v1/batches", &[], &json!(calls));
        assert_eq!(answered.status, 200, "{answered:?}");
    }
    web.end();
    let spans = collector.spans();
    let agents: Vec<&Value> = spans
        .iter()
        .filter(|span| span["name"] == "invoke_agent")
        .collect();
    assert_eq!((agents.len(), spans.len()), (2, 6), "{spans:#?}");
    for agent in agents {
        let below = spans
            .iter()
            .filter(|span| span["parentSpanId"] == agent["spanId"]);
        assert_eq!(below.count(), 2);
        assert_eq!(attribute(agent, "agentool.steps"), "4");
    }
}

#[test]
fn headers_do_not_leave_the_machine_in_clear() {
    let home = Home::new();
    home.configure("[telemetry]\nexport = true\nendpoint = \"http://collector.example\"\n");
    let call = || home.toolcell(&["call", &guest("probe#echo"), "{}", "--json"]);
    let refused = call()
        .env(
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=k3y-of-the-collector",
        )
        .run()
        .exits(3);
    assert!(
        refused.stdout.contains("cannot send headers"),
        "{}",
        refused.stdout
    );
    assert!(!format!("{}{}", refused.stdout, refused.stderr).contains("k3y-of-the-collector"));
}

#[test]
fn nothing_is_sent_and_nothing_is_on_record_unless_it_is_turned_on() {
    let collector = Collector::answering(TAKEN);
    let home = Home::new();
    home.configure(&format!(
        "telemetry.endpoint = \"http://{}\"",
        collector.address
    ));
    let input = json!({}).to_string();
    let call = home.toolcell(&["call", &guest("probe#echo"), &input, "--print-record"]);
    let ran = call
        .env(
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            &format!("http://{}", collector.address),
        )
        .run()
        .exits(0);
    assert_eq!(ran.json()["invocation"].get("telemetry_refs"), None);
    assert!(collector.got.lock().unwrap().requests.is_empty());
    home.configure("telemetry.export = true");
    let call = home.toolcell(&["call", &guest("probe#echo"), &input, "--print-record"]);
    let ran = call
        .env(
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            &format!("http://{}", collector.address),
        )
        .run()
        .exits(0);
    collector.span_of(&ran.json());
}

#[test]
fn a_collector_that_fails_delays_no_call_and_the_exit_by_two_seconds_at_the_most() {
    let refusing = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
    let alone = Home::new();
    alone.call(&guest("probe#echo"), &json!({}), &[]);
    for (answer, said) in [("", "were not sent"), (refusing, "answers 500")] {
        let collector = Collector::answering(answer);
        let home = collector.home("");
        // Without telemetry first, for what this machine takes.
        let began = Instant::now();
        alone.call(&guest("probe#echo"), &json!({}), &[]);
        let usual = began.elapsed();
        let began = Instant::now();
        let ran = home
            .toolcell(&["call", &guest("probe#echo"), "{}", "--json"])
            .run()
            .exits(0);
        assert!(
            began.elapsed() < usual * 4 + BOUND + Duration::from_secs(1),
            "{:?}, usual: {usual:?}",
            began.elapsed()
        );
        assert!(ran.stderr.contains(said), "{answer:?}: {}", ran.stderr);
        assert_eq!(
            ran.stderr.matches("warning: spans that").count(),
            1,
            "{}",
            ran.stderr
        );
        let arguments = ["mcp".to_owned(), guest("probe#echo")];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut client = Client::run(home.toolcell(&arguments));
        client.initialize(crate::support::OLD);
        let began = Instant::now();
        (0..50).for_each(|at| _ = client.call("echo", json!({ "at": at })));
        // One request to the collector takes five seconds alone.
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
        let (status, took, ..) = client.close();
        assert!(status.success() && took < BOUND * 2, "{took:?}");
    }
}

#[test]
fn what_a_collector_could_not_take_is_sent_again() {
    let failing = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
    let collector = Collector::answering_at_first(failing, TAKEN);
    let home = collector.home("");
    let arguments = ["mcp".to_owned(), guest("probe#echo")];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut client = Client::run(home.toolcell(&arguments));
    client.initialize(crate::support::OLD);
    client.call("echo", json!({}));
    let began = Instant::now();
    while collector.requests("/v1/traces").len() < 2 {
        assert!(began.elapsed() < PATIENCE, "sent once");
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = collector.requests("/v1/traces");
    assert_eq!(sent[0].1, sent[1].1);
    client.close();
}

#[test]
fn the_trace_of_a_client_is_continued_and_what_is_malformed_is_not() {
    let collector = Collector::answering(TAKEN);
    let home = collector.home("");
    let file = home.path().join("records");
    let record = format!("--record-to={}", file.display());
    let arguments = Web::arguments(
        &["caller#call", "probe#echo"],
        [record.as_str(), "--allow-tool=*"],
    );
    let arguments: Vec<String> = arguments
        .into_iter()
        .map(|one| one.into_string().unwrap())
        .collect();
    let web = Web::run(home.toolcell(&arguments.iter().map(String::as_str).collect::<Vec<_>>()));
    let session = web.session(json!({}));
    let send = |header: &str, meta: Value| {
        let input = json!({ "tool": "probe.echo", "input": {} });
        let params = json!({ "name": "call", "arguments": input, "_meta": meta });
        let [id, revision] = web.in_session(&session);
        let more = [
            id,
            revision,
            ("traceparent", header),
            ("tracestate", "vendor=t61"),
        ];
        let reply = web.request("POST /mcp", &more, &frame(json!(1), "tools/call", params));
        assert_eq!(reply.status, 200, "{reply:?}");
        let result = reply.answer()["result"].to_string();
        assert!(
            !result.contains(TRACE) && !result.contains("t61"),
            "a guest and a model see nothing of it: {result}"
        );
    };
    let other = "00-11111111111111111111111111111111-2222222222222222-01";
    send(&traceparent("01"), json!({}));
    send(other, json!({ "traceparent": traceparent("01") }));
    send(
        &traceparent("01").to_uppercase(),
        json!({ "traceparent": "00-0-0-01" }),
    );
    send(&traceparent("00"), json!({}));
    web.end();
    let records = records(&file);
    assert_eq!(records.len(), 8, "each call made another one");
    records.iter().for_each(check_record);
    let reference = |at: usize| records[at]["invocation"]["telemetry_refs"][0].clone();
    for at in [0, 2] {
        let below = reference(at);
        let above = reference(at + 1);
        assert_eq!(
            (&above["trace_id"], &above["parent_span_id"]),
            (&json!(TRACE), &json!(PARENT))
        );
        assert_eq!(
            (&below["trace_id"], &below["parent_span_id"]),
            (&json!(TRACE), &above["span_id"])
        );
        let span = collector.span_of(&records[at + 1]);
        assert_eq!(
            (&span["traceId"], &span["parentSpanId"]),
            (&json!(TRACE), &json!(PARENT))
        );
        assert_eq!(
            collector.span_of(&records[at])["parentSpanId"],
            span["spanId"]
        );
    }
    assert_eq!(reference(1)["trace_state"], "vendor=t61");
    let span = json!([{ "trace_id": TRACE, "span_id": reference(1)["span_id"] }]);
    let events = records[1]["events"].as_array().unwrap();
    assert!(
        events.iter().all(|event| event["trace_refs"] == span),
        "{events:#?}"
    );
    assert_eq!(
        reference(1)["tool_name"],
        records[1]["invocation"]["tool_id"]
    );
    assert_eq!(
        (&reference(1)["request_id"], &reference(1)["tool_call_id"]),
        (&json!(1), &json!("1"))
    );
    let asked = collector.span_of(&records[1]);
    assert_eq!(attribute(&asked, "toolcell.request_id"), "1");
    // A call without an id of its caller has the host's, in the record as in the span.
    let own = &records[0]["invocation"]["invocation_id"];
    assert_eq!(&reference(0)["tool_call_id"], own);
    assert_eq!(
        attribute(&collector.span_of(&records[0]), "gen_ai.tool.call.id"),
        *own
    );
    let output = serde_json::to_string(&records[1]["result"]["structured_content"])
        .unwrap()
        .len() as u64;
    assert!(
        reference(1)["duration_ms"].is_u64()
            && reference(1)["result_size_bytes"].as_u64() >= Some(output)
    );
    assert_eq!(
        records[1]["invocation"]["external_mappings"][0]["mcp_session_id"],
        session
    );
    // In the trace of its session.
    let span = collector.span_of(&records[5]);
    let sessions: Vec<Value> = collector
        .spans()
        .into_iter()
        .filter(|span| span["name"] == "invoke_agent")
        .collect();
    assert_ne!(span["traceId"], TRACE);
    assert!(
        sessions
            .iter()
            .any(|session| session["spanId"] == span["parentSpanId"]
                && attribute(session, "gen_ai.operation.name") == "invoke_agent"
                && session["events"][0]["name"] == "agentool.tool_call"),
        "{sessions:#?}"
    );
    // Its caller does not record it.
    assert_eq!(reference(7)["trace_flags"], "00");
    let ids = collector
        .spans()
        .into_iter()
        .map(|span| attribute(&span, "toolcell.invocation.id"));
    assert!(
        !ids.into_iter()
            .any(|id| id == records[7]["invocation"]["invocation_id"])
    );
}

#[test]
fn metrics_are_for_callers_with_a_token_if_they_are_turned_on() {
    let home = Home::new();
    home.configure("telemetry.metrics = true");
    let arguments = Web::arguments(&["probe#echo", "probe#hold", "probe#fail"], [""; 0]);
    let arguments: Vec<String> = arguments
        .into_iter()
        .map(|one| one.into_string().unwrap())
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let web = Web::run(home.toolcell(&arguments));
    assert_eq!(
        web.request("GET /metrics", &[("Authorization", "")], "")
            .status,
        401
    );
    assert_eq!(
        web.request("GET /metrics", &[("Host", "elsewhere.example")], "")
            .status,
        403
    );
    assert_eq!(web.request("POST /metrics", &[], "").status, 405);
    let session = web.session(json!({}));
    web.call(&session, "echo", json!({}));
    web.call(&session, "echo", json!({}));
    web.call(&session, "fail", json!({ "class": "rate_limited" }));
    let metrics = || web.request("GET /metrics", &[], "");
    let reply = metrics();
    assert_eq!(
        (
            reply.status,
            reply
                .header("content-type")
                .unwrap()
                .contains("version=0.0.4")
        ),
        (200, true)
    );
    for line in [
        "toolcell_calls_total{tool=\"probe.echo\",status=\"succeeded\"} 2",
        "toolcell_call_errors_total{tool=\"probe.fail\",class=\"rate_limited\"} 1",
        "toolcell_call_duration_seconds_count{tool=\"probe.echo\"} 2",
        "toolcell_calls_running 0",
        "toolcell_calls_queued 0",
    ] {
        assert!(
            reply.body.lines().any(|known| known == line),
            "{line}\n{}",
            reply.body
        );
    }
    let fuel = "toolcell_call_fuel_total{tool=\"probe.echo\"} ";
    let fuel = reply
        .body
        .lines()
        .find_map(|line| line.strip_prefix(fuel)?.parse::<u64>().ok());
    assert!(fuel.is_some_and(|fuel| fuel > 0), "{}", reply.body);
    let params = json!({ "name": "hold", "arguments": { "ms": 10_000 } });
    let [id, revision] = web.in_session(&session);
    let held = web.begin(
        "POST /mcp",
        &web.changed(&[id, revision]),
        &frame(json!(2), "tools/call", params),
    );
    let began = Instant::now();
    while !metrics()
        .body
        .lines()
        .any(|line| line == "toolcell_calls_running 1")
    {
        assert!(
            began.elapsed() < PATIENCE,
            "no call runs: {}",
            metrics().body
        );
    }
    drop(held);
    web.end();
    let web = Web::of(&["probe#echo"]);
    assert_eq!(web.request("GET /metrics", &[], "").status, 404);
}

#[test]
fn a_collector_proves_itself_with_a_certificate_that_is_trusted() {
    let identity = Identity::of(&["localhost"]);
    let collector = Server::secure(&identity, |visit| {
        if visit.head().is_some() {
            visit.until("]}]}]}");
            visit.say(TAKEN);
        }
    });
    let home = Home::new();
    home.configure(&format!(
        "telemetry = {{ export = true, endpoint = \"https://localhost:{}/otlp/\" }}",
        collector.port
    ));
    let authority = format!("--tls-ca={}", identity.authority_in(home.path()).display());
    let call = |options: &[&str]| {
        let tool = guest("probe#echo");
        home.toolcell(&[&["call", &tool, "{}"], options].concat())
            .run()
            .exits(0)
            .stderr
    };
    let unproven = call(&[]);
    assert!(
        unproven.contains("the collector of telemetry cannot be reached"),
        "{unproven}"
    );
    assert!(collector.heads().is_empty(), "{:?}", collector.heads());
    let proven = call(&[&authority]);
    assert!(!proven.contains("telemetry"), "{proven}");
    let paths: Vec<String> = collector
        .heads()
        .iter()
        .map(|head| head.lines().next().unwrap().to_owned())
        .collect();
    assert_eq!(
        paths,
        [
            "POST /otlp/v1/traces HTTP/1.1",
            "POST /otlp/v1/metrics HTTP/1.1"
        ]
    );
}

#[test]
fn a_collector_leads_to_no_other_host() {
    let other = Collector::answering(TAKEN);
    let moved = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{}/v1/traces\r\ncontent-length: 0\r\n\r\n",
        other.address
    );
    let collector = Collector::answering(moved.leak());
    let home = collector.home("headers = { Authorization = \"Bearer k3y-of-the-collector\" }");
    let ran = home
        .toolcell(&["call", &guest("probe#echo"), "{}", "--json"])
        .run()
        .exits(0);
    assert!(
        ran.stderr.contains("answers 307") && !ran.stderr.contains("k3y-of"),
        "{}",
        ran.stderr
    );
    let requests = collector.requests("/v1/traces");
    assert!(
        requests.len() == 1 && requests[0].0.contains("Bearer k3y-of-the-collector"),
        "{requests:?}"
    );
    assert!(other.got.lock().unwrap().requests.is_empty());
}

#[test]
fn a_connection_ends_with_the_head_of_its_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let home = Home::new();
    home.configure(&format!(
        "[telemetry]\nexport = true\nendpoint = \"http://{}\"\n",
        listener.local_addr().unwrap()
    ));
    let arguments = ["mcp".to_owned(), guest("probe#echo")];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut client = Client::run(home.toolcell(&arguments));
    client.initialize(crate::support::OLD);
    client.call("echo", json!({}));
    let (mut stream, _) = listener.accept().unwrap();
    assert!(read(&stream).is_some());
    let (head, _) = TAKEN.split_at(TAKEN.len() - 2);
    stream.write_all(head.as_bytes()).unwrap();
    // Metrics, which are sent next, come a minute after the start.
    stream.set_read_timeout(Some(PATIENCE / 3)).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    client.close();
}

#[test]
fn an_output_that_may_be_on_no_disk_goes_to_no_collector() {
    let collector = Collector::answering(TAKEN);
    let home = collector.home("arguments = true\n[results]\npersistence = \"never_persist\"");
    let record = home.call(
        &guest("probe#echo"),
        &json!({ "text": CANARY.value() }),
        &[],
    );
    assert!(
        record["result"].to_string().contains(CANARY.value()),
        "{record:#}"
    );
    let span = collector.span_of(&record);
    assert_eq!(
        attribute(&span, "gen_ai.tool.call.result")
            .as_str()
            .filter(|text| text.contains(CANARY.value())),
        None
    );
}

#[test]
fn the_file_of_a_project_cannot_choose_a_collector() {
    let home = Home::new();
    let project = home.path().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("toolcell.toml"), "telemetry.export = true\n").unwrap();
    let trusted = home.toolcell(&["trust", project.to_str().unwrap()]).run();
    assert_ne!(trusted.code, Some(0), "{trusted:?}");
    assert!(
        trusted
            .stderr
            .contains("[telemetry] is for your own toolcell.toml"),
        "{}",
        trusted.stderr
    );
}
