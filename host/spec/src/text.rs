use std::borrow::Cow;
use std::fmt::Write as _;

/// Treatment of line breaks and tabs by [`visible`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whitespace {
    Kept,
    /// A value cannot begin a line of its own.
    WrittenOut,
}

/// Escapes characters that control a terminal, reorder text, or are invisible: control and bidirectional characters,
/// zero-width ones, variation selectors, tags, fillers.
pub fn visible(text: &str, whitespace: Whitespace) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut shown, c| {
            let kept = matches!(c, '\n' | '\t') && whitespace == Whitespace::Kept;
            if !kept && deceives(c) {
                shown.extend(c.escape_unicode());
            } else {
                shown.push(c);
            }
            shown
        })
}

/// `true` for control, default ignorable, bidirectional and line-separator characters, and for private use, whose look
/// depends on the font.
pub fn deceives(c: char) -> bool {
    c.is_control()
        || matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
}

/// JSON with the same meaning: deceptive characters occur only in strings, where they can be escaped.
pub fn visible_json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| deceives(c) && !is_layout(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\r' {
            // JSON allows it only between values, where a terminal would go back to the first column.
            shown.push(' ');
        } else if deceives(c) && !is_layout(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Line breaks and tabs between JSON values, where no escape is allowed.
fn is_layout(c: char) -> bool {
    matches!(c, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::{Whitespace, visible};

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        for hidden in [
            '\u{1b}',
            '\r',
            '\u{7f}',
            '\u{9b}',
            '\u{202e}',
            '\u{2066}',
            '\u{200b}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            let text = visible(&format!("a{hidden}b"), Whitespace::Kept);
            assert_eq!(text, format!("a\\u{{{:x}}}b", u32::from(hidden)));
        }
        assert_eq!(visible("a\n\tb", Whitespace::Kept), "a\n\tb");
        assert_eq!(visible("a\n\tb", Whitespace::WrittenOut), "a\\u{a}\\u{9}b");
        assert_eq!(
            visible("größe 日本 🦀", Whitespace::WrittenOut),
            "größe 日本 🦀"
        );
    }
}
