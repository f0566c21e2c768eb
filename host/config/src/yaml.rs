//! Reads YAML of others as JSON values. Anchors, aliases and tags are refused, because a few lines of them can stand for
//! gigabytes, and because the reader of a policy would not see what it says.

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// Maximum number of values.
const VALUES_MAX: usize = 10_000;
/// Maximum depth of maps and lists.
const DEPTH_MAX: usize = 16;

/// A map or a list that has not ended.
enum OpenContainer {
    List(Vec<Value>),
    Map {
        fields: Map<String, Value>,
        /// The key whose value comes next.
        key: Option<String>,
    },
}

#[derive(Default)]
struct YamlReader {
    open: Vec<OpenContainer>,
    values: usize,
    documents: usize,
    whole: Option<Value>,
}

/// Reads one document. Plain `true`, `false` and `null` are what they are in JSON; all other scalars are texts.
///
/// # Errors
///
/// Invalid YAML, duplicate keys, and exceeded limits. The error names the line.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let mut reader = YamlReader::default();
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|error| error.to_string())?;
        reader
            .take(event)
            .map_err(|why| format!("line {}: {why}", span.start.line()))?;
    }
    reader.whole.ok_or_else(|| "it is empty".to_owned())
}

impl YamlReader {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                match self.documents {
                    1 => Ok(()),
                    _ => Err("a second document begins".to_owned()),
                }
            }
            Event::Alias(_) => Err("an alias; write the value itself".to_owned()),
            Event::Scalar(text, style, anchor, tag) => {
                self.begin(anchor, tag.is_some())?;
                match self.open.last_mut() {
                    Some(OpenContainer::Map {
                        fields,
                        key: key @ None,
                    }) => {
                        if fields.contains_key(&*text) {
                            return Err(format!("{text:?} is a duplicate key"));
                        }
                        *key = Some(text.into_owned());
                        Ok(())
                    }
                    _ => self.add(scalar(&text, style)),
                }
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.nest(OpenContainer::List(Vec::new()), anchor, tag.is_some())
            }
            Event::MappingStart(_, anchor, tag) => self.nest(
                OpenContainer::Map {
                    fields: Map::new(),
                    key: None,
                },
                anchor,
                tag.is_some(),
            ),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenContainer::List(items)) => self.add(items.into()),
                Some(OpenContainer::Map { fields, .. }) => self.add(fields.into()),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Counts a node, which must be plain.
    fn begin(&mut self, anchor: usize, tagged: bool) -> Result<(), String> {
        if anchor != 0 {
            return Err("an anchor; write the value where it is needed".to_owned());
        }
        if tagged {
            return Err("a tag; write the value without it".to_owned());
        }
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(format!("there are more than {VALUES_MAX} values"));
        }
        Ok(())
    }

    fn nest(&mut self, open: OpenContainer, anchor: usize, tagged: bool) -> Result<(), String> {
        self.begin(anchor, tagged)?;
        if matches!(self.open.last(), Some(OpenContainer::Map { key: None, .. })) {
            return Err("a key is not a text".to_owned());
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(format!("it is nested more than {DEPTH_MAX} deep"));
        }
        self.open.push(open);
        Ok(())
    }

    /// Adds a whole value to what it is in.
    fn add(&mut self, value: Value) -> Result<(), String> {
        match self.open.last_mut() {
            Some(OpenContainer::List(items)) => items.push(value),
            Some(OpenContainer::Map { fields, key }) => {
                let key = key.take().ok_or("a key is not a text")?;
                fields.insert(key, value);
            }
            None => self.whole = Some(value),
        }
        Ok(())
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
