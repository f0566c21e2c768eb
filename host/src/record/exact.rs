//! Numbers as they were written. A value holds about 16 digits of a number; a text that is made of it again would have
//! others in the place of the rest.

use std::collections::HashMap;

use serde_json::{Number, Value};

/// The numbers of `text`, by the path to each, that a value does not hold as they are written.
pub(super) fn numbers(text: &str) -> HashMap<String, &str> {
    let mut found = HashMap::new();
    // Shorter ones are held exactly.
    if text.as_bytes().windows(16).any(|digits| digits.iter().all(u8::is_ascii_digit)) {
        let mut reader = Reader { text, at: 0 };
        // What is no JSON has no numbers.
        if reader.value(&mut String::new(), &mut found).is_none() {
            found.clear();
        }
    }
    found
}

/// `value` as a text in which each of `numbers` that is still there is written as it was.
pub(super) fn write(value: &Value, numbers: &HashMap<String, &str>) -> String {
    let mut text = String::new();
    put(value, &mut String::new(), numbers, &mut text);
    text
}

fn put(value: &Value, path: &mut String, numbers: &HashMap<String, &str>, text: &mut String) {
    match value {
        Value::Object(fields) => {
            text.push('{');
            for (at, (name, value)) in fields.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                below(path, name, |path| put(value, path, numbers, text));
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, value) in items.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                below(path, &at.to_string(), |path| put(value, path, numbers, text));
            }
            text.push(']');
        }
        Value::Number(number) => {
            let same = |written: &&&str| written.parse::<Number>().is_ok_and(|written| written == *number);
            match numbers.get(path.as_str()).filter(same) {
                Some(written) => text.push_str(written),
                None => text.push_str(&number.to_string()),
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

/// The path of a part, one name below `path`. Lengths keep two paths apart, whatever the names hold.
fn below<T>(path: &mut String, name: &str, then: impl FnOnce(&mut String) -> T) -> T {
    let before = path.len();
    path.push_str(&name.len().to_string());
    path.push('/');
    path.push_str(name);
    let done = then(path);
    path.truncate(before);
    done
}

/// Goes through a text that was parsed before, and so is not nested deeper than a parser goes.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, path: &mut String, found: &mut HashMap<String, &'a str>) -> Option<()> {
        match self.next()? {
            b'{' => self.members(b'}', |reader, _| {
                let name: String = serde_json::from_str(reader.token()?).ok()?;
                reader.take(b':')?;
                below(path, &name, |path| reader.value(path, found))
            }),
            b'[' => self.members(b']', |reader, at| below(path, &at.to_string(), |path| reader.value(path, found))),
            b'-' | b'0'..=b'9' => {
                let written = self.token()?;
                let number: Number = written.parse().ok()?;
                if number.to_string() != written {
                    found.insert(path.clone(), written);
                }
                Some(())
            }
            _ => self.token().map(drop),
        }
    }

    fn members(&mut self, end: u8, mut each: impl FnMut(&mut Self, usize) -> Option<()>) -> Option<()> {
        self.at += 1;
        for at in 0.. {
            if self.next()? == end {
                break;
            }
            if at > 0 {
                self.take(b',')?;
            }
            each(self, at)?;
        }
        self.take(end)
    }

    /// The first byte of what comes next.
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

    /// A string with its quotes, or a word up to what ends it.
    fn token(&mut self) -> Option<&'a str> {
        let quoted = self.next()? == b'"';
        let (from, bytes) = (self.at, self.text.as_bytes());
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
    use serde_json::{Value, json};

    use super::{numbers, write};

    #[test]
    fn numbers_that_are_still_there_are_written_as_they_were() {
        let text = r#" { "a/b" : [ 1, 12345678901234567890123 , {"c\u0022": -0.10000000000000000001 } ], "d":1e2, "e": "12345678901234567890" } "#;
        let mut value: Value = serde_json::from_str(text).unwrap();
        value["limit"] = json!(10);
        let written = write(&value, &numbers(text));
        let expected = r#"{"a/b":[1,12345678901234567890123,{"c\"":-0.10000000000000000001}],"d":1e2,"e":"12345678901234567890","limit":10}"#;
        assert_eq!(written, expected);
        value["a/b"][1] = json!(7);
        assert!(write(&value, &numbers(text)).contains("[1,7,{"));
        assert!(numbers("[1.50, 2]").is_empty() && numbers("[12345678901234567890123").is_empty());
    }
}
