//! A unified diff for people. It has no lines around a change, and of a line that has more than the entry, only the
//! entry: the other servers in the file can have secrets.

use std::fmt::Write as _;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// What stands for what is not shown.
const LEFT_OUT: char = '\u{2026}';
/// What says nothing by itself.
const MARKS: &str = "{}[],:-";

/// A text, and the bytes of it that may be shown.
pub(super) struct DiffSide<'t> {
    pub(super) text: &'t str,
    pub(super) extents: Vec<Range<usize>>,
}

pub(super) fn unified(name: &str, before: &DiffSide<'_>, after: &DiffSide<'_>) -> String {
    let (old, new) = (before.lines(), after.lines());
    let mut diff = format!("--- {name}\n+++ {name}\n");
    for change in capture_diff_slices(Algorithm::Myers, &before.texts(&old), &after.texts(&new)) {
        if matches!(change, DiffOp::Equal { .. }) {
            continue;
        }
        let (from, to) = (change.old_range(), change.new_range());
        let at = |range: &Range<usize>| {
            let first = range.start + usize::from(!range.is_empty());
            format!("{first},{}", range.len())
        };
        let _ = writeln!(diff, "@@ -{} +{} @@", at(&from), at(&to));
        for (sign, side, lines, range) in [('-', before, &old, from), ('+', after, &new, to)] {
            for line in lines.get(range).unwrap_or_default() {
                let _ = writeln!(diff, "{sign}{}", side.line(line));
            }
        }
    }
    diff
}

impl<'t> DiffSide<'t> {
    /// Without their ends, so that a last line without one differs in nothing.
    fn lines(&self) -> Vec<Range<usize>> {
        let mut at = 0;
        let lines = self.text.split_inclusive('\n').map(|line| {
            let start = at;
            at += line.len();
            start..start + line.trim_end_matches(['\n', '\r']).len()
        });
        lines.collect()
    }

    fn texts(&self, lines: &[Range<usize>]) -> Vec<&'t str> {
        let text = |line: &Range<usize>| self.text.get(line.clone()).unwrap_or_default();
        lines.iter().map(text).collect()
    }

    fn line(&self, line: &Range<usize>) -> String {
        let mut shown = String::new();
        let mut at = line.start;
        let mut extents = self.extents.clone();
        extents.sort_by_key(|extent| extent.start);
        for extent in extents {
            let start = extent.start.clamp(at, line.end);
            let end = extent.end.clamp(at, line.end);
            shown.push_str(&self.marks(at..start));
            shown.push_str(self.text.get(start..end).unwrap_or_default());
            at = end;
        }
        shown.push_str(&self.marks(at..line.end));
        shown
    }

    /// The brackets at both ends, and a sign for what is between.
    fn marks(&self, range: Range<usize>) -> String {
        let text = self.text.get(range).unwrap_or_default();
        let says_nothing = |one: char| one.is_whitespace() || MARKS.contains(one);
        let tail = text.trim_start_matches(says_nothing);
        if tail.is_empty() {
            return text.to_owned();
        }
        let head = text.strip_suffix(tail).unwrap_or_default();
        let end = tail.trim_end_matches(says_nothing).len();
        let end = tail.get(end..).unwrap_or_default();
        format!("{head}{LEFT_OUT}{end}")
    }
}

#[cfg(test)]
mod tests {
    use super::{DiffSide, unified};

    #[test]
    fn what_is_not_the_entry_is_left_out() {
        let before = "{\"a\":{\"env\":{\"KEY\":\"hidden\"}}}";
        let after = "{\"it\":{},\"a\":{\"env\":{\"KEY\":\"hidden\"}}}\n";
        let shown = |text, extents: &[std::ops::Range<usize>]| DiffSide {
            text,
            extents: extents.to_vec(),
        };
        let diff = unified("f", &shown(before, &[]), &shown(after, &[1..6, 6..8]));
        assert_eq!(
            diff,
            "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-{\u{2026}}}}\n+{\"it\":{},\u{2026}}}}\n"
        );
        let same = unified("f", &shown("a\r\nb", &[]), &shown("a\nb\n", &[]));
        assert_eq!(same, "--- f\n+++ f\n");
    }
}
