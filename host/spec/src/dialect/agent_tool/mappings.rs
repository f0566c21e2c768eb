//! The text of `external_mappings`, where their value is written otherwise: a JSON value keeps only about 16 digits, and
//! a mapping begins with its `source` (AT-DECL-17).

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::ExternalMapping;

use super::RECORDS;

const MAPPINGS: &str = "external_mappings";
/// The text of the mappings, if their value is written otherwise.
pub(super) const TEXT: &str = "external_mappings_text";

#[derive(Deserialize)]
struct WrittenRecord<'t> {
    #[serde(borrow)]
    external_mappings: Option<&'t RawValue>,
}

/// Adds the text of mappings that would be written otherwise. A text that says something else is dropped.
pub(super) fn keep_text(toolkit: &mut Value, text: &str) {
    let lists: HashMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    for list in RECORDS {
        let written = lists.get(list).map(|list| serde_json::from_str(list.get()));
        let written: Vec<WrittenRecord<'_>> = written.and_then(Result::ok).unwrap_or_default();
        let records = toolkit.get_mut(list).and_then(Value::as_array_mut);
        for (record, written) in records.into_iter().flatten().zip(written) {
            let Some(fields) = record.as_object_mut() else {
                continue;
            };
            let given = fields.get(TEXT).and_then(Value::as_str);
            let said = given.and_then(|given| serde_json::from_str::<Value>(given).ok());
            if said.is_some() && said.as_ref() == fields.get(MAPPINGS) {
                continue;
            }
            fields.shift_remove(TEXT);
            let written = written.external_mappings.map(RawValue::get);
            if let Some(other) = written.filter(|written| is_other(written)) {
                fields.insert(TEXT.to_owned(), other.into());
            }
        }
    }
}

/// `true` if a record would have other bytes for these mappings, blanks between words aside.
fn is_other(written: &str) -> bool {
    let mappings = serde_json::from_str::<Vec<ExternalMapping>>(written);
    let shown = mappings.and_then(|mappings| serde_json::to_string(&mappings));
    shown.is_ok_and(|shown| shown != without_blanks(written))
}

fn without_blanks(json: &str) -> String {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        is_quoted ^= *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_quoted || !c.is_ascii_whitespace()
    };
    json.chars().filter(is_kept).collect()
}
