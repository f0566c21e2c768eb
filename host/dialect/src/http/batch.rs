use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use toolcell_engine::scheduler::batch::BatchPlan;
use toolcell_spec::{JSON_VALUES_MAX, read_json};
use utoipa::ToSchema;

/// One call of a batch.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchCallRequest {
    /// A name for the call, which no other call of the batch has.
    #[schema(min_length = 1, max_length = 256)]
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments; none by default.
    #[schema(value_type = Option<Object>)]
    pub input: Option<Box<RawValue>>,
    /// The ids of the calls that have to end first.
    #[serde(default)]
    pub depends_on: Vec<String>,
}

/// Results of a batch.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BatchDocument {
    /// The result of each call with its id, then the deferred context modifiers of calls.
    #[schema(value_type = Vec<Object>)]
    pub results: Vec<Value>,
}

/// A JSON array, or, if `is_lines`, one object a line.
pub fn batch(text: &str, is_lines: bool) -> Result<Vec<BatchCallRequest>, String> {
    let calls = if is_lines {
        lines(text)?
    } else {
        read_json(text, JSON_VALUES_MAX)?
    };
    if calls.is_empty() {
        return Err("the batch has no calls; send at least one".to_owned());
    }
    let plan = BatchPlan::new(
        calls
            .iter()
            .map(|call| (call.id.as_str(), call.depends_on.as_slice())),
    );
    plan.map(|_| calls).map_err(|error| error.to_string())
}

fn lines(text: &str) -> Result<Vec<BatchCallRequest>, String> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let read = |(at, line): (usize, &str)| {
        read_json(line, JSON_VALUES_MAX).map_err(|why| format!("line {}: {why}", at + 1))
    };
    lines.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::batch;

    #[test]
    fn an_array_and_lines_say_the_same() {
        let array = r#"[{"id": "a", "tool": "x", "input": {"n": 1.0}}, {"id": "b", "tool": "y", "depends_on": ["a"]}]"#;
        let lines = "{\"id\": \"a\", \"tool\": \"x\", \"input\": {\"n\": 1.0}}\n\n{\"id\": \"b\", \"tool\": \"y\", \
                     \"depends_on\": [\"a\"]}\n";
        for calls in [batch(array, false).unwrap(), batch(lines, true).unwrap()] {
            let [first, second] = calls.as_slice() else {
                panic!("{calls:?}")
            };
            assert_eq!(
                (first.tool.as_str(), first.input.as_ref().unwrap().get()),
                ("x", r#"{"n": 1.0}"#)
            );
            assert_eq!(
                (second.id.as_str(), second.depends_on.as_slice()),
                ("b", &["a".to_owned()][..])
            );
        }
    }

    #[test]
    fn what_is_no_batch_is_refused_with_the_reason() {
        for (text, is_lines, why) in [
            ("[]", false, "no calls"),
            ("{}", false, "sequence"),
            (
                r#"[{"id": "a", "tool": "x"}, {"id": "a", "tool": "x"}]"#,
                false,
                "two calls",
            ),
            ("{\"id\": \"a\", \"tool\": \"x\"}\n{", true, "line 2: "),
            (
                r#"{"id": "a", "tool": "x", "depends_on": ["b"]}"#,
                true,
                "depends on",
            ),
        ] {
            let told = batch(text, is_lines).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
