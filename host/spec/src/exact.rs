//! Numbers as they were written: a JSON value keeps only about 16 digits.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Number, Value};

const DIGITS_MAX: usize = 17;
const SHOWN_CHARS_MAX: usize = 40;
const DEPTH_MAX: usize = 128;

/// Numbers that a value does not hold as they are written. Only paths to such numbers are kept, and each name once: a
/// client may send 4 MiB with 90,000 numbers below one name of 3 MiB.
#[derive(Debug)]
pub(super) enum ExactNumbers<'a> {
    Number(&'a str),
    Object(HashMap<Cow<'a, str>, ExactNumbers<'a>>),
    Array(Vec<(usize, ExactNumbers<'a>)>),
}

/// `None` if a value holds all numbers as they are written.
pub(super) fn numbers(text: &str) -> Option<ExactNumbers<'_>> {
    // A value holds numbers with fewer digits and without an exponent exactly.
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let is_long = text
        .as_bytes()
        .windows(16)
        .any(|part| part.iter().all(is_part));
    if !is_long
        && !text
            .as_bytes()
            .windows(2)
            .any(|pair| matches!(pair, [b'0'..=b'9', b'e' | b'E']))
    {
        return None;
    }
    // Text that is not JSON has no numbers.
    ExactReader {
        text,
        at: 0,
        depth: 0,
    }
    .value()
    .flatten()
}

/// Fails on a number whose value changes when `text` is read: too many digits, or too close to zero, for a double, and
/// no integer of 64 bits.
pub fn check_numbers(text: &str) -> Result<(), String> {
    let Some(number) = numbers(text).as_ref().and_then(lost) else {
        return Ok(());
    };
    let shown: String = number.chars().take(SHOWN_CHARS_MAX).collect();
    Err(format!(
        "the number {shown} cannot be kept as it is written: readers of JSON keep {DIGITS_MAX} digits; write it as a string"
    ))
}

fn lost<'a>(numbers: &ExactNumbers<'a>) -> Option<&'a str> {
    match numbers {
        ExactNumbers::Number(written) => is_lost(written).then_some(*written),
        ExactNumbers::Object(fields) => fields.values().find_map(lost),
        ExactNumbers::Array(items) => items.iter().find_map(|(_, item)| lost(item)),
    }
}

fn is_lost(written: &str) -> bool {
    let digits = written.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_matches('0').len();
    let is_tiny = written
        .parse::<f64>()
        .is_ok_and(|value| value.abs() < f64::MIN_POSITIVE);
    digits > DIGITS_MAX || (is_tiny && digits > 0)
}

pub(super) fn write(value: &Value, numbers: &ExactNumbers<'_>) -> String {
    let mut text = String::new();
    put(value, Some(numbers), &mut text);
    text
}

/// Recurses as deep as `value` and `numbers` are both nested.
fn put(value: &Value, numbers: Option<&ExactNumbers<'_>>, text: &mut String) {
    match (value, numbers) {
        (Value::Object(fields), Some(ExactNumbers::Object(numbers))) => {
            text.push('{');
            for (at, (name, value)) in fields.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                put(value, numbers.get(name.as_str()), text);
            }
            text.push('}');
        }
        (Value::Array(items), Some(ExactNumbers::Array(numbers))) => {
            let mut numbers = numbers.iter().peekable();
            text.push('[');
            for (at, value) in items.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                let numbers = numbers
                    .next_if(|(index, _)| *index == at)
                    .map(|(_, numbers)| numbers);
                put(value, numbers, text);
            }
            text.push(']');
        }
        (Value::Number(number), Some(ExactNumbers::Number(written)))
            if written
                .parse::<Number>()
                .is_ok_and(|written| written == *number) =>
        {
            text.push_str(written);
        }
        _ => text.push_str(&value.to_string()),
    }
}

struct ExactReader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> ExactReader<'a> {
    /// `None` if it is not JSON, `Some(None)` if a value holds all numbers exactly.
    fn value(&mut self) -> Option<Option<ExactNumbers<'a>>> {
        match self.next()? {
            b'{' => {
                let mut fields = HashMap::new();
                self.members(b'}', |reader, _| {
                    let name = reader.name()?;
                    reader.take(b':')?;
                    if let Some(numbers) = reader.value()? {
                        fields.insert(name, numbers);
                    }
                    Some(())
                })?;
                Some((!fields.is_empty()).then_some(ExactNumbers::Object(fields)))
            }
            b'[' => {
                let mut items = Vec::new();
                self.members(b']', |reader, at| {
                    items.extend(reader.value()?.map(|numbers| (at, numbers)));
                    Some(())
                })?;
                Some((!items.is_empty()).then_some(ExactNumbers::Array(items)))
            }
            b'-' | b'0'..=b'9' => {
                let written = self.token()?;
                let number: Number = written.parse().ok()?;
                Some((number.to_string() != written).then_some(ExactNumbers::Number(written)))
            }
            _ => self.token().map(|_| None),
        }
    }

    fn name(&mut self) -> Option<Cow<'a, str>> {
        let token = self.token()?;
        match serde_json::from_str::<&'a str>(token) {
            Ok(name) => Some(Cow::Borrowed(name)),
            Err(_) => serde_json::from_str(token).ok().map(Cow::Owned),
        }
    }

    fn members(
        &mut self,
        end: u8,
        mut each: impl FnMut(&mut Self, usize) -> Option<()>,
    ) -> Option<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        for at in 0.. {
            if self.next()? == end {
                break;
            }
            if at > 0 {
                self.take(b',')?;
            }
            each(self, at)?;
        }
        self.depth -= 1;
        self.take(end)
    }

    fn next(&mut self) -> Option<u8> {
        loop {
            match *self.text.as_bytes().get(self.at)? {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        let found = self.next()? == byte;
        self.at += usize::from(found);
        found.then_some(())
    }

    fn token(&mut self) -> Option<&'a str> {
        let quoted = self.next()? == b'"';
        let from = self.at;
        let bytes = self.text.as_bytes();
        let mut at = from + usize::from(quoted);
        loop {
            match (quoted, bytes.get(at)) {
                (true, Some(b'\\')) => at += 2,
                (true, Some(b'"')) => {
                    at += 1;
                    break;
                }
                (true, None) => return None,
                (false, None | Some(b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')) => break,
                _ => at += 1,
            }
        }
        self.at = at;
        self.text.get(from..at)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::{Value, json};

    use super::{ExactNumbers, check_numbers, numbers, write};

    #[test]
    fn numbers_that_are_still_there_are_written_as_they_were() {
        let text = r#" { "a/b" : [ 1, 12345678901234567890123 , {"c\u0022": -0.10000000000000000001 } ], "d":1e2, "e": "12345678901234567890" } "#;
        let mut value: Value = serde_json::from_str(text).unwrap();
        value["limit"] = json!(10);
        let write = |value: &Value| write(value, &numbers(text).unwrap());
        let written = write(&value);
        let expected = r#"{"a/b":[1,12345678901234567890123,{"c\"":-0.10000000000000000001}],"d":1e2,"e":"12345678901234567890","limit":10}"#;
        assert_eq!(written, expected);
        value["a/b"][1] = json!(7);
        assert!(write(&value).contains("[1,7,{"));
        value["a/b"][1] = json!("other");
        value["a/b"][2] = json!([-0.5]);
        assert!(write(&value).contains("[1,\"other\",[-0.5]]"));
        let nested = |levels: usize| format!("{}1e2{}", "[".repeat(levels), "]".repeat(levels));
        assert!(numbers(&nested(128)).is_some() && numbers(&nested(1 << 20)).is_none());
        assert!(numbers("[1.50, 2]").is_none() && numbers("[12345678901234567890123").is_none());
    }

    #[test]
    fn a_number_whose_value_would_change_is_named() {
        for lost in [
            "18446744073709551616",
            "-9223372036854775809",
            "123456789.0123456789",
            "1e-400",
            "0.1234567890123456789",
        ] {
            let why = check_numbers(&format!(r#"{{"a":[1,{{"n":{lost}}}]}}"#)).unwrap_err();
            assert!(why.contains(lost), "{why}");
        }
        for kept in [
            "18446744073709551615",
            "-9223372036854775808",
            "1.0",
            "0.10000000000000001",
            "1e300",
            "0e-999",
            "-0",
            "1e20",
        ] {
            check_numbers(&format!(r#"{{"a":[{kept}],"s":"18446744073709551616"}}"#)).unwrap();
        }
    }

    #[test]
    fn a_name_is_held_once_however_many_numbers_are_below_it() {
        let name = "long".repeat(100);
        let text = format!(
            r#"{{"{name}":[1e2,1,1e2],"e\u0073c":{{"n":1e2}},"all":[1,2],"n":1234567890123456}}"#
        );
        let Some(ExactNumbers::Object(fields)) = numbers(&text) else {
            panic!("{text}")
        };
        assert_eq!(
            fields.len(),
            2,
            "only what leads to a number is kept: {fields:?}"
        );
        let (held, items) = fields.get_key_value(name.as_str()).unwrap();
        assert!(matches!(held, Cow::Borrowed(_)), "the name is copied");
        assert!(
            matches!(items, ExactNumbers::Array(items) if items.len() == 2 && items[1].0 == 2),
            "{items:?}"
        );
        assert!(fields.contains_key("esc"));
    }
}
