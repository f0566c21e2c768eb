use serde::Deserialize;
use serde_json::{Value, json};
use toolcell_journal::Keep;
use toolcell_spec::{
    CallRecord, InvocationId, Refusal, ResultPersistence, ResultProvenance, Strategy,
    ToolInvocation, ToolResult, Trust, Writer, json_bytes,
};

#[derive(Clone, Debug)]
pub(crate) struct CallEnd {
    pub(crate) result: ToolResult,
    pub(crate) persistence: Vec<ResultPersistence>,
    /// The result's if only that is known.
    pub(crate) status: String,
    /// `None` if only the result is known.
    pub(crate) tool_id: Option<String>,
    pub(crate) tool: String,
    pub(crate) shut_down: bool,
    /// Bytes of JSON: the result, and events kept with it.
    pub(crate) bytes: usize,
    /// The log has the result and its output.
    pub(crate) is_recorded: bool,
    /// The end could not be written, so the log has the call as running.
    pub(crate) is_unwritten: bool,
    /// The output was only in the memory of the process that ran the tool.
    pub(crate) is_gone: bool,
}

#[derive(Deserialize)]
struct LoggedCall {
    invocation: ToolInvocation,
    result: ToolResult,
    #[serde(default)]
    persistence: Value,
    #[serde(default)]
    events: Value,
}

impl CallEnd {
    /// `keep`: the calls that the log keeps.
    pub(crate) fn from_record(record: CallRecord, keep: Keep) -> Self {
        let shut_down = record.events.iter().any(|event| is_shut_down(&event.data));
        let is_written = match keep {
            Keep::All => true,
            Keep::Failures => record.result.is_error,
            Keep::None => false,
        };
        let is_unwritten = record.invocation.extra.contains_key("journal_error");
        let is_recorded = is_written && !is_unwritten && !is_never_persisted(&record.persistence);
        Self {
            shut_down,
            is_recorded,
            is_unwritten,
            ..Self::new(record.result, record.persistence, Some(&record.invocation))
        }
    }

    /// `None` if the call has not ended.
    pub(crate) fn read(record: Value) -> Option<Self> {
        let LoggedCall {
            invocation,
            result,
            persistence,
            events,
        } = serde_json::from_value(record).ok()?;
        // A record of a later version may have other words. Its result counts all the same.
        let persistence: Vec<ResultPersistence> =
            serde_json::from_value(persistence).unwrap_or_default();
        let is_gone = is_never_persisted(&persistence) && is_emptied(&result);
        let events = events.as_array().into_iter().flatten();
        let mut data = events.filter_map(|event| event.get("data"));
        Some(Self {
            shut_down: data.any(is_shut_down),
            is_recorded: true,
            is_gone,
            ..Self::new(result, persistence, Some(&invocation))
        })
    }

    /// The call lost its record, for example because the host crashed.
    pub(crate) fn lost(id: InvocationId) -> Self {
        let refusal = Refusal::host_fault("the call was lost");
        let provenance = ResultProvenance {
            trust: Trust::Untrusted,
            written_by: Writer::Host,
            tool_id: None,
            component: None,
            hooks: Vec::new(),
        };
        let result = ToolResult::failed(id, refusal.to_error(), provenance);
        // The log has no end of it either.
        Self {
            is_unwritten: true,
            ..Self::new(result, Vec::new(), None)
        }
    }

    pub(crate) fn alone(result: ToolResult) -> Self {
        let is_gone = is_emptied(&result);
        Self {
            is_gone,
            ..Self::new(result, Vec::new(), None)
        }
    }

    fn new(
        result: ToolResult,
        persistence: Vec<ResultPersistence>,
        invocation: Option<&ToolInvocation>,
    ) -> Self {
        let bytes = json_bytes(&result);
        let status = match invocation {
            Some(invocation) => invocation.status().as_str().into(),
            None => json!(result.status),
        };
        let tool = invocation
            .and_then(|invocation| mapped(&invocation.extra, "tool_name")?.as_str())
            .unwrap_or_default()
            .to_owned();
        Self {
            result,
            persistence,
            status: status.as_str().unwrap_or_default().to_owned(),
            tool_id: invocation.map(|invocation| invocation.tool_id.clone()),
            tool,
            shut_down: false,
            bytes,
            is_recorded: false,
            is_unwritten: false,
            is_gone: false,
        }
    }
}

/// No disk may have the output (AT-STRAT-06).
fn is_never_persisted(persistence: &[ResultPersistence]) -> bool {
    persistence
        .iter()
        .any(|decision| decision.strategy == Strategy::NeverPersist)
}

/// The output was not written. An error always says what happened.
fn is_emptied(result: &ToolResult) -> bool {
    !result.is_error
        && result.redaction_state == "full"
        && result.content.is_empty()
        && result.structured_content.is_none()
}

fn is_shut_down(data: &Value) -> bool {
    data.get("abort_reason")
        .is_some_and(|reason| reason == "runtime_shutdown")
}

fn mapped<'a>(extra: &'a toolcell_spec::Extra, field: &str) -> Option<&'a Value> {
    extra
        .get("external_mappings")?
        .as_array()?
        .first()?
        .get(field)
}
