use serde::{Deserialize, Serialize};
use toolcell_spec::{Extra, Timestamp};

use super::case::{Assertion, EvalCase};
use super::cut;
use super::judged::JudgeVerdict;
use super::trace::EvaluationTrace;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalResult {
    pub eval_id: String,
    pub case_id: String,
    pub trace_id: String,
    pub passed: bool,
    pub assertion_results: Vec<AssertionResult>,
    /// The arithmetic mean of all scores.
    pub composite_score: f64,
    /// `None` without a verdict.
    pub judge_model: Option<String>,
    pub evaluated_at: Timestamp,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssertionResult {
    pub assertion_type: String,
    pub passed: bool,
    /// From 0 to 1.
    pub score: f64,
    pub reason: String,
    #[serde(flatten)]
    pub extra: Extra,
}

impl AssertionResult {
    pub(super) fn settled(assertion: &Assertion, outcome: Result<String, String>) -> Self {
        let passed = outcome.is_ok();
        let (Ok(reason) | Err(reason)) = outcome;
        Self::new(assertion, passed, if passed { 1.0 } else { 0.0 }, reason)
    }

    /// Failed if the judge gave no verdict (`Err`).
    pub fn judged(assertion: &Assertion, verdict: Result<JudgeVerdict, String>) -> Self {
        match verdict {
            Ok(JudgeVerdict {
                passed,
                score,
                reason,
                ..
            }) => Self::new(assertion, passed, score, reason),
            Err(why) => Self::settled(assertion, Err(why)),
        }
    }

    fn new(assertion: &Assertion, passed: bool, score: f64, reason: String) -> Self {
        Self {
            assertion_type: cut(&assertion.kind),
            passed,
            score,
            reason,
            extra: Extra::new(),
        }
    }
}

impl EvalResult {
    pub fn new(
        case: &EvalCase,
        trace: &EvaluationTrace,
        assertion_results: Vec<AssertionResult>,
        mut models: Vec<String>,
        evaluated_at: Timestamp,
    ) -> Self {
        models.sort();
        models.dedup();
        let scores: f64 = assertion_results.iter().map(|result| result.score).sum();
        let count = f64::from(u32::try_from(assertion_results.len()).unwrap_or(u32::MAX));
        Self {
            eval_id: case.eval_id.clone(),
            case_id: case.case_id.clone(),
            trace_id: trace.trace_id.clone(),
            // Nothing was checked if there is no result.
            passed: !assertion_results.is_empty()
                && assertion_results.iter().all(|result| result.passed),
            composite_score: if assertion_results.is_empty() {
                0.0
            } else {
                scores / count
            },
            assertion_results,
            judge_model: (!models.is_empty()).then(|| models.join(", ")),
            evaluated_at,
            extra: Extra::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcell_spec::Timestamp;

    use super::super::judged::JudgeVerdict;
    use super::*;

    fn result(verdicts: &[(bool, f64, &str)]) -> EvalResult {
        let case = json!({ "eval_id": "e", "case_id": "c", "assertions": [{ "type": "no_hallucination" }] });
        let case = EvalCase::read_all(&case.to_string()).unwrap().remove(0);
        let trace = EvaluationTrace::read(r#"{"trace_id":"t"}"#).unwrap();
        let verdict = |(passed, score, model): &(bool, f64, &str)| {
            Ok(JudgeVerdict {
                passed: *passed,
                score: *score,
                reason: "r".to_owned(),
                model: (*model).to_owned(),
            })
        };
        let results = verdicts
            .iter()
            .map(|given| AssertionResult::judged(&case.assertions[0], verdict(given)));
        let models = verdicts
            .iter()
            .map(|(_, _, model)| (*model).to_owned())
            .collect();
        EvalResult::new(
            &case,
            &trace,
            results.collect(),
            models,
            Timestamp::of_unix_millis(1_000),
        )
    }

    #[test]
    fn the_score_is_the_mean_and_all_must_pass() {
        let specified = result(&[
            (true, 1.0, "m"),
            (true, 0.9, "m"),
            (true, 1.0, "m"),
            (true, 0.8, "m"),
        ]);
        assert!((specified.composite_score - 0.925).abs() < 1e-12 && specified.passed);
        assert_eq!(specified.judge_model.as_deref(), Some("m"));
        let one_failed = result(&[(true, 1.0, "b"), (false, 0.9, "a"), (true, 1.0, "b")]);
        assert!(!one_failed.passed && one_failed.judge_model.as_deref() == Some("a, b"));
        let nothing = result(&[]);
        assert!(!nothing.passed && nothing.composite_score == 0.0 && nothing.judge_model.is_none());
    }

    #[test]
    fn it_is_written_with_its_eight_fields_and_read_with_more() {
        let mut written = serde_json::to_value(result(&[(true, 0.5, "m")])).unwrap();
        assert_eq!(
            written,
            json!({
                "eval_id": "e", "case_id": "c", "trace_id": "t", "passed": true,
                "assertion_results":
                    [{ "assertion_type": "no_hallucination", "passed": true, "score": 0.5, "reason": "r" }],
                "composite_score": 0.5, "judge_model": "m", "evaluated_at": "1970-01-01T00:00:01Z",
            })
        );
        written["x_run"] = json!({ "seed": 7 });
        written["assertion_results"][0]["x_votes"] = json!([1, 1, 0]);
        let read: EvalResult = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), written);
    }
}
