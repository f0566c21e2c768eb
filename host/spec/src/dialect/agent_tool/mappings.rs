//! Numbers of `external_mappings` as they were written: a JSON value keeps only about 16 digits (AT-DECL-17).

use serde_json::Value;

use crate::exact::{self, ExactNumbers};

use super::RECORDS;

const MAPPINGS: &str = "external_mappings";
/// The text of the mappings, if their value does not hold each number as it was written.
pub(super) const TEXT: &str = "external_mappings_text";

/// Adds the text of mappings whose numbers change when they are read. A text that says something else is dropped.
pub(super) fn keep_numbers(toolkit: &mut Value, text: &str) {
    let numbers = exact::numbers(text);
    for list in RECORDS {
        let records = toolkit.get_mut(list).and_then(Value::as_array_mut);
        for (at, record) in records.into_iter().flatten().enumerate() {
            let Some(fields) = record.as_object_mut() else {
                continue;
            };
            let written = numbers
                .as_ref()
                .and_then(|numbers| below(item(below(numbers, list)?, at)?, MAPPINGS))
                .zip(fields.get(MAPPINGS))
                .map(|(numbers, mappings)| exact::write(mappings, numbers));
            if let Some(written) = written {
                fields.insert(TEXT.to_owned(), written.into());
            } else if let Some(given) = fields.get(TEXT) {
                let said = given
                    .as_str()
                    .and_then(|given| serde_json::from_str::<Value>(given).ok());
                if said.as_ref() != fields.get(MAPPINGS) {
                    fields.shift_remove(TEXT);
                }
            }
        }
    }
}

fn below<'a, 't>(numbers: &'a ExactNumbers<'t>, name: &str) -> Option<&'a ExactNumbers<'t>> {
    match numbers {
        ExactNumbers::Object(fields) => fields.get(name),
        _ => None,
    }
}

fn item<'a, 't>(numbers: &'a ExactNumbers<'t>, at: usize) -> Option<&'a ExactNumbers<'t>> {
    match numbers {
        ExactNumbers::Array(items) => items
            .iter()
            .find_map(|(index, item)| (*index == at).then_some(item)),
        _ => None,
    }
}
