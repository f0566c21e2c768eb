//! An evaluation's report for people.

use toolcell_dialect::evaluation::{AssertionResult, EvalResult};

/// The row of a case, and one for each of its assertions.
pub(super) fn case(result: &EvalResult) -> String {
    let mut text = format!(
        "{}  {:.3}  {}\n",
        word(result.passed),
        result.composite_score,
        line(&result.case_id)
    );
    for AssertionResult {
        assertion_type,
        passed,
        score,
        reason,
        ..
    } in &result.assertion_results
    {
        text += &format!(
            "  {}  {score:.3}  {}: {}\n",
            word(*passed),
            line(assertion_type),
            line(reason)
        );
    }
    text
}

fn word(passed: bool) -> &'static str {
    if passed { "pass" } else { "FAIL" }
}

/// A line break in foreign words would pass for a row of their own.
fn line(text: &str) -> String {
    text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_reason_forges_no_row() {
        assert_eq!(
            super::line("a\npass  1.000  b\r\u{2028}c"),
            "a pass  1.000  b  c"
        );
    }
}
