//! Entries of YAML, in block or flow style.

use std::fmt::Write as _;
use std::ops::Range;

use granit_parser::{Event, Parser, StrInput};
use serde_json::Value;

use super::edit::{
    Fault, Piece, Slot, Splice, as_ended, begins_line, indent, line_break, line_end, line_start,
};
use super::node::{Content, FoundMember, Member, Node};

const INDENT: &str = "  ";
/// Of maps and lists, so that reading needs little of the stack.
const DEPTH_MAX: usize = 128;
/// Plain words that YAML 1.1 or 1.2 reads as something else than text.
const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

struct Reader<'t> {
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
}

pub(super) fn read(text: &str) -> Result<Node, Fault> {
    let mut reader = Reader {
        text,
        events: Parser::new_from_str(text),
    };
    let mut root = None;
    while let Some((event, at)) = reader.next()? {
        match event {
            Event::DocumentStart(..) if root.is_some() => {
                return Err(Fault::at(text, at.start, "a second document begins"));
            }
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd => {}
            event => root = Some(reader.node(event, at, 0)?),
        }
    }
    let root = root.unwrap_or_else(|| Node {
        at: text.len()..text.len(),
        content: Content::Scalar(String::new()),
    });
    match root.content {
        Content::Scalar(_) if root.is_null() => Ok(Node {
            content: Content::Map(Vec::new()),
            at: text.len()..text.len(),
        }),
        Content::Map(_) => Ok(root),
        _ => Err(Fault::at(text, root.at.start, "it is not a mapping")),
    }
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<Option<(Event<'t>, Range<usize>)>, Fault> {
        let Some(next) = self.events.next() else {
            return Ok(None);
        };
        let (event, span) = next.map_err(|error| {
            let marker = error.marker();
            Fault::Syntax {
                line: marker.line(),
                column: marker.col() + 1,
                why: error.info().to_owned(),
            }
        })?;
        Ok(Some((event, span.byte_range().unwrap_or_default())))
    }

    fn expected(&mut self) -> Result<(Event<'t>, Range<usize>), Fault> {
        let end = self.text.len();
        self.next()?
            .ok_or_else(|| Fault::at(self.text, end, "it has no end"))
    }

    fn node(&mut self, event: Event<'t>, at: Range<usize>, depth: usize) -> Result<Node, Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::at(self.text, at.start, "it is nested too deeply"));
        }
        let is_marked = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(_, anchor, tag)
            | Event::MappingStart(_, anchor, tag) => *anchor != 0 || tag.is_some(),
            _ => false,
        };
        let start = at.start;
        let (content, end) = match event {
            Event::SequenceStart(..) => self.items(at.end, depth)?,
            Event::MappingStart(..) => self.members(at.end, depth)?,
            _ => {
                let text = self.text.get(at.clone()).unwrap_or_default();
                (Content::Scalar(text.to_owned()), at.end)
            }
        };
        // A mark changes what a value means: then it counts as the text that it is.
        let content = if is_marked {
            let from = line_start(self.text, start);
            Content::Scalar(self.text.get(from..end).unwrap_or_default().to_owned())
        } else {
            content
        };
        Ok(Node {
            at: start..end,
            content,
        })
    }

    fn items(&mut self, open: usize, depth: usize) -> Result<(Content, usize), Fault> {
        let mut items = Vec::new();
        loop {
            let (event, at) = self.expected()?;
            if event == Event::SequenceEnd {
                let end = closed(self.text, open, at, items.last());
                return Ok((Content::List(items), end));
            }
            items.push(self.node(event, at, depth + 1)?);
        }
    }

    fn members(&mut self, open: usize, depth: usize) -> Result<(Content, usize), Fault> {
        let mut members: Vec<Member> = Vec::new();
        loop {
            let (event, at) = self.expected()?;
            if event == Event::MappingEnd {
                let last = members.last().map(|member| &member.value);
                let end = closed(self.text, open, at, last);
                return Ok((Content::Map(members), end));
            }
            let text = match &event {
                Event::Scalar(text, ..) => Some(text.to_string()),
                _ => None,
            };
            let key = self.node(event, at, depth + 1)?;
            let (event, at) = self.expected()?;
            let at = if at.is_empty() {
                // A value that is not there: behind the colon.
                let colon = behind_colon(self.text, key.at.end);
                colon..colon
            } else {
                at
            };
            members.push(Member {
                // No section has a key that is no text.
                key: text.unwrap_or_else(|| format!("\0{:?}", key.outline())),
                start: key.at.start,
                value: self.node(event, at, depth + 1)?,
            });
        }
    }
}

/// Where a collection ends: at its bracket, or with its last value.
fn closed(text: &str, open: usize, at: Range<usize>, last: Option<&Node>) -> usize {
    if text
        .get(at.clone())
        .is_some_and(|end| end == "]" || end == "}")
    {
        at.end
    } else {
        last.map_or(open, |last| last.at.end)
    }
}

fn behind_colon(text: &str, at: usize) -> usize {
    let rest = text.get(at..line_end(text, at)).unwrap_or_default();
    rest.find(':').map_or(at, |colon| at + colon + 1)
}

fn is_flow(text: &str, node: &Node) -> bool {
    let first = text.as_bytes().get(node.at.start);
    !matches!(node.content, Content::Scalar(_)) && matches!(first, Some(b'{' | b'['))
}

pub(super) fn source(text: &str, slot: &Slot) -> Result<Option<String>, Fault> {
    let root = read(text)?;
    let Some(section) = root.follow(&slot.section)? else {
        return Ok(None);
    };
    let Some(found) = section.find(&slot.name)? else {
        return Ok(None);
    };
    let range = if is_flow(text, section) {
        found.start..found.value.at.end
    } else {
        lines(text, slot, found)
    };
    Ok(text.get(range).map(str::to_owned))
}

/// The lines of a member or an item in block style.
fn lines(text: &str, slot: &Slot, found: FoundMember<'_>) -> Range<usize> {
    let start = if slot.is_list {
        dash(text, found.start)
    } else {
        found.start
    };
    // The end of a block can be at the start of the next line.
    let end = found.value.at.end;
    let end = if end > start && line_start(text, end) == end {
        end
    } else {
        line_end(text, end)
    };
    line_start(text, start)..end
}

fn dash(text: &str, item: usize) -> usize {
    let before = text.get(..item).unwrap_or_default();
    before.rfind('-').unwrap_or(item)
}

pub(super) fn change(
    text: &str,
    slot: &Slot,
    piece: Option<Piece<'_>>,
) -> Result<Vec<Splice>, Fault> {
    let root = read(text)?;
    let mut node = &root;
    let mut key_start = 0;
    for key in &slot.section {
        let Some(found) = node.find(key)? else {
            let new = piece.map(|piece| appended(text, &root, slot, piece));
            return Ok(new.into_iter().collect());
        };
        (node, key_start) = (found.value, found.start);
    }
    let is_right = match &node.content {
        Content::Scalar(_) => node.is_null(),
        Content::List(_) => slot.is_list,
        Content::Map(_) => !slot.is_list,
    };
    if !is_right {
        let message = format!(
            "`{}` is not a {}, so no server can be added to it",
            slot.section_name(),
            if slot.is_list { "list" } else { "mapping" }
        );
        return Err(Fault::Form(message));
    }
    let found = node.find(&slot.name)?;
    let Some(piece) = piece else {
        let empty = behind_colon(text, key_start);
        return Ok(found.map_or_else(Vec::new, |found| removed(text, (node, empty), slot, found)));
    };
    Ok(match found {
        Some(found) if is_flow(text, node) => {
            vec![(found.start..found.value.at.end, flow(slot, piece))]
        }
        Some(found) => {
            let range = lines(text, slot, found);
            let base = base_of(text, slot, found.start);
            let new = block(text, slot, piece, &base);
            let old = text.get(range.clone()).unwrap_or_default();
            vec![(range, as_ended(new, old))]
        }
        None if is_flow(text, node) && !node.is_empty() => {
            let at = node.at.start + 1;
            vec![(at..at, format!("{}, ", flow(slot, piece)))]
        }
        None => inserted(text, node, slot, piece),
    })
}

fn base_of(text: &str, slot: &Slot, start: usize) -> String {
    let start = if slot.is_list {
        dash(text, start)
    } else {
        start
    };
    indent(text, start).to_owned()
}

/// Below the name of the section, before its other entries and the comments on these.
fn inserted(text: &str, node: &Node, slot: &Slot, piece: Piece<'_>) -> Vec<Splice> {
    let first = match &node.content {
        Content::Scalar(_) => None,
        Content::Map(members) => members.first().map(|member| member.start),
        Content::List(items) => items.first().map(|item| item.at.start),
    };
    let mut splices = Vec::new();
    let (at, base) = if let Some(first) = first {
        (above(text, first), base_of(text, slot, first))
    } else {
        if !node.at.is_empty() {
            // ` {}`, ` []` or ` null`.
            let before = text.get(..node.at.start).unwrap_or_default();
            let from = before.trim_end_matches([' ', '\t']).len();
            splices.push((from..node.at.end, String::new()));
        }
        let base = format!("{}{INDENT}", indent(text, node.at.start));
        (line_end(text, node.at.end), base)
    };
    let new = block(text, slot, piece, &base);
    let new = if text.get(..at).is_none_or(|before| before.ends_with('\n')) {
        new
    } else {
        format!("{}{}", line_break(text), new.trim_end())
    };
    splices.push((at..at, new));
    splices
}

/// The first of the lines above `at` that have nothing but blanks and comments.
fn above(text: &str, at: usize) -> usize {
    let mut at = line_start(text, at);
    while at > 0 {
        let before = line_start(text, at - 1);
        let line = text.get(before..at).unwrap_or_default().trim();
        if !line.is_empty() && !line.starts_with('#') {
            break;
        }
        at = before;
    }
    at
}

/// A new section at the end.
fn appended(text: &str, root: &Node, slot: &Slot, piece: Piece<'_>) -> Splice {
    let outer = root
        .members()
        .and_then(|members| members.first())
        .filter(|member| begins_line(text, member.start))
        .map_or("", |member| indent(text, member.start));
    let newline = line_break(text);
    let mut new = String::new();
    let mut base = outer.to_owned();
    for key in &slot.section {
        let _ = write!(new, "{base}{}:{newline}", plain(key));
        base.push_str(INDENT);
    }
    new.push_str(&block(text, slot, piece, &base));
    let end = text.len();
    if text.is_empty() || text.ends_with('\n') {
        (end..end, new)
    } else {
        (end..end, format!("{newline}{}", new.trim_end()))
    }
}

/// `empty` is where the value of a section without entries is.
fn removed(
    text: &str,
    (node, empty): (&Node, usize),
    slot: &Slot,
    found: FoundMember<'_>,
) -> Vec<Splice> {
    if !is_flow(text, node) {
        let mut splices = vec![(lines(text, slot, found), String::new())];
        let is_last = match &node.content {
            Content::Scalar(_) => false,
            Content::List(items) => items.len() == 1,
            Content::Map(members) => members.len() == 1,
        };
        if is_last && !slot.section.is_empty() {
            let new = if slot.is_list { " []" } else { " {}" };
            splices.insert(0, (empty..empty, new.to_owned()));
        }
        return splices;
    }
    let mut range = found.start..found.value.at.end;
    let behind = text.get(range.end..).unwrap_or_default();
    let before = text.get(..range.start).unwrap_or_default();
    if let Some(rest) = behind.trim_start().strip_prefix(',') {
        range.end = text.len() - rest.trim_start_matches([' ', '\t']).len();
    } else if let Some(rest) = before.trim_end().strip_suffix(',') {
        range.start = rest.len();
    }
    vec![(range, String::new())]
}

fn flow(slot: &Slot, piece: Piece<'_>) -> String {
    match piece {
        Piece::Source(source) => source.to_owned(),
        Piece::Entry(entry) if slot.is_list => entry.to_string(),
        Piece::Entry(entry) => format!("{}: {entry}", plain(&slot.name)),
    }
}

/// The lines of an entry, with the indentation `base`.
fn block(text: &str, slot: &Slot, piece: Piece<'_>, base: &str) -> String {
    let entry = match piece {
        Piece::Source(source) => return source.to_owned(),
        Piece::Entry(entry) => entry,
    };
    let newline = line_break(text);
    let mut lines = String::new();
    let inner = format!("{base}{INDENT}");
    if slot.is_list {
        write_members(&mut lines, entry, &inner, newline);
        // The dash is where the indentation of the first member begins.
        let first = lines.get(inner.len()..).unwrap_or_default();
        format!("{base}- {first}")
    } else {
        let _ = write!(lines, "{base}{}:{newline}", plain(&slot.name));
        write_members(&mut lines, entry, &inner, newline);
        lines
    }
}

/// Values are JSON, which is YAML in flow style; lists of texts have a line for each.
fn write_members(lines: &mut String, entry: &Value, base: &str, newline: &str) {
    for (key, value) in entry.as_object().into_iter().flatten() {
        let _ = write!(lines, "{base}{}:", plain(key));
        match value {
            Value::Array(items) if !items.is_empty() => {
                lines.push_str(newline);
                for item in items {
                    let _ = write!(lines, "{base}{INDENT}- {item}{newline}");
                }
            }
            Value::Object(members) if !members.is_empty() => {
                lines.push_str(newline);
                write_members(lines, value, &format!("{base}{INDENT}"), newline);
            }
            value => {
                let _ = write!(lines, " {value}{newline}");
            }
        }
    }
}

/// A key, quoted where it could be read as something else.
fn plain(key: &str) -> String {
    let is_word = key.starts_with(|first: char| first.is_ascii_alphabetic())
        && key
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || "_-".contains(one));
    if is_word && !WORDS.contains(&key.to_ascii_lowercase().as_str()) {
        key.to_owned()
    } else {
        Value::from(key).to_string()
    }
}
