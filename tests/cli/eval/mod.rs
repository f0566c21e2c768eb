//! `toolcell eval`: agentool's assertions over a trace.
//!
//! Promise: A judge that fails passes nothing.

mod judges;
mod recorded;

use serde_json::{Value, json};

use crate::support::{Ran, Toolcell, scratch};

/// Evaluates `cases`, one a line, on `trace`, which comes from standard input.
fn evaluate(cases: &[Value], trace: &Value, options: &[&str]) -> Ran {
    let (_guard, folder) = scratch();
    let lines: String = cases.iter().map(|case| format!("{case}\n")).collect();
    std::fs::write(folder.join("cases.ndjson"), lines).unwrap();
    let arguments = [&["eval", "cases.ndjson"], options].concat();
    Toolcell::new(arguments)
        .dir(&folder)
        .stdin(&trace.to_string())
        .run()
}

/// The EvalResults on standard output.
fn results(ran: &Ran) -> Vec<Value> {
    ran.stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn case(id: &str, assertions: Value) -> Value {
    json!({ "eval_id": "eval_001", "case_id": id, "assertions": assertions, "tags": ["x"], "difficulty": "medium" })
}

/// The trace of a run in which one call succeeded, one failed, and one has no result.
fn trace() -> Value {
    let call = |step: &str, id: &str, name: &str, arguments: Value| {
        let call = json!({ "id": id, "name": name, "arguments": arguments });
        json!({ "step_id": step, "type": "tool_call", "tool_call": call, "timestamp": "2026-03-01T10:00:02Z" })
    };
    let result = |step: &str, id: &str, error: Value| {
        let result = json!({ "call_id": id, "output": [{ "title": "x" }], "error": error, "duration_ms": 1240 });
        json!({ "step_id": step, "type": "tool_result", "tool_result": result })
    };
    json!({
        "trace_id": "tr_7f3a9b", "agent_id": "my-research-agent", "session_id": "sess_abc",
        "started_at": "2026-03-01T10:00:00Z", "finished_at": "2026-03-01T10:00:15Z",
        "input": "What are the best agent debugging tools available today?",
        "output": "{\"tools\": [\"LangSmith\", \"Braintrust\"], \"count\": 2}",
        "status": "success",
        "steps": [
            { "step_id": "step_001", "type": "reasoning", "content": "call fetch_page", "context_tokens": 1200 },
            call("step_002", "call_a", "search_web", json!({ "query": "agent debugging tools 2026", "limit": 3 })),
            result("step_003", "call_a", Value::Null),
            call("step_004", "call_b", "read_page", json!({ "url": "https://a.example", "options": { "raw": true } })),
            result("step_005", "call_b", json!("permission_denied: not granted")),
            call("step_006", "call_c", "search_web", json!({ "query": "more" })),
            { "step_id": "step_007", "type": "reasoning", "content": "done", "context_tokens": 2800 },
        ],
        "metrics": { "total_tokens": 3200, "total_cost_usd": 0.0032, "total_duration_ms": 15000, "step_count": 7 },
        "metadata": {},
    })
}

/// Ten cases, with every type of assertion, most of them at a bound.
fn ten_cases() -> Vec<Value> {
    let requires = |fields: Value| json!({ "type": "response_format", "schema": { "type": "object", "required": fields } });
    let concrete = json!({ "type": "output_property", "property": "names concrete tools", "description": "No categories" });
    vec![
        case(
            "specified",
            json!([{ "type": "contains_tool_call", "tool_name": "search_web" }, concrete, { "type": "no_hallucination" }]),
        ),
        case(
            "arguments",
            json!([
                { "type": "contains_tool_call", "tool_name": "search_web", "arguments": { "limit": 3 } },
                { "type": "contains_tool_call", "tool_name": "search_web", "arguments": { "query": "more" } },
            ]),
        ),
        case(
            "other arguments",
            json!([{ "type": "contains_tool_call", "tool_name": "search_web", "arguments": { "limit": 4 } }]),
        ),
        case(
            "success",
            json!([
                { "type": "contains_tool_call", "tool_name": "search_web", "require_success": true },
                { "type": "contains_tool_call", "tool_name": "read_page" },
                { "type": "contains_tool_call", "tool_name": "read_page", "require_success": true },
            ]),
        ),
        case(
            "counts",
            json!([
                { "type": "tool_call_count", "min": 3, "max": 3 }, { "type": "tool_call_count", "min": 4 },
                { "type": "tool_call_count", "max": 2 }, { "type": "tool_call_count", "tool_name": "search_web", "min": 2, "max": 2 },
            ]),
        ),
        case("format", json!([requires(json!(["tools", "count"]))])),
        case(
            "other format",
            json!([requires(json!(["tools", "sources"])), requires(json!([]))]),
        ),
        case(
            "tokens",
            json!([{ "type": "context_efficiency", "max_tokens": 3200 }, { "type": "context_efficiency", "max_tokens": 3199 }]),
        ),
        case(
            "time",
            json!([{ "type": "latency", "max_ms": 15000 }, { "type": "latency", "max_ms": 15001 }]),
        ),
        case(
            "unknown",
            json!([{ "type": "is_polite" }, { "type": "output_property", "property": "is a poem" }]),
        ),
    ]
}

/// The judge of these tests: 0.9 for one property, 0.25 for all others, and 0.8 for what is grounded.
const JUDGE: &str = r#"question=$(cat)
case $question in
  '{"assertion":{"type":"no_hallucination"'*) echo '{"passed":true,"score":0.8,"reason":"grounded","model":"judge-1"}';;
  *'"property":"names concrete tools"},"case"'*) echo '{"passed":true,"score":0.9,"reason":"named","model":"judge-1"}';;
  *) echo '{"passed":false,"score":0.25,"reason":"no","model":"judge-1"}';;
esac"#;

/// The score of an assertion on the trace above, computed apart from the program.
fn score(assertion: &Value, trace: &Value) -> f64 {
    let steps = trace["steps"].as_array().unwrap();
    let called: Vec<&Value> = steps
        .iter()
        .filter(|step| step["type"] == "tool_call")
        .map(|step| &step["tool_call"])
        .filter(|call| assertion["tool_name"].is_null() || call["name"] == assertion["tool_name"])
        .collect();
    let succeeded = |call: &Value| {
        let of = |step: &&Value| {
            step["type"] == "tool_result" && step["tool_result"]["call_id"] == call["id"]
        };
        steps
            .iter()
            .find(of)
            .is_some_and(|step| step["tool_result"]["error"].is_null())
    };
    let metric = |name: &str| trace["metrics"][name].as_f64().unwrap();
    let holds = match assertion["type"].as_str().unwrap() {
        "contains_tool_call" => called.iter().any(|call| {
            let wanted = assertion["arguments"].as_object();
            let has = wanted.is_none_or(|wanted| {
                wanted
                    .iter()
                    .all(|(name, value)| call["arguments"][name] == *value)
            });
            has && (assertion["require_success"] != true || succeeded(call))
        }),
        "tool_call_count" => {
            let min = assertion["min"].as_u64().unwrap_or(0);
            let max = assertion["max"].as_u64().unwrap_or(u64::MAX);
            (min..=max).contains(&(called.len() as u64))
        }
        "response_format" => {
            let output: Value = serde_json::from_str(trace["output"].as_str().unwrap()).unwrap();
            let required = assertion["schema"]["required"].as_array().unwrap();
            required
                .iter()
                .all(|name| output.get(name.as_str().unwrap()).is_some())
        }
        "context_efficiency" => metric("total_tokens") <= assertion["max_tokens"].as_f64().unwrap(),
        "latency" => metric("total_duration_ms") <= assertion["max_ms"].as_f64().unwrap(),
        "output_property" if assertion["property"] == "names concrete tools" => return 0.9,
        "output_property" => return 0.25,
        "no_hallucination" => return 0.8,
        _ => false,
    };
    f64::from(u8::from(holds))
}

#[test]
fn ten_cases_get_the_scores_that_are_computed_apart() {
    let trace = trace();
    let cases = ten_cases();
    let ran = evaluate(
        &cases,
        &trace,
        &["--json", "--judge-command", "sh", "-c", JUDGE],
    )
    .exits(1);
    let results = results(&ran);
    assert_eq!(results.len(), cases.len());
    for (case, result) in cases.iter().zip(&results) {
        let expected: Vec<f64> = case["assertions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|assertion| score(assertion, &trace))
            .collect();
        let found = result["assertion_results"].as_array().unwrap();
        let scores: Vec<f64> = found
            .iter()
            .map(|found| found["score"].as_f64().unwrap())
            .collect();
        assert_eq!(scores, expected, "{result:#}");
        let mean = expected.iter().fold(0.0, |sum, score| sum + score) / expected.len() as f64;
        assert!(
            (result["composite_score"].as_f64().unwrap() - mean).abs() < 1e-9,
            "{result:#}"
        );
        assert_eq!(
            result["passed"],
            expected.iter().all(|score| *score > 0.5),
            "{result:#}"
        );
        assert!(
            found
                .iter()
                .all(|found| !found["reason"].as_str().unwrap().is_empty()),
            "{result:#}"
        );
        assert_eq!(
            (&result["eval_id"], &result["case_id"], &result["trace_id"]),
            (&case["eval_id"], &case["case_id"], &trace["trace_id"])
        );
        let judged = ["specified", "unknown"]
            .iter()
            .any(|id| result["case_id"] == *id);
        assert_eq!(
            result["judge_model"],
            if judged {
                json!("judge-1")
            } else {
                Value::Null
            }
        );
        let at: toolcell_spec::Timestamp =
            serde_json::from_value(result["evaluated_at"].clone()).unwrap();
        assert!(toolcell_spec::Timestamp::now().millis_since(at) < 600_000);
        assert_eq!(result.as_object().unwrap().len(), 8, "{result:#}");
    }
    assert!(
        results.iter().any(|result| result["passed"] == true)
            && results.iter().any(|result| result["passed"] == false)
    );
}

#[test]
fn a_reason_names_the_step() {
    let assertions = json!([
        { "type": "contains_tool_call", "tool_name": "search_web" },
        { "type": "contains_tool_call", "tool_name": "read_page", "require_success": true },
        { "type": "contains_tool_call", "tool_name": "fetch_page" },
        { "type": "tool_call_count", "tool_name": "search_web", "max": 1 },
    ]);
    let ran = evaluate(&[case("c", assertions)], &trace(), &["--json"]).exits(1);
    let result = &results(&ran)[0]["assertion_results"];
    let reasons: Vec<&str> = result
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["reason"].as_str().unwrap())
        .collect();
    assert_eq!(
        reasons,
        [
            "search_web called at step_002",
            "read_page is called at step_004, but failed at step_005",
            "fetch_page is not called",
            "search_web is called 2 times (at step_002, step_006); at most 1 are wanted",
        ]
    );
}

#[test]
fn without_a_judge_no_judged_assertion_passes() {
    let assertions = json!([
        { "type": "contains_tool_call", "tool_name": "search_web" },
        { "type": "output_property", "property": "names concrete tools" },
        { "type": "no_hallucination" },
    ]);
    let ran = evaluate(&[case("c", assertions)], &trace(), &["--json"]).exits(1);
    let result = &results(&ran)[0];
    assert_eq!(
        (&result["passed"], &result["judge_model"]),
        (&json!(false), &Value::Null)
    );
    for judged in &result["assertion_results"].as_array().unwrap()[1..] {
        let found = (
            &judged["passed"],
            judged["score"].as_f64(),
            &judged["reason"],
        );
        assert_eq!(
            found,
            (&json!(false), Some(0.0), &json!("no judge configured")),
            "{judged}"
        );
    }
}

#[test]
fn a_person_reads_a_row_for_each_case_and_each_assertion() {
    let cases = [
        case(
            "good\u{1b}[2J",
            json!([{ "type": "latency", "max_ms": 15000 }]),
        ),
        case(
            "bad\npass  1.000  forged",
            json!([{ "type": "latency", "max_ms": 1 }, { "type": "tool_call_count", "min": 1 }]),
        ),
    ];
    let ran = evaluate(&cases, &trace(), &[]).exits(1);
    let rows: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(
        rows[1],
        "  pass  1.000  latency: 15000 ms in metrics.total_duration_ms, of 15000 at most"
    );
    assert_eq!(rows[2], "FAIL  0.500  bad pass  1.000  forged");
    assert_eq!(
        rows[3],
        "  FAIL  0.000  latency: 15000 ms in metrics.total_duration_ms, more than 1"
    );
    assert_eq!((rows.len(), rows[5]), (6, "1 of 2 cases passed"));
    evaluate(&cases[..1], &trace(), &[]).exits(0);
}

#[test]
fn a_schema_of_others_costs_no_unbounded_work() {
    let branch = |max: u64| json!({ "items": { "$ref": "#/$defs/n" }, "maxItems": max });
    let schema =
        json!({ "$ref": "#/$defs/n", "$defs": { "n": { "anyOf": [branch(0), branch(9)] } } });
    let mut trace = trace();
    trace["output"] = json!(format!("{}{}", "[".repeat(100), "]".repeat(100)));
    let begun = std::time::Instant::now();
    let cases = [case(
        "c",
        json!([{ "type": "response_format", "schema": schema }]),
    )];
    let ran = evaluate(&cases, &trace, &["--json"]).exits(1);
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    let reason = &results(&ran)[0]["assertion_results"][0]["reason"];
    assert!(
        reason
            .as_str()
            .unwrap()
            .contains("steps, so it was not checked"),
        "{reason}"
    );
}

#[test]
fn what_cannot_be_read_is_a_bad_request() {
    let (_guard, folder) = scratch();
    let good = case("c", json!([{ "type": "latency", "max_ms": 1 }])).to_string();
    let files = [
        ("good.json", good.as_str()),
        ("trace.json", r#"{"trace_id": "t"}"#),
        ("empty.json", "[]"),
        (
            "nothing.json",
            r#"{"eval_id": "e", "case_id": "c", "assertions": []}"#,
        ),
        (
            "twice.json",
            r#"{"eval_id": "e", "case_id": "c", "case_id": "d", "assertions": [{"type": "latency"}]}"#,
        ),
        ("list.json", "[7]"),
    ];
    files
        .iter()
        .for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
    let large = std::fs::File::create(folder.join("large.json")).unwrap();
    large.set_len((16 << 20) + 1).unwrap();
    for (arguments, why) in [
        (&["-"][..], "both the cases and the trace"),
        (&["gone.json", "--trace=trace.json"], "gone.json"),
        (&["good.json", "--trace=gone.json"], "gone.json"),
        (&["good.json", "--trace=list.json"], "not an object"),
        (
            &["good.json", "--trace=large.json"],
            "error: cannot read large.json: it has more than 16777216 bytes\n",
        ),
        (&["empty.json", "--trace=trace.json"], "no cases"),
        (&["nothing.json", "--trace=trace.json"], "no assertions"),
        (&["twice.json", "--trace=trace.json"], "duplicate key"),
        (
            &["list.json", "--trace=trace.json"],
            "case 1: it is not an object",
        ),
        (
            &["good.json", "--trace=trace.json", "--judge-env=X"],
            "--judge-command",
        ),
        (
            &["good.json", "--trace=trace.json", "--judge=gone.wasm"],
            "gone.wasm",
        ),
    ] {
        let ran = Toolcell::new(["eval"].iter().chain(arguments))
            .dir(&folder)
            .run()
            .exits(2);
        assert!(
            ran.stdout.is_empty() && ran.stderr.contains(why),
            "{arguments:?}: {ran:?}"
        );
    }
}
