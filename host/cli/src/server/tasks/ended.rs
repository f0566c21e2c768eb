use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcell_core::record::{
    CallRecord, InvocationId, Refusal, ResultPersistence, ResultProvenance, ToolInvocation, ToolResult, Trust, Writer,
};

/// What a client gets of a call that has ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) result: ToolResult,
    pub(super) persistence: Vec<ResultPersistence>,
    /// The name under which the client called the tool.
    pub(super) tool: String,
    /// Whether the end of the host ended the call.
    pub(super) shut_down: bool,
    /// Size of the result as JSON, in bytes.
    pub(super) bytes: usize,
}

impl Ended {
    pub(super) fn of(record: CallRecord) -> Self {
        let shut_down = record.events.iter().any(|event| is_shut_down(&event.data));
        let tool = mapped(&record.invocation.extra, "tool_name").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self::new(record.result, record.persistence, tool, shut_down)
    }

    /// Reads a record of the log; `None` if the call has not ended.
    pub(super) fn read(mut record: Value) -> Option<Self> {
        let result: ToolResult = part(&mut record, "result")?;
        let persistence = part(&mut record, "persistence").unwrap_or_default();
        let events = record.get("events").and_then(Value::as_array);
        let shut_down = events.into_iter().flatten().filter_map(|event| event.get("data")).any(is_shut_down);
        let invocation: ToolInvocation = part(&mut record, "invocation")?;
        let tool = mapped(&invocation.extra, "tool_name").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self::new(result, persistence, tool, shut_down))
    }

    /// The result of a call whose record is gone, for example because the host crashed in it.
    pub(super) fn lost(id: InvocationId) -> Self {
        let refusal = Refusal::host_fault("the call was lost");
        let provenance = ResultProvenance {
            trust: Trust::Untrusted,
            written_by: Writer::Host,
            tool_id: None,
            component: None,
            hooks: Vec::new(),
        };
        Self::new(ToolResult::failed(id, refusal.to_error(), provenance), Vec::new(), String::new(), false)
    }

    /// A result from the store of approvals, which has nothing else.
    pub(super) fn alone(result: ToolResult) -> Self {
        Self::new(result, Vec::new(), String::new(), false)
    }

    fn new(result: ToolResult, persistence: Vec<ResultPersistence>, tool: String, shut_down: bool) -> Self {
        let bytes = json!(result).to_string().len();
        Self { result, persistence, tool, shut_down, bytes }
    }
}

fn is_shut_down(data: &Value) -> bool {
    data.get("abort_reason").is_some_and(|reason| reason == "runtime_shutdown")
}

fn part<T: DeserializeOwned>(record: &mut Value, name: &str) -> Option<T> {
    serde_json::from_value(record.get_mut(name)?.take()).ok()
}

/// A field of the MCP metadata of a call.
pub(super) fn mapped<'a>(extra: &'a toolcell_core::record::Extra, field: &str) -> Option<&'a Value> {
    extra.get("external_mappings")?.as_array()?.first()?.get(field)
}
