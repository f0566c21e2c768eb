//! agentool's EvalCase and EvalResult (AO-EV): an agent's run checked against its trace. Pure functions: the caller
//! asks a judge between [`check`] and [`EvalResult::new`].

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

/// In characters, of others' words in a reason.
const SHOWN_MAX: usize = 300;

/// The `text` may be as large as the trace.
fn cut(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}
