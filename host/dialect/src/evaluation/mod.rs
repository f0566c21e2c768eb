//! agentool's EvalCase and EvalResult (AO-EV): properties that a run of an agent should have, checked against its trace.
//! Pure functions: a judge is asked between [`check`] and [`EvalResult::new`], by the caller.

mod assertion;
mod case;
mod judged;
mod result;
mod trace;

pub use assertion::check;
pub use case::{Assertion, CASES_BYTES_MAX, EvalCase};
pub use judged::{JudgeVerdict, VERDICT_BYTES_MAX, question};
pub use result::{AssertionResult, EvalResult};
pub use trace::{EvaluationTrace, TRACE_BYTES_MAX};

/// Maximum length of a name or a message of others in a reason, in characters.
const SHOWN_MAX: usize = 300;

/// The beginning of `text`, which may be as large as the trace.
fn cut(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}
