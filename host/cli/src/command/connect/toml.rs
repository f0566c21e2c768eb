//! Entries of TOML: tables such as `[mcp_servers.name]`, or inline tables.

use std::fmt::Write as _;
use std::ops::Range;

use serde_json::Value;
use toml_edit::{Document, InlineTable, Item, Key, Table, Value as TomlValue};

use super::edit::{Fault, Piece, Slot, Splice, as_ended, line_break, line_end, line_start};
use super::node::{Content, Member, Node};

fn parse(text: &str) -> Result<Document<&str>, Fault> {
    Document::parse(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        Fault::at(text, at, error.message())
    })
}

pub(super) fn read(text: &str) -> Result<Node, Fault> {
    Ok(Node {
        at: 0..text.len(),
        content: Content::Map(members(parse(text)?.as_table())),
    })
}

fn members(table: &Table) -> Vec<Member> {
    let members = table.iter().map(|(name, item)| {
        let start = table.key(name).and_then(Key::span);
        let start = start.map_or(0, |span| span.start);
        Member {
            key: name.to_owned(),
            start,
            value: item_node(item, start),
        }
    });
    members.collect()
}

fn item_node(item: &Item, start: usize) -> Node {
    let content = match item {
        Item::None => Content::Scalar(String::new()),
        Item::Value(value) => return value_node(value),
        Item::Table(table) => Content::Map(members(table)),
        Item::ArrayOfTables(tables) => Content::List(
            tables
                .iter()
                .map(|table| Node {
                    at: start..start,
                    content: Content::Map(members(table)),
                })
                .collect(),
        ),
    };
    Node {
        at: start..start,
        content,
    }
}

fn value_node(value: &TomlValue) -> Node {
    let at = value.span().unwrap_or_default();
    let content = match value {
        TomlValue::String(text) => Content::Scalar(Value::from(text.value().as_str()).to_string()),
        TomlValue::Integer(number) => Content::Scalar(number.value().to_string()),
        TomlValue::Float(number) => Content::Scalar(format!("{:?}", number.value())),
        TomlValue::Boolean(boolean) => Content::Scalar(boolean.value().to_string()),
        TomlValue::Datetime(time) => Content::Scalar(time.value().to_string()),
        TomlValue::Array(array) => Content::List(array.iter().map(value_node).collect()),
        TomlValue::InlineTable(table) => Content::Map(
            table
                .iter()
                .map(|(name, value)| Member {
                    key: name.to_owned(),
                    start: at.start,
                    value: value_node(value),
                })
                .collect(),
        ),
    };
    Node { at, content }
}

/// How the entry is written.
enum EntryForm {
    No,
    /// The bytes of the value.
    Inline(Range<usize>),
    /// Whole lines.
    Tables(Vec<Range<usize>>),
}

fn find(text: &str, document: &Document<&str>, slot: &Slot) -> Result<EntryForm, Fault> {
    let other = |what: &str| {
        let message = format!(
            "`{}` is {what}, and toolcell adds tables; write the servers as tables, such as [{}]",
            slot.section_name(),
            slot.path().join(".")
        );
        Fault::Form(message)
    };
    let mut table = document.as_table();
    for key in &slot.section {
        match table.get(key) {
            None => return Ok(EntryForm::No),
            Some(Item::Table(inner)) => table = inner,
            Some(_) => return Err(other("a value")),
        }
    }
    match table.get(&slot.name) {
        None => Ok(EntryForm::No),
        Some(Item::Value(value)) => Ok(EntryForm::Inline(value.span().unwrap_or_default())),
        Some(Item::Table(table)) if !table.is_dotted() => {
            let mut lines = Vec::new();
            lines_of(text, table, &mut lines);
            lines.sort_by_key(|range| range.start);
            Ok(EntryForm::Tables(lines))
        }
        Some(_) => Err(other("written with dotted keys or lists")),
    }
}

/// The lines of a table with a header, and of the tables below it.
fn lines_of(text: &str, table: &Table, lines: &mut Vec<Range<usize>>) {
    if let Some(header) = table.span() {
        let mut end = header.end;
        ends(table, &mut end);
        lines.push(line_start(text, header.start)..line_end(text, end));
    }
    for (_, item) in table.iter() {
        match item {
            Item::Table(inner) if !inner.is_dotted() => lines_of(text, inner, lines),
            Item::ArrayOfTables(tables) => {
                tables.iter().for_each(|table| lines_of(text, table, lines));
            }
            Item::None | Item::Value(_) | Item::Table(_) => {}
        }
    }
}

/// Moves `end` behind the last value below this header.
fn ends(table: &Table, end: &mut usize) {
    for (_, item) in table.iter() {
        match item {
            Item::Value(value) => *end = value.span().map_or(*end, |span| span.end.max(*end)),
            Item::Table(inner) if inner.is_dotted() => ends(inner, end),
            Item::None | Item::Table(_) | Item::ArrayOfTables(_) => {}
        }
    }
}

pub(super) fn extents(text: &str, slot: &Slot) -> Result<Vec<Range<usize>>, Fault> {
    Ok(match find(text, &parse(text)?, slot)? {
        EntryForm::No => Vec::new(),
        EntryForm::Inline(range) => {
            let line = line_start(text, range.start)..range.end;
            std::iter::once(line).collect()
        }
        EntryForm::Tables(lines) => lines,
    })
}

pub(super) fn source(text: &str, slot: &Slot) -> Result<Option<String>, Fault> {
    let of = |range: Range<usize>| text.get(range).unwrap_or_default();
    Ok(match find(text, &parse(text)?, slot)? {
        EntryForm::No => None,
        EntryForm::Inline(range) => Some(of(range).to_owned()),
        EntryForm::Tables(lines) => Some(lines.into_iter().map(of).collect()),
    })
}

pub(super) fn change(
    text: &str,
    slot: &Slot,
    piece: Option<Piece<'_>>,
) -> Result<Vec<Splice>, Fault> {
    let newline = line_break(text);
    let found = find(text, &parse(text)?, slot)?;
    Ok(match (found, piece) {
        (EntryForm::No, None) => Vec::new(),
        (EntryForm::No, Some(piece)) => {
            let block = block(slot, piece, newline);
            let end = text.len();
            let new = if text.is_empty() {
                block
            } else if text.ends_with('\n') {
                format!("{newline}{block}")
            } else {
                // The file ends without the end of a line, and so does this.
                format!("{newline}{newline}{}", block.trim_end())
            };
            vec![(end..end, new)]
        }
        (EntryForm::Inline(range), Some(Piece::Entry(entry))) => {
            vec![(range, TomlValue::from(inline(entry)).to_string())]
        }
        (EntryForm::Inline(range), Some(Piece::Source(source))) => vec![(range, source.to_owned())],
        (EntryForm::Inline(range), None) => {
            vec![(
                line_start(text, range.start)..line_end(text, range.end),
                String::new(),
            )]
        }
        (EntryForm::Tables(lines), piece) => {
            let mut new = piece.map(|piece| block(slot, piece, newline));
            let is_removed = new.is_none();
            let lines = lines.into_iter().map(|range| {
                let range = if is_removed {
                    with_blank_line(text, range)
                } else {
                    range
                };
                let old = text.get(range.clone()).unwrap_or_default();
                let new = new.take().map(|new| as_ended(new, old));
                (range, new.unwrap_or_default())
            });
            lines.collect()
        }
    })
}

/// With the empty line before it, if one is behind it, too, or nothing.
fn with_blank_line(text: &str, range: Range<usize>) -> Range<usize> {
    let next = text.get(range.end..line_end(text, range.end));
    let before = line_start(text, range.start.saturating_sub(1));
    let previous = text.get(before..range.start).unwrap_or_default();
    let is_blank = |line: &str| line.trim().is_empty();
    if before < range.start && is_blank(previous) && next.is_none_or(is_blank) {
        before..range.end
    } else {
        range
    }
}

fn block(slot: &Slot, piece: Piece<'_>, newline: &str) -> String {
    let entry = match piece {
        Piece::Source(source) => return source.to_owned(),
        Piece::Entry(entry) => entry,
    };
    let mut block = format!("[{}]{newline}", slot.path().join("."));
    for (key, value) in inline(entry).iter() {
        let value = value.clone().decorated("", "");
        let _ = write!(block, "{key} = {value}{newline}");
    }
    block
}

fn inline(entry: &Value) -> InlineTable {
    let members = entry.as_object().into_iter().flatten();
    members
        .map(|(key, value)| (key.as_str(), toml_value(value)))
        .collect()
}

/// Of the kinds that entries have.
fn toml_value(value: &Value) -> TomlValue {
    match value {
        Value::Object(_) => inline(value).into(),
        Value::Array(items) => TomlValue::Array(items.iter().map(toml_value).collect()),
        Value::Bool(boolean) => (*boolean).into(),
        Value::Number(number) => number.as_i64().unwrap_or_default().into(),
        Value::String(text) => text.as_str().into(),
        Value::Null => "".into(),
    }
}
