use serde_json::{Map, Value, json};
use toolcell_spec::{ErrorClass, Recoverability, ToolError, ToolResult};

use super::OtcMode;
use crate::block::context;
use crate::hint_without_loading;
use crate::parts::output_text;

const TEXT_CHARS_MAX: usize = 4_000;

/// `output.error` (OTC-R-06). No model reads `developer_message`.
pub(super) fn error(
    error: &ToolError,
    result: Option<&ToolResult>,
    developer_message: Option<&str>,
    mode: OtcMode,
) -> Value {
    let can_retry = can_retry(error);
    let mut said = Map::new();
    let mut say = |key: &str, value: Value| _ = said.insert(key.to_owned(), value);
    say("message", error.message.clone().into());
    if mode == OtcMode::Arcade {
        say("kind", kind(error.error_class, can_retry).into());
    }
    if let Some(text) = developer_message {
        say("developer_message", cut(text).into());
    }
    say("can_retry", can_retry.into());
    say("additional_prompt_content", prompt(error, result).into());
    if let Some(millis) = error.retry_after.and_then(retry_after_ms) {
        say("retry_after_ms", millis.into());
    }
    if mode == OtcMode::Arcade {
        say(
            "extra",
            json!({ "error_class": error.error_class, "error_code": error.error_code }),
        );
    }
    Value::Object(said)
}

/// Class, code, hint, hooks' context, and partial output, for which an error has no other room.
fn prompt(error: &ToolError, result: Option<&ToolResult>) -> String {
    let class = error.error_class.as_str();
    let hint = hint_without_loading(error.error_class);
    let mut prompt = format!("{class}/{}: {hint}", error.error_code);
    let Some(result) = result else { return prompt };
    if error.error_class == ErrorClass::PartialFailure {
        let text = match &result.structured_content {
            Some(value) => value.to_string(),
            None => output_text(result),
        };
        if !text.is_empty() {
            prompt.push_str("\nwhat succeeded: ");
            prompt.push_str(&cut(&text));
        }
    }
    for said in context(result) {
        prompt.push('\n');
        prompt.push_str(&said);
    }
    prompt
}

/// A retry may need changed arguments, as the hint says (requirements 3.4).
fn can_retry(error: &ToolError) -> bool {
    use ErrorClass::*;
    match error.error_class {
        InvalidArguments
        | SchemaValidationFailed
        | SchemaNotLoaded
        | RateLimited
        | DependencyUnavailable
        | ResultTooLarge
        | SiblingCanceled
        | Canceled => true,
        Timeout => error.retry.safe,
        // The tool says so itself.
        ExecutionFailed => {
            matches!(
                error.recoverability,
                Recoverability::RetrySame | Recoverability::RetryAfter
            ) || error.retry_after.is_some()
        }
        UnknownTool
        | PermissionDenied
        | ApprovalRejected
        | PolicyBlocked
        | HookBlocked
        | CapabilityGap
        | SetupRequired
        | CredentialMissing
        | SandboxViolation
        | PartialFailure
        | ResultRedacted
        | StreamingFallbackDiscarded => false,
    }
}

/// `kind` of an error, which Arcade requires.
fn kind(class: ErrorClass, can_retry: bool) -> &'static str {
    use ErrorClass::*;
    match class {
        InvalidArguments | SchemaValidationFailed => "TOOL_RUNTIME_BAD_INPUT_VALUE",
        SetupRequired | CredentialMissing => "TOOL_RUNTIME_CONTEXT_REQUIRED",
        RateLimited => "UPSTREAM_RUNTIME_RATE_LIMIT",
        DependencyUnavailable => "UPSTREAM_RUNTIME_SERVER_ERROR",
        ResultRedacted => "TOOL_RUNTIME_BAD_OUTPUT_VALUE",
        _ if can_retry => "TOOL_RUNTIME_RETRY",
        _ => "TOOL_RUNTIME_FATAL",
    }
}

/// Rounded so that a client does not come too early.
fn retry_after_ms(seconds: f64) -> Option<u64> {
    let wait = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).ok()
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}
