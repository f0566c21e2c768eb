//! A call as the journal has it, if it can be replayed.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolcell::{ErrorClass, ErrorCode, ToolError, ToolResult};
use toolcell_spec::{
    Input, InvocationId, ReplayBlocker, ReplayData, Strategy, ToolInvocation, Usage,
};

use super::report::ReplayObstacle;

/// The wall time of the call is over.
const OUT_OF_TIME: [ErrorCode; 3] = [
    ErrorCode::DeadlineExceeded,
    ErrorCode::EpochDeadline,
    ErrorCode::CpuTimeExhausted,
];

#[derive(Debug)]
pub(super) struct ReplayableCall {
    pub(super) id: InvocationId,
    pub(super) tool_id: String,
    /// `component:sha256:<hex>`.
    pub(super) runtime_refs: Vec<String>,
    pub(super) component_file: Option<PathBuf>,
    pub(super) input: Input,
    pub(super) data: ReplayData,
    pub(super) usage: Usage,
    pub(super) result: Value,
}

impl ReplayableCall {
    /// Fails with all reasons for which the call cannot be replayed.
    pub(super) fn read(record: &Value) -> Result<Self, Vec<ReplayObstacle>> {
        let of = |name: &str| record.get(name).cloned().unwrap_or_default();
        let damaged = |error: serde_json::Error| {
            vec![ReplayObstacle::with(
                ReplayBlocker::LogDamaged,
                &error.to_string(),
            )]
        };
        let invocation: ToolInvocation =
            serde_json::from_value(of("invocation")).map_err(damaged)?;
        if invocation.ended_at().is_none() {
            return Err(vec![ReplayBlocker::StillRunning.into()]);
        }
        if invocation.extra.contains_key("replay_of") {
            return Err(vec![ReplayBlocker::IsAReplay.into()]);
        }
        let result: ToolResult = serde_json::from_value(of("result")).map_err(damaged)?;
        let canceled = [
            ErrorClass::Canceled,
            ErrorClass::SiblingCanceled,
            ErrorClass::StreamingFallbackDiscarded,
        ]
        .map(Some);
        if canceled.contains(&result.error_class()) {
            return Err(vec![ReplayBlocker::Canceled.into()]);
        }
        let Some(usage) = result.usage.clone() else {
            return Err(vec![ReplayBlocker::NeverRan.into()]);
        };
        let data = invocation.extra.get("replay").cloned();
        let data = data.map(serde_json::from_value::<ReplayData>);
        let data = data.transpose().map_err(damaged)?;
        let input = input(&invocation);
        let mut blockers = blockers(&result, data.as_ref());
        // A hook says so after the tool has run, when what a replay needs is recorded already.
        let unkept = is_never_persisted(record).then_some(ReplayBlocker::OutputNotKept);
        for blocker in input.as_ref().err().copied().into_iter().chain(unkept) {
            if !blockers.contains(&blocker) {
                blockers.push(blocker);
            }
        }
        match (data, input) {
            (Some(data), Ok(input)) if blockers.is_empty() => Ok(Self {
                id: invocation.invocation_id,
                tool_id: invocation.tool_id,
                runtime_refs: invocation.runtime_refs,
                component_file: data.component_file.as_ref().map(PathBuf::from),
                input,
                data,
                usage,
                result: of("result"),
            }),
            _ => Err(blockers.into_iter().map(ReplayObstacle::from).collect()),
        }
    }
}

pub(super) fn is_out_of_time(error: &ToolError) -> bool {
    OUT_OF_TIME.iter().any(|code| error.error_code == *code)
}

fn blockers(result: &ToolResult, data: Option<&ReplayData>) -> Vec<ReplayBlocker> {
    let Some(data) = data else {
        return vec![ReplayBlocker::NotRecorded];
    };
    let mut blockers = data.blocked_by.clone();
    if [&data.wall_clock, &data.monotonic_clock]
        .into_iter()
        .flatten()
        .any(|readings| readings.is_exceeded())
    {
        blockers.push(ReplayBlocker::ClockReadingsExceeded);
    }
    if result.error.as_ref().is_some_and(is_out_of_time) {
        blockers.push(ReplayBlocker::StoppedByClock);
    }
    blockers
}

/// The output may be on no disk.
fn is_never_persisted(record: &Value) -> bool {
    let decisions = record.get("persistence").and_then(Value::as_array);
    decisions.is_some_and(|all| {
        all.iter()
            .any(|decision| decision["strategy"] == json!(Strategy::NeverPersist))
    })
}

/// Byte for byte, with the changes of hooks, defaults or the approver.
fn input(invocation: &ToolInvocation) -> Result<Input, ReplayBlocker> {
    let reference = invocation.call_input_ref.as_deref();
    let reference = reference.ok_or(ReplayBlocker::NeverRan)?;
    let sent = match &invocation.model_input_text {
        Some(text) => Input::from_text(text.as_str()),
        None => Input::from_value((*invocation.model_input).clone()),
    };
    let ran = invocation.call_input.as_deref().cloned();
    let exact = [Some(sent), ran.map(Input::from_value)]
        .into_iter()
        .flatten()
        .find(|input| input.reference() == reference);
    // The reference of a sensitive input is concealed, and its record is redacted.
    let why = if reference.starts_with("sha256:") {
        ReplayBlocker::InputNotExact
    } else {
        ReplayBlocker::InputRedacted
    };
    exact.ok_or(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invocation(sent: &str, ran: &str) -> ToolInvocation {
        let sent = Input::from_text(sent);
        let ran = Input::from_text(ran);
        let mut invocation = ToolInvocation::planned("t", &sent);
        invocation.call_input = Some(ran.to_value().into());
        invocation.call_input_ref = Some(ran.reference().into());
        invocation
    }

    #[test]
    fn the_input_that_ran_is_found_as_it_was_written() {
        for (sent, ran) in [
            ("{\"a\": 1.0}", "{\"a\": 1.0}"),
            ("{}", "{}"),
            ("{}", "{\"a\":1}"),
            ("{ }", "{\"a\":1}"),
        ] {
            assert_eq!(input(&invocation(sent, ran)).unwrap().text(), ran);
        }
        let not_exact = invocation("{}", "{\"a\": 1}");
        assert_eq!(input(&not_exact).unwrap_err(), ReplayBlocker::InputNotExact);
    }

    #[test]
    fn a_record_that_is_not_one_is_damaged() {
        for record in [
            json!({}),
            json!(null),
            json!({ "invocation": { "status": 1 } }),
        ] {
            let reasons = ReplayableCall::read(&record).unwrap_err();
            assert_eq!(
                reasons.iter().map(|reason| reason.code).collect::<Vec<_>>(),
                [ReplayBlocker::LogDamaged]
            );
        }
    }
}
