use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcell_core::journal::Keep;
use toolcell_core::record::{
    CallRecord, InvocationId, Refusal, ResultPersistence, ResultProvenance, Strategy,
    ToolInvocation, ToolResult, Trust, Writer,
};

/// The end of a call, for its client.
#[derive(Clone, Debug)]
pub(super) struct CallEnd {
    pub(super) result: ToolResult,
    pub(super) persistence: Vec<ResultPersistence>,
    /// The name under which the client called the tool.
    pub(super) tool: String,
    /// `true` if the host's end ended the call.
    pub(super) shut_down: bool,
    /// Size of the result as JSON, in bytes.
    pub(super) bytes: usize,
    /// `true` if the log has the result and its output.
    pub(super) is_recorded: bool,
    /// `true` if the end of the call could not be written, so the log has the call as running.
    pub(super) is_unwritten: bool,
    /// `true` if the tool's output was only in the memory of the process that ran it.
    pub(super) is_gone: bool,
}

impl CallEnd {
    /// Converts `record`; `keep` says which calls the log keeps.
    pub(super) fn from_record(record: CallRecord, keep: Keep) -> Self {
        let shut_down = record.events.iter().any(|event| is_shut_down(&event.data));
        let tool = mapped(&record.invocation.extra, "tool_name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let is_written = match keep {
            Keep::All => true,
            Keep::Failures => record.result.is_error,
            Keep::None => false,
        };
        let is_unwritten = record.invocation.extra.contains_key("journal_error");
        let is_recorded = is_written && !is_unwritten && !is_never_persisted(&record.persistence);
        Self {
            is_recorded,
            is_unwritten,
            ..Self::new(record.result, record.persistence, tool, shut_down)
        }
    }

    /// Reads a record of the log; `None` if the call has not ended.
    pub(super) fn read(mut record: Value) -> Option<Self> {
        let result: ToolResult = part(&mut record, "result")?;
        let persistence: Vec<ResultPersistence> =
            part(&mut record, "persistence").unwrap_or_default();
        let events = record.get("events").and_then(Value::as_array);
        let shut_down = events
            .into_iter()
            .flatten()
            .filter_map(|event| event.get("data"))
            .any(is_shut_down);
        let invocation: ToolInvocation = part(&mut record, "invocation")?;
        let tool = mapped(&invocation.extra, "tool_name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let is_gone = is_never_persisted(&persistence) && is_emptied(&result);
        Some(Self {
            is_recorded: true,
            is_gone,
            ..Self::new(result, persistence, tool, shut_down)
        })
    }

    /// The result of a call that lost its record, for example because the host crashed.
    pub(super) fn lost(id: InvocationId) -> Self {
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
            ..Self::new(result, Vec::new(), String::new(), false)
        }
    }

    /// A result from the store of approvals, which has nothing else.
    pub(super) fn alone(result: ToolResult) -> Self {
        let is_gone = is_emptied(&result);
        Self {
            is_gone,
            ..Self::new(result, Vec::new(), String::new(), false)
        }
    }

    fn new(
        result: ToolResult,
        persistence: Vec<ResultPersistence>,
        tool: String,
        shut_down: bool,
    ) -> Self {
        let bytes = json!(result).to_string().len();
        Self {
            result,
            persistence,
            tool,
            shut_down,
            bytes,
            is_recorded: false,
            is_unwritten: false,
            is_gone: false,
        }
    }
}

/// `true` if no disk may have the output (AT-STRAT-06).
fn is_never_persisted(persistence: &[ResultPersistence]) -> bool {
    persistence
        .iter()
        .any(|decision| decision.strategy == Strategy::NeverPersist)
}

/// Returns whether the output was not written. An error always says what happened.
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

fn part<T: DeserializeOwned>(record: &mut Value, name: &str) -> Option<T> {
    serde_json::from_value(record.get_mut(name)?.take()).ok()
}

/// A field of the MCP metadata of a call.
pub(super) fn mapped<'a>(
    extra: &'a toolcell_core::record::Extra,
    field: &str,
) -> Option<&'a Value> {
    extra
        .get("external_mappings")?
        .as_array()?
        .first()?
        .get(field)
}
