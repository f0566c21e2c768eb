use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcell_spec::{Extra, read_unique_json};

pub const CASES_BYTES_MAX: usize = 16 << 20;
/// Each takes some 100 bytes.
const CASES_VALUES_MAX: usize = 500_000;
const CASES_MAX: usize = 1_000;
/// Per case: each may ask a judge, or check a schema for a quarter of a second.
const ASSERTIONS_MAX: usize = 100;

#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalCase {
    pub eval_id: String,
    pub case_id: String,
    pub description: Option<String>,
    /// The agent's task; can be `null`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub context: Value,
    pub assertions: Vec<Assertion>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    pub difficulty: Option<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assertion {
    /// One of the seven types, or an unknown one.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Includes unknown fields.
    #[serde(flatten)]
    pub parameters: Extra,
}

impl EvalCase {
    /// Reads a JSON array of cases, one a line, or a single one. The error has the number of the case or line.
    pub fn read_all(text: &str) -> Result<Vec<Self>, String> {
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.len() > CASES_BYTES_MAX {
            return Err(format!(
                "there are more than {CASES_BYTES_MAX} bytes; split the file"
            ));
        }
        let cases = match text.strip_prefix('[') {
            Some(_) => Self::read_array(text)?,
            None => Self::read_lines(text)?,
        };
        if cases.is_empty() {
            return Err("there are no cases".to_owned());
        }
        Ok(cases)
    }

    fn read_array(text: &str) -> Result<Vec<Self>, String> {
        let Value::Array(items) = read_unique_json(text, CASES_VALUES_MAX)? else {
            return Err("there is no array of cases".to_owned());
        };
        if items.len() > CASES_MAX {
            return Err(format!(
                "there are more than {CASES_MAX} cases; split the file"
            ));
        }
        let numbered = (1_usize..).zip(items);
        numbered
            .map(|(number, item)| {
                Self::from_value(item).map_err(|why| format!("case {number}: {why}"))
            })
            .collect()
    }

    fn read_lines(text: &str) -> Result<Vec<Self>, String> {
        let first = text.lines().next().unwrap_or_default();
        // A single case may be laid out on several lines, of which the first is no JSON then.
        if text.lines().nth(1).is_some()
            && serde_json::from_str::<serde::de::IgnoredAny>(first).is_err()
        {
            return read_unique_json(text, CASES_VALUES_MAX)
                .and_then(Self::from_value)
                .map(|case| vec![case]);
        }
        let mut cases = Vec::new();
        let mut values = 0;
        for (number, line) in (1_usize..)
            .zip(text.lines())
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let fail = |why: String| format!("line {number}: {why}");
            if cases.len() >= CASES_MAX {
                return Err(fail(format!(
                    "there are more than {CASES_MAX} cases; split the file"
                )));
            }
            let value = read_unique_json(line, CASES_VALUES_MAX).map_err(fail)?;
            values += count(&value);
            if values > CASES_VALUES_MAX {
                return Err(fail(format!(
                    "the cases hold more than {CASES_VALUES_MAX} values; split the file"
                )));
            }
            cases.push(Self::from_value(value).map_err(fail)?);
        }
        Ok(cases)
    }

    fn from_value(value: Value) -> Result<Self, String> {
        // Without this, an array of the fields would be accepted, too.
        if !value.is_object() {
            return Err("it is not an object".to_owned());
        }
        let case: Self =
            serde_json::from_value(value).map_err(|error| super::cut(&error.to_string()))?;
        match case.assertions.len() {
            // All of no assertions hold, so such a case would pass without a look at the trace.
            0 => Err("it has no assertions".to_owned()),
            1..=ASSERTIONS_MAX => Ok(case),
            _ => Err(format!(
                "it has more than {ASSERTIONS_MAX} assertions; split it"
            )),
        }
    }
}

/// The depth of `value` was bounded where it was read.
fn count(value: &Value) -> usize {
    let below: usize = match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    };
    1 + below
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ASSERTIONS_MAX, CASES_MAX, EvalCase};

    fn case(assertions: usize) -> Value {
        json!({ "eval_id": "e", "case_id": "c", "assertions": vec![json!({ "type": "latency", "max_ms": 1 }); assertions] })
    }

    fn refused(text: &str) -> String {
        EvalCase::read_all(text).unwrap_err()
    }

    #[test]
    fn an_array_lines_and_a_single_case_are_read() {
        let one = case(1);
        let lines = format!("{one}\n\n{one}\n");
        for (text, count) in [
            (json!([one, one]).to_string(), 2),
            (lines, 2),
            (one.to_string(), 1),
            (serde_json::to_string_pretty(&one).unwrap(), 1),
            (serde_json::to_string_pretty(&json!([one])).unwrap(), 1),
        ] {
            assert_eq!(EvalCase::read_all(&text).unwrap().len(), count, "{text}");
        }
    }

    #[test]
    fn unknown_fields_survive() {
        let written = json!({
            "eval_id": "e", "case_id": "c", "description": "d", "input": "i", "context": { "k": [1, 2.5] },
            "assertions": [{ "type": "made_up", "description": "x", "weight": 3, "nested": { "a": null } }],
            "tags": ["t"], "difficulty": "medium", "x_team": { "owner": "search" },
        });
        let read = EvalCase::read_all(&written.to_string()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), json!([written]));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        assert!(refused("").contains("no cases") && refused("[]").contains("no cases"));
        assert!(refused(&format!("{}\n7", case(1))).starts_with("line 2: it is not an object"));
        assert!(refused(&json!([case(1), {}]).to_string()).starts_with("case 2: missing field"));
        assert!(refused(&json!([case(0)]).to_string()).contains("it has no assertions"));
        assert!(
            refused(r#"{"eval_id":"a","eval_id":"b","case_id":"c","assertions":[]}"#)
                .contains("line 1: ")
        );
        assert!(
            refused(&case(ASSERTIONS_MAX + 1).to_string()).contains("more than 100 assertions")
        );
        EvalCase::read_all(&case(ASSERTIONS_MAX).to_string()).unwrap();
        let many = |count: usize| vec![case(1).to_string(); count].join("\n");
        assert_eq!(
            EvalCase::read_all(&many(CASES_MAX)).unwrap().len(),
            CASES_MAX
        );
        assert!(refused(&many(CASES_MAX + 1)).starts_with("line 1001: there are more than"));
        let untyped = json!({ "eval_id": "e", "case_id": "c", "assertions": [{ "max_ms": 1 }] });
        assert!(refused(&untyped.to_string()).contains("`type`"));
    }
}
