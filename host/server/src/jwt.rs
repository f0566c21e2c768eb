//! The parts of a JWT (RFC 7519), read before anything of it is known to be true.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};
use toolcell_spec::read_unique_json;

/// A header or the claims. `None` if it is not an object without duplicate keys, or has more than `values_max` values.
pub(crate) fn object(part: &str, values_max: usize) -> Option<Map<String, Value>> {
    let bytes = BASE64URL_NOPAD.decode(part.as_bytes()).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    match read_unique_json(&text, values_max) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}
