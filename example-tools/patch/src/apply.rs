use toolcell_guest::ToolError;

use crate::parse::{Hunk, Line};

/// How far from the stated line a hunk may be found, in lines.
const DISTANCE_MAX: usize = 200;

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
    /// Hunks that were found at another line than the diff says.
    pub(crate) moved: u32,
}

/// The lines of a file without their line ends, and the line end that the file uses.
struct Old<'t> {
    lines: Vec<&'t str>,
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

    fn has(&self, at: usize, wanted: &[&str]) -> bool {
        self.lines
            .get(at..at + wanted.len())
            .is_some_and(|lines| lines == wanted)
    }
}

/// Applies hunks, in order, to the text of the file `name`.
///
/// A hunk goes to the line that the diff states if the file matches there, otherwise to the only matching place if it
/// is nearby. Fails with invalid_arguments if no place matches, or more than one.
pub(crate) fn apply(name: &str, text: &str, hunks: &[Hunk]) -> Result<Applied, ToolError> {
    let old = Old::new(text, hunks);
    let mut new = New::default();
    let mut applied = Applied {
        hunks: hunks.len() as u32,
        ..Applied::default()
    };
    let mut done = 0;
    let mut drift = 0;
    for (number, hunk) in (1..).zip(hunks) {
        let place = Place {
            file: name,
            hunk: number,
            stated: stated(hunk),
            first: done,
        };
        let at = place.find(&old, hunk, drift)?;
        applied.moved += u32::from(at != place.stated);
        drift = at as isize - place.stated as isize;
        new.keep(&old, done..at);
        let new_start = new.lines.len();
        new.hunk(&old, at, hunk);
        done = at + hunk.old().len();
        if hunk.open_end && done != old.lines.len() {
            return Err(place.refuse(
                "line_end_misplaced",
                "it ends the file without a line end, but there is more",
            ));
        }
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
    new.keep(&old, done..old.lines.len());
    applied.text = new.text(&old);
    Ok(applied)
}

/// The index of a hunk's stated first line. Without old lines, the hunk's number is that of the line before.
fn stated(hunk: &Hunk) -> usize {
    if hunk.old().is_empty() {
        hunk.old_start
    } else {
        hunk.old_start.saturating_sub(1)
    }
}

/// The place where a hunk should go, for the search and for its errors.
struct Place<'n> {
    file: &'n str,
    hunk: usize,
    stated: usize,
    /// The first line after the hunks before.
    first: usize,
}

impl Place<'_> {
    /// `drift` is the distance of the previous hunk from its stated line: lines inserted above moved this hunk too.
    fn find(&self, old: &Old<'_>, hunk: &Hunk, drift: isize) -> Result<usize, ToolError> {
        let wanted = hunk.old();
        if wanted.is_empty() {
            return if old.lines.is_empty() {
                Ok(0)
            } else {
                Err(self.refuse(
                    "no_context",
                    "it only adds, and has no line that shows where",
                ))
            };
        }
        // After a hunk that moved, the lines at the stated place may only look the same.
        if drift == 0 && self.stated >= self.first && old.has(self.stated, &wanted) {
            return Ok(self.stated);
        }
        let guess = self.stated.saturating_add_signed(drift);
        let near =
            guess.saturating_sub(DISTANCE_MAX).max(self.first)..=guess.saturating_add(DISTANCE_MAX);
        let last = old.lines.len().saturating_sub(wanted.len());
        // Two matches anywhere make the place ambiguous, even if one of them is far away.
        let mut places = (self.first..=last).filter(|at| old.has(*at, &wanted));
        match (places.next(), places.next()) {
            (Some(at), None) if near.contains(&at) => Ok(at),
            (Some(_), Some(_)) => Err(self.refuse(
                "hunk_ambiguous",
                "its lines are in more than one place; give more context",
            )),
            _ => Err(self.mismatch(old, &wanted)),
        }
    }

    /// Returns an error that shows the first differing line at the stated place.
    fn mismatch(&self, old: &Old<'_>, wanted: &[&str]) -> ToolError {
        let differs = (0..)
            .zip(wanted)
            .find(|(offset, line)| old.lines.get(self.stated + offset) != Some(line));
        let Some((offset, expected)) = differs else {
            return self.refuse("hunk_mismatch", "its lines are part of the hunk before");
        };
        let line = self.stated + offset + 1;
        let found = match old.lines.get(self.stated + offset) {
            Some(found) => format!("has {found:?}"),
            None => "does not exist".to_owned(),
        };
        self.refuse(
            "hunk_mismatch",
            &format!("it expects {expected:?} in line {line}, which {found}"),
        )
    }

    fn refuse(&self, code: &str, what: &str) -> ToolError {
        ToolError::invalid_arguments(
            code,
            format!(
                "{}: hunk {}: {what}; nothing was changed",
                self.file, self.hunk
            ),
        )
    }
}

/// The new file while it is built.
#[derive(Default)]
struct New {
    lines: Vec<String>,
    /// Whether the last line has no line end, by the diff or by the old file.
    open_end: bool,
}

impl New {
    fn keep(&mut self, old: &Old<'_>, range: std::ops::Range<usize>) {
        for at in range {
            self.push(old.lines[at]);
            self.open_end = !old.ends_closed && at + 1 == old.lines.len();
        }
    }

    fn hunk(&mut self, old: &Old<'_>, at: usize, hunk: &Hunk) {
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

    fn push(&mut self, line: &str) {
        self.lines.push(line.to_owned());
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
        apply("x", text, &patch[0].hunks)
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
    fn a_hunk_never_goes_to_a_wrong_place() {
        let twice = patched("x\na\nb\nx\na\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n");
        assert!(twice.unwrap_err().starts_with("hunk_ambiguous"));
        let far = format!("{}a\nb\n", "0\n".repeat(DISTANCE_MAX + 1));
        assert!(
            patched(&far, "@@ -1,2 +1,2 @@\n a\n-b\n+B\n")
                .unwrap_err()
                .starts_with("hunk_mismatch")
        );
        let blind = patched("a\nb\n", "@@ -1,0 +2,1 @@\n+new\n");
        assert!(blind.unwrap_err().starts_with("no_context"));
        let other = patched("a\nX\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n").unwrap_err();
        assert!(
            other.contains("x: hunk 1: it expects \"b\" in line 2, which has \"X\""),
            "{other}"
        );
        let short = patched("a\n", "@@ -1,2 +1,1 @@\n a\n-b\n").unwrap_err();
        assert!(short.contains("in line 2, which does not exist"), "{short}");
    }

    #[test]
    fn after_a_hunk_that_had_moved_the_stated_line_proves_nothing() {
        // Two lines were inserted above. The second hunk matches line 5 by chance; its true place is line 7.
        let text = "new\nnew\na\nb\nx\nc\nx\n";
        let hunks = "@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -5,1 +5,1 @@\n-x\n+X\n";
        assert!(
            patched(text, hunks)
                .unwrap_err()
                .starts_with("hunk_ambiguous: x: hunk 2")
        );
    }

    #[test]
    fn hunks_do_not_overlap() {
        let again = patched(
            "a\nb\nc\n",
            "@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -2,2 +2,2 @@\n-b\n+BB\n c\n",
        );
        assert!(again.unwrap_err().contains("hunk 2"));
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
