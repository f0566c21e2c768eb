//! The bindings of the contract, and conversions between its types and the SDK's. Only in WebAssembly.
#![allow(missing_docs, unreachable_pub, clippy::all)]

use std::time::Duration;

use serde_json::Value;

use crate::{
    ArtifactError, Context, ErrorClass, Outcome, Output, ToolError,
    cancellation::AbortReason,
    context_modifiers::ModifyError,
    interaction::Question,
    log::Level,
    output::{Short, content_json},
    progress::Update,
    toolkit,
    toolkit::Toolkit,
    tools::{Answer, Callable},
};

/// World `tool`, and a clock, so that a sleep and a cancellation can be awaited together: the two pollables must be of
/// one version of wasi:io, which the contract sets. The interface is complete, because the linker merges it with the
/// one of the standard library.
pub mod tool {
    wit_bindgen::generate!({
        inline: r#"
            package toolcell:guest-sdk;

            package wasi:clocks@0.2.6 {
                interface monotonic-clock {
                    use wasi:io/poll@0.2.6.{pollable};
                    type instant = u64;
                    type duration = u64;
                    now: func() -> instant;
                    resolution: func() -> duration;
                    subscribe-instant: func(when: instant) -> pollable;
                    subscribe-duration: func(when: duration) -> pollable;
                }
            }

            world sdk {
                include toolcell:tool/tool@0.2.0;
                include toolcell:tool/waiting@0.2.0;
                include toolcell:tool/calling@0.2.0;
                import wasi:clocks/monotonic-clock@0.2.6;
            }
        "#,
        path: "../../wit",
        world: "toolcell:guest-sdk/sdk",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_tool",
        default_bindings_module: "::toolcell_guest::__private::tool",
    });
}

/// World `validating`, separate because a toolkit that checks no values must not export it.
pub mod validating {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "validating",
        with: { "toolcell:tool/types@0.2.0": crate::component::tool::toolcell::tool::types },
        pub_export_macro: true,
        export_macro_name: "export_validation",
        default_bindings_module: "::toolcell_guest::__private::validating",
    });
}

/// World `configuring`, separate because a toolkit that takes no settings must not export it.
pub mod configuring {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "configuring",
        with: { "toolcell:tool/types@0.2.0": crate::component::tool::toolcell::tool::types },
        pub_export_macro: true,
        export_macro_name: "export_configuration",
        default_bindings_module: "::toolcell_guest::__private::configuring",
    });
}

/// World `classifying`, separate because a toolkit that classifies no input must not export it.
pub mod classifying {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "classifying",
        with: { "toolcell:tool/types@0.2.0": crate::component::tool::toolcell::tool::types },
        pub_export_macro: true,
        export_macro_name: "export_classification",
        default_bindings_module: "::toolcell_guest::__private::classifying",
    });
}

use classifying::exports::toolcell::tool::classification;
use configuring::exports::toolcell::tool::configuration;
use tool::{
    exports::toolcell::tool::guest,
    toolcell::tool::{
        artifacts, cancellation as stop, cancellation_signal, context_modifiers as changes,
        interaction, log as lines, progress, tools, types,
    },
    wasi::{clocks::monotonic_clock, io::poll},
};
use validating::exports::toolcell::tool::validation;

impl<K: Toolkit> guest::Guest for K {
    fn describe() -> String {
        toolkit::describe::<K>().to_string()
    }

    fn invoke(call: guest::Call) -> guest::Outcome {
        let context = Context::new(call.invocation_id, call.attempt, &call.context);
        match toolkit::invoke::<K>(&call.tool, &call.input, context) {
            Outcome::Success(output) => match output.shorten() {
                Short::Text(text) => guest::Outcome::Text(text),
                Short::Json(value) => guest::Outcome::Json(value.to_string()),
                Short::Neither(output) => guest::Outcome::Success(output.into()),
            },
            Outcome::Partial(output, error) => guest::Outcome::Partial(guest::PartialOutput {
                output: output.into(),
                error: error.into(),
            }),
            Outcome::Failure(error) => guest::Outcome::Failure(error.into()),
        }
    }
}

impl<K: Toolkit> validation::Guest for K {
    fn validate_values(tool: String, input: String) -> Result<(), types::ToolError> {
        Ok(toolkit::validate::<K>(&tool, &input)?)
    }

    fn preflight(tool: String, input: String) -> Result<(), types::ToolError> {
        Ok(toolkit::preflight::<K>(&tool, &input)?)
    }
}

impl<K: Toolkit> classification::Guest for K {
    fn classify(tool: String, input: String) -> classification::Facts {
        let claim = |stated: Option<bool>| match stated {
            None => classification::Claim::Unstated,
            Some(false) => classification::Claim::No,
            Some(true) => classification::Claim::Yes,
        };
        let facts = toolkit::classify::<K>(&tool, &input);
        classification::Facts {
            read_only: claim(facts.read_only),
            concurrency_safe: claim(facts.concurrency_safe),
            destructive: claim(facts.destructive),
            open_world: claim(facts.open_world),
        }
    }
}

impl<K: Toolkit> configuration::Guest for K {
    fn configure(config: String) -> Result<(), types::ToolError> {
        Ok(<K as Toolkit>::configure(&config)?)
    }
}

impl From<Output<Value>> for guest::Output {
    fn from(output: Output<Value>) -> Self {
        Self {
            content: content_json(&output.content),
            structured: output.structured.map(|value| value.to_string()),
            ui_summary: output.ui_summary,
        }
    }
}

impl From<ToolError> for types::ToolError {
    fn from(error: ToolError) -> Self {
        Self {
            class: error.class.into(),
            code: error.code,
            message: error.message,
            detail: error.detail,
            retry_after_ms: error
                .retry_after
                .map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl From<ErrorClass> for types::ErrorClass {
    fn from(class: ErrorClass) -> Self {
        match class {
            ErrorClass::InvalidArguments => Self::InvalidArguments,
            ErrorClass::CapabilityGap => Self::CapabilityGap,
            ErrorClass::SetupRequired => Self::SetupRequired,
            ErrorClass::CredentialMissing => Self::CredentialMissing,
            ErrorClass::Timeout => Self::Timeout,
            ErrorClass::RateLimited => Self::RateLimited,
            ErrorClass::DependencyUnavailable => Self::DependencyUnavailable,
            ErrorClass::ExecutionFailed => Self::ExecutionFailed,
            ErrorClass::PartialFailure => Self::PartialFailure,
            ErrorClass::ResultTooLarge => Self::ResultTooLarge,
            ErrorClass::Canceled => Self::Canceled,
            ErrorClass::Other(word) => Self::Other(word),
        }
    }
}

impl From<types::ToolError> for ToolError {
    fn from(error: types::ToolError) -> Self {
        Self {
            class: error.class.into(),
            code: error.code,
            message: error.message,
            detail: error.detail,
            retry_after: error.retry_after_ms.map(Duration::from_millis),
        }
    }
}

impl From<types::ErrorClass> for ErrorClass {
    fn from(class: types::ErrorClass) -> Self {
        match class {
            types::ErrorClass::InvalidArguments => Self::InvalidArguments,
            types::ErrorClass::CapabilityGap => Self::CapabilityGap,
            types::ErrorClass::SetupRequired => Self::SetupRequired,
            types::ErrorClass::CredentialMissing => Self::CredentialMissing,
            types::ErrorClass::Timeout => Self::Timeout,
            types::ErrorClass::RateLimited => Self::RateLimited,
            types::ErrorClass::DependencyUnavailable => Self::DependencyUnavailable,
            types::ErrorClass::ExecutionFailed => Self::ExecutionFailed,
            types::ErrorClass::PartialFailure => Self::PartialFailure,
            types::ErrorClass::ResultTooLarge => Self::ResultTooLarge,
            types::ErrorClass::Canceled => Self::Canceled,
            types::ErrorClass::Other(word) => Self::Other(word),
        }
    }
}

pub(crate) fn callable() -> Vec<Callable> {
    let callable = |tool: tools::Callable| Callable {
        name: tool.name,
        description: tool.description,
    };
    tools::list().into_iter().map(callable).collect()
}

pub(crate) fn call_tool(tool: &str, input: &str) -> Result<Answer, ToolError> {
    let answer = tools::call(tool, input)?;
    Ok(Answer {
        invocation_id: answer.invocation_id,
        // The host writes both.
        content: serde_json::from_str(&answer.content).unwrap_or_default(),
        structured: answer
            .structured
            .and_then(|value| serde_json::from_str(&value).ok()),
        missing: answer.missing.map(ToolError::from),
    })
}

pub(crate) fn report(update: Update) {
    progress::report(&progress::Update {
        message: update.message,
        percent: update.percent,
        current_step: update.current_step,
        total_steps: update.total_steps,
        bytes_read: update.bytes_read,
        bytes_written: update.bytes_written,
        line_count: update.line_count,
    });
}

pub(crate) fn partial_result(content: String) -> String {
    progress::partial_result(&content)
}

pub(crate) fn log(level: Level, message: &str, fields: Option<&Value>) {
    let level = match level {
        Level::Trace => lines::Level::Trace,
        Level::Debug => lines::Level::Debug,
        Level::Info => lines::Level::Info,
        Level::Warn => lines::Level::Warn,
        Level::Error => lines::Level::Error,
    };
    lines::log(level, message, fields.map(Value::to_string).as_deref());
}

/// An artifact that is not finished.
pub(crate) struct ArtifactDraft(artifacts::Artifact);

pub(crate) fn create_artifact(
    name: &str,
    media_type: &str,
) -> Result<ArtifactDraft, ArtifactError> {
    Ok(ArtifactDraft(artifacts::create(name, media_type)?))
}

impl ArtifactDraft {
    pub(crate) fn write(&mut self, chunk: &[u8]) -> Result<(), ArtifactError> {
        Ok(self.0.write(chunk)?)
    }

    pub(crate) fn finish(self) -> Result<String, ArtifactError> {
        Ok(artifacts::Artifact::finish(self.0)?)
    }
}

impl From<artifacts::StoreError> for ArtifactError {
    fn from(error: artifacts::StoreError) -> Self {
        match error {
            artifacts::StoreError::Denied(why) => Self::Denied(why),
            artifacts::StoreError::QuotaExceeded(why) => Self::QuotaExceeded(why),
            artifacts::StoreError::Invalid(why) => Self::Invalid(why),
            artifacts::StoreError::Failed(why) => Self::Failed(why),
        }
    }
}

pub(crate) fn modify_context(key: &str, value: &str) -> Result<(), ModifyError> {
    Ok(changes::modify(key, value)?)
}

impl From<changes::ModifyError> for ModifyError {
    fn from(error: changes::ModifyError) -> Self {
        match error {
            changes::ModifyError::Forbidden(why) => Self::Forbidden(why),
            changes::ModifyError::Invalid(why) => Self::Invalid(why),
            changes::ModifyError::QuotaExceeded(why) => Self::QuotaExceeded(why),
        }
    }
}

pub(crate) fn responses() -> String {
    interaction::responses()
}

pub(crate) fn resume_state() -> Vec<u8> {
    interaction::resume_state()
}

pub(crate) fn ask(questions: &[Question<'_>], state: &[u8]) -> ! {
    let request = |question: &Question<'_>| interaction::InputRequest {
        key: question.key.to_owned(),
        message: question.message.to_owned(),
        schema: question.schema.to_string(),
    };
    interaction::ask(&questions.iter().map(request).collect::<Vec<_>>(), state);
    unreachable!("the host ends an instance that asks")
}

pub(crate) fn cancel_requested() -> Option<AbortReason> {
    stop::requested().map(|reason| match reason {
        stop::AbortReason::UserInterruption => AbortReason::UserInterruption,
        stop::AbortReason::SiblingError => AbortReason::SiblingError,
        stop::AbortReason::Timeout => AbortReason::Timeout,
        stop::AbortReason::Fallback => AbortReason::Fallback,
        stop::AbortReason::RuntimeShutdown => AbortReason::RuntimeShutdown,
    })
}

pub(crate) fn acknowledge_cancel() {
    stop::acknowledge();
}

/// Waits for the clock or a cancellation, whichever comes first.
pub(crate) fn sleep(duration: Duration) {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let clock = monotonic_clock::subscribe_duration(nanoseconds);
    let stop = cancellation_signal::subscribe();
    poll::poll(&[&clock, &stop]);
}
