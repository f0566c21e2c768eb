//! Changes one entry of a configuration file, and no other byte that matters: the text is cut and pasted at places that a
//! parser named, and what comes out is parsed again.

use std::ops::Range;

use serde_json::Value;

use super::node::{Ambiguous, Node, Outline};
use super::{json, toml, yaml};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) enum Format {
    /// With comments, which some clients take.
    Json,
    Toml,
    Yaml,
}

/// The place of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::command) struct Slot {
    pub(in crate::command) section: Vec<String>,
    pub(in crate::command) name: String,
    /// The section is a list, whose items have names.
    pub(in crate::command) is_list: bool,
}

impl Slot {
    pub(super) fn path(&self) -> Vec<&str> {
        let section = self.section.iter().map(String::as_str);
        section.chain([self.name.as_str()]).collect()
    }

    pub(super) fn section_name(&self) -> String {
        self.section.join(".")
    }
}

/// What is put into a place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'p> {
    Entry(&'p Value),
    /// As it stood there before.
    Source(&'p str),
}

/// Why a file cannot be changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("it cannot be parsed at line {line}, column {column}: {why}")]
    Syntax {
        line: usize,
        column: usize,
        why: String,
    },
    #[error("{0}")]
    Form(String),
}

impl Fault {
    /// `offset` is in bytes of `text`.
    pub(super) fn at(text: &str, offset: usize, why: &str) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default();
        Self::Syntax {
            line,
            column: column.chars().count() + 1,
            why: why.to_owned(),
        }
    }
}

impl From<Ambiguous> for Fault {
    fn from(Ambiguous(name): Ambiguous) -> Self {
        Self::Form(format!("`{name}` is in it more than once; remove one"))
    }
}

/// Bytes of the text, and what replaces them.
pub(super) type Splice = (Range<usize>, String);

/// A mark of the encoding, which some editors write and no parser expects.
const MARK: char = '\u{feff}';

impl Format {
    /// Places are behind a [`MARK`].
    pub(super) fn read(self, text: &str) -> Result<Node, Fault> {
        let text = text.trim_start_matches(MARK);
        match self {
            Self::Json => json::read(text),
            Self::Toml => toml::read(text),
            Self::Yaml => yaml::read(text),
        }
    }

    /// Puts `entry` into its place, or in the stead of what is there.
    pub(super) fn put(self, text: &str, slot: &Slot, entry: &Value) -> Result<String, Fault> {
        let after = self.changed(text, slot, Some(Piece::Entry(entry)))?;
        self.check(text, &after, slot, |found| {
            found.and_then(Node::value).as_ref() == Some(entry)
        })?;
        Ok(after)
    }

    /// Takes out the entry, or puts `source` in its stead; `is_made` if its section came with it. A text without the
    /// entry stays as it is.
    pub(super) fn take(
        self,
        text: &str,
        slot: &Slot,
        source: Option<&str>,
        is_made: bool,
    ) -> Result<String, Fault> {
        if self.source(text, slot)?.is_none() {
            return Ok(text.to_owned());
        }
        let mut after = self.changed(text, slot, source.map(Piece::Source))?;
        self.check(text, &after, slot, |found| {
            found.is_some() == source.is_some()
        })?;
        // The sections that are empty now, from the inner one.
        let mut section = slot.section.clone();
        while is_made && let Some(name) = section.pop() {
            let outer = Slot {
                section: section.clone(),
                name,
                is_list: false,
            };
            let root = self.read(&after)?;
            let path = [section.as_slice(), std::slice::from_ref(&outer.name)].concat();
            if !root.follow(&path)?.is_some_and(Node::is_empty) || self == Self::Toml {
                break;
            }
            after = self.changed(&after, &outer, None)?;
        }
        Ok(after)
    }

    /// The text of the entry, in a form that [`Self::take`] puts back.
    pub(super) fn source(self, text: &str, slot: &Slot) -> Result<Option<String>, Fault> {
        let text = text.trim_start_matches(MARK);
        match self {
            Self::Json => json::source(text, slot),
            Self::Toml => toml::source(text, slot),
            Self::Yaml => yaml::source(text, slot),
        }
    }

    /// The bytes of the names that lead to the entry, and of the entry.
    pub(super) fn extents(self, text: &str, slot: &Slot) -> Result<Vec<Range<usize>>, Fault> {
        let bare = text.trim_start_matches(MARK);
        let skipped = text.len() - bare.len();
        let root = self.read(bare)?;
        let mut extents = Vec::new();
        let mut node = &root;
        for key in &slot.section {
            let Some(found) = node.find(key)? else {
                return Ok(extents);
            };
            extents.push(found.start..found.value.at.start.max(found.start));
            node = found.value;
        }
        match self {
            Self::Toml => extents.extend(toml::extents(bare, slot)?),
            Self::Json | Self::Yaml => {
                let found = node.find(&slot.name)?;
                extents.extend(found.map(|found| found.start..found.value.at.end));
            }
        }
        let shifted = extents
            .into_iter()
            .map(|range| range.start + skipped..range.end + skipped);
        Ok(shifted.collect())
    }

    /// The entry alone, as a file has it.
    pub(in crate::command) fn snippet(self, slot: &Slot, entry: &Value) -> anyhow::Result<String> {
        let empty = if self == Self::Json { "{}\n" } else { "" };
        Ok(self.put(empty, slot, entry)?)
    }

    fn changed(self, text: &str, slot: &Slot, piece: Option<Piece<'_>>) -> Result<String, Fault> {
        let bare = text.trim_start_matches(MARK);
        let mark = text.get(..text.len() - bare.len()).unwrap_or_default();
        let splices = match self {
            Self::Json => json::change(bare, slot, piece)?,
            Self::Toml => toml::change(bare, slot, piece)?,
            Self::Yaml => yaml::change(bare, slot, piece)?,
        };
        let mut after = mark.to_owned();
        let mut at = 0;
        for (range, new) in splices {
            let kept = bare.get(at..range.start);
            after.push_str(kept.ok_or_else(|| unchangeable(slot))?);
            after.push_str(&new);
            at = range.end;
        }
        after.push_str(bare.get(at..).unwrap_or_default());
        Ok(after)
    }

    /// Fails if anything but the entry differs, or if the entry is not as `expected`.
    fn check(
        self,
        before: &str,
        after: &str,
        slot: &Slot,
        expected: impl FnOnce(Option<&Node>) -> bool,
    ) -> Result<(), Fault> {
        let wrong = || unchangeable(slot);
        if !self.is_as_strict(before, after) {
            return Err(wrong());
        }
        let after = self
            .read(after.trim_start_matches(MARK))
            .map_err(|_| wrong())?;
        let path = slot.path();
        if self.others(before, slot)? != after.outline_without(&path) {
            return Err(wrong());
        }
        let section = after.follow(&slot.section)?;
        let found = section
            .map(|section| section.find(&slot.name))
            .transpose()?
            .flatten();
        if expected(found.map(|found| found.value)) {
            Ok(())
        } else {
            Err(wrong())
        }
    }

    /// `after` has no comma too many, if `before` has none.
    pub(super) fn is_as_strict(self, before: &str, after: &str) -> bool {
        let [before, after] = [before, after].map(|text| text.trim_start_matches(MARK));
        self != Self::Json || json::is_strict(after) || !json::is_strict(before)
    }

    /// All but the entry.
    pub(super) fn others(self, text: &str, slot: &Slot) -> Result<Outline, Fault> {
        let root = self.read(text)?;
        Ok(root.outline_without(&slot.path()))
    }

    /// The entry alone, without its form.
    pub(super) fn entry(self, text: &str, slot: &Slot) -> Result<Option<Outline>, Fault> {
        let root = self.read(text)?;
        let Some(section) = root.follow(&slot.section)? else {
            return Ok(None);
        };
        Ok(section.find(&slot.name)?.map(|found| found.value.outline()))
    }
}

fn unchangeable(slot: &Slot) -> Fault {
    let message = format!(
        "toolcell cannot change `{}` in this file without changing more than that; edit the file yourself",
        slot.section_name()
    );
    Fault::Form(message)
}

/// With the end of a line only if `old` has one.
pub(super) fn as_ended(new: String, old: &str) -> String {
    if old.ends_with('\n') {
        new
    } else {
        new.trim_end().to_owned()
    }
}

/// The end of a line as in `text`.
pub(super) fn line_break(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text.get(..at).is_some_and(|before| before.ends_with('\r')) => "\r\n",
        _ => "\n",
    }
}

/// Where the line of `at` begins.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before.rfind('\n').map_or(0, |newline| newline + 1)
}

/// Where the line of `at` ends, behind its break.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.find('\n')
        .map_or(text.len(), |newline| at + newline + 1)
}

/// The blanks with which the line of `at` begins.
pub(super) fn indent(text: &str, at: usize) -> &str {
    let line = text.get(line_start(text, at)..at).unwrap_or_default();
    let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..blanks).unwrap_or_default()
}

/// `true` if nothing but blanks is before `at` on its line.
pub(super) fn begins_line(text: &str, at: usize) -> bool {
    let line = text.get(line_start(text, at)..at).unwrap_or_default();
    line.trim_matches([' ', '\t']).is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Format, Slot};

    fn slot(section: &str, is_list: bool) -> Slot {
        Slot {
            section: vec![section.to_owned()],
            name: "it".to_owned(),
            is_list,
        }
    }

    /// The entry is put in, and out again; both texts are compared.
    fn goes_in_and_out(format: Format, slot: &Slot, cases: &[(&str, &str)]) {
        let entry = if slot.is_list {
            json!({ "name": "it", "a": "b" })
        } else {
            json!({ "a": "b" })
        };
        for (before, expected) in cases {
            let root = format.read(before).unwrap();
            let is_made = root.follow(&slot.section).unwrap().is_none();
            let after = format.put(before, slot, &entry).unwrap();
            assert_eq!(&after, expected, "{before}");
            assert_eq!(format.put(&after, slot, &entry).unwrap(), after);
            let source = format.source(before, slot).unwrap();
            let back = format.take(&after, slot, source.as_deref(), is_made);
            assert_eq!(&back.unwrap(), before, "{after}");
        }
    }

    #[test]
    fn json_keeps_comments_indentation_and_ends_of_lines() {
        let cases = [
            (
                "{\n}\n",
                "{\n  \"s\": {\n    \"it\": {\n      \"a\": \"b\"\n    }\n  }\n}\n",
            ),
            ("{\"s\":{}}", "{\"s\":{\"it\": {\"a\":\"b\"}}}"),
            (
                "{ \"s\": { \"z\": 1 } }",
                "{ \"s\": { \"it\": {\"a\":\"b\"}, \"z\": 1 } }",
            ),
            (
                "\u{feff}{\r\n\t\"s\": { // c\r\n\t\t// z\r\n\t\t\"z\": {},\r\n\t}\r\n}",
                "\u{feff}{\r\n\t\"s\": { // c\r\n\t\t\"it\": {\r\n\t\t\t\"a\": \"b\"\r\n\t\t},\r\n\t\t// z\r\n\t\t\"z\": {},\r\n\t}\r\n}",
            ),
            (
                "{\n  \"s\": {\n    \"z\": {},\n    \"it\": [1, /* c */ 2] // d\n  }\n}",
                "{\n  \"s\": {\n    \"z\": {},\n    \"it\": {\n      \"a\": \"b\"\n    } // d\n  }\n}",
            ),
            ("{ /* c */ }", "{ \"s\": {\"it\": {\"a\":\"b\"}} /* c */ }"),
        ];
        goes_in_and_out(Format::Json, &slot("s", false), &cases);
        let last = "{\n  \"s\": {\n    \"z\": {}, // z\n    \"it\": {}\n  }\n}\n";
        let out = Format::Json.take(last, &slot("s", false), None, false);
        assert_eq!(out.unwrap(), "{\n  \"s\": {\n    \"z\": {} // z\n  }\n}\n");
    }

    #[test]
    fn toml_keeps_everything_between_its_tables() {
        let cases = [
            ("", "[s.it]\na = \"b\"\n"),
            ("x = 1 # c\r\n", "x = 1 # c\r\n\r\n[s.it]\r\na = \"b\"\r\n"),
            ("[s]\nit = { z = 1 } # c\n", "[s]\nit = { a = \"b\" } # c\n"),
            (
                "[s.it]\n# c\nz = [\n 1 ]\n# d\n\n[x]\n",
                "[s.it]\na = \"b\"\n# d\n\n[x]\n",
            ),
        ];
        goes_in_and_out(Format::Toml, &slot("s", false), &cases);
        let parted = "[s.it]\nz = 1\n[x]\ny = 1\n[s.it.env]\nw = 1\n";
        let out = Format::Toml.take(parted, &slot("s", false), None, false);
        assert_eq!(out.unwrap(), "[x]\ny = 1\n");
    }

    #[test]
    fn yaml_keeps_comments_and_styles() {
        let cases = [
            ("# c\n", "# c\ns:\n  it:\n    a: \"b\"\n"),
            ("s: {} # c\nx: 1\n", "s: # c\n  it:\n    a: \"b\"\nx: 1\n"),
            ("s: {z: 1}\n", "s: {it: {\"a\":\"b\"}, z: 1}\n"),
            (
                "s:\n    # z\n    z: |\n        1\n\n# d\nx: 2\n",
                "s:\n    it:\n      a: \"b\"\n    # z\n    z: |\n        1\n\n# d\nx: 2\n",
            ),
            (
                "s:\r\n  it: &a 1 # c\r\n",
                "s:\r\n  it:\r\n    a: \"b\"\r\n",
            ),
        ];
        goes_in_and_out(Format::Yaml, &slot("s", false), &cases);
        let cases = [
            (
                "s:\n- name: z\n",
                "s:\n- name: \"it\"\n  a: \"b\"\n- name: z\n",
            ),
            ("s: [] # c\n", "s: # c\n  - name: \"it\"\n    a: \"b\"\n"),
            (
                "s:\n  - name: z\n  # c\n  - name: 'it'\n    x: 1\nt: 1\n",
                "s:\n  - name: z\n  # c\n  - name: \"it\"\n    a: \"b\"\nt: 1\n",
            ),
        ];
        goes_in_and_out(Format::Yaml, &slot("s", true), &cases);
    }
}
