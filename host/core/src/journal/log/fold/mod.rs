//! The short form in which plain calls are in the log: what a record says twice, or what follows from the rest of it, is
//! written once or not at all. A start takes about 400 bytes so, and the end of a call about 1.1 kB, in place of 1.4 and
//! 5.6 kB: the time that a call waits for the log is proportional to its bytes.
//!
//! A start is `{"started":CALL,"changes":..,"process":..,"extra":..,"decisions":[..]}`. An end is `{"ended":CALL,"extra":..,
//! "decisions":[..],"persistence":[..],"result":{..},"source":..,"unnamed":..,"events":[[TYPE,ID,TIME,DATA],..]}`.
//! `near.rs` has what is shorter at its usual place.
//!
//! - The call has the ID of the line.
//! - `at` of CALL is the moment at which the call was planned, in nanoseconds since 1970. Every other time is a number of
//!   nanoseconds from there.
//! - `steps` are the statuses, each with its time: `[STATUS,TIME]`, or TIME alone if the status is the usual one at its place.
//!   The status of the call, its start and its end follow from them.
//! - The other IDs are strings, or numbers: their distance from the call's ID.
//! - `input` is the input of the caller, and `ref` its reference. `changed` and `changed_ref` belong to the other three
//!   inputs, if they differ.
//! - `shown` is the content for the model, if it is neither `content` nor, without content, the text of `structured`.
//! - All events have `source`. The first `unnamed` ones do not name the tool.
//! - DATA is absent if it follows from the rest of the record (`usual.rs`). If the TYPE, too, is the usual one at its place, and
//!   the ID is a number, the event is `[ID,TIME]`.
//! - `policies` of CALL is absent if it equals the decisions' policies. `session` in `ran` is the session of the call, and
//!   `scheduled` the scheduler's facts of a call outside of a batch (`derived.rs`).
//! - `message` of a decision is absent if it is the usual one.
//! - What is empty, or has its default, is absent.
//!
//! A record with more fields is not folded: the first key of an end is `invocation`, of a start `changes`. Readers take
//! both.

mod derived;
mod near;
mod read;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
mod usual;
mod write;

use serde_json::Value;

use crate::record::{Content, TEXT, Timestamp, is_json};

pub(super) use read::{Gist, RecordedStart, begun, record, unfold};
pub(super) use write::{FoldedEnd, FoldedStart};

/// How a folded start begins.
const STARTED: &str = "{\"started\":";
/// How a folded end begins.
const ENDED: &str = "{\"ended\":";

/// `true` if the payload of a line is folded.
pub(super) fn is_folded(payload: &str) -> bool {
    payload.starts_with(STARTED) || payload.starts_with(ENDED)
}

/// The moment from which the times of a line count, in nanoseconds since 1970.
#[derive(Clone, Copy)]
struct Clock(u64);

impl Clock {
    fn new(planned: Timestamp) -> Option<Self> {
        planned.unix_nanos().map(Self)
    }

    /// Nanoseconds until `at`, less than 0 if the system's clock went back. `None` if the distance is out of range.
    fn until(self, at: Timestamp) -> Option<i64> {
        i64::try_from(i128::from(at.unix_nanos()?) - i128::from(self.0)).ok()
    }

    /// The moment so many nanoseconds away; `None` if it is out of range.
    fn at(self, nanos: i64) -> Option<Timestamp> {
        self.0
            .checked_add_signed(nanos)
            .map(Timestamp::of_unix_nanos)
    }
}

/// `true` if both are the same JSON text. Unlike for `==`, the order of an object's fields and the sign of zero matter.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut fields = one.iter().zip(other);
            one.len() == other.len()
                && fields.all(|((name, one), (same, other))| name == same && is_same(one, other))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| is_same(one, other))
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() && other.is_f64() => {
            one.as_f64().map(f64::to_bits) == other.as_f64().map(f64::to_bits)
        }
        _ => one == other,
    }
}

/// The component of a result, of a call in which these components ran.
fn component(runtime_refs: &[String]) -> Option<&str> {
    runtime_refs.first()?.strip_prefix("component:")
}

/// `true` if `block` is the text block for `structured` output.
fn is_text_of(block: &Content, structured: &Value) -> bool {
    let text = block
        .as_text()
        .filter(|_| block.kind == TEXT && block.fields.len() == 1);
    text.is_some_and(|text| is_json(text.as_bytes(), structured))
}
