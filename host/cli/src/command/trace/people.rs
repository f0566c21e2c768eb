use serde_json::Value;
use toolcell_dialect::agentool::{ReasoningTrace, StepType, ToolResult, TraceStep};
use toolcell_engine::approval::PromptSheet;
use toolcell_spec::text::{Whitespace, visible, visible_json};
use toolcell_spec::{Timestamp, TypedFields};

use crate::show;

const ROWS_MAX: usize = 8;
const STEP_ROWS_MAX: usize = 3;

pub(super) fn page(trace: &ReasoningTrace) -> String {
    let mut sheet = PromptSheet::new(show::columns());
    let status = trace
        .status
        .map_or_else(|| "running".to_owned(), |status| show::word(&status));
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
            step.kind.as_str(),
            plain(&about)
        );
        sheet.host(head.trim_end());
        sheet.aside(&content, STEP_ROWS_MAX);
    }
    if let Some(output) = trace.output.as_ref().and_then(Value::as_str) {
        sheet.value("output", output, ROWS_MAX);
    }
    let metrics = &trace.metrics;
    sheet.host(&format!(
        "{} steps, {} calls, {} ms, {} tokens, {} USD",
        metrics.step_count,
        metrics.tool_call_count,
        metrics.total_duration_ms,
        metrics.total_tokens,
        metrics.total_cost_usd
    ));
    sheet.into_text()
}

fn line(step: &TraceStep) -> (String, String) {
    let json = |value: &Value| visible_json(&value.to_string()).into_owned();
    let text = |name| step.extra.text(name).unwrap_or_default().to_owned();
    match (step.kind, &step.tool_call, &step.tool_result) {
        (StepType::ToolCall, Some(call), _) => {
            (format!("{}  {}", call.name, call.id), json(&call.arguments))
        }
        (StepType::ToolResult, _, Some(result)) => outcome(result),
        (StepType::Handoff, ..) => (text("to_agent"), text("message")),
        (StepType::MemoryRead, ..) => {
            let results = step.extra.get("results").map(json).unwrap_or_default();
            (text("query"), results)
        }
        _ => (text("key"), text("content")),
    }
}

fn outcome(result: &ToolResult) -> (String, String) {
    let took = format!("{}  {} ms", result.call_id, result.duration_ms);
    let content = match (result.error.iter().flatten().next(), &result.output) {
        (Some(error), _) => error.clone(),
        (None, Value::String(text)) => text.clone(),
        (None, Value::Null) => String::new(),
        (None, output) => visible_json(&output.to_string()).into_owned(),
    };
    (took, content)
}

/// Keeps out what could place other words on a terminal.
fn plain(text: &str) -> String {
    visible(text, Whitespace::WrittenOut)
}

fn time(text: &str) -> Option<Timestamp> {
    serde_json::from_value(text.into()).ok()
}
