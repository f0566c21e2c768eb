//! Redacts the records of a call.

use serde_json::Value;

use toolcell_policy::secret::Redactor;
use toolcell_spec::regex_search::SearchMeter;
use toolcell_spec::{Content, InputMutation, PermissionDecision, Refusal, ToolHook};

/// Returns whether something was redacted.
pub(super) fn block(redactor: &Redactor, block: &mut Content, meter: &mut SearchMeter) -> bool {
    let mut found = match block.fields.get_mut("text") {
        Some(Value::String(text)) => redactor.redact_output_text(text, meter),
        _ => false,
    };
    found |= block
        .fields
        .get_mut("fields")
        .is_some_and(|fields| redactor.redact_output(fields, meter));
    let mut fields = Value::Object(std::mem::take(&mut block.fields));
    found |= redactor.redact_within(&mut fields, meter);
    if let Value::Object(fields) = fields {
        block.fields = fields;
    }
    found | redactor.redact_text_within(&mut block.kind, meter)
}

pub(in super::super) fn decision(redactor: &Redactor, decision: &mut PermissionDecision) {
    redactor.redact_text(&mut decision.reason.message);
    for text in [&mut decision.blocked_path, &mut decision.accept_feedback]
        .into_iter()
        .flatten()
    {
        redactor.redact_text(text);
    }
    values(redactor, &mut decision.updated_input);
    values(redactor, &mut decision.suggested_updates);
    blocks(redactor, &mut decision.content_blocks);
}

pub(in super::super) fn hook(redactor: &Redactor, run: &mut ToolHook) {
    values(redactor, &mut run.outputs);
    values(redactor, &mut run.additional_context);
    values(redactor, &mut run.updated_input);
    values(redactor, &mut run.stop);
    values(redactor, &mut run.updated_output);
    run.error.as_mut().map(|error| redactor.redact_text(error));
    if let Some(said) = &mut run.permission_result {
        redactor.redact_text(&mut said.reason);
    }
    blocks(redactor, &mut run.logs);
}

pub(in super::super) fn values<'v>(
    redactor: &Redactor,
    values: impl IntoIterator<Item = &'v mut Value>,
) {
    for value in values {
        redactor.redact(value);
    }
}

fn blocks(redactor: &Redactor, blocks: &mut [Content]) {
    let mut meter = SearchMeter::inline();
    for shown in blocks {
        block(redactor, shown, &mut meter);
    }
}

pub(in super::super) fn mutation(redactor: &Redactor, mutation: &mut InputMutation) {
    redactor.redact_text(&mut mutation.reason);
    mutation
        .changed_fields
        .iter_mut()
        .for_each(|field| _ = redactor.redact_text(field));
}

/// Returns whether something was redacted.
pub(super) fn error(redactor: &Redactor, error: &mut Refusal, meter: &mut SearchMeter) -> bool {
    // Short values are words of the host too, so only a tool's own words are searched for them.
    let redact = if error.is_guests() {
        Redactor::redact_output_text
    } else {
        Redactor::redact_text_within
    };
    let mut found = redact(redactor, &mut error.message, meter);
    for text in [&mut error.detail, &mut error.guest_code]
        .into_iter()
        .flatten()
    {
        found |= redact(redactor, text, meter);
    }
    if let Some(needed) = error.needs_authorization.as_deref_mut() {
        // The hosts can come from the arguments.
        for text in needed.subject.iter_mut().chain([&mut needed.next_action]) {
            found |= redactor.redact_text_within(text, meter);
        }
    }
    found
        | error
            .native_error_ref
            .as_mut()
            .is_some_and(|native| redactor.redact_within(native, meter))
}
