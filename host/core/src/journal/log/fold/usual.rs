//! What an event of a plain call says, as far as it follows from the rest of the record.

use serde::Serialize;

use crate::record::{
    Behavior, DecisionId, EventType, PermissionDecision, ResultId, ResultStatus, RuleSource, Status, ToolInvocation,
    ToolResult,
};

/// The `data` of an event that the log leaves out. Lines that are on disk are read with these shapes: when what the
/// pipeline says of an event changes, the event is written with its data, and a shape stays as it is.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Usual<'a> {
    Planned { requested: &'a str, native_call_id: Option<&'a str> },
    Selected { via: &'a str, deprecated: bool },
    ArgumentsReady { model_input_ref: &'a str },
    Decided { decision_id: DecisionId, behavior: Behavior, source: Option<RuleSource>, rule_refs: &'a [String] },
    Started { attempt: u32, fuel_limit: u64, wall_ms_limit: u64, memory_limit_bytes: u64 },
    Created { result_id: ResultId, status: ResultStatus },
    Succeeded { result_id: ResultId, status: Status, error_class: (), error_code: () },
}

impl<'a> Usual<'a> {
    /// What an event of this type says in a call with these records; `None` if that does not follow from them.
    pub(super) fn of(
        event_type: EventType,
        invocation: &'a ToolInvocation,
        decisions: &'a [PermissionDecision],
        result: &'a ToolResult,
    ) -> Option<Self> {
        let result_id = result.result_id;
        Some(match event_type {
            EventType::Planned => {
                Self::Planned { requested: &invocation.tool_id, native_call_id: invocation.native_call_id.as_deref() }
            }
            EventType::Selected => Self::Selected { via: "name", deprecated: false },
            EventType::ArgumentsReady => Self::ArgumentsReady { model_input_ref: &invocation.model_input_ref },
            EventType::PermissionDecided => {
                let [decision] = decisions else { return None };
                Self::Decided {
                    decision_id: decision.decision_id,
                    behavior: decision.behavior,
                    source: decision.source,
                    rule_refs: &decision.rule_refs,
                }
            }
            EventType::Started => {
                let usage = result.usage.as_ref()?;
                Self::Started {
                    attempt: 1,
                    fuel_limit: usage.fuel.limit,
                    wall_ms_limit: usage.wall_ms.limit,
                    memory_limit_bytes: usage.memory_bytes.limit,
                }
            }
            EventType::ResultCreated => Self::Created { result_id, status: ResultStatus::Succeeded },
            EventType::Succeeded => {
                Self::Succeeded { result_id, status: Status::Succeeded, error_class: (), error_code: () }
            }
            _ => return None,
        })
    }
}
