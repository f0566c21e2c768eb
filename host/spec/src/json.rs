use std::collections::BTreeSet;
use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::input::UniqueValue;

/// Of arguments or output: a value takes 30 to 200 bytes in memory, but as little as two in text, so 8 MiB of brackets
/// would become a gigabyte.
pub const JSON_VALUES_MAX: usize = 100_000;

/// Records hold the value some levels further down, and readers of JSON commonly give up at 128.
const DEPTH_MAX: usize = 120;

/// Typed fields of an object. One of another type counts as absent.
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::TypedFields;
///
/// let tool = json!({ "name": "read", "aliases": ["cat"] });
/// assert_eq!((tool.text("name"), tool.list("aliases").len(), tool.list("name").len()), (Some("read"), 1, 0));
/// ```
pub trait TypedFields {
    fn field(&self, name: &str) -> Option<&Value>;

    fn text(&self, name: &str) -> Option<&str> {
        self.field(name)?.as_str()
    }

    fn list(&self, name: &str) -> &[Value] {
        self.field(name)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    fn fields(&self, name: &str) -> Option<&Map<String, Value>> {
        self.field(name)?.as_object()
    }
}

impl TypedFields for Value {
    fn field(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }
}

impl TypedFields for Map<String, Value> {
    fn field(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }
}

/// Measures JSON text without making it, because it may be large and each call is measured.
#[derive(Default)]
struct JsonLength {
    bytes: usize,
    chars: usize,
}

impl JsonLength {
    fn new(value: &impl Serialize) -> Self {
        let mut length = Self::default();
        // Counting cannot fail, and these records can be written as JSON.
        let _ = serde_json::to_writer(&mut length, value);
        length
    }
}

impl io::Write for JsonLength {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        // In UTF-8, all bytes of a character but its first begin with the bits 10.
        self.chars += bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn json_bytes(value: &impl Serialize) -> usize {
    JsonLength::new(value).bytes
}

pub fn json_chars(value: &impl Serialize) -> usize {
    JsonLength::new(value).chars
}

/// Parses untrusted JSON. Fails beyond `values_max` values, too.
pub fn read_json<T: DeserializeOwned>(text: &str, values_max: usize) -> Result<T, String> {
    // A value takes at least two bytes, so a text that is short enough need not be scanned.
    if text.len() / 2 >= values_max && values_at_most(text) > values_max {
        return Err(format!("it holds more than {values_max} values"));
    }
    if is_deeper(text, DEPTH_MAX) {
        return Err(format!("it is nested more than {DEPTH_MAX} levels deep"));
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// `None` unless `text` is a JSON object or array.
pub fn decoded(text: &str) -> Option<Value> {
    let is_container = text.trim_start().starts_with(['{', '[']);
    is_container
        .then(|| read_json(text, JSON_VALUES_MAX).ok())
        .flatten()
}

/// The values directly in an object or array.
pub fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let fields = value.as_object().into_iter().flat_map(Map::values);
    value.as_array().into_iter().flatten().chain(fields)
}

/// The names of all properties that `schema` describes, at any depth.
pub fn property_names(schema: &Value, found: &mut BTreeSet<String>) {
    let named = schema.fields("properties").into_iter();
    found.extend(named.flat_map(Map::keys).cloned());
    children(schema).for_each(|inner| property_names(inner, found));
}

/// The steps of a JSON Pointer (RFC 6901), which may lack its first slash.
pub fn pointer_steps(pointer: &str) -> Vec<String> {
    let steps = pointer.strip_prefix('/').unwrap_or(pointer).split('/');
    steps
        .map(|step| step.replace("~1", "/").replace("~0", "~"))
        .collect()
}

/// One step of a JSON Pointer, as it is written there.
pub fn escaped_step(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

/// The values that the steps of a JSON Pointer lead to. The step `*` leads to each item of an array.
pub fn pointed<'v>(value: &'v Value, steps: &[String]) -> Vec<&'v Value> {
    let below = |value: &'v Value, step: &String| match value {
        Value::Array(items) if step == "*" => items.iter().collect(),
        Value::Array(items) => {
            let item = step.parse().ok().and_then(|at: usize| items.get(at));
            Vec::from_iter(item)
        }
        value => Vec::from_iter(value.field(step)),
    };
    steps.iter().fold(vec![value], |from, step| {
        from.into_iter()
            .flat_map(|value| below(value, step))
            .collect()
    })
}

/// As [`pointed`], each with its own JSON Pointer.
pub fn pointed_mut<'v>(value: &'v mut Value, steps: &[String]) -> Vec<(String, &'v mut Value)> {
    let mut found = vec![(String::new(), value)];
    for step in steps {
        for (at, value) in std::mem::take(&mut found) {
            match value {
                Value::Object(fields) => {
                    let inner = fields.get_mut(step);
                    found
                        .extend(inner.map(|inner| (format!("{at}/{}", escaped_step(step)), inner)));
                }
                Value::Array(items) => {
                    let wanted = step.parse::<usize>().ok();
                    let items = items.iter_mut().enumerate();
                    let meant = items.filter(|(index, _)| step == "*" || wanted == Some(*index));
                    found.extend(meant.map(|(index, item)| (format!("{at}/{index}"), item)));
                }
                _ => {}
            }
        }
    }
    found
}

/// Letters and digits in lower case: `apiKey`, `api_key` and `API-Key` are one name.
pub fn plain_name(name: &str) -> impl Iterator<Item = char> {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
}

fn is_deeper(text: &str, depth_max: usize) -> bool {
    let mut depth = 0_usize;
    outside_strings(text).any(|byte| {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > depth_max
    })
}

/// Like [`read_json`], but fails on a duplicate key, because one of its values would be lost.
pub fn read_unique_json(text: &str, values_max: usize) -> Result<Value, String> {
    read_json(text, values_max).map(|UniqueValue(value)| value)
}

/// An upper bound: the commas and the opening brackets outside strings, plus one.
fn values_at_most(text: &str) -> usize {
    let begins_value = |byte: &u8| matches!(byte, b',' | b'[' | b'{');
    1 + outside_strings(text).filter(begins_value).count()
}

fn outside_strings(text: &str) -> impl Iterator<Item = u8> {
    let mut quoted = false;
    let mut escaped = false;
    text.bytes().filter(move |byte| {
        match (quoted, escaped, byte) {
            (true, true, _) => escaped = false,
            (true, false, b'\\') => escaped = true,
            (_, false, b'"') => quoted = !quoted,
            _ => {}
        }
        !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::{DEPTH_MAX, json_bytes, json_chars, read_json, values_at_most};
    use serde_json::{Value, json};

    #[test]
    fn a_value_is_as_long_as_its_text() {
        let value = json!({ "text": "a\n\u{e9}\u{1f980}", "list": [1, 2.5, null] });
        let text = value.to_string();
        assert_eq!(json_bytes(&value), text.len());
        assert_eq!(json_chars(&value), text.chars().count());
    }

    #[test]
    fn what_is_nested_too_deep_is_refused_and_brackets_in_texts_do_not_count() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let read = |text: String| read_json::<Value>(&text, 1_000);
        assert!(read(nested(DEPTH_MAX)).is_ok());
        let refusal = read(nested(DEPTH_MAX + 1)).unwrap_err();
        assert!(refusal.contains("more than 120 levels"), "{refusal}");
        assert!(read(format!(r#"["\"{0}",{1}]"#, "[".repeat(500), nested(3))).is_ok());
        assert!(read(format!("[{}]", vec!["[{}]"; 200].join(","))).is_ok());
    }

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
