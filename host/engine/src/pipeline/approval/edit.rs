//! Arguments that an approver wants to run instead.

use std::sync::Arc;

use crate::approval::EditCheck;
use crate::catalog::Tool;
use toolcell_spec::{Approval, Input, MutationSource};

use super::super::aside;
use super::super::redaction::restored;

/// For a changed number with more digits than a parsed value holds, beside hidden values.
const LONG_NUMBER: &str = "a number has more digits than can be kept beside hidden values: write it with 15 digits or fewer";

/// Reads `text` in place of `asked`, of which the approver saw `shown`; `None` if unchanged to the last digit. Hidden
/// values stay. Fails if it cannot be the input.
pub(super) fn read(asked: &Input, shown: &Input, text: &str) -> Result<Option<Input>, String> {
    let input = Input::from_text(text);
    let value = input
        .value()
        .map_err(|error| format!("it is not JSON: {error}"))?;
    let (Ok(original), Ok(seen)) = (asked.value(), shown.value()) else {
        return Ok(Some(input));
    };
    if input.same(shown) {
        return Ok(None);
    }
    let restored = restored(value.clone(), seen, original);
    if restored == *value {
        return Ok((!input.same(asked)).then_some(input));
    }
    let restored = asked.with_value(restored);
    // `with_value` keeps the spelling of one input's numbers, so numbers that the approver wrote into the other may
    // lose digits.
    let digits = |of: &Input| of.with_value(value.clone());
    let written = digits(&input);
    if written.text() != digits(&restored).text() && written.text() != digits(shown).text() {
        return Err(LONG_NUMBER.to_owned());
    }
    Ok((!restored.same(asked)).then_some(restored))
}

/// An edit that cannot run is not an answer.
pub(super) fn check(tool: Arc<Tool>, asked: Input, shown: Input) -> EditCheck {
    Arc::new(move |text: String| {
        let tool = Arc::clone(&tool);
        let asked = asked.clone();
        let shown = shown.clone();
        Box::pin(async move { runs(&tool, &asked, &shown, &text).await })
    })
}

pub(in crate::pipeline) async fn check_stored(
    tool: &Tool,
    approval: &Approval,
    text: &str,
) -> Result<(), String> {
    let asked = Input::from_text(approval.plan.permission_input.as_str());
    let shown = approval
        .plan
        .shown_input
        .as_deref()
        .map_or_else(|| asked.clone(), Input::from_text);
    runs(tool, &asked, &shown, text).await
}

/// On a thread for checks, because the approver may be a client other than the caller.
async fn runs(tool: &Tool, asked: &Input, shown: &Input, text: &str) -> Result<(), String> {
    let Some(input) = read(asked, shown, text)? else {
        return Ok(());
    };
    let contract = Arc::clone(tool.contract());
    let from = asked.clone();
    let work =
        move || match input.value() {
            Ok(value) => {
                match from.value().ok().and_then(|from| {
                    contract.forbids(MutationSource::PermissionPrompt, from, value)
                }) {
                    Some(why) => Err(why.to_owned()),
                    None => contract
                        .check_call_input(value)
                        .map_err(|why| why.to_string()),
                }
            }
            Err(error) => Err(format!("it is not JSON: {error}")),
        };
    aside::run(work)
        .await
        .unwrap_or_else(|refusal| Err(refusal.message))
}
