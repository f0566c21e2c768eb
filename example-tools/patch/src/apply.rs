use std::ops::Range;

use toolcell_guest::ToolError;

use crate::{
    parse::{Hunk, Line},
    placement::Place,
    search::Work,
};

/// Maximum number of lines of a file: each takes memory beside its text.
const LINES_MAX: usize = 1 << 22;

/// A file with its hunks applied.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Applied {
    /// The new text.
    pub(crate) text: String,
    /// The hunks, with the lines at which they were applied.
    pub(crate) diff: String,
    pub(crate) added: u32,
    pub(crate) removed: u32,
    pub(crate) hunks: u32,
    /// Hunks that were found at another line than their header says.
    pub(crate) moved: u32,
}

/// The lines of a file without their line ends, and the line end that the file uses.
pub(crate) struct Old<'t> {
    pub(crate) lines: Vec<&'t str>,
    line_end: &'static str,
    ends_closed: bool,
}

impl<'t> Old<'t> {
    fn new(text: &'t str, hunks: &[Hunk]) -> Self {
        let ends_closed = text.is_empty() || text.ends_with('\n');
        let mut lines: Vec<&str> = text.split('\n').collect();
        if ends_closed {
            lines.pop();
        }
        // A file with `\r\n` throughout accepts a diff with `\n`, because diffs in JSON often lose the `\r`.
        let closed = if ends_closed {
            lines.len()
        } else {
            lines.len() - 1
        };
        let windows = closed > 0 && lines[..closed].iter().all(|line| line.ends_with('\r'));
        if windows
            && !hunks
                .iter()
                .flat_map(Hunk::old)
                .any(|line| line.ends_with('\r'))
        {
            let plain = lines
                .iter()
                .map(|line| line.strip_suffix('\r').unwrap_or(line))
                .collect();
            return Self {
                lines: plain,
                line_end: "\r\n",
                ends_closed,
            };
        }
        Self {
            lines,
            line_end: "\n",
            ends_closed,
        }
    }
}

/// Applies hunks, in order, to the text of the file `name`.
///
/// Fails with invalid_arguments if a hunk fits no place, or more than one and its header does not decide.
pub(crate) fn apply(
    name: &str,
    text: &str,
    hunks: &[Hunk],
    work: &mut Work,
) -> Result<Applied, ToolError> {
    if text.bytes().filter(|byte| *byte == b'\n').count() > LINES_MAX {
        let message = format!("{name} has more than {LINES_MAX} lines; nothing was changed");
        return Err(ToolError::capability_gap("file_too_large", message));
    }
    let old = Old::new(text, hunks);
    let mut new = New::default();
    let mut applied = Applied {
        hunks: hunks.len() as u32,
        ..Applied::default()
    };
    let mut taken: Vec<Range<usize>> = Vec::new();
    let mut drift = 0;
    for (number, hunk) in (1..).zip(hunks) {
        let wanted = hunk.old();
        let place = Place::new(name, number, hunk, &wanted, &taken);
        let at = place.find(&old.lines, drift, work)?;
        if let Some(stated) = place.stated {
            applied.moved += u32::from(at != stated);
            drift = at as isize - stated as isize;
        }
        new.keep(&old, place.first()..at);
        let new_start = new.lines.len();
        new.hunk(&old, at, hunk);
        let end = at + wanted.len();
        if hunk.open_end && end != old.lines.len() {
            return Err(place.refuse(
                "line_end_misplaced",
                "it ends the file without a line end, but there is more",
            ));
        }
        taken.push(at..end);
        applied.diff.push_str(&render(hunk, at, new_start));
        applied.added += hunk
            .lines
            .iter()
            .filter(|line| matches!(line, Line::Added(_)))
            .count() as u32;
        applied.removed += hunk
            .lines
            .iter()
            .filter(|line| matches!(line, Line::Removed(_)))
            .count() as u32;
    }
    let done = taken.last().map_or(0, |range| range.end);
    new.keep(&old, done..old.lines.len());
    applied.text = new.text(&old);
    Ok(applied)
}

/// The new file while it is built.
#[derive(Default)]
struct New<'t> {
    lines: Vec<&'t str>,
    /// Whether the last line has no line end, by the diff or by the old file.
    open_end: bool,
}

impl<'t> New<'t> {
    fn keep(&mut self, old: &Old<'t>, range: Range<usize>) {
        for at in range {
            self.push(old.lines[at]);
            self.open_end = !old.ends_closed && at + 1 == old.lines.len();
        }
    }

    fn hunk(&mut self, old: &Old<'t>, at: usize, hunk: &'t Hunk) {
        let mut at = at;
        for line in &hunk.lines {
            match line {
                Line::Context(_) => {
                    self.keep(old, at..at + 1);
                    at += 1;
                }
                Line::Removed(_) => at += 1,
                Line::Added(text) => self.push(text),
            }
        }
        self.open_end |= hunk.open_end;
    }

    fn push(&mut self, line: &'t str) {
        self.lines.push(line);
        self.open_end = false;
    }

    fn text(&self, old: &Old<'_>) -> String {
        let mut text = self.lines.join(old.line_end);
        if !self.lines.is_empty() && !self.open_end {
            text.push_str(old.line_end);
        }
        text
    }
}

/// The hunk as it was applied.
fn render(hunk: &Hunk, old_start: usize, new_start: usize) -> String {
    let old = hunk.old().len();
    let new = hunk
        .lines
        .iter()
        .filter(|line| !matches!(line, Line::Removed(_)))
        .count();
    let start = |start: usize, count: usize| if count == 0 { start } else { start + 1 };
    let mut text = format!(
        "@@ -{},{old} +{},{new} @@\n",
        start(old_start, old),
        start(new_start, new)
    );
    for line in &hunk.lines {
        let (mark, line) = match line {
            Line::Context(line) => (' ', line),
            Line::Removed(line) => ('-', line),
            Line::Added(line) => ('+', line),
        };
        text.push(mark);
        text.push_str(line);
        text.push('\n');
    }
    if hunk.open_end {
        text.push_str("\\ No newline at end of file\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    fn patched(text: &str, hunks: &str) -> Result<Applied, String> {
        let patch = parse(&format!("--- a/x\n+++ b/x\n{hunks}")).unwrap();
        apply("x", text, &patch[0].hunks, &mut Work::new())
            .map_err(|error| format!("{}: {}", error.code, error.message))
    }

    #[test]
    fn several_hunks_apply_in_their_places() {
        let applied = patched(
            "a\nb\nc\nd\ne\n",
            "@@ -1,2 +1,3 @@\n a\n+new\n b\n@@ -4,2 +5,1 @@\n-d\n e\n",
        )
        .unwrap();
        assert_eq!(applied.text, "a\nnew\nb\nc\ne\n");
        assert_eq!((applied.added, applied.removed, applied.moved), (1, 1, 0));
        assert_eq!(
            applied.diff,
            "@@ -1,2 +1,3 @@\n a\n+new\n b\n@@ -4,2 +5,1 @@\n-d\n e\n"
        );
    }

    #[test]
    fn a_file_that_has_moved_on_is_followed_to_the_one_place_that_fits() {
        let applied = patched("0\n0\n0\na\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n").unwrap();
        assert_eq!(
            (applied.text.as_str(), applied.moved),
            ("0\n0\n0\na\nB\nc\n", 1)
        );
        assert!(applied.diff.starts_with("@@ -4,3 +4,3 @@\n"));
    }

    #[test]
    fn the_end_of_the_last_line_is_kept_or_changed_as_the_diff_says() {
        let keep = patched(
            "a\nb",
            "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n",
        )
        .unwrap();
        assert_eq!(keep.text, "A\nb");
        let close = patched(
            "a\nb",
            "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n",
        )
        .unwrap();
        assert_eq!(close.text, "a\nb\n");
        let open = patched(
            "a\nb\n",
            "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n",
        )
        .unwrap();
        assert_eq!(open.text, "a\nb");
        let after = patched("a", "@@ -1,1 +1,2 @@\n a\n+b\n").unwrap();
        assert_eq!(after.text, "a\nb\n");
        let middle = patched(
            "a\nb\n",
            "@@ -1,1 +1,1 @@\n-a\n+A\n\\ No newline at end of file\n",
        );
        assert!(middle.unwrap_err().starts_with("line_end_misplaced"));
    }

    #[test]
    fn line_ends_stay_what_they_are() {
        let windows = patched("a\r\nb\r\n", "@@ -1,2 +1,3 @@\n a\n-b\n+B\n+c\n").unwrap();
        assert_eq!(windows.text, "a\r\nB\r\nc\r\n");
        let mixed = patched("a\r\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n").unwrap_err();
        assert!(mixed.starts_with("hunk_mismatch"), "{mixed}");
    }

    #[test]
    fn a_file_has_a_limited_number_of_lines() {
        let most = format!("{}a\n", "\n".repeat(LINES_MAX - 1));
        assert!(patched(&most, "@@\n-a\n+b\n").is_ok());
        let more = patched(&format!("\n{most}"), "@@\n-a\n+b\n");
        assert!(more.unwrap_err().starts_with("file_too_large"));
    }

    #[test]
    fn an_empty_file_can_be_filled_and_a_full_one_emptied() {
        assert_eq!(
            patched("", "@@ -0,0 +1,2 @@\n+a\n+b\n").unwrap().text,
            "a\nb\n"
        );
        assert_eq!(
            patched("a\nb\n", "@@ -1,2 +0,0 @@\n-a\n-b\n").unwrap().text,
            ""
        );
    }
}
