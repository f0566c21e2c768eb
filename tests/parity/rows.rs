//! The rows: a name, and what a probe has to do. `docs/authors.md` lists the names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_spec::dialect::sections;

use crate::pipeline::interaction::Person;
use crate::support::{Home, Test, scratch};

use super::{Probe, echo, member, own_host, texts, wait_for};

type Row = fn(&Probe);

pub(super) const ROWS: &[(&str, Row)] = &[
    ("typed and nested arguments", nested),
    ("descriptions", descriptions),
    ("enums", enums),
    ("defaults", defaults),
    ("bounds and patterns", bounds),
    ("lists and maps", lists_and_maps),
    ("any JSON", any_json),
    ("nullable and optional fields", nullable),
    ("output schemas from types", output_schemas),
    ("a writer of JSON", json_writer),
    ("content blocks, structured value and summary", blocks),
    ("partial answers with a structured value", partial),
    ("failures with class, detail and retry", failures),
    ("path arguments, cwd and scratch", files),
    ("environment variables", variables),
    ("progress, partial results and logs with fields", reports),
    ("waiting for a stop, and acknowledging it", stops),
    ("questions, several at once, with a state", questions),
    ("artifacts in chunks", artifacts),
    ("context modifiers", modifiers),
    ("requests", requests),
    ("failed requests as failures", failed_requests),
    ("calls of other tools", calls),
    ("settings", settings),
    ("checks of values, and whether a call can start", checks),
    ("classification", classification),
    ("version and licence", package),
    ("native tests", Probe::test_natively),
];

fn order() -> Value {
    json!({
        "name": "ada", "size": "large", "count": 3, "ratio": 0.25, "urgent": true, "tags": ["a", "b"],
        "parts": [{ "label": "x", "weight": 1.5 }, { "label": "y", "weight": 0.5 }],
        "place": { "street": "s", "floor": 2 }, "labels": { "one": 1, "two": 2 },
        "extra": { "deep": [1, null, { "a": "b" }] }, "note": "n", "hint": "h",
    })
}

/// An order in which a field, by its JSON pointer, has another value.
fn with(place: &str, value: Value) -> Value {
    let mut changed = order();
    *changed.pointer_mut(place).unwrap() = value;
    changed
}

fn without(names: &[&str]) -> Value {
    let mut changed = order();
    for name in names {
        changed.as_object_mut().unwrap().remove(*name);
    }
    changed
}

fn call(probe: &Probe, tool: &str, input: Value) -> Value {
    wait_for(probe.test(tool).call(input)).succeeded()
}

#[track_caller]
fn refused(probe: &Probe, input: Value) {
    let called = wait_for(probe.test("order").call(input.clone()));
    let error = called
        .0
        .result
        .error
        .as_ref()
        .unwrap_or_else(|| panic!("{input} was taken"));
    assert_eq!(
        error.error_code.as_str(),
        "schema_mismatch",
        "{input}: {}",
        error.message
    );
    called.never_ran();
}

#[track_caller]
fn has(probe: &Probe, path: &str, keyword: &str, value: Value) {
    let schema = probe.listed("order")["inputSchema"].clone();
    let found = member(&schema, path);
    assert!(
        found[keyword] == value
            || found[keyword]
                .as_f64()
                .is_some_and(|found| Some(found) == value.as_f64()),
        "{path}: {keyword} is {}, not {value}: {schema:#}",
        found[keyword]
    );
}

fn nested(probe: &Probe) {
    assert_eq!(call(probe, "order", order()), order());
    refused(probe, with("/parts/0/label", json!(1)));
    refused(probe, with("/place", json!({ "street": "s", "other": 1 })));
    refused(probe, without(&["place"]));
}

fn descriptions(probe: &Probe) {
    has(probe, "name", "description", json!("Who orders."));
}

fn enums(probe: &Probe) {
    has(probe, "size", "enum", json!(["small", "large"]));
    refused(probe, with("/size", json!("huge")));
}

fn defaults(probe: &Probe) {
    for (path, value) in [
        ("size", json!("small")),
        ("count", json!(1)),
        ("ratio", json!(0.5)),
        ("urgent", json!(false)),
        ("place/floor", json!(0)),
    ] {
        has(probe, path, "default", value);
    }
    let mut input = without(&["size", "count", "ratio", "urgent"]);
    input["place"] = json!({ "street": "s" });
    let made = call(probe, "order", input);
    let found = ["/size", "/count", "/ratio", "/urgent", "/place/floor"]
        .map(|place| made.pointer(place).unwrap().clone());
    assert_eq!(json!(found), json!(["small", 1, 0.5, false, 0]));
}

fn bounds(probe: &Probe) {
    has(probe, "count", "minimum", json!(1));
    has(probe, "count", "maximum", json!(10));
    has(probe, "name", "pattern", json!("^[a-z]+$"));
    has(probe, "parts/weight", "minimum", json!(0));
    for (place, value) in [
        ("/count", json!(0)),
        ("/count", json!(11)),
        ("/ratio", json!(1.5)),
        ("/name", json!("Ada")),
        ("/parts/1/weight", json!(-1)),
    ] {
        refused(probe, with(place, value));
    }
}

fn lists_and_maps(probe: &Probe) {
    refused(probe, with("/labels/one", json!("1")));
    refused(probe, with("/tags", json!(["a", 1])));
    let empty = with("/labels", json!({}));
    assert_eq!(call(probe, "order", empty.clone()), empty);
}

fn any_json(probe: &Probe) {
    for value in [
        json!(null),
        json!("text"),
        json!([true, 1.5]),
        json!({ "a": { "b": [] } }),
    ] {
        assert_eq!(
            call(probe, "order", with("/extra", value.clone()))["extra"],
            value
        );
    }
}

fn nullable(probe: &Probe) {
    assert_eq!(
        call(probe, "order", with("/note", Value::Null))["note"],
        Value::Null
    );
    refused(probe, with("/note", json!(1)));
    assert_eq!(
        call(probe, "order", without(&["hint"]))["hint"],
        Value::Null
    );
}

fn output_schemas(probe: &Probe) {
    let schema = probe.listed("order")["outputSchema"].clone();
    for (path, kind) in [
        ("count", "integer"),
        ("tags", "array"),
        ("parts/weight", "number"),
        ("place/street", "string"),
        ("labels", "object"),
    ] {
        assert_eq!(member(&schema, path)["type"], kind, "{path}: {schema:#}");
    }
}

fn json_writer(probe: &Probe) {
    let text = "q\" b\\ n\n t\t \u{1} ä€😀";
    let expected =
        json!({ "text": text, "list": [1, 2.5, true, null], "inner": { "a\"b": "c\\d" } });
    assert_eq!(call(probe, "say", json!({ "text": text })), expected);
}

fn blocks(probe: &Probe) {
    let called = wait_for(probe.test("blocks").call(json!({})));
    assert_eq!(called.succeeded(), json!({ "a": 1 }));
    assert_eq!(texts(&called)[0], "block");
    assert!(
        called.record().to_string().contains("one line"),
        "{:#}",
        called.record()
    );
}

fn partial(probe: &Probe) {
    let called = wait_for(probe.test("blocks").call(json!({ "half": true })));
    called.failed("partial_failure", "rest_missing");
    assert_eq!(called.0.result.structured_content, Some(json!({ "a": 1 })));
    assert_eq!(texts(&called)[0], "block");
}

fn failures(probe: &Probe) {
    let called = wait_for(probe.test("fail").call(json!({})));
    called.failed("rate_limited", "slow_down");
    assert_eq!(called.message(), "slow down");
    let record = called.record().to_string();
    assert!(
        record.contains("60000") && record.contains("why"),
        "{record}"
    );
}

fn files(probe: &Probe) {
    let (_guard, place) = scratch();
    std::fs::write(place.join("a.txt"), "content").unwrap();
    let test = probe
        .test("look")
        .write(&place)
        .grant(|grants| grants.cwd = Some(place.clone()));
    let made = wait_for(test.call(json!({ "path": "a.txt" }))).succeeded();
    assert_eq!(
        made,
        json!({ "text": "content", "draft": "content", "cwd": place, "attempt": 1 })
    );
    // Of the folder, what the argument names.
    let listed = probe.listed("look");
    assert!(
        listed["inputSchema"]["properties"]["path"].is_object(),
        "{listed}"
    );
    let outside = wait_for(
        probe
            .test("look")
            .write(&place)
            .call(json!({ "path": "/etc/hostname" })),
    );
    assert!(outside.0.result.is_error);
}

fn variables(probe: &Probe) {
    let grant = |test: Test| {
        test.grant(|grants| grants.environment.push(("PARITY".into(), "a value".into())))
    };
    let called = wait_for(grant(probe.test("variable")).call(json!({})));
    assert_eq!(texts(&called), json!(["a value"]));
}

fn reports(probe: &Probe) {
    let home = Home::new();
    let tool = format!("{}#report", probe.component.display());
    let ran = home.toolcell(&["call", &tool, "{}"]).run().exits(0);
    assert!(ran.stderr.contains("warn odd {\"n\":1}"), "{ran:?}");
    let record = home.call(&tool, &json!({}), &[]);
    let updates = record["progress"].as_array().unwrap();
    let half = updates
        .iter()
        .find(|update| update["message"] == "half")
        .unwrap();
    assert_eq!(half["percent"].as_f64(), Some(50.0), "{half}");
    let all = updates
        .iter()
        .find(|update| update["message"] == "all")
        .unwrap();
    let found = [
        "percent",
        "current_step",
        "total_steps",
        "bytes_read",
        "bytes_written",
        "line_count",
    ]
    .map(|name| all[name].clone());
    assert_eq!(json!(found), json!([100.0, "last", 2, 3, 4, 5]), "{all}");
    assert!(
        updates
            .iter()
            .any(|update| update["status"] == "partial_result"),
        "{updates:?}"
    );
}

fn stops(probe: &Probe) {
    // Compiled before, so that the stop meets the tool.
    wait_for(probe.test("wait").load()).unwrap();
    let began = Instant::now();
    let called = wait_for(
        probe
            .test("wait")
            .cancel_after(Duration::from_millis(500))
            .call(json!({})),
    );
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "after {:?}",
        began.elapsed()
    );
    assert_eq!(
        called.0.result.structured_content,
        Some(json!({ "stopped": "user_interruption" })),
        "{called:?}"
    );
    let acknowledged = called
        .0
        .events
        .iter()
        .find(|event| event.event_type.as_str() == "tool.invocation.cancel_acknowledged");
    assert_eq!(acknowledged.unwrap().data["by"], "guest");
}

fn questions(probe: &Probe) {
    let accept = |content: Value| json!({ "action": "accept", "content": content });
    let person = Person::who_says([
        json!({ "who": accept(json!({ "name": "Ada" })), "sure": accept(json!({ "yes": true })) }),
        json!({ "last": accept(json!({ "n": 3 })) }),
    ]);
    let called = wait_for(
        probe
            .test("ask")
            .answered_by(Arc::clone(&person) as _)
            .call(json!({})),
    );
    assert_eq!(texts(&called), json!(["Ada true 3 one two"]), "{called:?}");
    assert_eq!(
        person.asked(),
        ["who: Who?", "sure: Sure?", "last: How many?"]
    );
}

fn artifacts(probe: &Probe) {
    let called = wait_for(probe.test("keep").call(json!({})));
    let block = &called.record()["result"]["content"][0];
    assert_eq!(
        (&block["name"], &block["media_type"], &block["size_bytes"]),
        (&json!("rows.csv"), &json!("text/csv"), &json!(1_500_009)),
        "{called:?}"
    );
}

fn modifiers(probe: &Probe) {
    let called = wait_for(probe.test("mark").call(json!({})));
    assert_eq!(
        called.record()["result"]["context_modifiers"],
        json!([{ "key": "branch", "value": { "name": "fix" } }]),
        "{called:?}"
    );
}

fn requests(probe: &Probe) {
    let place = format!("http://127.0.0.1:{}", probe.server.port);
    let called = wait_for(
        probe
            .test("fetch")
            .net(&place)
            .call(json!({ "url": format!("{place}/a?b=c") })),
    );
    assert_eq!(
        called.succeeded(),
        json!({ "status": 200, "body": "hello" })
    );
    let head = probe.server.heads().concat().to_ascii_lowercase();
    assert!(
        head.starts_with("post /a?b=c")
            && head.contains("x-probe: yes")
            && head.contains("content-length: 4"),
        "{head}"
    );
}

fn failed_requests(probe: &Probe) {
    // A port that nothing listens at.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let place = format!("http://127.0.0.1:{port}");
    let called = wait_for(
        probe
            .test("fetch")
            .net(&place)
            .call(json!({ "url": place })),
    );
    called.failed("dependency_unavailable", "unreachable");
    let called = wait_for(
        probe
            .test("fetch")
            .net(&place)
            .call(json!({ "url": "no url" })),
    );
    assert!(called.0.result.is_error);
}

fn calls(probe: &Probe) {
    let host = own_host();
    wait_for(host.load(&echo())).unwrap();
    let relay = |tool: &str| {
        let test = probe
            .test("relay")
            .on(&host)
            .grant(|grants| grants.allow_tool("*").unwrap());
        wait_for(test.call(json!({ "tool": tool, "input": { "a": [1, 2] } })))
    };
    assert_eq!(
        relay("wat.echo").succeeded(),
        json!({ "answer": { "a": [1, 2] }, "callable": true })
    );
    // The class of the host is not one of a tool.
    relay("wat.none").failed("execution_failed", "tool_not_callable");
}

fn settings(probe: &Probe) {
    let home = Home::new();
    let tool = format!("{}#setting", probe.component.display());
    let say = |home: &Home| home.toolcell(&["call", &tool, "{}"]).run().exits(0).stdout;
    assert_eq!(say(&home), "none\n");
    home.configure(&format!(
        "[[tool]]\ncomponent = \"{}\"\nconfig.unit = \"mile\"\n",
        probe.component.display()
    ));
    assert_eq!(say(&home), "mile\n");
}

fn checks(probe: &Probe) {
    let called = wait_for(probe.test("even").call(json!({ "n": 3 })));
    called.failed("invalid_arguments", "odd").never_ran();
    let called = wait_for(probe.test("even").call(json!({ "n": 0 })));
    called.failed("setup_required", "not_ready").never_ran();
    assert_eq!(
        texts(&wait_for(probe.test("even").call(json!({ "n": 4 })))),
        json!(["4"])
    );
}

fn classification(probe: &Probe) {
    let (_guard, place) = scratch();
    for (change, is_read_only) in [(false, true), (true, false)] {
        let called = wait_for(
            probe
                .test("touch")
                .write(&place)
                .call(json!({ "change": change })),
        );
        let decision = serde_json::to_value(&called.0.decisions[0]).unwrap();
        assert_eq!(
            decision["classified_facts"]["is_read_only"], is_read_only,
            "{decision}"
        );
    }
}

fn package(probe: &Probe) {
    let component = std::fs::read(&probe.component).unwrap();
    for (name, text) in [("version", "0.1.0"), ("licenses", "MIT")] {
        let found = sections::custom(&component, name)
            .unwrap()
            .map(String::from_utf8_lossy);
        assert_eq!(found.as_deref(), Some(text), "{name}");
    }
}
