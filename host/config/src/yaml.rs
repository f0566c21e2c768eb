//! Reads YAML of others as JSON values. Anchors, aliases and tags are refused, because a few lines of them can stand for
//! gigabytes, and because the reader of a policy would not see what it says.

use granit_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};

/// Maximum number of values.
const VALUES_MAX: usize = 10_000;
/// Maximum depth of maps and lists.
const DEPTH_MAX: usize = 16;

struct YamlReader<'t> {
    events: Parser<'t, StrInput<'t>>,
    /// The line of the last event.
    line: usize,
    values: usize,
}

/// Reads one document. Plain `true`, `false` and `null` are what they are in JSON; all other scalars are texts.
///
/// # Errors
///
/// Invalid YAML, duplicate keys, and exceeded limits. The error names the line.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let mut reader = YamlReader {
        events: Parser::new_from_str(text),
        line: 0,
        values: 0,
    };
    let mut whole = None;
    while let Some(event) = reader.next()? {
        match event {
            Event::DocumentStart(..) if whole.is_some() => {
                return Err(reader.wrong("a second document begins"));
            }
            Event::StreamStart | Event::StreamEnd => {}
            Event::DocumentStart(..) | Event::DocumentEnd => {}
            node => whole = Some(reader.value(node, 0)?),
        }
    }
    whole.ok_or_else(|| "it is empty".to_owned())
}

impl<'t> YamlReader<'t> {
    fn wrong(&self, why: &str) -> String {
        format!("line {}: {why}", self.line)
    }

    /// The next event; a node is plain, and is counted.
    fn next(&mut self) -> Result<Option<Event<'t>>, String> {
        let Some(next) = self.events.next() else {
            return Ok(None);
        };
        let (event, span) = next.map_err(|error| error.to_string())?;
        self.line = span.start.line();
        let (anchor, is_tagged) = match &event {
            Event::Alias(_) => return Err(self.wrong("an alias; write the value itself")),
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(_, anchor, tag)
            | Event::MappingStart(_, anchor, tag) => (*anchor, tag.is_some()),
            _ => return Ok(Some(event)),
        };
        if anchor != 0 {
            return Err(self.wrong("an anchor; write the value where it is needed"));
        }
        if is_tagged {
            return Err(self.wrong("a tag; write the value without it"));
        }
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(self.wrong(&format!("there are more than {VALUES_MAX} values")));
        }
        Ok(Some(event))
    }

    /// The value that begins with `event`.
    fn value(&mut self, event: Event<'t>, depth: usize) -> Result<Value, String> {
        if depth >= DEPTH_MAX && !matches!(event, Event::Scalar(..)) {
            return Err(self.wrong(&format!("it is nested more than {DEPTH_MAX} deep")));
        }
        match event {
            Event::Scalar(text, style, ..) => Ok(scalar(&text, style)),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                while let Some(item) = self.next()?.filter(|event| *event != Event::SequenceEnd) {
                    items.push(self.value(item, depth + 1)?);
                }
                Ok(items.into())
            }
            _ => {
                let mut fields = Map::new();
                while let Some(key) = self.next()?.filter(|event| *event != Event::MappingEnd) {
                    let Event::Scalar(key, ..) = key else {
                        return Err(self.wrong("a key is not a text"));
                    };
                    if fields.contains_key(&*key) {
                        return Err(self.wrong(&format!("{key:?} is a duplicate key")));
                    }
                    let value = self
                        .next()?
                        .ok_or_else(|| self.wrong("a key has no value"))?;
                    fields.insert(key.into_owned(), self.value(value, depth + 1)?);
                }
                Ok(fields.into())
            }
        }
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    match text {
        _ if style != ScalarStyle::Plain => text.into(),
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{DEPTH_MAX, VALUES_MAX, read};

    #[test]
    fn maps_lists_and_scalars_are_values() {
        let text = "# what it may do\nversion: \"1.0\"\nempty:\nflow: {a: [x, 'true', ~], b: true}\nblock:\n  - uri: \"fs://a/**\"\n    access: [read]\n  - last\ntext: |\n  two\n  lines\n";
        let expected = json!({
            "version": "1.0",
            "empty": null,
            "flow": { "a": ["x", "true", null], "b": true },
            "block": [{ "uri": "fs://a/**", "access": ["read"] }, "last"],
            "text": "two\nlines\n",
        });
        assert_eq!(read(text).unwrap(), expected);
        assert_eq!(read("1.0").unwrap(), "1.0");
    }

    #[test]
    fn what_could_hide_something_or_grow_is_refused_at_its_line() {
        let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
        let deep = format!(
            "{}x{}",
            "[".repeat(DEPTH_MAX + 1),
            "]".repeat(DEPTH_MAX + 1)
        );
        let wide = "- x\n".repeat(VALUES_MAX + 1);
        for (text, why) in [
            ("", "it is empty"),
            ("a: [", "line"),
            ("a: 1\nb: 2\na: 3\n", "line 3: \"a\" is a duplicate key"),
            (bomb, "line 1: an anchor"),
            ("a: !!binary eA==\n", "line 1: a tag"),
            ("a: 1\n---\nb: 2\n", "a second document"),
            ("[a, b]: 1\n", "a key is not a text"),
            (&deep, "nested more than 16 deep"),
            (&wide, "more than 10000 values"),
        ] {
            let refusal = read(text).unwrap_err();
            assert!(refusal.contains(why), "{why}: {refusal}");
        }
        let deepest = format!("{}x{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert!(read(&deepest).is_ok());
    }
}
