use serde_json::{Value, json};

use toolcell_spec::{Content, HookEvent, PermissionResult};

const OUTPUTS_MAX: usize = 64;
/// In characters, per message, reason or progress line; the rest is cut.
const TEXT_CHARS_MAX: usize = 4_000;
/// In bytes per run: it goes to a model and never becomes a payload.
const CONTEXT_BYTES_MAX: usize = 16 << 10;

/// One output of a hook (AT-HO-01..07).
///
/// ```
/// use serde_json::json;
/// use toolcell_executor::hook::HookOutput;
/// use toolcell_spec::HookEvent;
///
/// let output = HookOutput::UpdatedInput(json!({ "path": "src" }));
/// assert!(output.counts_at(HookEvent::PreToolUse));
/// assert!(!output.counts_at(HookEvent::PostToolUse), "the tool has run");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum HookOutput {
    /// A text for people, in the record.
    Message(String),
    Progress(HookProgress),
    /// Replaces the current input, at `pre_tool_use`.
    UpdatedInput(Value),
    /// An opinion, at `pre_tool_use` and `permission_request`.
    PermissionResult(PermissionResult),
    /// Context for the model, beside the result.
    AdditionalContext(Value),
    /// Ends the call before the tool. After the tool, its reason becomes context (A-18). At `result_persistence`,
    /// nothing is stored.
    Stop {
        reason: String,
    },
    /// Replaces the tool's output, after the tool.
    UpdatedOutput(UpdatedOutput),
}

/// Progress of a hook.
///
/// ```
/// use toolcell_executor::hook::{HookOutput, HookProgress};
///
/// let progress = HookProgress { message: "3 of 4 rules".to_owned(), percent: Some(75.0) };
/// assert_eq!(HookOutput::Progress(progress).kind(), "progress");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookProgress {
    /// For people; cut after 4,000 characters.
    pub message: String,
    /// 0 to 100; anything else is dropped.
    pub percent: Option<f64>,
}

/// Replaces the tool's own output and logs, under the same contract.
///
/// ```
/// use serde_json::json;
/// use toolcell_executor::hook::{HookOutput, UpdatedOutput};
///
/// let without_rows = UpdatedOutput::structured(json!({ "rows": [] }));
/// assert_eq!(HookOutput::UpdatedOutput(without_rows).kind(), "updated_output");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpdatedOutput {
    pub content: Vec<Content>,
    pub structured: Option<Value>,
}

impl HookOutput {
    /// Returns the specification's name.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Message(_) => "message",
            Self::Progress(_) => "progress",
            Self::UpdatedInput(_) => "updated_input",
            Self::PermissionResult(_) => "permission_result",
            Self::AdditionalContext(_) => "additional_context",
            Self::Stop { .. } => "stop",
            Self::UpdatedOutput(_) => "updated_output",
        }
    }

    /// Returns whether this output has an effect at `event`; otherwise the record only notes it.
    pub fn counts_at(&self, event: HookEvent) -> bool {
        match self {
            Self::Message(_)
            | Self::Progress(_)
            | Self::AdditionalContext(_)
            | Self::Stop { .. } => true,
            Self::UpdatedInput(_) => event == HookEvent::PreToolUse,
            Self::PermissionResult(_) => {
                matches!(event, HookEvent::PreToolUse | HookEvent::PermissionRequest)
            }
            Self::UpdatedOutput(_) => !event.is_before_the_tool(),
        }
    }

    pub fn summary(&self, event: HookEvent) -> Value {
        let mut summary = match self {
            Self::Message(text) => json!({ "type": self.kind(), "text": text }),
            Self::Progress(progress) => {
                json!({ "type": self.kind(), "message": progress.message, "percent": progress.percent })
            }
            Self::Stop { reason } => json!({ "type": self.kind(), "reason": reason }),
            _ => json!({ "type": self.kind() }),
        };
        if let (false, Some(fields)) = (self.counts_at(event), summary.as_object_mut()) {
            fields.insert("ignored".to_owned(), Value::Bool(true));
        }
        summary
    }
}

impl UpdatedOutput {
    pub fn structured(value: Value) -> Self {
        Self {
            content: Vec::new(),
            structured: Some(value),
        }
    }
}

/// Long text is cut; too many outputs or too much context are a failure of the hook.
pub(super) fn bounded(mut outputs: Vec<HookOutput>) -> Result<Vec<HookOutput>, String> {
    if outputs.len() > OUTPUTS_MAX {
        return Err(format!(
            "the hook gave {} outputs; {OUTPUTS_MAX} are allowed",
            outputs.len()
        ));
    }
    let mut context = 0;
    for output in &mut outputs {
        match output {
            HookOutput::Message(text) | HookOutput::Stop { reason: text } => cut(text),
            HookOutput::PermissionResult(result) => cut(&mut result.reason),
            HookOutput::Progress(progress) => {
                cut(&mut progress.message);
                progress.percent = progress
                    .percent
                    .filter(|percent| (0.0..=100.0).contains(percent));
            }
            HookOutput::AdditionalContext(value) => context += value.to_string().len(),
            HookOutput::UpdatedInput(_) | HookOutput::UpdatedOutput(_) => {}
        }
    }
    if context > CONTEXT_BYTES_MAX {
        return Err(format!(
            "the hook gave {context} bytes of context; {CONTEXT_BYTES_MAX} are allowed"
        ));
    }
    Ok(outputs)
}

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_cut_or_refused_where_it_is_too_large() {
        let long = HookOutput::Message("ä".repeat(5_000));
        let progress = HookOutput::Progress(HookProgress {
            message: String::new(),
            percent: Some(f64::NAN),
        });
        let outputs = bounded(vec![long, progress]).unwrap();
        assert_eq!(outputs[0], HookOutput::Message("ä".repeat(TEXT_CHARS_MAX)));
        assert_eq!(outputs[1], HookOutput::Progress(HookProgress::default()));
        assert!(bounded(vec![HookOutput::Message(String::new()); OUTPUTS_MAX + 1]).is_err());
        let context = HookOutput::AdditionalContext(Value::String("x".repeat(9 << 10)));
        assert!(bounded(vec![context.clone()]).is_ok());
        assert!(
            bounded(vec![context.clone(), context])
                .unwrap_err()
                .contains("bytes of context")
        );
    }

    #[test]
    fn an_output_counts_only_where_it_belongs() {
        use HookEvent::{
            PermissionDecision, PermissionRequest, PostToolUse, PreToolUse, ResultPersistence,
        };
        let allow = PermissionResult {
            behavior: toolcell_spec::Behavior::Allow,
            reason: String::new(),
        };
        let counts = |output: &HookOutput| {
            HookEvent::ALL
                .into_iter()
                .filter(|event| output.counts_at(*event))
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(&HookOutput::UpdatedInput(Value::Null)), [PreToolUse]);
        assert_eq!(
            counts(&HookOutput::PermissionResult(allow)),
            [PreToolUse, PermissionRequest]
        );
        let updated = counts(&HookOutput::UpdatedOutput(UpdatedOutput::default()));
        assert_eq!(
            updated,
            [
                PostToolUse,
                HookEvent::PostToolUseFailure,
                ResultPersistence
            ]
        );
        assert_eq!(
            HookOutput::UpdatedInput(Value::Null).summary(PermissionDecision)["ignored"],
            true
        );
    }
}
