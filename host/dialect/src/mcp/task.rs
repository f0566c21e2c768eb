//! Tasks (SEP-2663): answers about a call that the client asks about instead of waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::model::{
    CreateTaskResult, DetailedTask, ElicitRequestParams, ErrorData, GetTaskResult, JsonObject,
    MetaObject, ProtocolVersion, Task, TaskPayload, TaskStatus,
};
use serde_json::{Value, json};
use toolcell_spec::{ErrorClass, ErrorCode, InvocationId, Timestamp, ToolError, ToolResult};

use super::question::asked;
use super::result::{call_result, error_facts};
use crate::visible;

/// Client's wait between questions, in milliseconds.
const POLL_MS: u64 = 1_000;

/// Calls without an answer of their tool that were not canceled: it crashed, or the host ended.
const BROKEN: [ErrorCode; 11] = [
    ErrorCode::GuestPanicked,
    ErrorCode::GuestTrapped,
    ErrorCode::GuestExited,
    ErrorCode::GuestInvalid,
    ErrorCode::StackOverflow,
    ErrorCode::MemoryFault,
    ErrorCode::ArithmeticFault,
    ErrorCode::RuntimeShutdown,
    ErrorCode::HostStopped,
    ErrorCode::Interrupted,
    ErrorCode::HostFault,
];

#[derive(Clone, Debug)]
pub struct TaskFacts {
    pub id: String,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// From the task's creation on.
    pub ttl: Duration,
}

impl TaskFacts {
    fn task(&self, message: Option<String>) -> Task {
        let created = self.created.to_string();
        let updated = self.updated.to_string();
        // `DetailedTask` and `created` set the status.
        let task = Task::new(self.id.clone(), TaskStatus::Working, created, updated)
            .with_ttl_ms(u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX))
            .with_poll_interval_ms(POLL_MS);
        match message {
            Some(message) => task.with_status_message(visible(&message)),
            None => task,
        }
    }

    fn now(&self, payload: TaskPayload, message: Option<String>) -> GetTaskResult {
        GetTaskResult::new(DetailedTask::new(self.task(message), payload))
    }
}

/// `asks` if it waits for its client's user.
pub fn task_created(facts: &TaskFacts, asks: bool, message: Option<String>) -> CreateTaskResult {
    let mut task = facts.task(message);
    task.status = if asks {
        TaskStatus::InputRequired
    } else {
        TaskStatus::Working
    };
    CreateTaskResult::new(task)
}

pub fn task_working(facts: &TaskFacts, message: Option<String>) -> GetTaskResult {
    facts.now(TaskPayload::Working, message)
}

/// `meta` belongs to the question.
pub fn task_asks(
    facts: &TaskFacts,
    questions: BTreeMap<String, ElicitRequestParams>,
    meta: MetaObject,
) -> GetTaskResult {
    let input_requests = asked(questions);
    let mut asks = facts.now(TaskPayload::InputRequired { input_requests }, None);
    asks.meta = Some(meta);
    asks
}

pub fn task_failed(facts: &TaskFacts, id: InvocationId, error: &ToolError) -> GetTaskResult {
    let data = json!({ "toolcell/invocation_id": id, "toolcell/error": error_facts(error) });
    let error = ErrorData::internal_error(visible(&error.message), Some(data));
    facts.now(
        TaskPayload::Failed {
            error: object(&error),
        },
        None,
    )
}

/// `output_schema` is the tool's; `shut_down` if the host, not the client, ended it.
pub fn task_ended(
    facts: &TaskFacts,
    result: &ToolResult,
    output_schema: Option<&Value>,
    shut_down: bool,
) -> GetTaskResult {
    match (end(result, shut_down), &result.error) {
        (TaskEnd::Failed, Some(error)) => task_failed(facts, result.invocation_id, error),
        (TaskEnd::Canceled, error) => facts.now(
            TaskPayload::Cancelled,
            error.as_ref().map(|error| error.message.clone()),
        ),
        _ => {
            let answer = call_result(result, &ProtocolVersion::V_2026_07_28, output_schema);
            facts.now(
                TaskPayload::Completed {
                    result: object(&answer),
                },
                None,
            )
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum TaskEnd {
    Completed,
    Canceled,
    Failed,
}

/// An error from tool or policy is a result, which the model reads.
fn end(result: &ToolResult, shut_down: bool) -> TaskEnd {
    let Some(error) = &result.error else {
        return TaskEnd::Completed;
    };
    let broken = BROKEN.iter().any(|code| error.error_code == *code);
    match error.error_class {
        ErrorClass::Canceled if broken || shut_down => TaskEnd::Failed,
        ErrorClass::Canceled => TaskEnd::Canceled,
        ErrorClass::ExecutionFailed if broken => TaskEnd::Failed,
        _ => TaskEnd::Completed,
    }
}

fn object(value: &impl serde::Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{TaskEnd, TaskFacts, Timestamp, end, task_created, task_ended};
    use toolcell_spec::{ErrorClass, ErrorCode, InvocationId, Refusal, ToolResult};

    fn ended(error: Option<(ErrorClass, ErrorCode)>) -> ToolResult {
        let provenance =
            serde_json::from_value(json!({ "trust": "untrusted", "written_by": "tool" })).unwrap();
        let refusal = error.map_or_else(
            || Refusal::new(ErrorCode::ToolFailed, "none"),
            |(class, code)| Refusal::new(code, "the message\u{202e}").with_class(class),
        );
        let mut result = ToolResult::failed(InvocationId::new(), refusal.to_error(), provenance);
        if error.is_none() {
            (result.error, result.is_error) = (None, false);
        }
        result
    }

    #[test]
    fn a_task_fails_only_if_its_tool_gave_no_answer_and_nobody_canceled_it() {
        for (error, shut_down, expected) in [
            (None, false, TaskEnd::Completed),
            (
                Some((ErrorClass::ExecutionFailed, ErrorCode::ToolFailed)),
                false,
                TaskEnd::Completed,
            ),
            (
                Some((ErrorClass::Timeout, ErrorCode::DeadlineExceeded)),
                false,
                TaskEnd::Completed,
            ),
            (
                Some((ErrorClass::ApprovalRejected, ErrorCode::ApprovalRejected)),
                false,
                TaskEnd::Completed,
            ),
            (
                Some((ErrorClass::Canceled, ErrorCode::ApprovalWithdrawn)),
                false,
                TaskEnd::Canceled,
            ),
            (
                Some((ErrorClass::Canceled, ErrorCode::Canceled)),
                false,
                TaskEnd::Canceled,
            ),
            (
                Some((ErrorClass::Canceled, ErrorCode::Canceled)),
                true,
                TaskEnd::Failed,
            ),
            (
                Some((ErrorClass::Canceled, ErrorCode::RuntimeShutdown)),
                false,
                TaskEnd::Failed,
            ),
            (
                Some((ErrorClass::Canceled, ErrorCode::Interrupted)),
                false,
                TaskEnd::Failed,
            ),
            (
                Some((ErrorClass::ExecutionFailed, ErrorCode::GuestPanicked)),
                false,
                TaskEnd::Failed,
            ),
            (
                Some((ErrorClass::ExecutionFailed, ErrorCode::HostFault)),
                false,
                TaskEnd::Failed,
            ),
        ] {
            assert_eq!(end(&ended(error), shut_down), expected, "{error:?}");
        }
    }

    #[test]
    fn an_answer_has_the_fields_of_its_status_and_no_other() {
        let now = Timestamp::of_unix_millis(1_000);
        let ttl = std::time::Duration::from_secs(60);
        let facts = TaskFacts {
            id: "t".to_owned(),
            created: now,
            updated: now,
            ttl,
        };
        let created = serde_json::to_value(task_created(&facts, false, None)).unwrap();
        assert_eq!(
            (&created["resultType"], &created["status"]),
            (&json!("task"), &json!("working"))
        );
        assert_eq!(
            (&created["ttlMs"], &created["pollIntervalMs"]),
            (&json!(60_000), &json!(1_000))
        );
        assert_eq!(created["createdAt"], "1970-01-01T00:00:01Z");
        let shown = |error| -> Value {
            serde_json::to_value(task_ended(&facts, &ended(error), None, false)).unwrap()
        };
        let done = shown(None);
        assert_eq!(
            (&done["status"], &done["result"]["isError"]),
            (&json!("completed"), &json!(false))
        );
        assert!(
            done.get("error").is_none() && done["resultType"] == "complete",
            "{done}"
        );
        let failed = shown(Some((
            ErrorClass::ExecutionFailed,
            ErrorCode::GuestPanicked,
        )));
        assert_eq!(
            (&failed["status"], &failed["error"]["code"]),
            (&json!("failed"), &json!(-32603))
        );
        assert_eq!(
            failed["error"]["message"], "the message",
            "nothing hidden reaches a model"
        );
        assert!(
            failed.get("result").is_none()
                && failed["error"]["data"]["toolcell/error"]["class"].is_string()
        );
        let canceled = shown(Some((ErrorClass::Canceled, ErrorCode::Canceled)));
        assert_eq!(canceled["status"], "cancelled");
        assert!(
            canceled.get("result").is_none() && canceled.get("error").is_none(),
            "{canceled}"
        );
    }
}
