//! Evaluation of a run that toolcell recorded itself: calls of the built program, and the steps that an agent added.

use serde_json::{Value, json};
use toolcell_spec::Timestamp;

use super::super::guest;
use super::{case, results};
use crate::support::{Home, Ran};

const SESSION: &str = "--session=recorded";
const OUTPUT: &str = "{\"tools\": [\"echo\"], \"count\": 1}";
const TOKENS: u64 = 3_200;

/// A run: what was called, with the record of each call, and the trace that `toolcell trace` makes of it.
struct Run {
    home: Home,
    called: Vec<(&'static str, Value, Value)>,
    trace: Value,
}

impl Run {
    fn new() -> Self {
        let home = Home::new();
        let add = |step: Value| {
            home.toolcell(&["trace", "add", SESSION, "-"])
                .stdin(&step.to_string())
                .run()
                .exits(0);
        };
        add(
            json!({ "type": "start", "input": "Which tools are there?", "agent_id": "researcher" }),
        );
        add(json!({ "type": "reasoning", "content": "I look it up.", "context_tokens": 1_200 }));
        let called = [
            ("echo", json!({ "query": "agent tools", "limit": 3 })),
            ("echo", json!({ "query": "more" })),
            ("fail", json!({ "class": "rate_limited" })),
            ("read", json!({ "path": "/etc/hostname" })),
            ("good_structured", json!({})),
        ]
        .map(|(name, input)| {
            let record = home.call(&guest(&format!("probe#{name}")), &input, &[SESSION]);
            (name, input, record)
        });
        add(
            json!({ "type": "end", "output": OUTPUT, "status": "success", "total_tokens": TOKENS }),
        );
        let trace = home
            .toolcell(&["trace", SESSION, "--json"])
            .run()
            .exits(0)
            .json();
        Self {
            home,
            called: called.into(),
            trace,
        }
    }

    fn evaluate(&self, cases: &[Value], options: &[&str]) -> Ran {
        let file = |name: &str, text: String| {
            let path = self.home.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let cases = file(
            "cases.ndjson",
            cases.iter().map(|case| format!("{case}\n")).collect(),
        );
        let trace = format!("--trace={}", file("trace.json", self.trace.to_string()));
        self.home
            .toolcell(&[&["eval", &cases, &trace, "--json"], options].concat())
            .run()
    }

    fn lasted_ms(&self) -> u64 {
        let time =
            |name: &str| -> Timestamp { serde_json::from_value(self.trace[name].clone()).unwrap() };
        time("finished_at").millis_since(time("started_at"))
    }

    /// The score of an assertion, computed from the records of the calls.
    fn score(&self, assertion: &Value) -> f64 {
        let of_tool = |call: &&(&'static str, Value, Value)| {
            assertion["tool_name"].is_null() || assertion["tool_name"] == call.0
        };
        let mut called = self.called.iter().filter(of_tool);
        let has = |input: &Value| {
            let wanted = assertion["arguments"].as_object();
            wanted.is_none_or(|wanted| wanted.iter().all(|(name, value)| input[name] == *value))
        };
        let holds = match assertion["type"].as_str().unwrap() {
            "contains_tool_call" => called.any(|(_, input, record)| {
                has(input)
                    && (assertion["require_success"] != true
                        || record["result"]["status"] == "succeeded")
            }),
            "tool_call_count" => {
                let bound = |name: &str, open: u64| assertion[name].as_u64().unwrap_or(open);
                (bound("min", 0)..=bound("max", u64::MAX)).contains(&(called.count() as u64))
            }
            "response_format" => {
                let output: Value = serde_json::from_str(OUTPUT).unwrap();
                let required = assertion["schema"]["required"].as_array().unwrap();
                required
                    .iter()
                    .all(|name| output.get(name.as_str().unwrap()).is_some())
            }
            "context_efficiency" => TOKENS <= assertion["max_tokens"].as_u64().unwrap(),
            "latency" => self.lasted_ms() <= assertion["max_ms"].as_u64().unwrap(),
            // Only a judge can tell, and there is none.
            "output_property" | "no_hallucination" => false,
            other => panic!("{other}"),
        };
        f64::from(u8::from(holds))
    }
}

/// Ten cases with every type of assertion, most of them at a bound.
fn ten_cases(lasted_ms: u64) -> Vec<Value> {
    let call = |fields: Value| {
        let mut assertion = json!({ "type": "contains_tool_call" });
        assertion
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        assertion
    };
    let requires = |fields: Value| json!({ "type": "response_format", "schema": { "type": "object", "required": fields } });
    vec![
        case(
            "called",
            json!([
                call(json!({ "tool_name": "echo" })),
                call(json!({ "tool_name": "good_structured" }))
            ]),
        ),
        case(
            "arguments",
            json!([
                call(json!({ "tool_name": "echo", "arguments": { "limit": 3 } })),
                call(json!({ "tool_name": "echo", "arguments": { "query": "more" } })),
            ]),
        ),
        case(
            "other arguments",
            json!([call(
                json!({ "tool_name": "echo", "arguments": { "limit": 4 } })
            )]),
        ),
        case(
            "success",
            json!([
                call(json!({ "tool_name": "echo", "require_success": true })),
                call(json!({ "tool_name": "fail" })),
                call(json!({ "tool_name": "fail", "require_success": true })),
                call(json!({ "tool_name": "read", "require_success": true })),
            ]),
        ),
        case(
            "counts",
            json!([
                { "type": "tool_call_count", "min": 5, "max": 5 }, { "type": "tool_call_count", "min": 6 },
                { "type": "tool_call_count", "max": 4 }, { "type": "tool_call_count", "tool_name": "echo", "min": 2, "max": 2 },
            ]),
        ),
        case("format", json!([requires(json!(["tools", "count"]))])),
        case(
            "other format",
            json!([requires(json!(["tools"])), requires(json!(["sources"]))]),
        ),
        case(
            "tokens",
            json!([{ "type": "context_efficiency", "max_tokens": TOKENS }, { "type": "context_efficiency", "max_tokens": TOKENS - 1 }]),
        ),
        case(
            "time",
            json!([{ "type": "latency", "max_ms": lasted_ms }, { "type": "latency", "max_ms": lasted_ms - 1 }]),
        ),
        case(
            "judged",
            json!([
                call(json!({ "tool_name": "echo" })), { "type": "output_property", "property": "names a tool" },
                { "type": "no_hallucination" },
            ]),
        ),
    ]
}

#[test]
fn ten_cases_over_a_recorded_run_get_the_scores_that_its_records_give() {
    let run = Run::new();
    let cases = ten_cases(run.lasted_ms());
    let found = results(&run.evaluate(&cases, &[]).exits(1));
    assert_eq!(found.len(), 10);
    for (case, result) in cases.iter().zip(&found) {
        let expected: Vec<f64> = case["assertions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| run.score(one))
            .collect();
        let told = result["assertion_results"].as_array().unwrap();
        let scores: Vec<f64> = told
            .iter()
            .map(|one| one["score"].as_f64().unwrap())
            .collect();
        assert_eq!(scores, expected, "{result:#}");
        assert!(
            told.iter()
                .zip(&expected)
                .all(|(one, score)| one["passed"] == (*score == 1.0)),
            "{result:#}"
        );
        let mean = expected.iter().sum::<f64>() / expected.len() as f64;
        assert!(
            (result["composite_score"].as_f64().unwrap() - mean).abs() < 1e-9,
            "{result:#}"
        );
        assert_eq!(
            result["passed"],
            expected.iter().all(|score| *score == 1.0),
            "{result:#}"
        );
        assert_eq!(
            (&result["case_id"], &result["trace_id"]),
            (&case["case_id"], &run.trace["trace_id"])
        );
        assert_eq!(result["judge_model"], Value::Null, "no judge was asked");
    }
    // The records and the trace agree on what was called, and the steps of the reasons are steps of the trace.
    let steps: Vec<&str> = run.trace["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["step_id"].as_str().unwrap())
        .collect();
    let reason = found[0]["assertion_results"][0]["reason"].as_str().unwrap();
    assert!(
        steps
            .iter()
            .any(|step| reason == format!("echo called at {step}")),
        "{reason}"
    );
    let passed: Vec<&Value> = found
        .iter()
        .filter(|result| result["passed"] == true)
        .map(|result| &result["case_id"])
        .collect();
    assert_eq!(passed, ["called", "arguments", "format"]);
}

#[test]
fn a_judged_assertion_over_a_recorded_run_passes_with_a_judge_alone() {
    let run = Run::new();
    let judged = ten_cases(run.lasted_ms()).pop().unwrap();
    let without = &results(&run.evaluate(std::slice::from_ref(&judged), &[]).exits(1))[0];
    for one in &without["assertion_results"].as_array().unwrap()[1..] {
        let told = (&one["passed"], one["score"].as_f64(), &one["reason"]);
        assert_eq!(
            told,
            (&json!(false), Some(0.0), &json!("no judge configured")),
            "{one}"
        );
    }
    // The judge reads the recorded trace.
    let judge = r#"case $(cat) in
        *'"trace":{'*'"name":"good_structured"'*) echo '{"passed":true,"score":0.5,"reason":"r","model":"m"}';;
        *) echo '{"passed":false,"score":0,"reason":"no such call","model":"m"}';;
    esac"#;
    let with = &results(
        &run.evaluate(&[judged], &["--judge-command", "sh", "-c", judge])
            .exits(0),
    )[0];
    assert_eq!(
        (&with["passed"], &with["judge_model"]),
        (&json!(true), &json!("m"))
    );
    assert!(
        (with["composite_score"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9,
        "{with:#}"
    );
}
