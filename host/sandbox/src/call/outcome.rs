//! The outcome of a call, from a guest's answer, its limits and denials.

use serde_json::json;
use toolcell_executor::{GuestOutcome, GuestOutput};
use toolcell_spec::{ErrorClass, ErrorCode, MeteredUsage, Refusal};

use crate::bindings::tool::exports::toolcell::tool::guest::{Outcome, Output, PartialOutput};
use crate::bindings::tool::toolcell::tool::types as wit;
use crate::egress::NetworkGate;
use crate::state::StoreState;
use crate::trap::CallDenial;

/// In characters.
const CODE_CHARS_MAX: usize = 64;
pub(crate) const MESSAGE_CHARS_MAX: usize = 4_000;

/// The sandbox's verdict on a call that failed after a denial (A-04). `has_failed`: a partial outcome is a failure,
/// whose output is kept.
pub(super) fn heed_denials(
    outcome: Result<GuestOutcome, Refusal>,
    denied: Option<CallDenial>,
    has_failed: bool,
) -> Result<GuestOutcome, Refusal> {
    let Some(denied) = denied else { return outcome };
    match outcome {
        Ok(GuestOutcome::Failure(failure)) if failure.class != ErrorClass::Canceled => {
            Ok(GuestOutcome::Failure(denied.verdict(&failure)))
        }
        Ok(GuestOutcome::Partial(output, failure))
            if has_failed && failure.class != ErrorClass::Canceled =>
        {
            Ok(GuestOutcome::Partial(output, denied.verdict(&failure)))
        }
        Err(failure) if failure.class == ErrorClass::ExecutionFailed => {
            Err(denied.verdict(&failure))
        }
        outcome => outcome,
    }
}

/// Gives a failure of a guest the error of its last request or file operation, if that failed (AT-ERR-06).
pub(super) fn name_cause(
    mut outcome: Result<GuestOutcome, Refusal>,
    state: &StoreState,
) -> Result<GuestOutcome, Refusal> {
    let gate = state.egress.gate();
    let request = gate
        .and_then(NetworkGate::failed)
        .map(|failed| json!({ "request": failed }));
    let status = || Some(json!({ "http_status": gate?.failed_status()? }));
    let errno = || Some(json!({ "errno": state.file_rules.failed()? }));
    if let Some(failed) = request.or_else(status).or_else(errno)
        && let Ok(GuestOutcome::Failure(refusal) | GuestOutcome::Partial(_, refusal)) = &mut outcome
        && refusal.native_error_ref.is_none()
    {
        refusal.native_error_ref = Some(failed);
    }
    outcome
}

pub(super) fn has_failed(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Partial(partial) => {
            !matches!(partial.error.class, wit::ErrorClass::PartialFailure)
        }
        _ => false,
    }
}

pub(super) fn size(outcome: &Outcome) -> u64 {
    let of = |output: &Output| {
        output.content.len()
            + output.structured.as_ref().map_or(0, String::len)
            + output.ui_summary.as_ref().map_or(0, String::len)
    };
    let bytes = match outcome {
        Outcome::Success(output) | Outcome::Partial(PartialOutput { output, .. }) => of(output),
        Outcome::Text(text) | Outcome::Json(text) => text.len(),
        Outcome::Failure(_) => 0,
    };
    bytes as u64
}

pub(super) fn accept(outcome: Outcome, bytes: MeteredUsage) -> Result<GuestOutcome, Refusal> {
    if bytes.used > bytes.limit && guard!("output_limit") {
        let message = format!(
            "the tool returned {} bytes; the limit is {} (raise it with --max-output)",
            bytes.used, bytes.limit
        );
        return Err(Refusal::new(ErrorCode::OutputLimit, message));
    }
    let output = |output: Output| GuestOutput {
        content: output.content,
        structured: output.structured,
        ui_summary: output.ui_summary,
    };
    Ok(match outcome {
        Outcome::Success(success) => GuestOutcome::Success(output(success)),
        Outcome::Text(text) => GuestOutcome::Success(GuestOutput {
            // A document of its own would take longer than the rest of this.
            content: format!(
                r#"[{{"type":"text","text":{}}}]"#,
                serde_json::Value::String(text)
            ),
            ..GuestOutput::default()
        }),
        Outcome::Json(value) => GuestOutcome::Success(GuestOutput {
            content: "[]".to_owned(),
            structured: Some(value),
            ..GuestOutput::default()
        }),
        Outcome::Partial(PartialOutput {
            output: partial,
            error,
        }) => {
            let mut refusal = guest_error(error, ErrorClass::PartialFailure);
            refusal.class = ErrorClass::PartialFailure;
            GuestOutcome::Partial(output(partial), refusal)
        }
        Outcome::Failure(error) => {
            GuestOutcome::Failure(guest_error(error, ErrorClass::ExecutionFailed))
        }
    })
}

/// A guest that answers after it was asked to stop keeps its output.
pub(super) fn heed_stop(outcome: GuestOutcome, asked: Option<Refusal>) -> GuestOutcome {
    let Some(refusal) = asked else { return outcome };
    match outcome {
        GuestOutcome::Success(output) | GuestOutcome::Partial(output, _) => {
            GuestOutcome::Partial(output, refusal)
        }
        GuestOutcome::Failure(_) | GuestOutcome::NeedsInput(_) => GuestOutcome::Failure(refusal),
    }
}

/// Cuts texts, and drops a code that is the host's alone. An unknown class becomes `otherwise`.
pub(super) fn guest_error(error: wit::ToolError, otherwise: ErrorClass) -> Refusal {
    let class = match error.class {
        wit::ErrorClass::InvalidArguments => ErrorClass::InvalidArguments,
        wit::ErrorClass::CapabilityGap => ErrorClass::CapabilityGap,
        wit::ErrorClass::SetupRequired => ErrorClass::SetupRequired,
        wit::ErrorClass::CredentialMissing => ErrorClass::CredentialMissing,
        wit::ErrorClass::Timeout => ErrorClass::Timeout,
        wit::ErrorClass::RateLimited => ErrorClass::RateLimited,
        wit::ErrorClass::DependencyUnavailable => ErrorClass::DependencyUnavailable,
        wit::ErrorClass::PartialFailure => ErrorClass::PartialFailure,
        wit::ErrorClass::ResultTooLarge => ErrorClass::ResultTooLarge,
        wit::ErrorClass::Canceled => ErrorClass::Canceled,
        wit::ErrorClass::ExecutionFailed => ErrorClass::ExecutionFailed,
        wit::ErrorClass::Other(_) => otherwise,
    };
    let mut refusal = Refusal::new(ErrorCode::ToolFailed, cut(error.message, MESSAGE_CHARS_MAX))
        .with_class(class);
    let is_free = |code: &String| !ErrorCode::from_name(code).is_some_and(ErrorCode::is_reserved);
    refusal.guest_code = Some(plain(&error.code)).filter(|code| !code.is_empty() && is_free(code));
    refusal.detail = error.detail.map(|detail| cut(detail, MESSAGE_CHARS_MAX));
    #[allow(
        clippy::cast_precision_loss,
        reason = "seconds with a fraction; no delay is near 2^53 ms"
    )]
    let seconds = error.retry_after_ms.map(|ms| ms as f64 / 1_000.0);
    refusal.retry_after = seconds;
    refusal
}

/// Replaces all but visible ASCII, because terminals would interpret control characters.
pub(crate) fn plain(code: &str) -> String {
    code.chars()
        .take(CODE_CHARS_MAX)
        .map(|c| if c.is_ascii_graphic() { c } else { '_' })
        .collect()
}

pub(crate) fn cut(text: String, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}
