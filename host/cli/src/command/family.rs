//! The calls above and below one call.

use serde_json::Value;
use toolcell_engine::approval::PromptSheet;
use toolcell_journal::CallLog;
use toolcell_spec::text::{Whitespace, visible};

/// Depth and number of calls shown. A record that was not edited has less of both.
const DEPTH_MAX: usize = 8;
const CALLS_MAX: usize = 300;

pub(super) fn show(log: &CallLog, invocation: &Value, sheet: &mut PromptSheet) {
    if let Some(id) = invocation["parent_invocation_id"].as_str() {
        sheet.host(&format!("made by {}", line(log, id).0));
    }
    let mut left = CALLS_MAX;
    below(log, invocation, 1, &mut left, sheet);
}

fn below(
    log: &CallLog,
    invocation: &Value,
    depth: usize,
    left: &mut usize,
    sheet: &mut PromptSheet,
) {
    let ids = invocation["child_invocation_ids"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    for id in ids {
        if *left == 0 || depth > DEPTH_MAX {
            return;
        }
        *left -= 1;
        let (line, record) = line(log, id);
        sheet.host(&format!("{:>indent$}called {line}", "", indent = 2 * depth));
        below(
            log,
            record.get("invocation").unwrap_or(&Value::Null),
            depth + 1,
            left,
            sheet,
        );
    }
}

/// The record is null if the log does not have it any more.
fn line(log: &CallLog, id: &str) -> (String, Value) {
    let record = log.record(id).ok().flatten().unwrap_or_default();
    let word = |name: &str| {
        record
            .get("invocation")
            .and_then(|it| it.get(name))
            .and_then(Value::as_str)
            .unwrap_or("?")
            .to_owned()
    };
    let line = format!("{}: {id} {}", word("tool_id"), word("status"));
    (visible(&line, Whitespace::WrittenOut), record)
}
