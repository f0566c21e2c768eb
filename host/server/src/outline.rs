//! Scans a frame before it is parsed. Parsing takes 30 to 200 bytes per value, several times over, so values are
//! counted in the raw bytes. The arguments are kept as sent, because parsing rounds large numbers.

use std::ops::Range;

use rmcp::model::{ErrorData, RequestId};
use serde::de::IgnoredAny;
use toolcell_spec::JSON_VALUES_MAX;

use super::exchange::RUN;

/// Only parsing validates the JSON object.
#[derive(Debug)]
pub(super) struct Outline<'a> {
    text: &'a [u8],
    id: Option<Range<usize>>,
    method: Option<Range<usize>>,
    arguments: Option<Range<usize>>,
}

/// The refusal answers the request `id`.
#[derive(Debug)]
pub(super) struct RefusedFrame {
    pub(super) id: Option<RequestId>,
    pub(super) error: ErrorData,
}

impl<'a> Outline<'a> {
    /// `None` if `text` is not a complete JSON object.
    ///
    /// # Errors
    ///
    /// More than 100,000 values beside the arguments of a `tools/call`, a duplicate key that the outline reads, or a
    /// JSON array.
    pub(super) fn scan(text: &'a [u8]) -> Result<Option<Self>, RefusedFrame> {
        let mut cursor = Cursor {
            text,
            at: 0,
            values: 1,
        };
        let mut outline = Self {
            text,
            id: None,
            method: None,
            arguments: None,
        };
        let mut repeated = None;
        let mut set =
            |member: &mut Option<Range<usize>>, name: &'static str, range: Range<usize>| {
                if member.replace(range).is_some() {
                    repeated = Some(name);
                }
            };
        let mut params = None;
        let mut argument_values = 0;
        let whole = cursor.members(|cursor, name| {
            if is(name, "id") {
                set(&mut outline.id, "id", cursor.value()?);
            } else if is(name, "method") {
                set(&mut outline.method, "method", cursor.value()?);
            } else if is(name, "params") {
                let from = cursor.at;
                if cursor.text.get(from) == Some(&b'{') {
                    cursor.members(|cursor, name| {
                        if !is(name, "arguments") {
                            return cursor.value().map(drop);
                        }
                        let before = cursor.values;
                        set(&mut outline.arguments, "arguments", cursor.value()?);
                        argument_values += cursor.values - before;
                        cursor.values = before;
                        Some(())
                    })?;
                } else {
                    cursor.value()?;
                }
                set(&mut params, "params", from..cursor.at);
            } else {
                cursor.value()?;
            }
            Some(())
        });
        let values = match whole {
            // The arguments of one call are not parsed with the frame; too many values in them are refused with a
            // record. A message of a model has no record, and each of its values can become a call.
            Some(()) if outline.arguments().is_some() && !outline.is(RUN) => cursor.values,
            Some(()) => cursor.values + argument_values,
            None => values(text),
        };
        let unread = |why| {
            Err(RefusedFrame {
                id: whole.and_then(|()| outline.request_id()),
                error: ErrorData::invalid_request(why, None),
            })
        };
        if values > JSON_VALUES_MAX {
            return unread(format!(
                "the frame holds more than {JSON_VALUES_MAX} values: send fewer"
            ));
        }
        match repeated {
            _ if is_array(text) => Err(RefusedFrame {
                id: None,
                error: ErrorData::invalid_request(ARRAY, None),
            }),
            Some(name) => unread(format!("duplicate key {name:?}: send it once")),
            None => Ok(whole.map(|()| outline)),
        }
    }

    pub(super) fn request_id(&self) -> Option<RequestId> {
        self.method.as_ref()?;
        serde_json::from_slice(self.text.get(self.id.clone()?)?).ok()
    }

    pub(super) fn is(&self, method: &str) -> bool {
        let quoted = self.method.clone().and_then(|range| self.text.get(range));
        let name = quoted.and_then(|quoted| quoted.strip_prefix(b"\"")?.strip_suffix(b"\""));
        name.is_some_and(|name| is(name, method))
    }

    /// `None` if this is no call, or the text is not UTF-8. The arguments of `toolcell/respond` are a message of a
    /// model.
    pub(super) fn arguments(&self) -> Option<&'a str> {
        let calls = self.is("tools/call") || self.is(RUN);
        let arguments = calls
            .then(|| self.text.get(self.arguments.clone()?))
            .flatten()?;
        std::str::from_utf8(arguments)
            .ok()
            .filter(|text| *text != "null")
    }

    /// `{}` replaces an object, `0` anything else.
    pub(super) fn without_arguments(&self) -> Vec<u8> {
        let range = self.arguments.clone().unwrap_or_default();
        let before = self.text.get(..range.start);
        let after = self.text.get(range.end..);
        let instead: &[u8] = if self.text.get(range.start) == Some(&b'{') {
            b"{}"
        } else {
            b"0"
        };
        [
            before.unwrap_or_default(),
            instead,
            after.unwrap_or_default(),
        ]
        .concat()
    }
}

const ARRAY: &str = "a message is a JSON object: send each message by itself, not in an array";

/// MCP dropped batches in 2025-06-18, but rmcp parses some arrays as a request, each item as the member at its
/// position.
fn is_array(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[") && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// An upper bound, for valid JSON or not.
fn values(text: &[u8]) -> usize {
    1 + text
        .iter()
        .filter(|byte| matches!(byte, b',' | b'[' | b'{'))
        .count()
}

/// `name` is raw text from the quotes.
fn is(name: &[u8], meant: &str) -> bool {
    name == meant.as_bytes()
        || name.contains(&b'\\')
            && serde_json::from_slice::<String>(&[b"\"", name, b"\""].concat())
                .is_ok_and(|name| name == meant)
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// One for each comma and each opening bracket outside of strings.
    values: usize,
}

impl<'a> Cursor<'a> {
    /// `each` must skip the value. `None` if there is no object or it is incomplete.
    fn members(&mut self, mut each: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.space();
        self.take(b'{')?;
        self.values += 1;
        loop {
            self.space();
            match *self.text.get(self.at)? {
                b'"' => {
                    let name = self.string()?;
                    self.space();
                    self.take(b':')?;
                    self.space();
                    each(self, name)?;
                }
                b',' => {
                    self.values += 1;
                    self.at += 1;
                }
                _ => return self.take(b'}'),
            }
        }
    }

    fn value(&mut self) -> Option<Range<usize>> {
        let from = self.at;
        let mut depth = 0_usize;
        loop {
            match (*self.text.get(self.at)?, depth) {
                (b'"', _) => {
                    self.string()?;
                    if depth == 0 {
                        return Some(from..self.at);
                    }
                    continue;
                }
                (b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n', 0) => {
                    return Some(from..self.at);
                }
                (b'{' | b'[', _) => {
                    self.values += 1;
                    depth += 1;
                }
                (b',', _) => self.values += 1,
                (b'}' | b']', _) => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return Some(from..self.at);
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let from = self.at + 1;
        let mut at = from;
        loop {
            match self.text.get(at)? {
                b'"' => break,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        self.at = at + 1;
        self.text.get(from..at)
    }

    fn space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestId;

    use super::{Outline, is_array};

    fn of(text: &str) -> Outline<'_> {
        Outline::scan(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn the_arguments_of_a_call_are_found_as_they_were_sent() {
        let text = r#" {"id" : "a\"}", "method":"tools\/call","params" : {"name":"x","_meta":{"arguments":1},
            "argum\u0065nts" : { "n":1.50, "s":"}\\" } , "z":[] } } "#;
        let outline = of(text);
        assert_eq!(outline.arguments(), Some(r#"{ "n":1.50, "s":"}\\" }"#));
        assert_eq!(outline.request_id(), Some(RequestId::String("a\"}".into())));
        let rest: serde_json::Value = serde_json::from_slice(&outline.without_arguments()).unwrap();
        assert_eq!(rest["params"]["arguments"], serde_json::json!({}));
        assert_eq!(rest["params"]["_meta"]["arguments"], 1);
        for (sent, left) in [("[1]", "0"), ("7", "0"), ("\"{\"", "0")] {
            let text = format!(r#"{{"method":"tools/call","params":{{"arguments":{sent}}}}}"#);
            assert_eq!(of(&text).arguments(), Some(sent));
            assert_eq!(
                of(&text).without_arguments(),
                text.replace(sent, left).into_bytes()
            );
        }
        for none in [
            r#"{"method":"tools/call","params":{"arguments":null}}"#,
            r#"{"method":"x","params":{"arguments":{}}}"#,
        ] {
            assert_eq!(of(none).arguments(), None);
        }
    }

    #[test]
    fn what_is_no_whole_object_has_no_outline() {
        for text in [
            "",
            "7",
            "[{}",
            "{",
            r#"{"a"}"#,
            r#"{"a":"#,
            r#"{"a":"b"#,
            r#"{"a\"#,
            r#"{"params":{"arguments":[}"#,
        ] {
            assert!(Outline::scan(text.as_bytes()).unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn values_are_counted_before_they_are_parsed() {
        let commas = ",".repeat(100_000);
        let in_params =
            |name: &str| format!(r#"{{"id":7,"method":"x","params":{{"{name}":[{commas}]}}}}"#);
        for text in [format!("[{commas}"), in_params("a"), in_params("arguments")] {
            let unread = Outline::scan(text.as_bytes()).unwrap_err();
            assert!(unread.error.message.contains("100000"), "{}", unread.error);
            assert_eq!(unread.id.is_some(), text.starts_with('{'));
        }
        assert!(Outline::scan(format!(r#"{{"a":"{commas}"}}"#).as_bytes()).is_ok());
        let arguments =
            format!(r#"{{"method":"tools/call","params":{{"arguments":{{"a":[{commas}]}}}}}}"#);
        assert!(
            of(&arguments).arguments().is_some(),
            "the call is refused with a record"
        );
        let mut no_text = arguments.into_bytes();
        drop(no_text.splice(no_text.len() - 4..no_text.len() - 4, *b",\"\xff\""));
        assert!(
            Outline::scan(&no_text).is_err(),
            "arguments that are not taken out count"
        );
    }

    #[test]
    fn an_array_is_told_from_what_only_begins_like_one() {
        assert!(is_array(b"[]") && is_array(b" [\"2.0\", 7, {}] "));
        assert!(!is_array(b"[INFO] a line of a log") && !is_array(b"{}") && !is_array(b""));
    }

    #[test]
    fn a_member_that_counts_stands_once() {
        for text in [
            r#"{"id":1,"id":2,"method":"x"}"#,
            r#"{"method":"x","method":"y"}"#,
            r#"{"params":{},"params":{}}"#,
            r#"{"params":{"arguments":{},"argument\u0073":{}}}"#,
        ] {
            assert!(Outline::scan(text.as_bytes()).is_err(), "{text}");
        }
    }
}
