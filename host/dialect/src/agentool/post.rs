use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};
use toolcell_spec::{Extra, Timestamp, TypedFields};

use super::{TraceStatus, TraceStep};

/// A caller's trace entry, which a tool host cannot see (AO-ST-01).
#[derive(Clone, Debug, PartialEq)]
pub struct TracePost {
    pub at: Timestamp,
    pub what: PostContent,
}

#[derive(Clone, Debug, PartialEq)]
pub enum PostContent {
    Start(TraceStart),
    Step(Box<TraceStep>),
    End(TraceEnd),
}

/// `{"type": "start"}`: the agent's question. The first one counts.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceStart {
    pub input: String,
    pub agent_id: Option<String>,
    pub metadata: Option<Extra>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// `{"type": "end"}`: the agent's answer. The last one counts.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceEnd {
    pub output: Option<String>,
    pub status: Option<TraceStatus>,
    /// Of all model requests.
    pub total_tokens: Option<u64>,
    pub total_cost_usd: Option<Number>,
    pub metadata: Option<Extra>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl TracePost {
    /// Without a `timestamp`, the time is `now`. Fails for a step that callers do not add, or a missing or malformed
    /// field.
    pub fn read(value: Value, now: Timestamp) -> Result<Self, String> {
        let Value::Object(mut fields) = value else {
            return Err("it is not an object".to_owned());
        };
        let at = match fields.get("timestamp") {
            None => now,
            Some(time) => Timestamp::deserialize(time)
                .map_err(|_| "`timestamp` is not a time such as 2026-11-22T08:00:00Z".to_owned())?,
        };
        let kind = fields.text("type").unwrap_or_default().to_owned();
        let wrong = |error: serde_json::Error| error.to_string();
        if matches!(kind.as_str(), "start" | "end") {
            fields.retain(|name, _| name != "type" && name != "timestamp");
        }
        let what = match kind.as_str() {
            "start" => {
                PostContent::Start(serde_json::from_value(Value::Object(fields)).map_err(wrong)?)
            }
            "end" => {
                PostContent::End(serde_json::from_value(Value::Object(fields)).map_err(wrong)?)
            }
            "reasoning" | "handoff" | "memory_read" | "memory_write" => {
                // The ids of a trace are unique, so the trace gives them.
                if let Some(id) = fields.insert("step_id".to_owned(), "posted".into()) {
                    fields.insert("caller_step_id".to_owned(), id);
                }
                fields.insert("timestamp".to_owned(), json!(at));
                // Tokens that are not known.
                fields.retain(|name, value| name != "context_tokens" || !value.is_null());
                // No words of such a step: kept as unknown ones, so that it counts as no call.
                let others: Vec<_> = ["tool_call", "tool_result"]
                    .iter()
                    .filter_map(|name| fields.remove_entry(*name))
                    .collect();
                let mut step: TraceStep =
                    serde_json::from_value(Value::Object(fields)).map_err(wrong)?;
                step.extra.extend(others);
                PostContent::Step(Box::new(step))
            }
            "tool_call" | "tool_result" => {
                return Err(format!(
                    "a step of type {kind} comes from the call log and cannot be added"
                ));
            }
            _ => {
                return Err(
                    "its `type` is not start, reasoning, handoff, memory_read, memory_write or end"
                        .to_owned(),
                );
            }
        };
        match what.problem() {
            Some(problem) => Err(problem),
            None => Ok(Self { at, what }),
        }
    }

    /// Readable by [`Self::read`].
    pub fn to_value(&self) -> Value {
        let (mut value, kind) = match &self.what {
            PostContent::Start(start) => (super::to_value(start), Some("start")),
            PostContent::End(end) => (super::to_value(end), Some("end")),
            PostContent::Step(step) => (super::to_value(step), None),
        };
        if let Some(fields) = value.as_object_mut() {
            fields.remove("step_id");
            if let Some(kind) = kind {
                fields.insert("type".to_owned(), kind.into());
            }
            fields.insert("timestamp".to_owned(), json!(self.at));
        }
        value
    }
}

impl PostContent {
    fn problem(&self) -> Option<String> {
        match self {
            Self::Start(_) => None,
            Self::Step(step) => step.problem(),
            Self::End(end) => {
                let is_negative = |cost: &Number| cost.as_f64().is_none_or(|cost| cost < 0.0);
                end.total_cost_usd
                    .as_ref()
                    .filter(|cost| is_negative(cost))
                    .map(|_| "the cost is negative".to_owned())
            }
        }
    }
}
