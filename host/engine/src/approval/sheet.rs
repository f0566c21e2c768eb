//! Rows of a question. Every row of foreign text begins with a gutter, however it wraps: only the host's own words
//! begin at the first column.

use std::fmt::Write as _;
use std::mem;

use unicode_width::UnicodeWidthChar;

use super::confusable::marked;
use toolcell_spec::text::{Whitespace, visible};

/// For an unknown display; 80 columns need no wrapping.
pub const COLUMNS: usize = 78;
/// A narrower display has no room for names and values.
pub const COLUMNS_MIN: usize = 40;
/// Rows of a display of unknown size.
pub const ROWS: usize = 24;

const GUTTER: &str = "| ";
const NAME_COLUMNS: usize = 11;
/// Longer runs of blanks could place words on a display.
const BLANKS_MAX: usize = 3;
/// Marks a wrapped line, because otherwise the next line could pass for its rest.
const CONTINUED: &str = "\\ ";
const COUNTED_ROWS_MAX: usize = 1_000;
/// Stacked combining marks reach into the rows above and below.
const MARKS_MAX: usize = 2;

#[derive(Debug)]
pub struct PromptSheet {
    columns: usize,
    text: String,
    cut: bool,
}

impl PromptSheet {
    /// `columns` is clamped to [`COLUMNS_MIN`] and [`COLUMNS`].
    pub fn new(columns: usize) -> Self {
        Self {
            columns: columns.clamp(COLUMNS_MIN, COLUMNS),
            text: String::new(),
            cut: false,
        }
    }

    /// Adds at most `rows_max` rows (two if it is cut at one); the last one tells of a cut.
    pub fn value(&mut self, name: &str, value: &str, rows_max: usize) {
        let columns = self.columns.saturating_sub(GUTTER.len() + NAME_COLUMNS);
        // A character takes at least one column, so that characters beyond the room need no look.
        let room = rows_max.saturating_mul(columns);
        let head = value
            .char_indices()
            .nth(room)
            .map_or(value, |(end, _)| value.get(..end).unwrap_or_default());
        let shown = legible(head);
        let mut rows = wrap(&shown, columns);
        let over = rows.len() > rows_max || head.len() < value.len();
        if over {
            rows.truncate(rows_max.saturating_sub(1).max(1));
        }
        for (at, row) in rows.iter().enumerate() {
            self.row(if at == 0 { name } else { "" }, row);
        }
        if over {
            self.cut = true;
            self.row(
                "",
                &format!("[not all: {} characters]", value.chars().count()),
            );
        }
    }

    pub(super) fn block(&mut self, name: &'static str, rows_max: usize) -> ValueBlock<'_> {
        ValueBlock {
            sheet: self,
            name,
            left: rows_max,
            more: 0,
        }
    }

    pub fn lines(&mut self, text: &str, rows_max: usize) {
        let columns = self.columns.saturating_sub(GUTTER.len());
        let mut rows: Vec<String> = Vec::new();
        for line in text.lines() {
            let shown = legible(line);
            if shown.trim().is_empty() && rows.last().is_some_and(String::is_empty) {
                continue;
            }
            rows.extend(
                wrap(shown.trim_end(), columns)
                    .into_iter()
                    .map(str::to_owned),
            );
            if rows.len() > rows_max {
                break;
            }
        }
        let over = rows.len() > rows_max;
        if over {
            rows.truncate(rows_max.saturating_sub(1));
            rows.push(format!("[not all: {} characters]", text.chars().count()));
            self.cut = true;
        }
        for row in rows {
            // Writing to a String cannot fail.
            let _ = writeln!(self.text, "{}", format!("{GUTTER}{row}").trim_end());
        }
    }

    /// Like [`Self::lines`], for secondary text: cutting it does not set [`Self::is_cut`].
    pub fn aside(&mut self, text: &str, rows_max: usize) {
        let cut = self.cut;
        self.lines(text, rows_max);
        self.cut = cut;
    }

    /// Host words begin at the first column.
    pub fn host(&mut self, words: &str) {
        let _ = writeln!(self.text, "{words}");
    }

    /// Wraps wider rows of `sheet` again behind their gutter, because a display puts none before the rest.
    pub fn rows_of(&mut self, sheet: &str) {
        for row in sheet.lines() {
            let (gutter, words) = row
                .strip_prefix(GUTTER)
                .map_or(("", row), |words| (GUTTER, words));
            for part in wrap(words, self.columns.saturating_sub(gutter.len())) {
                let _ = writeln!(self.text, "{gutter}{part}");
            }
        }
    }

    pub fn is_cut(&self) -> bool {
        self.cut
    }

    pub fn into_text(self) -> String {
        self.text
    }

    fn row(&mut self, name: &str, row: &str) {
        let width = NAME_COLUMNS - 1;
        let _ = writeln!(self.text, "{GUTTER}{name:<width$} {row}");
    }
}

pub(super) struct ValueBlock<'s> {
    sheet: &'s mut PromptSheet,
    name: &'static str,
    left: usize,
    more: usize,
}

impl ValueBlock<'_> {
    /// `mark` has at most two columns. Returns `false` once no more rows are counted.
    pub(super) fn line(&mut self, indent: usize, mark: &str, line: &str) -> bool {
        let columns = self
            .sheet
            .columns
            .saturating_sub(GUTTER.len() + NAME_COLUMNS + CONTINUED.len() + indent);
        // A character takes at least one column, so that characters beyond the room need no look.
        let room = self
            .left
            .saturating_add(COUNTED_ROWS_MAX)
            .saturating_mul(columns);
        let head = line
            .char_indices()
            .nth(room)
            .map_or(line, |(end, _)| line.get(..end).unwrap_or_default());
        let words = head.trim_start_matches(' ');
        // Indentation that leaves room for words is no padding.
        let blanks = head.len() - words.len();
        let shown = if blanks <= columns / 2 {
            format!("{}{}", " ".repeat(blanks), legible(words))
        } else {
            legible(head)
        };
        for (at, row) in wrap(&shown, columns).into_iter().enumerate() {
            if self.left == 0 {
                self.more += 1;
                continue;
            }
            self.left -= 1;
            let mark = if at == 0 { mark } else { CONTINUED };
            let name = mem::take(&mut self.name);
            self.sheet.row(name, &format!("{:indent$}{mark}{row}", ""));
        }
        if head.len() < line.len() {
            self.more = COUNTED_ROWS_MAX + 1;
        }
        self.more <= COUNTED_ROWS_MAX
    }

    /// The last row says how many rows were left out, and `how` they are shown.
    pub(super) fn end(mut self, how: &str) {
        let more = match self.more {
            0 => return,
            1 => "1 more line".to_owned(),
            more if more <= COUNTED_ROWS_MAX => format!("{more} more lines"),
            _ => "many more lines".to_owned(),
        };
        self.sheet.cut = true;
        let columns = self
            .sheet
            .columns
            .saturating_sub(GUTTER.len() + NAME_COLUMNS);
        for row in wrap(&format!("\u{2026} {more}{how}"), columns) {
            self.sheet.row(mem::take(&mut self.name), row);
        }
    }
}

/// Returns one line of `text` without anything that controls a display, is invisible, passes for another character, or
/// adds space.
pub fn legible(text: &str) -> String {
    let plain = if guard!("prompt_escapes") {
        visible(text, Whitespace::WrittenOut)
    } else {
        text.to_owned()
    };
    folded(&marked(&plain))
}

/// Long runs of blanks become their number; non-ASCII blanks and stacked marks are escaped.
fn folded(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut blanks = String::new();
    let mut marks = MARKS_MAX;
    for c in text.chars() {
        if c.is_whitespace() {
            blanks.push(c);
            continue;
        }
        if !blanks.is_empty() {
            end_blanks(&mut shown, &mut blanks);
            marks = MARKS_MAX;
        }
        marks = if c.width() == Some(0) { marks + 1 } else { 0 };
        if marks > MARKS_MAX {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    end_blanks(&mut shown, &mut blanks);
    shown
}

fn end_blanks(shown: &mut String, blanks: &mut String) {
    let count = blanks.chars().count();
    if count > BLANKS_MAX {
        let _ = write!(shown, "[{count} blanks]");
    } else {
        for c in blanks.chars() {
            if c == ' ' {
                shown.push(c);
            } else {
                shown.extend(c.escape_unicode());
            }
        }
    }
    blanks.clear();
}

/// Prefers a blank in the second half of a row. Nothing is left out; an empty text is one row.
fn wrap(text: &str, columns: usize) -> Vec<&str> {
    let mut rows = Vec::new();
    let mut start = 0;
    let mut width = 0;
    // The offset after the last blank of the row, and the width up to it.
    let mut blank: Option<(usize, usize)> = None;
    for (at, c) in text.char_indices() {
        let columns_of = columns_of(c);
        if width + columns_of > columns && at > start {
            let (end, taken) = blank
                .filter(|(_, taken)| *taken > columns / 2)
                .unwrap_or((at, width));
            rows.push(text.get(start..end).unwrap_or_default());
            (start, width, blank) = (end, width - taken, None);
        }
        width += columns_of;
        if c == ' ' {
            blank = Some((at + 1, width));
        }
    }
    rows.push(text.get(start..).unwrap_or_default());
    rows
}

/// The most that a terminal may give to `c`: terminals disagree, and a wider row would wrap without a gutter.
fn columns_of(c: char) -> usize {
    let widest = if c < '\u{1100}' { 1 } else { 2 };
    c.width_cjk().unwrap_or(widest).max(widest)
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, COLUMNS_MIN, GUTTER, PromptSheet, columns_of, legible, wrap};

    #[test]
    fn every_row_has_the_gutter_and_none_is_wider_than_the_display() {
        let wide = "\u{65e5}\u{672c}\u{1f980}e\u{301}".repeat(50);
        for value in ["a".repeat(500), "| ".repeat(200), "word ".repeat(100), wide] {
            let mut sheet = PromptSheet::new(COLUMNS_MIN);
            sheet.value("name", &value, 100);
            sheet.lines(&value, 100);
            assert!(!sheet.is_cut());
            for row in sheet.into_text().lines() {
                assert!(row.starts_with(GUTTER), "{row:?}");
                assert!(
                    row.chars().map(columns_of).sum::<usize>() <= COLUMNS_MIN,
                    "{row:?}"
                );
            }
        }
    }

    #[test]
    fn the_rows_of_a_wider_sheet_keep_their_gutter() {
        let mut wide = PromptSheet::new(COLUMNS);
        wide.host("The words of the host, in a row that is wider than forty columns.");
        wide.value("name", &"word ".repeat(50), 100);
        let wide = wide.into_text();
        let mut narrow = PromptSheet::new(COLUMNS_MIN);
        narrow.rows_of(&wide);
        let narrow = narrow.into_text();
        assert!(
            narrow.lines().all(|row| row.chars().count() <= COLUMNS_MIN),
            "{narrow}"
        );
        let foreign = narrow
            .lines()
            .filter(|row| row.contains("word "))
            .all(|row| row.starts_with(GUTTER));
        assert!(
            foreign && narrow.starts_with("The words of the host"),
            "{narrow}"
        );
        let mut same = PromptSheet::new(COLUMNS);
        same.rows_of(&wide);
        assert_eq!(same.into_text(), wide);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let mut sheet = PromptSheet::new(COLUMNS_MIN);
        sheet.value("name", &"x".repeat(1000), 3);
        assert!(sheet.is_cut());
        let text = sheet.into_text();
        assert_eq!(text.lines().count(), 3);
        assert!(text.ends_with("[not all: 1000 characters]\n"), "{text}");
        let mut sheet = PromptSheet::new(COLUMNS_MIN);
        sheet.lines(&"a\n".repeat(100), 5);
        assert!(sheet.is_cut() && sheet.into_text().lines().count() == 5);
        let mut sheet = PromptSheet::new(COLUMNS_MIN);
        sheet.lines("a\n\n \n\n\nb", 5);
        assert_eq!(sheet.into_text(), "| a\n|\n| b\n");
    }

    #[test]
    fn a_block_marks_what_was_wrapped_and_counts_what_is_left_out() {
        let mut sheet = PromptSheet::new(COLUMNS_MIN);
        let mut block = sheet.block("name", 4);
        assert!(
            block.line(0, "", "\"a\": 2 lines") && block.line(2, "+ ", "    deep in the code of x")
        );
        assert!(block.line(2, "+ ", &"y".repeat(60)));
        block.end(", v shows all");
        assert!(sheet.is_cut());
        let rows = [
            "| name       \"a\": 2 lines",
            "|              +     deep in the code ",
            "|              \\ of x",
            "|              + yyyyyyyyyyyyyyyyyyyyyyy",
            "|            \u{2026} 2 more lines, v shows ",
            "|            all",
        ];
        assert_eq!(sheet.into_text().lines().collect::<Vec<_>>(), rows);

        let mut sheet = PromptSheet::new(COLUMNS_MIN);
        let mut block = sheet.block("name", 1);
        assert!(
            !(0..2_000).all(|_| block.line(0, "", "a")),
            "it stops to count"
        );
        block.end("");
        assert!(sheet.into_text().ends_with(" many more lines\n"));
        let mut sheet = PromptSheet::new(COLUMNS_MIN);
        let mut block = sheet.block("name", 8);
        assert!(
            !block.line(0, "", &" ".repeat(200_000)),
            "the end was not looked at"
        );
        block.end("");
        assert!(sheet.is_cut());
        let mut sheet = PromptSheet::new(COLUMNS_MIN);
        let mut block = sheet.block("name", usize::MAX);
        assert!((0..2_000).all(|_| block.line(0, "", "a")));
        block.end("");
        assert!(!sheet.is_cut() && sheet.into_text().lines().count() == 2_000);
    }

    #[test]
    fn wrapping_loses_nothing() {
        for text in [
            "",
            "a b c",
            "one two three four five six seven",
            "abcdefghijklmnopqrstuvwxyz",
        ] {
            assert_eq!(wrap(text, 10).concat(), text);
        }
        assert_eq!(wrap("one two three", 10), ["one two ", "three"]);
    }

    #[test]
    fn nothing_in_a_value_makes_room() {
        assert_eq!(legible("a   b"), "a   b");
        assert_eq!(legible(&format!("a{}b", " ".repeat(60))), "a[60 blanks]b");
        assert_eq!(legible("a \u{a0}\u{3000} b"), "a[4 blanks]b");
        assert_eq!(legible("a\u{a0}b"), "a\\u{a0}b");
        assert_eq!(legible("a\nb\tc"), "a\\u{a}b\\u{9}c");
        assert_eq!(legible("e\u{301}\u{302}\u{303}"), "e\u{301}\u{302}\\u{303}");
        assert_eq!(legible("\u{301}a"), "\\u{301}a");
    }
}
