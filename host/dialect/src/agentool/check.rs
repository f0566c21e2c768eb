//! The specification's rules for each object, for strict readers.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Number, Value};
use toolcell_spec::Timestamp;

use super::tool_spec::is_snake_case;
use super::{
    CallExchange, ReasoningTrace, SpecDocument, StepType, ToolCall, ToolRegistry, ToolResult,
    ToolSpec, TraceStep, Word,
};

type CheckResult = Result<(), String>;

impl SpecDocument for ToolSpec {
    fn problem(&self) -> Option<String> {
        tool_spec(self).err()
    }
}

impl SpecDocument for ToolCall {
    fn problem(&self) -> Option<String> {
        tool_call(self).err()
    }
}

impl SpecDocument for ToolResult {
    fn problem(&self) -> Option<String> {
        tool_result(self).err()
    }
}

impl SpecDocument for CallExchange {
    fn problem(&self) -> Option<String> {
        exchange(self).err()
    }
}

impl SpecDocument for TraceStep {
    fn problem(&self) -> Option<String> {
        step(self).err()
    }
}

impl SpecDocument for ReasoningTrace {
    fn problem(&self) -> Option<String> {
        trace(self).err()
    }
}

impl SpecDocument for ToolRegistry {
    fn problem(&self) -> Option<String> {
        registry(self).err()
    }
}

fn require(holds: bool, what: &str) -> CheckResult {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn is_known<T: Copy>(word: Option<&Word<T>>) -> bool {
    word.is_none_or(|word| word.known().is_some())
}

fn time(text: &str, name: &str) -> Result<Timestamp, String> {
    let value = Value::String(text.to_owned());
    Timestamp::deserialize(&value)
        .map_err(|_| format!("`{name}` is not a time such as 2026-11-22T08:00:00Z"))
}

fn is_count(number: Option<&Number>) -> bool {
    number.is_none_or(Number::is_u64)
}

fn is_text(value: Option<&Value>) -> bool {
    value.is_some_and(Value::is_string)
}

fn tool_spec(spec: &ToolSpec) -> CheckResult {
    require(is_snake_case(&spec.name), "`name` is not in snake_case")?;
    require(
        !spec.description.trim().is_empty(),
        "`description` is empty",
    )?;
    let is_object = spec
        .parameters
        .get("type")
        .is_some_and(|kind| kind == "object");
    require(is_object, "`parameters` is not a schema of type object")?;
    let is_schema = spec
        .returns
        .as_ref()
        .is_none_or(|schema| schema.is_object() || schema.is_boolean());
    require(is_schema, "`returns` is not a schema")?;
    let Some(metadata) = &spec.metadata else {
        return Ok(());
    };
    require(
        is_known(metadata.category.as_ref()),
        "`metadata.category` is not retrieval, compute, io, side_effect or coordination",
    )?;
    require(
        is_known(metadata.cost_tier.as_ref()),
        "`metadata.cost_tier` is not free, cheap, medium or expensive",
    )
}

fn tool_call(call: &ToolCall) -> CheckResult {
    require(!call.id.is_empty(), "`id` is empty")?;
    require(!call.name.is_empty(), "`name` is empty")?;
    require(call.arguments.is_object(), "`arguments` is not an object")?;
    call.timestamp
        .as_ref()
        .map_or(Ok(()), |timestamp| time(timestamp, "timestamp").map(drop))
}

fn tool_result(result: &ToolResult) -> CheckResult {
    require(!result.call_id.is_empty(), "`call_id` is empty")?;
    require(result.output.is_some(), "it has no `output`")?;
    let is_error =
        |error: &Value| error.is_null() || error.as_str().is_some_and(|text| !text.is_empty());
    require(
        result.error.as_ref().is_none_or(is_error),
        "`error` is neither null nor a text",
    )?;
    require(
        result.duration_ms.is_some() && is_count(result.duration_ms.as_ref()),
        "`duration_ms` is not a whole number",
    )?;
    require(
        is_count(result.cost_tokens.as_ref()),
        "`cost_tokens` is not a whole number",
    )
}

fn exchange(exchange: &CallExchange) -> CheckResult {
    let CallExchange {
        tool_call: call,
        tool_result: result,
        ..
    } = exchange;
    tool_call(call)?;
    tool_result(result)?;
    require(
        call.id == result.call_id,
        "`call_id` is not the `id` of the call",
    )
}

fn step(step: &TraceStep) -> CheckResult {
    require(!step.step_id.is_empty(), "`step_id` is empty")?;
    time(&step.timestamp, "timestamp")?;
    let Word::Known(kind) = step.kind else {
        return Err("its `type` is not one of the six".to_owned());
    };
    match kind {
        StepType::Reasoning => {
            require(is_text(step.content.as_ref()), "it has no text `content`")?;
            require(
                is_count(step.context_tokens.as_ref()),
                "`context_tokens` is not a whole number",
            )
        }
        StepType::ToolCall => step
            .tool_call
            .as_ref()
            .map_or(Err("it has no `tool_call`".to_owned()), tool_call),
        StepType::ToolResult => step
            .tool_result
            .as_ref()
            .map_or(Err("it has no `tool_result`".to_owned()), tool_result),
        StepType::Handoff => {
            let agent = step.to_agent.as_ref().and_then(Value::as_str);
            require(
                agent.is_some_and(|agent| !agent.is_empty()),
                "it has no text `to_agent`",
            )?;
            require(
                step.message.as_ref().is_none_or(Value::is_string),
                "`message` is not a text",
            )
        }
        StepType::MemoryRead => require(is_text(step.query.as_ref()), "it has no text `query`"),
        StepType::MemoryWrite => {
            require(is_text(step.content.as_ref()), "it has no text `content`")?;
            require(
                step.key.as_ref().is_none_or(Value::is_string),
                "`key` is not a text",
            )
        }
    }
}

fn trace(trace: &ReasoningTrace) -> CheckResult {
    let ids = [
        (&trace.trace_id, "trace_id"),
        (&trace.agent_id, "agent_id"),
        (&trace.session_id, "session_id"),
    ];
    ids.into_iter()
        .try_for_each(|(id, name)| require(!id.is_empty(), &format!("`{name}` is empty")))?;
    let started = time(&trace.started_at, "started_at")?;
    if let Some(finished) = &trace.finished_at {
        require(
            started <= time(finished, "finished_at")?,
            "`finished_at` is before `started_at`",
        )?;
        require(trace.status.is_some(), "it has finished without a `status`")?;
    }
    let is_input = |value: &Value| value.is_string() || value.is_null();
    require(is_input(&trace.input), "`input` is neither a text nor null")?;
    require(
        trace.output.as_ref().is_none_or(is_input),
        "`output` is neither a text nor null",
    )?;
    require(
        is_known(trace.status.as_ref()),
        "`status` is not one of the six",
    )?;
    steps(&trace.steps)?;
    let Some(metrics) = &trace.metrics else {
        return Err("it has no `metrics`".to_owned());
    };
    let counts = [
        &metrics.total_tokens,
        &metrics.total_duration_ms,
        &metrics.step_count,
        &metrics.tool_call_count,
    ];
    require(
        counts.into_iter().all(Number::is_u64),
        "a metric is not a whole number",
    )?;
    require(
        metrics
            .total_cost_usd
            .as_f64()
            .is_some_and(|cost| cost >= 0.0),
        "`total_cost_usd` is negative",
    )?;
    let calls = trace
        .steps
        .iter()
        .filter(|step| step.is(StepType::ToolCall))
        .count();
    require(
        metrics.step_count == Number::from(trace.steps.len()),
        "`step_count` is not the number of steps",
    )?;
    require(
        metrics.tool_call_count == Number::from(calls),
        "`tool_call_count` is not the number of calls",
    )
}

/// Checks each step, and what is between them: unique ids, times in order, and a call before each result.
fn steps(steps: &[TraceStep]) -> CheckResult {
    let mut ids = HashSet::new();
    let mut calls = HashSet::new();
    let mut last: Option<Timestamp> = None;
    for one in steps {
        let wrong = |why: String| format!("step {:?}: {why}", one.step_id);
        step(one).map_err(wrong)?;
        require(
            ids.insert(one.step_id.as_str()),
            "two steps have one `step_id`",
        )
        .map_err(wrong)?;
        let at = time(&one.timestamp, "timestamp").map_err(wrong)?;
        require(
            last.is_none_or(|last| last <= at),
            "it is before the step in front of it",
        )
        .map_err(wrong)?;
        last = Some(at);
        calls.extend(one.tool_call.as_ref().map(|call| call.id.as_str()));
        let answered = one
            .tool_result
            .as_ref()
            .is_none_or(|result| calls.contains(result.call_id.as_str()));
        require(answered, "it is the result of no call before it").map_err(wrong)?;
    }
    Ok(())
}

fn registry(registry: &ToolRegistry) -> CheckResult {
    require(!registry.registry_id.is_empty(), "`registry_id` is empty")?;
    require(!registry.version.is_empty(), "`version` is empty")?;
    time(&registry.updated_at, "updated_at")?;
    let mut names = HashSet::new();
    for entry in &registry.tools {
        let name = &entry.spec.name;
        tool_spec(&entry.spec).map_err(|why| format!("tool {name:?}: {why}"))?;
        require(
            names.insert(name),
            &format!("two tools have the name {name:?}"),
        )?;
    }
    Ok(())
}
