//! The data of an event of a plain call, as far as it follows from the rest of the record.

use serde::Serialize;

use crate::record::{
    Behavior, DecisionId, EventField, EventType, PermissionDecision, ResultId, ResultStatus,
    RuleSource, Status, ToolInvocation, ToolResult,
};

/// The `data` of an event that the log leaves out. Lines that are on disk are read with these shapes: when what the
/// pipeline says of an event changes, the event is written with its data, and a shape stays as it is.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Usual<'a> {
    Planned {
        requested: &'a str,
        native_call_id: Option<&'a str>,
    },
    Selected {
        via: &'a str,
        deprecated: bool,
    },
    ArgumentsReady {
        model_input_ref: &'a str,
    },
    Decided {
        decision_id: DecisionId,
        behavior: Behavior,
        source: Option<RuleSource>,
        rule_refs: &'a [String],
    },
    Started {
        attempt: u32,
        fuel_limit: u64,
        wall_ms_limit: u64,
        memory_limit_bytes: u64,
    },
    Created {
        result_id: ResultId,
        status: ResultStatus,
    },
    Succeeded {
        result_id: ResultId,
        status: Status,
        error_class: (),
        error_code: (),
    },
}

impl<'a> Usual<'a> {
    /// `true` if these are the fields, compared without making their JSON: each call has seven such events. `false` if only
    /// their JSON could tell.
    pub(super) fn is_said(&self, said: &[(&str, EventField)]) -> bool {
        let is_none_or = |said: &EventField, text: Option<&str>| match text {
            Some(text) => said.is_text(text),
            None => matches!(said, EventField::Null),
        };
        let is_id = |said: &EventField, id: EventField| matches!((said, id), (EventField::Id(one), EventField::Id(other)) if *one == other);
        match (self, said) {
            (
                Self::Planned {
                    requested,
                    native_call_id,
                },
                [("requested", name), ("native_call_id", native)],
            ) => name.is_text(requested) && is_none_or(native, *native_call_id),
            (
                Self::Selected { via, deprecated },
                [("via", by), ("deprecated", EventField::Bool(is))],
            ) => by.is_text(via) && is == deprecated,
            (Self::ArgumentsReady { model_input_ref }, [("model_input_ref", of)]) => {
                of.is_text(model_input_ref)
            }
            (
                Self::Decided {
                    decision_id,
                    behavior,
                    source,
                    rule_refs,
                },
                [
                    ("decision_id", id),
                    ("behavior", EventField::Behavior(decided)),
                    ("source", by),
                    ("rule_refs", EventField::Texts(rules)),
                ],
            ) => {
                let is_source = is_none_or(by, source.map(RuleSource::as_str));
                is_source
                    && is_id(id, (*decision_id).into())
                    && decided == behavior
                    && rules == rule_refs
            }
            (
                Self::Started {
                    attempt,
                    fuel_limit,
                    wall_ms_limit,
                    memory_limit_bytes,
                },
                [
                    ("attempt", EventField::Number(of)),
                    ("fuel_limit", EventField::Number(fuel)),
                    ("wall_ms_limit", EventField::Number(wall)),
                    ("memory_limit_bytes", EventField::Number(memory)),
                ],
            ) => {
                *of == u64::from(*attempt)
                    && fuel == fuel_limit
                    && wall == wall_ms_limit
                    && memory == memory_limit_bytes
            }
            (
                Self::Created { result_id, status },
                [("result_id", id), ("status", EventField::Outcome(outcome))],
            ) => is_id(id, (*result_id).into()) && outcome == status,
            (
                Self::Succeeded {
                    result_id, status, ..
                },
                [
                    ("result_id", id),
                    ("status", word),
                    ("error_class", EventField::Null),
                    ("error_code", EventField::Null),
                ],
            ) => is_id(id, (*result_id).into()) && word.is_text(status.as_str()),
            _ => false,
        }
    }

    /// The usual data of such an event in a call with these records; `None` if they do not determine it.
    pub(super) fn for_event(
        event_type: EventType,
        invocation: &'a ToolInvocation,
        decisions: &'a [PermissionDecision],
        result: &'a ToolResult,
    ) -> Option<Self> {
        let result_id = result.result_id;
        Some(match event_type {
            EventType::Planned => Self::Planned {
                requested: &invocation.tool_id,
                native_call_id: invocation.native_call_id.as_deref(),
            },
            EventType::Selected => Self::Selected {
                via: "name",
                deprecated: false,
            },
            EventType::ArgumentsReady => Self::ArgumentsReady {
                model_input_ref: &invocation.model_input_ref,
            },
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
            EventType::ResultCreated => Self::Created {
                result_id,
                status: ResultStatus::Succeeded,
            },
            EventType::Succeeded => Self::Succeeded {
                result_id,
                status: Status::Succeeded,
                error_class: (),
                error_code: (),
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::EventData;

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    fn what_is_said_as_usual_has_the_same_json_and_nothing_else_is_usual() {
        let source = Some(RuleSource::PolicySettings);
        let decision_id = DecisionId::new();
        let result_id = ResultId::new();
        let rules = vec!["allow *".to_owned()];
        let behavior = Behavior::Allow;
        let status = Status::Succeeded;
        let outcome = ResultStatus::Succeeded;
        let usual = [
            Usual::Planned {
                requested: "a.b",
                native_call_id: None,
            },
            Usual::Planned {
                requested: "a.b",
                native_call_id: Some("n"),
            },
            Usual::Selected {
                via: "name",
                deprecated: false,
            },
            Usual::ArgumentsReady {
                model_input_ref: "sha256:00",
            },
            Usual::Decided {
                decision_id,
                behavior,
                source: None,
                rule_refs: &rules,
            },
            Usual::Decided {
                decision_id,
                behavior,
                source,
                rule_refs: &rules,
            },
            Usual::Started {
                attempt: 1,
                fuel_limit: 2,
                wall_ms_limit: 3,
                memory_limit_bytes: 4,
            },
            Usual::Created {
                result_id,
                status: outcome,
            },
            Usual::Succeeded {
                result_id,
                status,
                error_class: (),
                error_code: (),
            },
        ];
        let named = |native: Option<&str>| {
            EventData::from([
                ("requested", "a.b".to_owned().into()),
                ("native_call_id", native.map(str::to_owned).into()),
            ])
        };
        let decided = |source: Option<RuleSource>| {
            EventData::from([
                ("decision_id", decision_id.into()),
                ("behavior", behavior.into()),
                ("source", source.into()),
                ("rule_refs", rules.clone().into()),
            ])
        };
        let said = [
            named(None),
            named(Some("n")),
            [("via", "name".into()), ("deprecated", false.into())].into(),
            [("model_input_ref", "sha256:00".into())].into(),
            decided(None),
            decided(source),
            EventData::from([
                ("attempt", 1_u32.into()),
                ("fuel_limit", 2_u64.into()),
                ("wall_ms_limit", 3_u64.into()),
                ("memory_limit_bytes", 4_u64.into()),
            ]),
            [("result_id", result_id.into()), ("status", outcome.into())].into(),
            EventData::from([
                ("result_id", result_id.into()),
                ("status", status.into()),
                ("error_class", None::<String>.into()),
                ("error_code", None::<String>.into()),
            ]),
        ];
        for (at, usual) in usual.iter().enumerate() {
            for (of, said) in said.iter().enumerate() {
                assert_eq!(
                    usual.is_said(said.said().unwrap()),
                    at == of,
                    "{at} and {of}"
                );
            }
            let [usual, said] = [
                serde_json::to_string(usual),
                serde_json::to_string(&said[at]),
            ]
            .map(Result::unwrap);
            assert_eq!(usual, said);
        }
    }
}
