//! Large arguments are in the log once: the start of their call has them, and its end, in the same segment, leaves them out.

use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use super::{fold, segment};

/// The inputs of an invocation, and the text of the first one.
const INPUTS: [&str; 5] = [
    "model_input",
    "observable_input",
    "permission_input",
    "call_input",
    "model_input_text",
];
/// The field of an invocation in the log whose inputs equal the start's.
const AT_START: &str = "inputs_at_start";
/// The field that lists the inputs that equal `model_input`.
const SAME: &str = "inputs_same";

fn invocation(line: &mut Value) -> Option<&mut Map<String, Value>> {
    line.get_mut("invocation")?.as_object_mut()
}

/// Leaves the inputs out of the end of a call whose start is in the same segment.
pub(super) fn leave_out(end: &mut Value) {
    let Some(invocation) = invocation(end) else {
        return;
    };
    INPUTS
        .iter()
        .for_each(|name| _ = invocation.shift_remove(*name));
    invocation.insert(AT_START.to_owned(), true.into());
}

/// Leaves the inputs out of a line that equal `model_input`.
pub(super) fn shorten(line: &mut Value) {
    let Some(invocation) = invocation(line) else {
        return;
    };
    let first = invocation.get("model_input").cloned();
    let others = INPUTS.iter().skip(1);
    let same: Vec<&str> = others
        .copied()
        .filter(|name| first.is_some() && invocation.get(*name) == first.as_ref())
        .collect();
    same.iter()
        .for_each(|name| _ = invocation.shift_remove(*name));
    if !same.is_empty() {
        invocation.insert(SAME.to_owned(), same.into());
    }
}

/// `true` if a line is complete without another one.
pub(super) fn is_whole(payload: &str) -> bool {
    !payload.contains(AT_START)
}

/// Puts the inputs back that [`shorten`] left out.
fn lengthen(line: &mut Value) {
    let Some(invocation) = invocation(line) else {
        return;
    };
    let Some(Value::Array(same)) = invocation.shift_remove(SAME) else {
        return;
    };
    let first = invocation.get("model_input").cloned().unwrap_or_default();
    for name in same.iter().filter_map(Value::as_str) {
        invocation.insert(name.to_owned(), first.clone());
    }
}

/// Returns the record in a line of the segment `number`, with its inputs.
///
/// # Errors
///
/// The line is damaged, or the segment cannot be read.
pub(super) fn whole(dir: &Path, number: u64, id: &str, payload: &str) -> io::Result<Value> {
    let mut record = fold::unfold(id, payload)?;
    lengthen(&mut record);
    let at_start = invocation(&mut record)
        .and_then(|invocation| invocation.shift_remove(AT_START))
        .is_some();
    if !at_start {
        return Ok(record);
    }
    let start = segment::start_of(dir, number, id)?;
    let mut start = start
        .map(|start| fold::unfold(id, &start))
        .transpose()?
        .unwrap_or_default();
    lengthen(&mut start);
    if let (Some(from), Some(to)) = (invocation(&mut start), invocation(&mut record)) {
        let inputs = INPUTS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), from.shift_remove(*name)?)));
        to.extend(inputs);
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{lengthen, shorten};

    #[test]
    fn inputs_that_are_the_same_are_written_once() {
        let line = json!({ "invocation": { "model_input": { "a": 1 }, "observable_input": { "a": 1 }, "call_input": 2 } });
        let mut short = line.clone();
        shorten(&mut short);
        let expected = json!({ "invocation": { "model_input": { "a": 1 }, "call_input": 2, "inputs_same": ["observable_input"] } });
        assert_eq!(short, expected);
        lengthen(&mut short);
        assert_eq!(short, line);
    }
}
