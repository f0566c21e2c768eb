use serde_json::Value;
use toolcell_dialect::agentool::{
    ReasoningTrace, StepType, ToolResult, TraceMetrics, TraceStep, Word,
};
use toolcell_engine::approval::PromptSheet;
use toolcell_spec::Timestamp;
use toolcell_spec::text::{Whitespace, visible, visible_json};

use crate::show;

use super::text;

/// Maximum number of rows for one value.
const ROWS_MAX: usize = 8;
/// Maximum number of rows for the content of one step.
const STEP_ROWS_MAX: usize = 3;

/// A trace as a page: its head, the steps with the milliseconds since it began, its output and its metrics.
pub(super) fn page(trace: &ReasoningTrace) -> String {
    let mut sheet = PromptSheet::new(show::columns());
    let status = trace
        .status
        .as_ref()
        .map_or_else(|| "running".to_owned(), word);
    sheet.host(&format!("trace {}: {status}", plain(&trace.trace_id)));
    sheet.value("session", &trace.session_id, ROWS_MAX);
    sheet.value("agent", &trace.agent_id, ROWS_MAX);
    if let Some(input) = trace.input.as_str() {
        sheet.value("input", input, ROWS_MAX);
    }
    sheet.value("began", &trace.started_at, 1);
    let began = time(&trace.started_at);
    for step in &trace.steps {
        let at = time(&step.timestamp)
            .zip(began)
            .map_or(0, |(at, began)| at.millis_since(began));
        let (about, content) = line(step);
        let head = format!(
            "{at:>8} ms  {}  {}  {}",
            plain(&step.step_id),
            word(&step.kind),
            plain(&about)
        );
        sheet.host(head.trim_end());
        sheet.aside(&content, STEP_ROWS_MAX);
    }
    if let Some(output) = trace.output.as_ref().and_then(Value::as_str) {
        sheet.value("output", output, ROWS_MAX);
    }
    if let Some(metrics) = &trace.metrics {
        let TraceMetrics {
            total_tokens,
            total_cost_usd,
            total_duration_ms,
            step_count,
            tool_call_count,
            ..
        } = metrics;
        sheet.host(&format!(
            "{step_count} steps, {tool_call_count} calls, {total_duration_ms} ms, {total_tokens} tokens, \
             {total_cost_usd} USD"
        ));
    }
    sheet.into_text()
}

/// A step's subject and content.
fn line(step: &TraceStep) -> (String, String) {
    let json = |value: &Value| visible_json(&value.to_string()).into_owned();
    match (step.kind.known(), &step.tool_call, &step.tool_result) {
        (Some(StepType::ToolCall), Some(call), _) => {
            (format!("{}  {}", call.name, call.id), json(&call.arguments))
        }
        (Some(StepType::ToolResult), _, Some(result)) => outcome(result),
        (Some(StepType::Handoff), ..) => (
            text(step.to_agent.as_ref()).to_owned(),
            text(step.message.as_ref()).to_owned(),
        ),
        (Some(StepType::MemoryRead), ..) => (
            text(step.query.as_ref()).to_owned(),
            step.results.as_ref().map(json).unwrap_or_default(),
        ),
        _ => (
            text(step.key.as_ref()).to_owned(),
            text(step.content.as_ref()).to_owned(),
        ),
    }
}

fn outcome(result: &ToolResult) -> (String, String) {
    let took = result
        .duration_ms
        .as_ref()
        .map(|ms| format!("{}  {ms} ms", result.call_id))
        .unwrap_or_default();
    let content = match (&result.error, &result.output) {
        (Some(Value::String(error)), _) => error.clone(),
        (_, Some(Value::String(text))) => text.clone(),
        (_, Some(output)) if !output.is_null() => visible_json(&output.to_string()).into_owned(),
        _ => String::new(),
    };
    (took, content)
}

fn word<T: serde::Serialize>(word: &Word<T>) -> String {
    let value = serde_json::to_value(word).unwrap_or_default();
    plain(value.as_str().unwrap_or_default())
}

/// A word of another program, without what could place other words on a terminal.
fn plain(text: &str) -> String {
    visible(text, Whitespace::WrittenOut)
}

fn time(text: &str) -> Option<Timestamp> {
    serde_json::from_value(text.into()).ok()
}
