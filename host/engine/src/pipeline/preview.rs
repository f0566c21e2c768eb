//! Previews of what is too large for a result. A text is cut at a whole visible character, outside an escape sequence.
//! JSON becomes an outline that marks omissions, because cut JSON is none.

use serde_json::{Map, Value};
use toolcell_spec::{json_bytes, json_chars};

/// Longer stacks of marks are cut.
const CLUSTER_CHARS_MAX: usize = 32;
/// Per value; with less, the rest of its list is left out.
const VALUE_CHARS_MIN: usize = 12;
/// Some whole items say more than the beginnings of many.
const ITEM_CHARS: usize = 200;
/// For an item's comma and approximate measure.
const ITEM_SLACK_CHARS: usize = 6;
const ITEMS_MEASURED: usize = 9;
const MARK_CHARS_MAX: usize = 48;
/// Replaces an omitted value, or counts omitted fields.
const CUT: &str = "[cut]";

pub(super) fn of_text(text: &str, chars_max: usize) -> &str {
    match text.char_indices().nth(chars_max) {
        None => text,
        Some((end, _)) => text.get(..boundary(text, end)).unwrap_or_default(),
    }
}

/// The last place at or before byte `end`, a character boundary, where a reader may stop.
pub fn boundary(text: &str, end: usize) -> usize {
    let (head, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let outside = before_sequence(head);
    if outside < head.len() {
        return outside;
    }
    before_cluster(head, rest)
}

/// The end of `head`, or the start of an unfinished escape sequence.
fn before_sequence(head: &str) -> usize {
    #[derive(Clone, Copy, PartialEq)]
    enum EscapeState {
        Text,
        /// After ESC, or an intermediate character behind it.
        Escape,
        /// In a control sequence, ended by a character in `@` to `~`.
        Control,
        /// In a terminal string, such as a title or link, ended by BEL or ST.
        String,
        StringEscape,
    }
    let mut state = EscapeState::Text;
    let mut start = 0;
    for (at, c) in head.char_indices() {
        state = match (state, c) {
            (
                EscapeState::Text | EscapeState::Escape | EscapeState::Control,
                '\u{1b}' | '\u{90}' | '\u{98}' | '\u{9b}' | '\u{9d}'..='\u{9f}',
            ) => {
                start = at;
                match c {
                    '\u{1b}' => EscapeState::Escape,
                    '\u{9b}' => EscapeState::Control,
                    _ => EscapeState::String,
                }
            }
            (EscapeState::Escape, '[') => EscapeState::Control,
            (EscapeState::Escape, ']' | 'P' | 'X' | '^' | '_') => EscapeState::String,
            (EscapeState::Escape, ' '..='/') => EscapeState::Escape,
            (EscapeState::Control, ' '..='?') => EscapeState::Control,
            (EscapeState::String, '\u{7}' | '\u{9c}') => EscapeState::Text,
            (EscapeState::String | EscapeState::StringEscape, '\u{1b}') => {
                EscapeState::StringEscape
            }
            (EscapeState::StringEscape, '\\') => EscapeState::Text,
            (EscapeState::String | EscapeState::StringEscape, _) => EscapeState::String,
            (EscapeState::Text | EscapeState::Escape | EscapeState::Control, _) => {
                EscapeState::Text
            }
        };
    }
    if state == EscapeState::Text {
        head.len()
    } else {
        start
    }
}

/// The end of `head`, or the start of a visible character that goes on in `rest`.
fn before_cluster(head: &str, rest: &str) -> usize {
    let mut next = rest.chars().next();
    let mut end = head.len();
    for (at, c) in head.char_indices().rev().take(CLUSTER_CHARS_MAX) {
        if !next.is_some_and(|next| belongs_together(head.get(..end).unwrap_or_default(), c, next))
        {
            return end;
        }
        (next, end) = (Some(c), at);
    }
    // At the start, or a stack of marks without end: the text is cut inside it.
    head.len()
}

fn belongs_together(head: &str, c: char, next: char) -> bool {
    const JOINER: char = '\u{200d}';
    let is_flag = |c: char| ('\u{1f1e6}'..='\u{1f1ff}').contains(&c);
    let extends = matches!(next,
        // Combining marks of the blocks that consist of them, variation selectors, skin tones, keycaps, tags.
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{93c}' | '\u{93e}'..='\u{94d}' | '\u{e31}' | '\u{e34}'..='\u{e3a}'
        | '\u{e47}'..='\u{e4e}' | '\u{1160}'..='\u{11ff}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{3099}'..='\u{309a}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}'
        | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}' | JOINER);
    let flags = || head.chars().rev().take_while(|c| is_flag(*c)).count();
    extends
        || c == JOINER
        || (c == '\r' && next == '\n')
        || (is_flag(next) && is_flag(c) && flags() % 2 == 1)
}

/// At most `chars_max` characters of JSON: first names and items, beginnings of texts, and marks of omissions. Empty if
/// no mark fits.
pub(super) fn of_json(value: &Value, chars_max: usize) -> String {
    let shown = outline(value, chars_max).to_string();
    let fits = |text: &String| text.chars().count() <= chars_max;
    Some(shown)
        .filter(fits)
        .or_else(|| Some(mark(value, chars_max).to_string()).filter(fits))
        .unwrap_or_default()
}

/// Each list shares its room evenly and passes unused room on, so that one long item does not hide the others.
fn outline(value: &Value, room: usize) -> Value {
    if json_chars(value) <= room {
        return value.clone();
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::String(short(text, room)),
        Value::Array(items) => {
            let shown = fitting(items.iter().map(|_| 0), room).min(well_fitting(items, room));
            if shown == 0 && !items.is_empty() {
                return mark(value, room);
            }
            let mut left = without_mark(room.saturating_sub(2), shown < items.len());
            let mut list = Vec::with_capacity(shown + 1);
            for (at, item) in items.iter().take(shown).enumerate() {
                let kept = outline(item, (left / (shown - at)).saturating_sub(1));
                left = left.saturating_sub(json_chars(&kept) + 1);
                list.push(kept);
            }
            if shown < items.len() {
                list.push(Value::String(format!(
                    "[cut: {} more items]",
                    items.len() - shown
                )));
            }
            Value::Array(list)
        }
        Value::Object(fields) => {
            let shown = fitting(fields.keys().map(json_chars), room);
            if shown == 0 && !fields.is_empty() {
                return mark(value, room);
            }
            let mut left = without_mark(room.saturating_sub(2), shown < fields.len());
            let mut kept = Map::new();
            for (at, (name, field)) in fields.iter().take(shown).enumerate() {
                let named = json_chars(name) + 2;
                let field = outline(field, (left / (shown - at)).saturating_sub(named));
                left = left.saturating_sub(named + json_chars(&field));
                kept.insert(name.clone(), field);
            }
            if shown < fields.len() {
                kept.insert(
                    CUT.to_owned(),
                    Value::String(format!("{} more fields", fields.len() - shown)),
                );
            }
            Value::Object(kept)
        }
    }
}

fn without_mark(room: usize, is_cut: bool) -> usize {
    if is_cut {
        room.saturating_sub(MARK_CHARS_MAX)
    } else {
        room
    }
}

/// Number of `items` that are mostly whole, or have [`ITEM_CHARS`]; at least one.
fn well_fitting(items: &[Value], room: usize) -> usize {
    let mut lengths: Vec<usize> = items.iter().take(ITEMS_MEASURED).map(json_bytes).collect();
    lengths.sort_unstable();
    let needed = lengths
        .get(lengths.len() / 2)
        .copied()
        .unwrap_or(0)
        .clamp(1, ITEM_CHARS)
        + ITEM_SLACK_CHARS;
    let whole = items.len().saturating_mul(needed) <= room;
    (without_mark(room, !whole) / needed).max(1)
}

fn fitting(names: impl ExactSizeIterator<Item = usize>, room: usize) -> usize {
    let count = names.len();
    let mut left = room.saturating_sub(2);
    let mut taken = 0;
    for name in names {
        let needed = name + 2 + VALUE_CHARS_MIN;
        // The last one needs no mark after it.
        if needed > without_mark(left, taken + 1 < count) {
            break;
        }
        left -= needed;
        taken += 1;
    }
    taken
}

fn short(text: &str, room: usize) -> String {
    // A text has at least as many characters in JSON as it has itself.
    if text.char_indices().nth(room).is_none() && json_chars(&text) <= room {
        return text.to_owned();
    }
    let cut = |more: usize| format!("[cut: {more} more characters]");
    let total = text.chars().count();
    // Beside the text: two quotes, a blank, the mark.
    let room_of_text = room.saturating_sub(cut(total).len() + 3);
    let mut used = 0;
    let fits = |(_, c): &(usize, char)| {
        used += char_chars(*c);
        used <= room_of_text
    };
    let end = text
        .char_indices()
        .take_while(fits)
        .last()
        .map_or(0, |(at, c)| at + c.len_utf8());
    let head = text.get(..boundary(text, end)).unwrap_or_default();
    if head.is_empty() {
        return if cut(total).len() + 2 <= room {
            cut(total)
        } else {
            CUT.to_owned()
        };
    }
    format!("{head} {}", cut(total - head.chars().count()))
}

fn mark(value: &Value, room: usize) -> Value {
    let said = match value {
        Value::Object(fields) => format!("[cut: object of {} fields]", fields.len()),
        Value::Array(items) => format!("[cut: list of {} items]", items.len()),
        _ => CUT.to_owned(),
    };
    Value::String(if said.len() + 2 <= room {
        said
    } else {
        CUT.to_owned()
    })
}

fn char_chars(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{of_json, of_text};

    #[test]
    fn a_text_that_fits_is_whole_and_any_other_is_its_beginning() {
        assert_eq!(
            (
                of_text("abc", 3),
                of_text("abcd", 3),
                of_text("abc", 0),
                of_text("", 5)
            ),
            ("abc", "abc", "", "")
        );
        assert_eq!(
            of_text("\u{1f980}\u{1f980}\u{1f980}", 2),
            "\u{1f980}\u{1f980}"
        );
    }

    #[test]
    fn a_visible_character_is_not_cut_in_two() {
        for (text, chars, kept) in [
            ("ae\u{301}\u{323}b", 2, "a"),
            ("ae\u{301}\u{323}b", 3, "a"),
            ("ae\u{301}\u{323}b", 4, "ae\u{301}\u{323}"),
            // A family: people and joiners.
            ("a\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}b", 4, "a"),
            ("a\u{1f44d}\u{1f3fd}", 2, "a"),
            // Two flags of two letters each.
            (
                "\u{1f1e9}\u{1f1ea}\u{1f1eb}\u{1f1f7}",
                3,
                "\u{1f1e9}\u{1f1ea}",
            ),
            (
                "\u{1f1e9}\u{1f1ea}\u{1f1eb}\u{1f1f7}",
                2,
                "\u{1f1e9}\u{1f1ea}",
            ),
            ("a\r\nb", 2, "a"),
        ] {
            assert_eq!(of_text(text, chars), kept, "{text:?} at {chars}");
        }
        // A stack of marks without end is cut nevertheless.
        let stack = format!("a{}", "\u{301}".repeat(5_000));
        assert_eq!(of_text(&stack, 100).chars().count(), 100);
    }

    #[test]
    fn an_escape_sequence_is_whole_or_left_out() {
        for (text, chars, kept) in [
            ("ab\u{1b}[31mred", 3, "ab"),
            ("ab\u{1b}[31mred", 6, "ab"),
            ("ab\u{1b}[31mred", 7, "ab\u{1b}[31m"),
            ("ab\u{9b}31mred", 4, "ab"),
            ("ab\u{1b}]0;title\u{7}cd", 8, "ab"),
            ("ab\u{1b}]0;title\u{1b}\\cd", 12, "ab"),
            (
                "ab\u{1b}]0;title\u{1b}\\cd",
                14,
                "ab\u{1b}]0;title\u{1b}\\c",
            ),
            ("ab\u{1b}(Bcd", 4, "ab"),
            ("ab\u{1b}(Bcd", 5, "ab\u{1b}(B"),
        ] {
            assert_eq!(of_text(text, chars), kept, "{text:?} at {chars}");
        }
    }

    fn outlined(value: &Value, chars: usize) -> Value {
        let text = of_json(value, chars);
        assert!(
            text.chars().count() <= chars,
            "{} of {chars}: {text}",
            text.chars().count()
        );
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn an_outline_is_json_and_keeps_the_names_behind_a_long_value() {
        let value = json!({ "body": "x".repeat(100_000), "count": 7, "items": (0..5_000).collect::<Vec<_>>() });
        let shown = outlined(&value, 500);
        assert_eq!(shown["count"], 7);
        assert!(
            shown["body"].as_str().unwrap().starts_with("xxx"),
            "{shown}"
        );
        assert!(
            shown["body"]
                .as_str()
                .unwrap()
                .ends_with("more characters]"),
            "{shown}"
        );
        let items = shown["items"].as_array().unwrap();
        assert!(
            items.len() > 3 && items[..3] == [json!(0), json!(1), json!(2)],
            "{shown}"
        );
        assert!(
            items
                .last()
                .unwrap()
                .as_str()
                .unwrap()
                .ends_with("more items]"),
            "{shown}"
        );
    }

    #[test]
    fn what_fits_is_whole_and_every_size_is_kept() {
        let small = json!({ "a": [1, null, "t\n\u{1}\"e"], "b": {} });
        assert_eq!(outlined(&small, 200), small);
        let wide = Value::Object(
            (0..300)
                .map(|n| (format!("field{n:03}"), json!("\n\u{1}".repeat(50))))
                .collect(),
        );
        let deep = (0..100).fold(
            json!("end"),
            |inner, n| json!({ format!("level{n}"): [inner, "x".repeat(99)] }),
        );
        for value in [&small, &wide, &deep] {
            for chars in [20, 30, 64, 100, 333, 1_000, 2_000] {
                if !of_json(value, chars).is_empty() {
                    outlined(value, chars);
                }
            }
        }
        let shown = outlined(&wide, 1_000);
        assert!(
            shown["[cut]"].as_str().unwrap().ends_with("more fields"),
            "{shown}"
        );
        assert_eq!(of_json(&wide, 5), "");
    }
}
