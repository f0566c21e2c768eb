//! The arguments of a call as an approver reads them, line by line: the text as it was sent, because a parsed value
//! loses digits of long numbers.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::sheet::ValueBlock;

const DEPTH_MAX: usize = 4;
const LINE_BYTES_MAX: usize = 60;
/// The search for the two sides of a change is quadratic.
const SIDES_MEMBERS_MAX: usize = 16;
/// Parts of field names, as in `old_text` and `new_text`.
const SIDES: [(&str, &str); 3] = [("old", "new"), ("Old", "New"), ("before", "after")];
const PRETTY_BYTES_MAX: usize = 1 << 20;
/// Indentation multiplies the length of the text.
const PRETTY_DEPTH_MAX: usize = 16;

/// Adds `text` to `block`. Text that is not JSON, as after redaction, stays one line.
pub(super) fn write(block: &mut ValueBlock<'_>, text: &str) {
    let text = text.trim();
    match JsonMembers::parse(text).filter(|_| is_json(text)) {
        Some(members) => _ = each(block, 0, members),
        None => _ = block.line(0, "", text),
    }
}

fn each(block: &mut ValueBlock<'_>, depth: usize, members: JsonMembers<'_>) -> bool {
    let sides = members.clone();
    members.enumerate().all(|(at, (label, raw))| {
        let mark = if at < SIDES_MEMBERS_MAX {
            side(&label, &sides)
        } else {
            None
        };
        member(block, depth, &label, raw, mark)
    })
}

fn member(
    block: &mut ValueBlock<'_>,
    depth: usize,
    label: &str,
    raw: &str,
    mark: Option<&str>,
) -> bool {
    let indent = 2 * depth;
    let breaks = ["\\n", "\\u000a", "\\u000A"]
        .iter()
        .any(|escape| raw.contains(escape));
    if raw.starts_with('"')
        && (breaks || mark.is_some())
        && let Ok(text) = serde_json::from_str::<String>(raw)
        && (mark.is_some() || text.trim_end_matches('\n').contains('\n'))
    {
        return lines(block, indent, label, &text, mark.unwrap_or("  "));
    }
    let spread = depth < DEPTH_MAX && (breaks || raw.len() > LINE_BYTES_MAX);
    match JsonMembers::parse(raw).filter(|_| spread) {
        Some(inner) => {
            block.line(indent, "", &format!("{label}:")) && each(block, depth + 1, inner)
        }
        None => block.line(indent, "", &format!("{label}: {raw}")),
    }
}

/// Number of lines, then the lines: it says where the text ends.
fn lines(block: &mut ValueBlock<'_>, indent: usize, label: &str, text: &str, mark: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let count = if text.is_empty() {
        0
    } else {
        body.split('\n').count()
    };
    let noun = if count == 1 { "line" } else { "lines" };
    let open = !text.is_empty() && !text.ends_with('\n');
    let end = if open { ", no newline at the end" } else { "" };
    block.line(indent, "", &format!("{label}: {count} {noun}{end}"))
        && (text.is_empty()
            || body
                .split('\n')
                .all(|line| block.line(indent + 2, mark, line)))
}

/// The mark of `label` if it is one side of a change and `members` hold the other.
fn side(label: &str, members: &JsonMembers<'_>) -> Option<&'static str> {
    let is_there = |other: &str| {
        members
            .clone()
            .take(SIDES_MEMBERS_MAX)
            .any(|(label, raw)| label == other && raw.starts_with('"'))
    };
    let has_other = |from: &str, to: &str| {
        let other = label.replacen(from, to, 1);
        other != label && is_there(&other)
    };
    if SIDES.iter().any(|(old, new)| has_other(old, new)) {
        Some("- ")
    } else if SIDES.iter().any(|(old, new)| has_other(new, old)) {
        Some("+ ")
    } else {
        None
    }
}

#[derive(Clone)]
struct JsonMembers<'a> {
    rest: &'a str,
    index: Option<usize>,
}

impl<'a> JsonMembers<'a> {
    /// `None` if `raw` is neither object nor list, or is empty.
    fn parse(raw: &'a str) -> Option<Self> {
        let index = match raw.as_bytes().first()? {
            b'{' => None,
            b'[' => Some(0),
            _ => return None,
        };
        let rest = raw.get(1..)?.trim_start();
        (!rest.starts_with(['}', ']'])).then_some(Self { rest, index })
    }

    fn take_value(&mut self) -> Option<&'a str> {
        let rest = self.rest.trim_start();
        let (value, rest) = rest.split_at_checked(end_of_value(rest))?;
        self.rest = rest.trim_start();
        (!value.is_empty()).then_some(value)
    }
}

impl<'a> Iterator for JsonMembers<'a> {
    type Item = (Cow<'a, str>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let label = match &mut self.index {
            Some(index) => {
                let label = format!("[{index}]");
                *index += 1;
                Cow::Owned(label)
            }
            None => {
                let name = self.take_value()?;
                self.rest = self.rest.strip_prefix(':')?;
                Cow::Borrowed(name)
            }
        };
        let value = self.take_value()?;
        self.rest = self.rest.strip_prefix(',').unwrap_or_default();
        Some((label, value))
    }
}

fn end_of_value(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            (in_string, escaped) = (byte != b'"' || escaped, byte == b'\\' && !escaped);
            if !in_string && depth == 0 {
                return at + 1;
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return at + depth,
            b'}' | b']' => depth -= 1,
            b',' | b':' if depth == 0 => return at,
            _ if depth == 0 && byte.is_ascii_whitespace() => return at,
            _ => {}
        }
    }
    text.len()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The JSON `text` with a line for each member, every token as written. Text that is not JSON or is longer than 1 MiB
/// is unchanged.
pub fn pretty(text: &str) -> Cow<'_, str> {
    if text.len() > PRETTY_BYTES_MAX || !is_json(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(2 * text.len());
    let mut depth = 0_usize;
    let mut opened = false;
    let mut in_string = false;
    let mut escaped = false;
    for c in text.chars() {
        if in_string {
            (in_string, escaped) = (c != '"' || escaped, c == '\\' && !escaped);
            shown.push(c);
            continue;
        }
        if c.is_whitespace() {
            continue;
        }
        let closes = matches!(c, '}' | ']');
        depth = depth.saturating_sub(usize::from(closes));
        // An empty object or list stays together.
        if closes != opened {
            break_line(&mut shown, depth);
        }
        opened = matches!(c, '{' | '[');
        depth += usize::from(opened);
        shown.push(c);
        match c {
            '"' => in_string = true,
            ',' => break_line(&mut shown, depth),
            ':' => shown.push(' '),
            _ => {}
        }
    }
    shown.push('\n');
    Cow::Owned(shown)
}

fn break_line(shown: &mut String, depth: usize) {
    shown.push('\n');
    shown.extend(std::iter::repeat_n("  ", depth.min(PRETTY_DEPTH_MAX)));
}

#[cfg(test)]
mod tests {
    use super::super::sheet::{COLUMNS, PromptSheet};
    use super::{pretty, write};

    fn rows(text: &str) -> Vec<String> {
        let mut sheet = PromptSheet::new(COLUMNS);
        let mut block = sheet.block("arguments", usize::MAX);
        write(&mut block, text);
        block.end("");
        let text = sheet.into_text();
        text.lines()
            .map(|row| {
                row.chars()
                    .skip(13)
                    .collect::<String>()
                    .trim_end()
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn each_field_has_a_line_and_text_has_its_lines() {
        let text = r#"{ "path": "/a", "n": 12345678901234567890123, "one": "a\n",
            "text": "first\n\n  third\n", "open": "a\nb", "list": [1, {}] }"#;
        let shown = [
            "\"path\": \"/a\"",
            "\"n\": 12345678901234567890123",
            "\"one\": \"a\\n\"",
            "\"text\": 3 lines",
            "    first",
            "",
            "      third",
            "\"open\": 2 lines, no newline at the end",
            "    a",
            "    b",
            "\"list\": [1, {}]",
        ];
        assert_eq!(rows(text), shown);
    }

    #[test]
    fn the_sides_of_a_change_are_marked_where_both_are_known() {
        let text = r#"{"edits":[{"old_text":"a\nb\n","new_text":""},{"newText":"x","oldText":"y"}],"old":"z\nz"}"#;
        let shown = [
            "\"edits\":",
            "  [0]:",
            "    \"old_text\": 2 lines",
            "      - a",
            "      - b",
            "    \"new_text\": 0 lines",
            "  [1]: {\"newText\":\"x\",\"oldText\":\"y\"}",
            "\"old\": 2 lines, no newline at the end",
            "    z",
            "    z",
        ];
        assert_eq!(rows(text), shown);
        let two = [
            "\"after\": 1 line, no newline at the end",
            "  + x",
            "\"before\": 1 line",
            "  - y",
        ];
        assert_eq!(rows(r#"{"after":"x","before":"y\n"}"#), two);
    }

    #[test]
    fn a_text_cannot_pass_for_another_field() {
        let forged = format!("{}\"path\": \"/b\"", "x".repeat(65));
        let shown = rows(
            &serde_json::json!({ "text": format!("a\n\"path\": \"/b\"\n{forged}") }).to_string(),
        );
        let own = shown.iter().filter(|row| row.starts_with('"')).count();
        assert_eq!((own, shown[2].as_str()), (1, "    \"path\": \"/b\""));
        assert!(shown[4].starts_with("  \\ "), "{shown:?}");
        let long = rows(&serde_json::json!({ "a": forged }).to_string());
        assert!(long.len() == 2 && long[1].starts_with("\\ "), "{long:?}");
    }

    #[test]
    fn what_is_no_object_or_no_json_is_one_line() {
        for text in [
            "{}",
            "7",
            "\"a\\nb\"",
            "{\"a\": [redacted]}",
            "{\"a\": 1",
            "[]",
            "",
        ] {
            assert_eq!(rows(text), [text]);
        }
        assert_eq!(rows("[1, \"a\"]"), ["[0]: 1", "[1]: \"a\""]);
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(
            rows(&deep).len(),
            8,
            "four levels, and the rest in four rows"
        );
    }

    #[test]
    fn what_is_edited_has_lines_and_every_digit() {
        let text = r#"{"a":[1,{"b":"{,\":\\"}],"n":12345678901234567890123,"e":[ ],"o":{}}"#;
        let shown = "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"{,\\\":\\\\\"\n    }\n  ],\n  \
                     \"n\": 12345678901234567890123,\n  \"e\": [],\n  \"o\": {}\n}\n";
        assert_eq!(pretty(text), shown);
        assert_eq!(pretty("{\"a\": "), "{\"a\": ");
    }
}
