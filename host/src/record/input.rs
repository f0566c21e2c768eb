use std::sync::{Arc, OnceLock};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// `sha256:` and the hex digest of `bytes`: the form of every content reference.
pub fn digest(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(71);
    text.push_str("sha256:");
    for byte in Sha256::digest(bytes) {
        let digits = [byte >> 4, byte & 15].map(|half| char::from_digit(half.into(), 16).unwrap_or_default());
        text.extend(digits);
    }
    text
}

/// One of the four inputs of a call (AT-INP-01..04): its text, its value, its reference. Immutable and cheap to copy.
#[derive(Clone, Debug)]
pub struct Input(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    text: String,
    value: Result<Value, String>,
    reference: OnceLock<String>,
}

impl Input {
    /// The text exactly as it was sent. Text that is not JSON is kept, with what is wrong with it.
    pub fn from_text(text: impl Into<String>) -> Self {
        let text = text.into();
        let value = serde_json::from_str(&text).map_err(|error| error.to_string());
        Self(Arc::new(Inner { text, value, reference: OnceLock::new() }))
    }

    pub fn from_value(value: Value) -> Self {
        Self(Arc::new(Inner { text: value.to_string(), value: Ok(value), reference: OnceLock::new() }))
    }

    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The value, or why the text has none.
    pub fn value(&self) -> Result<&Value, &str> {
        self.0.value.as_ref().map_err(String::as_str)
    }

    /// The value for a record: the text itself where it is not JSON.
    pub fn to_value(&self) -> Value {
        match &self.0.value {
            Ok(value) => value.clone(),
            Err(_) => Value::String(self.0.text.clone()),
        }
    }

    /// The digest of the text.
    pub fn reference(&self) -> &str {
        self.0.reference.get_or_init(|| digest(self.0.text.as_bytes()))
    }

    /// Whether both are the very same input, not merely equal ones.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
