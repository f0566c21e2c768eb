//! A file for each view.

pub(super) mod approvals;
pub(super) mod call;
pub(super) mod calls;
pub(super) mod machines;
pub(super) mod principal;
pub(super) mod tools;
pub(super) mod workspaces;

use serde_json::Value;
use toolcell_spec::Timestamp;

pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let items = value.get(name).and_then(Value::as_array);
    items.map_or(&[], Vec::as_slice)
}

pub(super) fn time(value: &Value) -> Option<Timestamp> {
    serde_json::from_value(value.clone()).ok()
}

/// In whole seconds.
pub(super) fn moment(time: &str) -> String {
    format!("{time:.19}Z").replace('T', " ")
}
