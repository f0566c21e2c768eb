use super::ErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::invocation::HIDDEN;
use super::{
    Content, EventType, HookEvent, PermissionDecision, ResultMappings, ResultPersistence, Strategy,
    ToolDeclaration, ToolEvent, ToolHook, ToolInvocation, ToolProgress, ToolResult, TypedFields,
};

/// Everything known about a call after its end.
///
/// ```
/// use toolcell_spec::CallRecord;
///
/// /// The record as JSON, and whether the tool ran.
/// fn exported(record: &CallRecord) -> serde_json::Result<(String, bool)> {
///     Ok((serde_json::to_string(record)?, record.invocation.started_at().is_some()))
/// }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallRecord {
    /// Absent when no tool was found.
    pub declaration: Option<std::sync::Arc<ToolDeclaration>>,
    pub invocation: ToolInvocation,
    pub decisions: Vec<PermissionDecision>,
    pub hooks: Vec<ToolHook>,
    /// Includes waits with their reasons, in order.
    pub progress: Vec<ToolProgress>,
    pub result_mappings: ResultMappings,
    pub persistence: Vec<ResultPersistence>,
    pub result: ToolResult,
    /// In causal order.
    pub events: Vec<ToolEvent>,
}

impl CallRecord {
    /// `true` if the output must never be on disk (AT-STRAT-06).
    pub fn is_never_persisted(&self) -> bool {
        self.persistence
            .iter()
            .any(|decision| decision.strategy == Strategy::NeverPersist)
    }

    /// A copy without output, or what hooks made of it.
    pub fn without_output(&self) -> Self {
        let mut record = self.clone();
        let quoted = record.reword_error();
        record.hide_input();
        let result = &mut record.result;
        let has_output = !result.content.is_empty()
            || result.structured_content.is_some()
            || result.ui_facing_summary.is_some()
            || !result.context_modifiers.is_empty();
        if has_output || quoted {
            result.redaction_state = "full".to_owned();
            let words = result
                .summary
                .iter()
                .chain(result.error.iter().map(|error| &error.message));
            result.model_facing_content = words.map(Content::text).collect();
        }
        result.content.clear();
        result.context_modifiers.clear();
        (result.structured_content, result.ui_facing_summary) = (None, None);
        record.progress.clear();
        for run in &mut record.hooks {
            if matches!(
                run.hook_event,
                HookEvent::PostToolUse
                    | HookEvent::PostToolUseFailure
                    | HookEvent::ResultPersistence
            ) {
                run.outputs.clear();
                run.logs.clear();
                run.updated_output = None;
                (run.error, run.stop) = (None, None);
                run.additional_context.clear();
            }
        }
        result.additional_context.clear();
        for event in &mut record.events {
            let by_hook = matches!(
                event.event_type,
                EventType::PostHookCompleted
                    | EventType::FailureHookCompleted
                    | EventType::PersistenceHookCompleted
            );
            let Some(fields) = event.data.as_object_mut() else {
                continue;
            };
            if by_hook {
                fields.insert("messages".to_owned(), Value::Array(Vec::new()));
                fields.insert("error".to_owned(), Value::Null);
            }
            // The tool chose what it tried to reach.
            if event.event_type == EventType::SandboxDenied {
                fields.insert("target".to_owned(), Value::String(HIDDEN.to_owned()));
            }
        }
        let told = |event: &ToolEvent| {
            !matches!(
                event.event_type,
                EventType::Progress | EventType::PartialResult | EventType::Logged
            )
        };
        record.events.retain(told);
        record
    }

    /// Removes the tool's message, code and detail; returns whether it did.
    fn reword_error(&mut self) -> bool {
        let last = self.invocation.status_transitions().last();
        // The host's own code of the error, whatever code the tool chose.
        let code = last
            .and_then(|step| step.reason.as_deref())
            .unwrap_or(ErrorCode::ToolFailed.as_str())
            .to_owned();
        let is_tools = code == ErrorCode::ToolFailed;
        let is_fault = code == ErrorCode::HostFault;
        // A guest that never ran says nothing, but the host may quote the arguments.
        let may_quote = self.result.usage.is_some() || self.invocation.keeps_no_input;
        let has_detail = self.invocation.extra.contains_key("error_detail");
        let Some(error) = self
            .result
            .error
            .as_mut()
            .filter(|_| may_quote && !is_fault)
        else {
            return false;
        };
        if !is_tools && error.error_class.is_in_host_words() && !has_detail {
            return false;
        }
        "the call failed, and the text that says why may be on no disk"
            .clone_into(&mut error.message);
        error.native_error_ref = None;
        let chosen = is_tools.then(|| std::mem::replace(&mut error.error_code, code.clone()));
        self.invocation.extra.remove("error_detail");
        for data in self
            .events
            .iter_mut()
            .filter_map(|event| event.data.as_object_mut())
        {
            if chosen.is_some() && data.text("error_code") == chosen.as_deref() {
                data.insert("error_code".to_owned(), Value::String(code.clone()));
            }
        }
        true
    }

    /// Removes arguments that may be on no disk, and what may repeat them.
    fn hide_input(&mut self) {
        if !self.invocation.keeps_no_input {
            return;
        }
        self.invocation = self.invocation.for_disk().into_owned();
        self.decisions
            .iter_mut()
            .for_each(PermissionDecision::hide_input);
        self.hooks.iter_mut().for_each(ToolHook::hide_input);
        self.events.iter_mut().for_each(ToolEvent::hide_input);
        if let Some(error) = &mut self.result.error {
            error.needs_authorization = None;
        }
    }

    pub fn progress_from(&self, sequence: u64) -> &[ToolProgress] {
        let read = self
            .progress
            .partition_point(|update| update.sequence < sequence);
        self.progress.get(read..).unwrap_or_default()
    }
}
