use serde::de::DeserializeOwned;
use serde_json::Value;

use super::input::Unique;

/// Values that the arguments or the output of one call may hold. A value takes 30 to 200 bytes in memory, and as little as
/// two in a text: without a bound, 8 MiB of brackets become a gigabyte.
pub const JSON_VALUES_MAX: usize = 100_000;

/// Reads JSON that somebody else wrote. Fails also where it holds more than `values_max` values.
pub fn read_json<T: DeserializeOwned>(text: &str, values_max: usize) -> Result<T, String> {
    // A value takes two bytes at the least: a text that is short enough need not be looked at.
    if guard!("json_values") && text.len() / 2 >= values_max && values_at_most(text) > values_max {
        return Err(format!("it holds more than {values_max} values"));
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// [`read_json`], which also fails where an object names a field twice: of two values, one would be lost.
pub fn read_unique_json(text: &str, values_max: usize) -> Result<Value, String> {
    read_json(text, values_max).map(|Unique(value)| value)
}

/// How many values `text` holds, or more: one for each comma and each opening bracket outside of strings.
fn values_at_most(text: &str) -> usize {
    let mut values = 1;
    let (mut quoted, mut escaped) = (false, false);
    for byte in text.bytes() {
        match (quoted, escaped, byte) {
            (true, true, _) => escaped = false,
            (true, false, b'\\') => escaped = true,
            (_, false, b'"') => quoted = !quoted,
            (false, _, b',' | b'[' | b'{') => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::{read_json, values_at_most};
    use serde_json::Value;

    #[test]
    fn what_stands_in_a_text_counts_once() {
        assert_eq!(values_at_most(r#""[,,,]""#), 1);
        assert_eq!(values_at_most(r#"["\",\\",{"a":1,"b":[]}]"#), 6);
        let value: Result<Value, String> = read_json("[[],[],[]]", 3);
        assert!(value.unwrap_err().contains("more than 3"));
        let value: Result<Value, String> = read_json("[[],[],[]]", 7);
        assert!(value.is_ok());
    }
}
