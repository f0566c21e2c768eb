//! Reads YAML of others as JSON values. Anchors, aliases and tags are refused, because a few lines of them can stand for
//! gigabytes, and because the reader of a policy would not see what it says.

use granit_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};
use toolcell_spec::JSON_VALUES_MAX;

/// The limits of a document, and its scalars.
#[derive(Clone, Copy)]
pub(super) struct YamlForm {
    values_max: usize,
    /// Of maps and lists.
    depth_max: usize,
    /// Plain scalars that are numbers in JSON are no texts.
    has_numbers: bool,
}

pub(super) const POLICY: YamlForm = YamlForm {
    values_max: 10_000,
    depth_max: 16,
    has_numbers: false,
};
pub(super) const OPENAPI: YamlForm = YamlForm {
    values_max: JSON_VALUES_MAX,
    depth_max: 64,
    has_numbers: true,
};

struct YamlReader<'t> {
    events: Parser<'t, StrInput<'t>>,
    form: YamlForm,
    /// The line of the last event.
    line: usize,
    values: usize,
}

/// Reads one document. Plain `true`, `false` and `null` are what they are in JSON; other scalars are texts, or numbers.
///
/// # Errors
///
/// Invalid YAML, duplicate keys, and exceeded limits. The error names the line.
pub(super) fn read(text: &str, form: YamlForm) -> Result<Value, String> {
    let mut reader = YamlReader {
        events: Parser::new_from_str(text),
        form,
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
        let values_max = self.form.values_max;
        if self.values > values_max {
            return Err(self.wrong(&format!("there are more than {values_max} values")));
        }
        Ok(Some(event))
    }

    /// The value that begins with `event`.
    fn value(&mut self, event: Event<'t>, depth: usize) -> Result<Value, String> {
        let depth_max = self.form.depth_max;
        if depth >= depth_max && !matches!(event, Event::Scalar(..)) {
            return Err(self.wrong(&format!("it is nested more than {depth_max} deep")));
        }
        match event {
            Event::Scalar(text, style, ..) => Ok(match scalar(&text, style) {
                Value::String(text) if style == ScalarStyle::Plain && self.form.has_numbers => {
                    number(&text).unwrap_or_else(|| text.into())
                }
                value => value,
            }),
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

fn number(text: &str) -> Option<Value> {
    let number: Value = serde_json::from_str(text).ok()?;
    number.is_number().then_some(number)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{OPENAPI, POLICY};

    const DEPTH_MAX: usize = POLICY.depth_max;
    const VALUES_MAX: usize = POLICY.values_max;

    fn read(text: &str) -> Result<Value, String> {
        super::read(text, POLICY)
    }

    #[test]
    fn numbers_are_read_where_they_mean_something() {
        let text = "minimum: 1\nratio: 1.5\nversion: 3.0.3\nquoted: '1'\n";
        let read = super::read(text, OPENAPI).unwrap();
        let expected = json!({ "minimum": 1, "ratio": 1.5, "version": "3.0.3", "quoted": "1" });
        assert_eq!(read, expected);
    }

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
