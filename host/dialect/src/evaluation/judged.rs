//! The two assertions that need a judge (AO-AS-01, 04): its question and verdict.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcell_spec::read_unique_json;

use super::case::{Assertion, EvalCase};
use super::cut;
use super::trace::EvaluationTrace;

pub(super) const OUTPUT_PROPERTY: &str = "output_property";
pub(super) const NO_HALLUCINATION: &str = "no_hallucination";

pub const VERDICT_BYTES_MAX: usize = 64 << 10;
const VERDICT_VALUES_MAX: usize = 1_000;
/// In characters; longer ones are cut.
const REASON_MAX: usize = 4_000;

#[derive(Serialize)]
struct JudgeQuestion<'a> {
    assertion: &'a Assertion,
    case: &'a EvalCase,
    trace: &'a Value,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct JudgeVerdict {
    pub passed: bool,
    /// From 0 to 1.
    pub score: f64,
    pub reason: String,
    /// The name of what judged.
    pub model: String,
}

/// One line of JSON, on whether the run of `trace` has the property. Fails for fields that JSON cannot hold.
pub fn question(
    assertion: &Assertion,
    case: &EvalCase,
    trace: &EvaluationTrace,
) -> Result<String, String> {
    serde_json::to_string(&JudgeQuestion {
        assertion,
        case,
        trace: &trace.whole,
    })
    .map_err(|error| error.to_string())
}

impl JudgeVerdict {
    /// Fails if any part is invalid.
    pub fn read(answer: &str) -> Result<Self, String> {
        if answer.len() > VERDICT_BYTES_MAX {
            return Err(format!("it answered more than {VERDICT_BYTES_MAX} bytes"));
        }
        let wrong = |why: &str| format!("its answer is not a verdict: {}", cut(why));
        let value = read_unique_json(answer, VERDICT_VALUES_MAX).map_err(|why| wrong(&why))?;
        // Without this, an array of the fields would be accepted, too.
        if !value.is_object() {
            return Err(wrong("it is not an object"));
        }
        let mut verdict: Self =
            serde_json::from_value(value).map_err(|error| wrong(&error.to_string()))?;
        if !(0.0..=1.0).contains(&verdict.score) {
            return Err(wrong(&format!(
                "`score` is {}, and not from 0 to 1",
                verdict.score
            )));
        }
        for (name, text) in [("reason", &verdict.reason), ("model", &verdict.model)] {
            if text.trim().is_empty() {
                return Err(wrong(&format!("`{name}` is empty")));
            }
        }
        verdict.reason = verdict.reason.chars().take(REASON_MAX).collect();
        verdict.model = cut(&verdict.model);
        Ok(verdict)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{JudgeVerdict, VERDICT_BYTES_MAX};

    fn verdict(change: impl FnOnce(&mut Value)) -> Result<JudgeVerdict, String> {
        let mut verdict =
            json!({ "passed": true, "score": 0.5, "reason": "r", "model": "m", "more": [1] });
        change(&mut verdict);
        JudgeVerdict::read(&verdict.to_string())
    }

    #[test]
    fn a_verdict_has_its_four_fields_and_a_score_from_0_to_1() {
        assert_eq!(verdict(|_| {}).unwrap().score, 0.5);
        for score in [json!(0), json!(1), json!(1.0)] {
            verdict(|verdict| verdict["score"] = score).unwrap();
        }
        for (field, value) in [
            ("score", json!(1.000_001)),
            ("score", json!(-0.1)),
            ("score", json!("1")),
            ("score", Value::Null),
            ("passed", json!(1)),
            ("passed", json!("true")),
            ("reason", json!(" ")),
            ("reason", json!(["r"])),
            ("model", json!("")),
            ("model", Value::Null),
        ] {
            let error = verdict(|verdict| verdict[field] = value.clone()).unwrap_err();
            assert!(
                error.starts_with("its answer is not a verdict: "),
                "{field} {value}: {error}"
            );
        }
        for field in ["passed", "score", "reason", "model"] {
            let error =
                verdict(|verdict| _ = verdict.as_object_mut().unwrap().remove(field)).unwrap_err();
            assert!(error.contains(&format!("`{field}`")), "{error}");
        }
    }

    #[test]
    fn what_is_no_json_object_and_what_is_too_large_is_no_verdict() {
        for answer in [
            "",
            "true",
            "[true, 1, \"r\", \"m\"]",
            "{} {}",
            r#"{"passed":false,"passed":true}"#,
        ] {
            assert!(JudgeVerdict::read(answer).is_err(), "{answer}");
        }
        let long = "x".repeat(VERDICT_BYTES_MAX);
        assert!(
            verdict(|verdict| verdict["reason"] = json!(long))
                .unwrap_err()
                .contains("more than")
        );
        let cut = verdict(|verdict| verdict["reason"] = json!("x".repeat(5_000))).unwrap();
        assert_eq!(cut.reason.len(), 4_000);
    }
}
