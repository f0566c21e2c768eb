use std::cmp::Ordering;

use serde::Deserialize;
use serde_json::{Number, Value};
use toolcell_spec::{Extra, read_unique_json};

pub const TRACE_BYTES_MAX: usize = 16 << 20;
/// Each takes some 100 bytes.
const TRACE_VALUES_MAX: usize = 500_000;

/// The fields of a ReasoningTrace for evaluation: all claims of the agent's framework.
#[derive(Debug, Deserialize)]
pub struct EvaluationTrace {
    pub trace_id: String,
    #[serde(default)]
    pub(super) output: Value,
    #[serde(default)]
    steps: Vec<EvaluatedStep>,
    metrics: Option<Extra>,
    /// As written, for a judge.
    #[serde(skip)]
    pub(super) whole: Value,
}

#[derive(Debug, Deserialize)]
struct EvaluatedStep {
    #[serde(default)]
    step_id: String,
    #[serde(rename = "type")]
    kind: String,
    tool_call: Option<ToolCall>,
    tool_result: Option<ToolResult>,
    #[serde(default)]
    context_tokens: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolCall {
    id: Option<String>,
    pub(super) name: String,
    #[serde(default)]
    pub(super) arguments: Value,
}

#[derive(Debug, Deserialize)]
struct ToolResult {
    call_id: Option<String>,
    #[serde(default)]
    error: Value,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CallStep<'t> {
    at: usize,
    step: &'t EvaluatedStep,
    pub(super) call: &'t ToolCall,
}

/// According to the trace.
#[derive(Debug, PartialEq)]
pub(super) enum CallOutcome {
    Succeeded { at: String },
    Failed { at: String },
    Untold,
}

impl EvaluationTrace {
    /// Steps of unknown types are not read.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.len() > TRACE_BYTES_MAX {
            return Err(format!("there are more than {TRACE_BYTES_MAX} bytes"));
        }
        let whole = read_unique_json(text.trim_start_matches('\u{feff}'), TRACE_VALUES_MAX)?;
        if !whole.is_object() {
            return Err("it is not an object".to_owned());
        }
        let mut trace =
            Self::deserialize(&whole).map_err(|error| super::cut(&error.to_string()))?;
        for (at, step) in trace.steps.iter().enumerate() {
            let missing = match step.kind.as_str() {
                "tool_call" if step.tool_call.is_none() => "tool_call",
                "tool_result" if step.tool_result.is_none() => "tool_result",
                _ => continue,
            };
            return Err(format!(
                "{} has the type {missing}, and no field `{missing}`",
                step.name(at)
            ));
        }
        trace.whole = whole;
        Ok(trace)
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = CallStep<'_>> {
        let calls = self
            .steps
            .iter()
            .enumerate()
            .filter(|(_, step)| step.kind == "tool_call");
        calls.filter_map(|(at, step)| {
            Some(CallStep {
                at,
                step,
                call: step.tool_call.as_ref()?,
            })
        })
    }

    pub(super) fn end_of(&self, call: &CallStep<'_>) -> CallOutcome {
        let Some(id) = &call.call.id else {
            return CallOutcome::Untold;
        };
        let mut later = self
            .steps
            .iter()
            .enumerate()
            .skip(call.at + 1)
            .filter(|(_, step)| step.kind == "tool_result");
        let result = later.find_map(|(at, step)| {
            let result = step
                .tool_result
                .as_ref()
                .filter(|result| result.call_id.as_ref() == Some(id))?;
            Some((step.name(at), result))
        });
        match result {
            None => CallOutcome::Untold,
            Some((
                at,
                ToolResult {
                    error: Value::Null, ..
                },
            )) => CallOutcome::Succeeded { at },
            Some((at, _)) => CallOutcome::Failed { at },
        }
    }

    /// Tokens and their source: the metric, else the largest context of a step.
    pub(super) fn tokens(&self) -> Option<(&Number, String)> {
        if let Some(total) = self.metric("total_tokens") {
            return Some((total, "in metrics.total_tokens".to_owned()));
        }
        let told = self.steps.iter().enumerate();
        let told =
            told.filter_map(|(at, step)| Some((amount(&step.context_tokens)?, step.name(at))));
        let most = told.reduce(|most, other| {
            if compare(other.0, most.0).is_gt() {
                other
            } else {
                most
            }
        });
        most.map(|(tokens, step)| (tokens, format!("at {step}")))
    }

    /// In milliseconds.
    pub(super) fn duration(&self) -> Option<&Number> {
        self.metric("total_duration_ms")
    }

    fn metric(&self, name: &str) -> Option<&Number> {
        self.metrics.as_ref()?.get(name).and_then(amount)
    }
}

impl EvaluatedStep {
    fn name(&self, at: usize) -> String {
        match self.step_id.as_str() {
            "" => format!("step {}", at + 1),
            id => super::cut(id),
        }
    }
}

impl CallStep<'_> {
    pub(super) fn name(&self) -> String {
        self.step.name(self.at)
    }
}

pub(super) fn amount(value: &Value) -> Option<&Number> {
    match value {
        Value::Number(number) if number.as_f64().is_some_and(|value| value >= 0.0) => Some(number),
        _ => None,
    }
}

/// Compares whole numbers exactly.
pub(super) fn compare(left: &Number, right: &Number) -> Ordering {
    match (left.as_u64(), right.as_u64()) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left
            .as_f64()
            .unwrap_or(f64::MAX)
            .total_cmp(&right.as_f64().unwrap_or(f64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{CallOutcome, EvaluationTrace};

    fn trace(steps: &Value, metrics: &Value) -> EvaluationTrace {
        let text = json!({ "trace_id": "t", "steps": steps, "metrics": metrics }).to_string();
        EvaluationTrace::read(&text).unwrap()
    }

    #[test]
    fn a_result_belongs_to_the_call_before_it_with_its_id() {
        let call = |id: Value| json!({ "step_id": "c", "type": "tool_call", "tool_call": { "id": id, "name": "t" } });
        let result = |step: &str, error: Value| json!({ "step_id": step, "type": "tool_result", "tool_result": { "call_id": "a", "error": error } });
        let ended = |steps: Value| {
            let trace = trace(&steps, &json!({}));
            let call = trace.calls().next().unwrap();
            match trace.end_of(&call) {
                CallOutcome::Succeeded { at } => format!("succeeded {at}"),
                CallOutcome::Failed { at } => format!("failed {at}"),
                CallOutcome::Untold => "untold".to_owned(),
            }
        };
        assert_eq!(
            ended(json!([call(json!("a")), result("r", Value::Null)])),
            "succeeded r"
        );
        assert_eq!(
            ended(json!([
                call(json!("a")),
                result("r", json!("timeout: ..")),
                result("s", Value::Null)
            ])),
            "failed r"
        );
        assert_eq!(
            ended(json!([result("r", Value::Null), call(json!("a"))])),
            "untold"
        );
        assert_eq!(
            ended(json!([call(Value::Null), result("r", Value::Null)])),
            "untold"
        );
        assert_eq!(
            ended(json!([call(json!("b")), result("r", Value::Null)])),
            "untold"
        );
    }

    #[test]
    fn tokens_are_those_of_the_metrics_else_the_largest_context() {
        let steps = json!([
            { "type": "reasoning", "context_tokens": 7 }, { "type": "reasoning", "context_tokens": 9 },
            { "type": "dream", "context_tokens": "many" },
        ]);
        let told = |metrics: Value| {
            let trace = trace(&steps, &metrics);
            trace
                .tokens()
                .map(|(tokens, place)| format!("{tokens} {place}"))
                .unwrap()
        };
        assert_eq!(
            told(json!({ "total_tokens": 3 })),
            "3 in metrics.total_tokens"
        );
        assert_eq!(told(json!({ "total_tokens": -3 })), "9 at step 2");
        assert!(trace(&json!([]), &Value::Null).tokens().is_none());
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let refused = |text: &str| EvaluationTrace::read(text).unwrap_err();
        assert!(refused("[]").contains("not an object") && refused("{}").contains("`trace_id`"));
        assert!(refused(r#"{"trace_id":"a","trace_id":"b"}"#).contains("trace_id"));
        let empty = r#"{"trace_id":"a","steps":[{"type":"tool_call","step_id":"s"}]}"#;
        assert_eq!(
            refused(empty),
            "s has the type tool_call, and no field `tool_call`"
        );
    }
}
