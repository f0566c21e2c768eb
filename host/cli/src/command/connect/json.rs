//! Entries of JSON with comments.

use std::ops::Range;

use jsonc_parser::ast::{self, ObjectPropName};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::edit::{
    Fault, Piece, Slot, Splice, begins_line, indent, line_break, line_end, line_start,
};
use super::node::{Content, FoundMember, Member, Node};

const INDENT: &str = "  ";

/// Comments, and perhaps commas at the end, and nothing else that JSON has not.
fn options(allow_trailing_commas: bool) -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// `true` without a comma behind a last value, which many clients refuse.
pub(super) fn is_strict(text: &str) -> bool {
    parse_to_ast(text, &CollectOptions::default(), &options(false)).is_ok()
}

pub(super) fn read(text: &str) -> Result<Node, Fault> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options(true));
    let parsed =
        parsed.map_err(|error| Fault::at(text, error.range().start, &error.kind().to_string()))?;
    match parsed.value {
        Some(value @ ast::Value::Object(_)) => Ok(node(text, value)),
        Some(other) => Err(Fault::at(text, other.range().start, "it is not an object")),
        None => Err(Fault::at(text, text.len(), "it has no value")),
    }
}

fn node(text: &str, value: ast::Value<'_>) -> Node {
    let range = value.range();
    let at = range.start..range.end;
    let content = match value {
        ast::Value::Object(object) => Content::Map(
            object
                .properties
                .into_iter()
                .map(|property| {
                    let key = match property.name {
                        ObjectPropName::String(name) => name.value.into_owned(),
                        ObjectPropName::Word(name) => name.value.to_owned(),
                    };
                    Member {
                        key,
                        start: property.range.start,
                        value: node(text, property.value),
                    }
                })
                .collect(),
        ),
        ast::Value::Array(array) => Content::List(
            array
                .elements
                .into_iter()
                .map(|value| node(text, value))
                .collect(),
        ),
        _ => Content::Scalar(text.get(at.clone()).unwrap_or_default().to_owned()),
    };
    Node { at, content }
}

pub(super) fn source(text: &str, slot: &Slot) -> Result<Option<String>, Fault> {
    let root = read(text)?;
    let Some(section) = root.follow(&slot.section)? else {
        return Ok(None);
    };
    let found = section.find(&slot.name)?;
    Ok(found.and_then(|found| text.get(found.value.at.clone()).map(str::to_owned)))
}

pub(super) fn change(
    text: &str,
    slot: &Slot,
    piece: Option<Piece<'_>>,
) -> Result<Vec<Splice>, Fault> {
    let root = read(text)?;
    let mut object = &root;
    let path = slot.path();
    for (depth, key) in path.iter().enumerate() {
        let Some(members) = object.members() else {
            let message = format!(
                "`{}` is not an object, so no server can be added to it",
                path.get(..depth).unwrap_or_default().join(".")
            );
            return Err(Fault::Form(message));
        };
        let is_last = depth + 1 == path.len();
        match (object.find(key)?, piece) {
            (None, Some(piece)) => {
                let keys = path.get(depth..).unwrap_or_default();
                return Ok(vec![inserted(text, &root, object, keys, piece)]);
            }
            (None, None) => return Ok(Vec::new()),
            (Some(found), Some(piece)) if is_last => {
                let base = indent(text, found.start);
                let is_inline = !text
                    .get(object.at.clone())
                    .unwrap_or_default()
                    .contains('\n');
                let new = written(piece, base, &unit(text, &root), text, is_inline);
                return Ok(vec![(found.value.at.clone(), new)]);
            }
            (Some(found), None) if is_last => return Ok(removed(text, members, found)),
            (Some(found), _) => object = found.value,
        }
    }
    Ok(Vec::new())
}

/// Before all other members, so that none of their lines changes.
fn inserted(text: &str, root: &Node, object: &Node, keys: &[&str], piece: Piece<'_>) -> Splice {
    let open = object.at.start + 1;
    let members = object.members().unwrap_or_default();
    let end = members
        .first()
        .map_or(object.at.end.saturating_sub(1), |member| member.start);
    let gap = text.get(open..end).unwrap_or_default();
    let unit = unit(text, root);
    let outer = indent(text, object.at.start);
    let comma = if members.is_empty() { "" } else { "," };
    let first = members
        .first()
        .filter(|member| begins_line(text, member.start));
    let base = first.map_or_else(
        || format!("{outer}{unit}"),
        |member| indent(text, member.start).to_owned(),
    );
    let newline = line_break(text);
    let is_root = object.at == root.at;
    if let Some(line) = behind_line(gap) {
        let new = nested(keys, piece, &base, &unit, text, false);
        let at = open + line;
        (at..at, format!("{base}{new}{comma}{newline}"))
    } else if members.is_empty()
        && gap.trim().is_empty()
        && (is_root || text.trim_end().contains('\n'))
    {
        let new = nested(keys, piece, &base, &unit, text, false);
        (open..end, format!("{newline}{base}{new}{newline}{outer}"))
    } else {
        let new = nested(keys, piece, "", "", text, true);
        let lead = gap.len() - gap.trim_start().len();
        let lead = gap.get(..lead).unwrap_or_default();
        (open..open, format!("{lead}{new}{comma}"))
    }
}

fn removed(text: &str, members: &[Member], found: FoundMember<'_>) -> Vec<Splice> {
    let FoundMember {
        start,
        index,
        value,
    } = found;
    let is_own_line = begins_line(text, start);
    let mut splices = Vec::new();
    let mut from = if is_own_line {
        line_start(text, start)
    } else {
        start
    };
    let mut end = value.at.end;
    if let Some(comma) = comma(text, end) {
        let between = text.get(end..comma).unwrap_or_default();
        if between.trim().is_empty() {
            end = comma + 1;
        } else {
            splices.push((comma..comma + 1, String::new()));
        }
    } else if let Some(before) = index.checked_sub(1).and_then(|index| members.get(index))
        && let Some(comma) = comma(text, before.value.at.end)
    {
        let between = text.get(comma + 1..start).unwrap_or_default();
        if !is_own_line && between.trim().is_empty() {
            from = comma;
        } else {
            splices.insert(0, (comma..comma + 1, String::new()));
        }
    }
    let rest = text.get(end..line_end(text, end)).unwrap_or_default();
    if is_own_line && rest.trim().is_empty() {
        end = line_end(text, end);
    } else if !rest.trim().is_empty() {
        end += rest.len() - rest.trim_start().len();
    }
    splices.push((from..end, String::new()));
    splices.sort_by_key(|(range, _)| range.start);
    splices
}

/// `"key": value`, or `"key": { .. }` around that.
fn nested(
    keys: &[&str],
    piece: Piece<'_>,
    base: &str,
    unit: &str,
    text: &str,
    is_inline: bool,
) -> String {
    let newline = line_break(text);
    match keys {
        [] => String::new(),
        [key] => format!(
            "{}: {}",
            Value::from(*key),
            written(piece, base, unit, text, is_inline)
        ),
        [key, rest @ ..] => {
            let key = Value::from(*key);
            let inner = format!("{base}{unit}");
            let content = nested(rest, piece, &inner, unit, text, is_inline);
            if is_inline {
                format!("{key}: {{{content}}}")
            } else {
                format!("{key}: {{{newline}{inner}{content}{newline}{base}}}")
            }
        }
    }
}

/// The value, whose first line has the indentation `base`.
fn written(piece: Piece<'_>, base: &str, unit: &str, text: &str, is_inline: bool) -> String {
    let entry = match piece {
        Piece::Source(source) => return source.to_owned(),
        Piece::Entry(entry) => entry,
    };
    if is_inline {
        return entry.to_string();
    }
    let mut bytes = Vec::new();
    let formatter = PrettyFormatter::with_indent(unit.as_bytes());
    let mut serializer = Serializer::with_formatter(&mut bytes, formatter);
    // Writing to memory cannot fail.
    let _ = entry.serialize(&mut serializer);
    let lines = String::from_utf8(bytes).unwrap_or_default();
    lines.replace('\n', &format!("{}{base}", line_break(text)))
}

/// One step of indentation in this file.
fn unit(text: &str, root: &Node) -> String {
    let members = root.members().unwrap_or_default().iter();
    let mut indented = members.filter(|member| begins_line(text, member.start));
    let found = indented.next().map(|member| indent(text, member.start));
    found
        .filter(|unit| !unit.is_empty())
        .unwrap_or(INDENT)
        .to_owned()
}

/// Where the first line ends of a text between two tokens, behind its break.
fn behind_line(gap: &str) -> Option<usize> {
    tokens(gap).find_map(|(range, token)| (token == Token::Line).then_some(range.end))
}

/// The comma behind a value that ends at `at`.
fn comma(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..).unwrap_or_default();
    let (range, token) =
        tokens(rest).find(|(_, token)| matches!(token, Token::Comma | Token::Other))?;
    (token == Token::Comma).then_some(at + range.start)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Line,
    Comma,
    Comment,
    Other,
}

/// What is between two values: commas, ends of lines, comments. Blanks are left out.
fn tokens(text: &str) -> impl Iterator<Item = (Range<usize>, Token)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
        let start = at + blanks;
        let rest = text.get(start..)?;
        let length = |found: Option<usize>, more: usize| found.map_or(rest.len(), |at| at + more);
        let (length, token) = match rest.as_bytes() {
            [] => return None,
            [b'\n', ..] => (1, Token::Line),
            [b',', ..] => (1, Token::Comma),
            // Its end is the end of the line.
            [b'/', b'/', ..] => (length(rest.find('\n'), 0), Token::Comment),
            [b'/', b'*', ..] => (length(rest.find("*/"), 2), Token::Comment),
            _ => (rest.chars().next().map_or(1, char::len_utf8), Token::Other),
        };
        at = start + length;
        Some((start..at, token))
    })
}
