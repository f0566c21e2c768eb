//! The five assertions that need only a trace (AO-AS-02, 03, 05..07).

use serde_json::{Map, Number, Value};
use toolcell_engine::catalog::BoundedSchema;
use toolcell_spec::{JSON_VALUES_MAX, TypedFields, read_unique_json};

use super::case::Assertion;
use super::result::AssertionResult;
use super::trace::{CallOutcome, CallStep, EvaluationTrace, amount, compare};
use super::{cut, judged};

const KINDS: [&str; 7] = [
    "contains_tool_call",
    "tool_call_count",
    "response_format",
    "context_efficiency",
    "latency",
    judged::OUTPUT_PROPERTY,
    judged::NO_HALLUCINATION,
];
const STEPS_SHOWN_MAX: usize = 5;

type AssertionOutcome = Result<String, String>;

/// `None` if only a judge can tell. An uncheckable assertion is failed, with a reason. A schema needs a thread with a
/// stack of [`toolcell_engine::catalog::SCHEMA_STACK_BYTES`].
pub fn check(assertion: &Assertion, trace: &EvaluationTrace) -> Option<AssertionResult> {
    let outcome = match assertion.kind.as_str() {
        "contains_tool_call" => contains_tool_call(assertion, trace),
        "tool_call_count" => tool_call_count(assertion, trace),
        "response_format" => response_format(assertion, trace),
        "context_efficiency" => context_efficiency(assertion, trace),
        "latency" => latency(assertion, trace),
        judged::OUTPUT_PROPERTY => match text(assertion, "property") {
            Ok(_) => return None,
            Err(why) => Err(why),
        },
        judged::NO_HALLUCINATION => return None,
        other => Err(format!(
            "cannot check an assertion of the type {:?}; known are {}",
            cut(other),
            KINDS.join(", ")
        )),
    };
    Some(AssertionResult::settled(assertion, outcome))
}

fn contains_tool_call(assertion: &Assertion, trace: &EvaluationTrace) -> AssertionOutcome {
    let name = text(assertion, "tool_name")?;
    let wanted = arguments(assertion)?;
    let must_succeed = flag(assertion, "require_success")?;
    let shown = cut(name);
    let mut missed = None;
    for call in trace.calls().filter(|step| step.call.name == name) {
        let at = call.name();
        if !wanted.is_none_or(|wanted| has_all(&call.call.arguments, wanted)) {
            missed.get_or_insert(format!(
                "{shown} is called at {at}, but without these arguments"
            ));
            continue;
        }
        match trace.end_of(&call) {
            _ if !must_succeed => return Ok(format!("{shown} called at {at}")),
            CallOutcome::Succeeded { at: end } => {
                return Ok(format!("{shown} called at {at}, and succeeded at {end}"));
            }
            CallOutcome::Failed { at: end } => {
                missed = Some(format!("{shown} is called at {at}, but failed at {end}"))
            }
            CallOutcome::Untold => {
                missed = Some(format!(
                    "{shown} is called at {at}, but the trace has no result of it"
                ))
            }
        }
    }
    Err(missed.unwrap_or_else(|| format!("{shown} is not called")))
}

fn tool_call_count(assertion: &Assertion, trace: &EvaluationTrace) -> AssertionOutcome {
    let name = match assertion.parameters.get("tool_name") {
        None | Some(Value::Null) => None,
        Some(_) => Some(text(assertion, "tool_name")?),
    };
    let min = bound(assertion, "min")?;
    let max = bound(assertion, "max")?;
    if min.is_none() && max.is_none() {
        return Err("the assertion has neither `min` nor `max`".to_owned());
    }
    let steps: Vec<CallStep<'_>> = trace
        .calls()
        .filter(|step| name.is_none_or(|name| step.call.name == name))
        .collect();
    let count = Number::from(steps.len());
    let mut said = match name {
        Some(name) => format!("{} is called {count} times", cut(name)),
        None => format!("{count} calls of tools"),
    };
    if !steps.is_empty() {
        let shown: Vec<String> = steps
            .iter()
            .take(STEPS_SHOWN_MAX)
            .map(CallStep::name)
            .collect();
        let more = if steps.len() > shown.len() {
            ", .."
        } else {
            ""
        };
        said += &format!(" (at {}{more})", shown.join(", "));
    }
    if let Some(min) = min.filter(|min| compare(&count, min).is_lt()) {
        return Err(format!("{said}; at least {min} are wanted"));
    }
    if let Some(max) = max.filter(|max| compare(&count, max).is_gt()) {
        return Err(format!("{said}; at most {max} are wanted"));
    }
    Ok(said)
}

fn response_format(assertion: &Assertion, trace: &EvaluationTrace) -> AssertionOutcome {
    let schema = assertion
        .parameters
        .get("schema")
        .filter(|schema| schema.is_object() || schema.is_boolean());
    let schema = schema.ok_or("the assertion has no `schema` that is an object")?;
    let parsed;
    let output = match &trace.output {
        Value::Null => return Err("the trace has no output".to_owned()),
        Value::String(text) => {
            let value = read_unique_json(text, JSON_VALUES_MAX);
            parsed = value.map_err(|why| format!("the output is not JSON: {}", cut(&why)))?;
            &parsed
        }
        // A framework may have parsed it already.
        other => other,
    };
    let schema = BoundedSchema::compile(schema)
        .map_err(|why| format!("cannot use the schema: {}", cut(&format!("{why:#}"))))?;
    match schema.check(output) {
        Ok(()) => Ok("the output matches the schema".to_owned()),
        Err(why) => Err(format!("the output does not match the schema: {why}")),
    }
}

fn context_efficiency(assertion: &Assertion, trace: &EvaluationTrace) -> AssertionOutcome {
    let max = bound(assertion, "max_tokens")?.ok_or("the assertion has no `max_tokens`")?;
    let (tokens, place) = trace
        .tokens()
        .ok_or("the trace tells no number of tokens")?;
    within(&format!("{tokens} tokens {place}"), tokens, max)
}

fn latency(assertion: &Assertion, trace: &EvaluationTrace) -> AssertionOutcome {
    let max = bound(assertion, "max_ms")?.ok_or("the assertion has no `max_ms`")?;
    let took = trace
        .duration()
        .ok_or("the trace has no metrics.total_duration_ms")?;
    within(
        &format!("{took} ms in metrics.total_duration_ms"),
        took,
        max,
    )
}

fn within(said: &str, measured: &Number, max: &Number) -> AssertionOutcome {
    if compare(measured, max).is_le() {
        Ok(format!("{said}, of {max} at most"))
    } else {
        Err(format!("{said}, more than {max}"))
    }
}

fn text<'a>(assertion: &'a Assertion, name: &str) -> Result<&'a str, String> {
    let text = assertion
        .parameters
        .text(name)
        .filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("the assertion has no text `{name}`"))
}

fn bound<'a>(assertion: &'a Assertion, name: &str) -> Result<Option<&'a Number>, String> {
    match assertion.parameters.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match amount(value) {
            Some(number) => Ok(Some(number)),
            None => Err(format!(
                "`{name}` of the assertion is not a number of 0 or more"
            )),
        },
    }
}

fn flag(assertion: &Assertion, name: &str) -> Result<bool, String> {
    match assertion.parameters.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(value) => value
            .as_bool()
            .ok_or_else(|| format!("`{name}` of the assertion is not true or false")),
    }
}

fn arguments(assertion: &Assertion) -> Result<Option<&Map<String, Value>>, String> {
    match assertion.parameters.get("arguments") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(wanted)) => Ok(Some(wanted)),
        Some(_) => Err("`arguments` of the assertion is not an object".to_owned()),
    }
}

fn has_all(given: &Value, wanted: &Map<String, Value>) -> bool {
    let Value::Object(given) = given else {
        return false;
    };
    wanted
        .iter()
        .all(|(name, wanted)| given.get(name).is_some_and(|given| matches(given, wanted)))
}

fn matches(given: &Value, wanted: &Value) -> bool {
    match (given, wanted) {
        (_, Value::Object(wanted)) => has_all(given, wanted),
        (Value::Array(given), Value::Array(wanted)) => {
            given.len() == wanted.len()
                && given
                    .iter()
                    .zip(wanted)
                    .all(|(given, wanted)| matches(given, wanted))
        }
        // 1 and 1.0 are one number.
        (Value::Number(given), Value::Number(wanted)) => {
            given == wanted
                || (given.is_f64() != wanted.is_f64() && given.as_f64() == wanted.as_f64())
        }
        (given, wanted) => given == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::case::Assertion;
    use super::super::trace::EvaluationTrace;
    use super::check;

    fn checked(assertion: Value, trace: Value) -> (bool, String) {
        let assertion: Assertion = serde_json::from_value(assertion).unwrap();
        let result = check(
            &assertion,
            &EvaluationTrace::read(&trace.to_string()).unwrap(),
        )
        .unwrap();
        assert_eq!(result.score, if result.passed { 1.0 } else { 0.0 });
        assert_eq!(result.assertion_type, assertion.kind);
        (result.passed, result.reason)
    }

    fn passes(assertion: Value, trace: &Value) -> bool {
        checked(assertion, trace.clone()).0
    }

    fn calls(count: usize) -> Value {
        let step = |n: usize| {
            let call = json!({ "id": format!("c{n}"), "name": "search", "arguments": { "q": "x", "deep": { "a": 1, "b": [1, 2] } } });
            json!({ "step_id": format!("s{n}"), "type": "tool_call", "tool_call": call })
        };
        json!({ "trace_id": "t", "steps": (0..count).map(step).collect::<Vec<_>>() })
    }

    #[test]
    fn counts_are_compared_at_their_bounds() {
        for (count, passed) in [(1, false), (2, true), (3, true), (4, false)] {
            assert_eq!(
                passes(
                    json!({ "type": "tool_call_count", "min": 2, "max": 3 }),
                    &calls(count)
                ),
                passed,
                "{count}"
            );
        }
        let of = |name: &str| json!({ "type": "tool_call_count", "max": 0, "tool_name": name });
        assert!(
            passes(of("other"), &calls(1))
                && !passes(of("search"), &calls(1))
                && passes(of("search"), &calls(0))
        );
        let (passed, why) = checked(json!({ "type": "tool_call_count" }), calls(1));
        assert!(!passed && why.contains("neither"), "{why}");
        let (_, why) = checked(json!({ "type": "tool_call_count", "min": 0 }), calls(7));
        assert_eq!(why, "7 calls of tools (at s0, s1, s2, s3, s4, ..)");
    }

    #[test]
    fn arguments_are_a_part_of_those_of_the_call() {
        let with = |arguments: Value| {
            passes(
                json!({ "type": "contains_tool_call", "tool_name": "search", "arguments": arguments }),
                &calls(1),
            )
        };
        for arguments in [
            json!({}),
            json!({ "q": "x" }),
            json!({ "deep": { "a": 1.0 } }),
            json!({ "deep": { "b": [1, 2] } }),
        ] {
            assert!(with(arguments.clone()), "{arguments}");
        }
        for arguments in [
            json!({ "q": "y" }),
            json!({ "other": null }),
            json!({ "deep": { "a": "1" } }),
            json!({ "deep": { "b": [1] } }),
            json!({ "q": { "x": 1 } }),
            json!("x"),
        ] {
            assert!(!with(arguments.clone()), "{arguments}");
        }
    }

    #[test]
    fn a_call_that_must_succeed_has_a_result_without_an_error() {
        let mut trace = calls(2);
        let wanted =
            json!({ "type": "contains_tool_call", "tool_name": "search", "require_success": true });
        let why = |trace: &Value| checked(wanted.clone(), trace.clone());
        assert_eq!(
            why(&trace),
            (
                false,
                "search is called at s1, but the trace has no result of it".to_owned()
            )
        );
        let result = |id: &str, error: Value| json!({ "step_id": format!("r-{id}"), "type": "tool_result", "tool_result": { "call_id": id, "error": error } });
        trace["steps"]
            .as_array_mut()
            .unwrap()
            .push(result("c1", json!("timeout: too late")));
        assert_eq!(
            why(&trace),
            (
                false,
                "search is called at s1, but failed at r-c1".to_owned()
            )
        );
        trace["steps"]
            .as_array_mut()
            .unwrap()
            .push(result("c0", Value::Null));
        assert_eq!(
            why(&trace),
            (
                true,
                "search called at s0, and succeeded at r-c0".to_owned()
            )
        );
    }

    #[test]
    fn words_about_a_tool_are_no_call_of_it() {
        let trace = json!({
            "trace_id": "t", "output": "I called search at step_002",
            "steps": [{ "type": "reasoning", "content": "search called", "tool_call": { "name": "search" } }],
        });
        let (passed, why) = checked(
            json!({ "type": "contains_tool_call", "tool_name": "search" }),
            trace,
        );
        assert!(!passed && why == "search is not called", "{why}");
    }

    #[test]
    fn tokens_and_milliseconds_are_compared_at_their_bounds() {
        let trace = |measured: Value| json!({ "trace_id": "t", "metrics": { "total_tokens": measured, "total_duration_ms": measured } });
        for (measured, passed) in [
            (json!(0), true),
            (json!(99), true),
            (json!(100), true),
            (json!(100.0), true),
            (json!(100.5), false),
            (json!(101), false),
            (json!(-1), false),
            (json!("1"), false),
            (Value::Null, false),
        ] {
            for assertion in [
                json!({ "type": "context_efficiency", "max_tokens": 100 }),
                json!({ "type": "latency", "max_ms": 100 }),
            ] {
                assert_eq!(
                    passes(assertion.clone(), &trace(measured.clone())),
                    passed,
                    "{assertion}: {measured}"
                );
            }
        }
        // Numbers that differ, and are one number as floating point.
        let large = 9_007_199_254_740_993_u64;
        assert!(!passes(
            json!({ "type": "latency", "max_ms": large - 1 }),
            &trace(json!(large))
        ));
    }

    #[test]
    fn an_output_is_json_and_matches() {
        let with = |schema: Value, output: Value| {
            checked(
                json!({ "type": "response_format", "schema": schema }),
                json!({ "trace_id": "t", "output": output }),
            )
        };
        let schema = json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } });
        assert!(
            with(schema.clone(), json!("{\"n\": 1}")).0
                && with(schema.clone(), json!({ "n": 1 })).0
        );
        for (output, why) in [
            (json!("{\"n\": \"one\"}"), "(at /n)"),
            (json!("{\"n\": 1, \"n\": 2}"), "duplicate key"),
            (json!("n is 1"), "not JSON"),
            (Value::Null, "no output"),
        ] {
            let (passed, reason) = with(schema.clone(), output);
            assert!(!passed && reason.contains(why), "{reason}");
        }
        for schema in [
            json!({ "type": 7 }),
            json!({ "$ref": "https://example.com/x" }),
            Value::Null,
            json!("x"),
        ] {
            let (passed, reason) = with(schema, json!("{}"));
            assert!(!passed && reason.contains("schema"), "{reason}");
        }
    }

    #[test]
    fn what_cannot_be_checked_is_failed_and_told() {
        for (assertion, why) in [
            (
                json!({ "type": "is_polite" }),
                "cannot check an assertion of the type \"is_polite\"",
            ),
            (
                json!({ "type": "contains_tool_call" }),
                "no text `tool_name`",
            ),
            (
                json!({ "type": "contains_tool_call", "tool_name": "search", "require_success": "no" }),
                "`require_success`",
            ),
            (json!({ "type": "tool_call_count", "min": -1 }), "`min`"),
            (json!({ "type": "latency" }), "no `max_ms`"),
            (json!({ "type": "latency", "max_ms": "1s" }), "`max_ms`"),
            (json!({ "type": "context_efficiency" }), "no `max_tokens`"),
            (json!({ "type": "output_property" }), "no text `property`"),
        ] {
            let (passed, reason) = checked(assertion, calls(1));
            assert!(!passed && reason.contains(why), "{reason}");
        }
    }
}
