use std::collections::BTreeMap;

use serde_json::Value;
use toolcell_spec::{ContextModifier, check_numbers, read_unique_json};

use crate::state::StoreState;

use super::wit::context_modifiers::{Host, ModifyError};

/// Limits of one call, because every result, record and client gets all keys and values.
const KEYS_MAX: usize = 32;
const BYTES_MAX: usize = 16 << 10;
const KEY_BYTES_MAX: usize = 128;
/// The host keeps many results.
const VALUES_MAX: usize = 1_000;

pub(crate) struct ContextChanges {
    /// Why nothing may be changed; `None` if it may.
    barred: Option<&'static str>,
    bytes: usize,
    changes: BTreeMap<String, ContextChange>,
}

struct ContextChange {
    bytes: usize,
    value: Value,
}

impl ContextChanges {
    pub(crate) fn new(barred: Option<&'static str>) -> Self {
        Self {
            barred,
            bytes: 0,
            changes: BTreeMap::new(),
        }
    }

    pub(crate) fn outside_of_calls() -> Self {
        Self::new(Some(
            "cannot change the context: only a call can, and describe, validation and classification are none",
        ))
    }

    /// Sorted by key.
    pub(crate) fn take(&mut self) -> Vec<ContextModifier> {
        let changes = std::mem::take(&mut self.changes);
        changes
            .into_iter()
            .map(|(key, ContextChange { value, .. })| ContextModifier { key, value })
            .collect()
    }

    fn modify(&mut self, key: String, value: &str) -> Result<(), ModifyError> {
        if let Some(why) = self.barred {
            return Err(ModifyError::Forbidden(why.to_owned()));
        }
        if !is_key(&key) {
            let why = format!(
                "cannot change this key: it has 1 to {KEY_BYTES_MAX} letters, digits, _, -, ., : or /"
            );
            return Err(ModifyError::Invalid(why));
        }
        let bytes = key.len() + value.len();
        let before = self.changes.get(&key);
        let keys = self.changes.len() + usize::from(before.is_none());
        let total = self
            .bytes
            .saturating_sub(before.map_or(0, |before| before.bytes))
            .saturating_add(bytes);
        // Before the value is parsed, which takes memory.
        if keys > KEYS_MAX || total > BYTES_MAX {
            let why = format!(
                "cannot change {key}: this call would change {keys} keys with {total} bytes, {KEYS_MAX} keys and \
                 {BYTES_MAX} bytes are allowed; change less"
            );
            return Err(ModifyError::QuotaExceeded(why));
        }
        let value = read_unique_json(value, VALUES_MAX)
            .and_then(|read| check_numbers(value).map(|()| read))
            .map_err(|why| {
                ModifyError::Invalid(format!(
                    "cannot change {key}: its value is not valid JSON: {why}"
                ))
            })?;
        self.changes.insert(key, ContextChange { bytes, value });
        self.bytes = total;
        Ok(())
    }
}

fn is_key(key: &str) -> bool {
    let fits =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/');
    (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(fits)
}

impl Host for StoreState {
    async fn modify(
        &mut self,
        key: String,
        value: String,
    ) -> wasmtime::Result<Result<(), ModifyError>> {
        Ok(self.modifiers.modify(key, &value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn word(result: Result<(), ModifyError>) -> &'static str {
        match result {
            Ok(()) => "done",
            Err(ModifyError::Forbidden(_)) => "forbidden",
            Err(ModifyError::Invalid(_)) => "invalid",
            Err(ModifyError::QuotaExceeded(_)) => "quota",
        }
    }

    #[test]
    fn the_last_value_of_a_key_counts_and_keys_are_sorted() {
        let mut modifiers = ContextChanges::new(None);
        for (key, value) in [("b", "1"), ("a", "[true]"), ("b", "{\"n\": 2}")] {
            assert_eq!(word(modifiers.modify(key.to_owned(), value)), "done");
        }
        let of = |key: &str, value| ContextModifier {
            key: key.to_owned(),
            value,
        };
        assert_eq!(
            modifiers.take(),
            [of("a", json!([true])), of("b", json!({ "n": 2 }))]
        );
        assert!(modifiers.take().is_empty());
    }

    #[test]
    fn keys_and_values_are_checked() {
        let mut modifiers = ContextChanges::new(None);
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        for key in ["", "two words", "a\u{1b}", "\u{fc}", long.as_str()] {
            assert_eq!(
                word(modifiers.modify(key.to_owned(), "1")),
                "invalid",
                "{key:?}"
            );
        }
        let values = format!("[{}]", vec!["0"; VALUES_MAX + 1].join(","));
        for value in [
            "",
            "nonsense",
            "1 2",
            r#"{"a": 1, "a": 2}"#,
            values.as_str(),
        ] {
            assert_eq!(
                word(modifiers.modify("key".to_owned(), value)),
                "invalid",
                "{value:?}"
            );
        }
        assert_eq!(word(modifiers.modify(long[1..].to_owned(), "null")), "done");
    }

    #[test]
    fn keys_and_bytes_are_counted_and_a_replaced_value_is_not() {
        let mut modifiers = ContextChanges::new(None);
        let half = format!("\"{}\"", "x".repeat(BYTES_MAX / 2));
        for _ in 0..3 {
            assert_eq!(word(modifiers.modify("a".to_owned(), &half)), "done");
        }
        assert_eq!(word(modifiers.modify("b".to_owned(), &half)), "quota");
        assert_eq!(word(modifiers.modify("a".to_owned(), "1")), "done");
        for key in 1..KEYS_MAX {
            assert_eq!(word(modifiers.modify(key.to_string(), "1")), "done");
        }
        assert_eq!(word(modifiers.modify("one-more".to_owned(), "1")), "quota");
        assert_eq!(
            word(modifiers.modify("a".to_owned(), "2")),
            "done",
            "a key that is known is not counted again"
        );
    }

    #[test]
    fn outside_of_a_call_nothing_is_changed() {
        let mut modifiers = ContextChanges::outside_of_calls();
        assert_eq!(word(modifiers.modify("key".to_owned(), "1")), "forbidden");
        assert!(modifiers.take().is_empty());
    }
}
