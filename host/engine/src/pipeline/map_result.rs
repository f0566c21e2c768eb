//! Phase 10: execution_failed, where the tool's output breaks its contract.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::catalog::{CheckFailure, Tool};
use toolcell_executor::hook::UpdatedOutput;
use toolcell_executor::{GuestOutcome, GuestOutput};
use toolcell_journal::Artifacts;
use toolcell_spec::{
    Content, ContextModifier, EmptyResultPolicy, ErrorCode, GUEST_BLOCKS, JSON_VALUES_MAX,
    OutputRetention, Refusal, RenderingBoundary, Status, TEXT, Usage, check_numbers, read_json,
};

use super::artifacts;
use super::call_state::{CallState, phase_token};
use super::execute::Executed;

const BLOCKS_MAX: usize = 1_000;
const LABEL_CHARS_MAX: usize = 100;
/// The structured output as a block, in the field of the same name.
const STRUCTURED: &str = "structured_content";
/// For the model, after success without output.
const NOTHING_SAID: &str = "(tool completed with no output)";

/// For the model, if the tool keeps all of its output from it.
const FOR_PEOPLE: &str = "(tool completed; its output is for people)";

phase_token! {
    pub(super) Answered(Box<MappedResult>)
}

#[derive(Clone, Debug, Default)]
pub(super) struct MappedResult {
    pub(super) ran: bool,
    pub(super) error: Option<Refusal>,
    pub(super) content: Vec<Content>,
    pub(super) structured_content: Option<Value>,
    pub(super) empty_result: bool,
    pub(super) ui_facing_summary: Option<String>,
    pub(super) context_modifiers: Vec<ContextModifier>,
    pub(super) usage: Option<Usage>,
    /// Redacted, with nothing added since.
    pub(super) redacted: bool,
}

/// Maps the guest's return once: JSON text becomes blocks, checked against the output contract.
pub(super) async fn map(
    journey: &mut CallState<'_>,
    executed: Result<Executed, Refusal>,
) -> Answered {
    let (tool, execution) = match executed {
        Ok(executed) => executed.open(),
        Err(refusal) => {
            let mut mapped = MappedResult::failed(Some(refusal));
            mapped.usage = journey.spent.take().map(|spent| quiet(journey, *spent));
            mapped.ran = mapped.usage.is_some();
            journey.redaction.redact(&mut mapped).await;
            return Answered(mapped);
        }
    };
    if journey.trail.has_partial_result() {
        journey.pass_through(Status::PartialResult, "the tool gave a partial result");
        journey.pass_through(Status::Running, "and ran on");
    }
    let (output, error) = match execution.outcome {
        Ok(GuestOutcome::Success(output)) => (Some(output), None),
        Ok(GuestOutcome::Partial(output, refusal)) => (Some(output), Some(refusal)),
        Ok(GuestOutcome::Failure(refusal)) | Err(refusal) => (None, Some(refusal)),
        Ok(GuestOutcome::NeedsInput(_)) => (
            None,
            Some(Refusal::host_fault("a question of the tool was not asked")),
        ),
    };
    let mut mapped = match output {
        None => MappedResult::failed(error),
        Some(output) => match parse(journey, &tool, output, error.is_none()).await {
            Ok(mut mapped) => {
                journey.mappings.tool = 1;
                mapped.error = error.or_else(|| missing_artifact(&tool, &mapped.content));
                mapped.empty_result &= mapped.error.is_none();
                mapped
            }
            Err(broken) => MappedResult::failed(Some(broken)),
        },
    };
    mapped.ran = true;
    mapped.usage = Some(quiet(journey, execution.usage));
    if mapped.error.is_none() {
        mapped.context_modifiers = execution.context_modifiers;
    }
    mapped.content.extend(execution.logs);
    journey.redaction.received |= execution.redacted;
    if journey
        .artifacts
        .as_ref()
        .is_some_and(Artifacts::is_redacted)
    {
        journey.redaction.found_in_artifacts();
    }
    journey.redaction.redact(&mut mapped).await;
    Answered(mapped)
}

/// Omits names of files and servers if not all output may be kept: the tool chose them.
fn quiet(journey: &CallState<'_>, mut usage: Usage) -> Usage {
    if journey.keeping() != OutputRetention::default() {
        hide_names(&mut usage);
    }
    usage
}

fn hide_names(usage: &mut Usage) {
    if let Some(touched) = &mut usage.touched {
        touched.hide();
    }
}

/// Keeps every number exact.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    read_json(text, JSON_VALUES_MAX).and_then(|value| check_numbers(text).map(|()| value))
}

/// A partial output may lack promised structured output.
async fn parse(
    journey: &CallState<'_>,
    tool: &Tool,
    output: GuestOutput,
    whole: bool,
) -> Result<Box<MappedResult>, Refusal> {
    let content: Vec<Content> = read(&output.content).map_err(|error| {
        Refusal::new(
            ErrorCode::ContentInvalid,
            format!("the tool's content is not an array of blocks: {error}"),
        )
    })?;
    let invalid = content
        .iter()
        .enumerate()
        .find_map(|(at, block)| Some((at, block, block.problem()?)));
    if let Some((at, block, problem)) = invalid {
        let message = format!(
            "block {at} of the tool's content, of type {}, is not valid: {problem}",
            block.kind
        );
        return Err(Refusal::new(ErrorCode::ContentInvalid, message));
    }
    let structured = output
        .structured
        .map(|text| read::<Value>(&text))
        .transpose()
        .map_err(|error| {
            Refusal::new(
                ErrorCode::OutputSchemaMismatch,
                format!("the tool's structured output cannot be passed on as JSON: {error}"),
            )
        })?;
    let mut mapped = accept(journey, tool, content, structured, whole).await?;
    mapped.ui_facing_summary = output.ui_summary;
    Ok(mapped)
}

async fn accept(
    journey: &CallState<'_>,
    tool: &Tool,
    mut content: Vec<Content>,
    structured: Option<Value>,
    whole: bool,
) -> Result<Box<MappedResult>, Refusal> {
    if content.len() > BLOCKS_MAX {
        return Err(Refusal::new(
            ErrorCode::ContentInvalid,
            format!("the tool returned more than {BLOCKS_MAX} blocks"),
        ));
    }
    let declared = tool
        .declaration()
        .output_contract
        .as_ref()
        .map_or(&[][..], |contract| &contract.content_types);
    for block in &content {
        let kind = block.kind.as_str();
        if !GUEST_BLOCKS.contains(&kind) && kind != STRUCTURED {
            return Err(Refusal::new(
                ErrorCode::ContentInvalid,
                format!("the tool returned a block of type {kind:?}, which it may not write"),
            ));
        }
        if !declared.is_empty() && !declared.iter().any(|name| name == kind) {
            return Err(Refusal::new(
                ErrorCode::ContentTypeNotDeclared,
                format!("the tool returned `{kind}`, which it does not declare"),
            ));
        }
    }
    let structured = from_block(&mut content, structured)?;
    artifacts::resolve(journey, &mut content)?;
    let structured = match structured {
        Some(value) => Some(check_output(journey, tool, value).await?),
        None if whole && tool.contract().promises_structured_output() => {
            return Err(Refusal::new(
                ErrorCode::OutputSchemaMismatch,
                "the tool promises structured output and gave none",
            ));
        }
        None => None,
    };
    let is_empty = whole && content.is_empty() && structured.is_none();
    if is_empty && tool.empty_result_policy() == EmptyResultPolicy::Error {
        return Err(Refusal::new(
            ErrorCode::OutputSchemaMismatch,
            "the tool promises an output, by its empty_result_policy, and gave none",
        ));
    }
    Ok(Box::new(MappedResult {
        empty_result: is_empty,
        content,
        structured_content: structured,
        ..MappedResult::default()
    }))
}

/// Takes out the block that holds the structured output (AT-CONT-02), of which there is one in all.
fn from_block(
    content: &mut Vec<Content>,
    structured: Option<Value>,
) -> Result<Option<Value>, Refusal> {
    let invalid = |why| Err(Refusal::new(ErrorCode::ContentInvalid, why));
    let mut found = structured;
    while let Some(at) = content.iter().position(|block| block.kind == STRUCTURED) {
        match content.remove(at).fields.remove(STRUCTURED) {
            None => {
                return invalid("a block of type structured_content has no `structured_content`");
            }
            Some(_) if found.is_some() => {
                return invalid("the tool returned more than one structured output");
            }
            value => found = value,
        }
    }
    Ok(found)
}

/// On a thread for checks unless quick.
async fn check_output(
    journey: &CallState<'_>,
    tool: &Tool,
    value: Value,
) -> Result<Value, Refusal> {
    let is_long = !tool.contract().output_is_light(&value);
    let contract = Arc::clone(tool.contract());
    let work = move || {
        let checked = contract.check_output(&value);
        (value, checked)
    };
    let checks = &journey.checks;
    let (value, checked) = checks.run_if(is_long, "checking the answer", work).await?;
    checked.map(|()| value).map_err(|unsatisfied| {
        let code = match unsatisfied {
            CheckFailure::Mismatch(_) => ErrorCode::OutputSchemaMismatch,
            CheckFailure::Costly(_) => ErrorCode::OutputTooCostly,
        };
        let message = format!("the tool's output does not satisfy its own schema: {unsatisfied}");
        Refusal::new(code, message)
    })
}

/// Applies the hook's update (AT-PIPE-10): it replaces everything returned, including context modifiers, under the same
/// contract. If it breaks that, both outputs are withheld.
pub(super) async fn remap(
    journey: &mut CallState<'_>,
    tool: &Tool,
    hook_id: &str,
    updated: UpdatedOutput,
    mapped: &mut MappedResult,
) {
    // The host added the logs, so no tool has to declare them.
    let (content, logs): (Vec<_>, Vec<_>) = updated
        .content
        .into_iter()
        .partition(Content::is_model_facing);
    match accept(
        journey,
        tool,
        content,
        updated.structured,
        mapped.error.is_none(),
    )
    .await
    {
        Ok(new) => {
            journey.mappings.hooks.push(hook_id.to_owned());
            *mapped = MappedResult {
                ran: mapped.ran,
                error: mapped.error.take(),
                usage: mapped.usage.take(),
                ..*new
            };
            mapped.content.extend(logs);
        }
        Err(broken) => {
            let message = format!(
                "the hook {hook_id} changed the output, and broke its contract: {}",
                broken.message
            );
            mapped.withhold(Refusal::new(ErrorCode::ResultMappingFailed, message));
        }
    }
}

impl MappedResult {
    fn failed(error: Option<Refusal>) -> Box<Self> {
        Box::new(Self {
            error,
            ..Self::default()
        })
    }

    pub(super) fn lose(&mut self, error: Refusal) {
        *self = Self {
            ran: self.ran,
            usage: self.usage.take(),
            error: Some(error),
            ..Self::default()
        };
    }

    pub(super) fn has_output(&self) -> bool {
        !self.content.is_empty()
            || self.structured_content.is_some()
            || self.ui_facing_summary.is_some()
            || !self.context_modifiers.is_empty()
    }

    /// Removes names of files and servers, which may not be redacted yet.
    pub(super) fn hide_names(&mut self) {
        if let Some(usage) = &mut self.usage {
            hide_names(usage);
        }
    }

    pub(super) fn quotes_tool(&self) -> bool {
        self.ran && self.error.as_ref().is_some_and(Refusal::may_quote)
    }

    /// Removes everything returned. An earlier error keeps what cannot contain the tool's text.
    pub(super) fn withhold(&mut self, refusal: Refusal) {
        let error = match self.error.take() {
            Some(error) => {
                let Refusal {
                    message, detail, ..
                } = refusal;
                Refusal {
                    message,
                    detail,
                    guest_code: None,
                    native_error_ref: None,
                    ..error
                }
            }
            None => refusal,
        };
        self.lose(error);
    }
}

/// For a missing promised artifact (AT-OUT-04); the rest is usable.
fn missing_artifact(tool: &Tool, content: &[Content]) -> Option<Refusal> {
    let missing = tool
        .artifact_expectations()
        .iter()
        .find(|expected| !expected.is_met(content))?;
    let labels = [("named", &missing.name), ("of type", &missing.media_type)];
    let mut what = "an artifact".to_owned();
    for (word, label) in labels
        .into_iter()
        .filter_map(|(word, label)| Some((word, label.as_ref()?)))
    {
        let label: String = label.chars().take(LABEL_CHARS_MAX).collect();
        what.push_str(&format!(" {word} {label:?}"));
    }
    let message =
        format!("the tool promises {what}, and returned none; the rest of its output is usable");
    Some(Refusal::new(ErrorCode::ArtifactMissing, message))
}

/// No logs; structured output if no block has text; `summary` for a withheld output; and any error. `boundary`: of the
/// blocks, perhaps none.
pub(super) fn model_facing(
    mapped: &MappedResult,
    summary: Option<&str>,
    boundary: RenderingBoundary,
) -> Vec<Content> {
    let is_within = |block: &&Content| {
        boundary == RenderingBoundary::Content
            || block
                .fields
                .get("of")
                .is_some_and(|of| of == STRUCTURED && block.is_persisted())
    };
    let mut shown: Vec<Content> = mapped
        .content
        .iter()
        .filter(|block| block.is_model_facing())
        .filter(is_within)
        .cloned()
        .collect();
    if let Some(structured) = &mapped.structured_content
        && !shown.iter().any(has_text)
    {
        shown.push(Content::text(structured.to_string()));
    }
    shown.extend(summary.map(Content::text));
    match &mapped.error {
        Some(error) => shown.push(Content::text(error.message.clone())),
        None if shown.is_empty() && mapped.content.iter().any(Content::is_model_facing) => {
            shown.push(Content::text(FOR_PEOPLE));
        }
        None if shown.is_empty() => shown.push(Content::text(NOTHING_SAID)),
        None => {}
    }
    shown
}

/// A preview of text counts.
fn has_text(block: &Content) -> bool {
    block.as_text().is_some()
        || block
            .fields
            .get("of")
            .is_some_and(|of| of == TEXT && block.is_persisted())
}
