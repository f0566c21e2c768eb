use toolcell_guest::ToolError;

use crate::Action;

/// The change of one file in a diff.
#[derive(Debug, PartialEq)]
pub(crate) struct FilePatch {
    /// The path in the diff, without `a/` and `b/`.
    pub(crate) path: String,
    pub(crate) action: Action,
    pub(crate) hunks: Vec<Hunk>,
}

/// One `@@` part. Lines are stored without line ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Hunk {
    /// The first line in the old file, counted from 1; 0 for an empty file.
    pub(crate) old_start: usize,
    pub(crate) lines: Vec<Line>,
    /// The new file ends here without a line end.
    pub(crate) open_end: bool,
}

/// One line of a hunk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    Context(String),
    Removed(String),
    Added(String),
}

impl Hunk {
    /// The lines that the old file must contain.
    pub(crate) fn old(&self) -> Vec<&str> {
        let old = |line| match line {
            &Line::Context(ref text) | &Line::Removed(ref text) => Some(text.as_str()),
            Line::Added(_) => None,
        };
        self.lines.iter().filter_map(old).collect()
    }
}

/// Parses a diff. Text around it, such as a commit message, is ignored.
///
/// Fails with invalid_arguments, code `diff_invalid`, or with capability_gap if a change is not one of text.
pub(crate) fn parse(diff: &str) -> Result<Vec<FilePatch>, ToolError> {
    let mut lines = Lines::new(diff);
    let mut patches: Vec<FilePatch> = Vec::new();
    while let Some(patch) = file(&mut lines)? {
        if patches.iter().any(|earlier| earlier.path == patch.path) {
            return Err(lines.invalid(format!("{} is changed twice", patch.path)));
        }
        patches.push(patch);
    }
    if patches.is_empty() {
        Err(ToolError::invalid_arguments(
            "diff_invalid",
            "the diff changes no file: it needs `---`, `+++`, `@@`",
        ))
    } else {
        Ok(patches)
    }
}

/// The lines of a diff, with their numbers for errors. Line ends may be `\r\n` if all of them are.
struct Lines<'d> {
    lines: Vec<&'d str>,
    next: usize,
}

impl<'d> Lines<'d> {
    fn new(diff: &'d str) -> Self {
        let mut lines: Vec<&str> = diff.split('\n').collect();
        if lines.last() == Some(&"") {
            lines.pop();
        }
        if lines.iter().all(|line| line.ends_with('\r')) {
            lines = lines.iter().map(|line| &line[..line.len() - 1]).collect();
        }
        Self { lines, next: 0 }
    }

    fn peek(&self) -> Option<&'d str> {
        self.lines.get(self.next).copied()
    }

    fn pop(&mut self) -> Option<&'d str> {
        let line = self.peek()?;
        self.next += 1;
        Some(line)
    }

    /// An error at the line that was read last.
    fn invalid(&self, what: impl AsRef<str>) -> ToolError {
        let message = format!("line {} of the diff: {}", self.next.max(1), what.as_ref());
        ToolError::invalid_arguments("diff_invalid", message)
    }
}

/// The `git diff` header above the `---` line.
#[derive(Default)]
struct GitHeader {
    path: Option<String>,
    created: bool,
    deleted: bool,
}

/// The next file of the diff.
fn file(lines: &mut Lines<'_>) -> Result<Option<FilePatch>, ToolError> {
    let mut git: Option<GitHeader> = None;
    loop {
        match lines.peek() {
            Some(line) if line.starts_with("--- ") => return named(lines).map(Some),
            // A git header without `---`: an empty file is created or deleted, or only the mode changes.
            Some(line) if line.starts_with("diff --git ") && git.is_some() => {
                match empty_file(lines, git.take().unwrap_or_default())? {
                    Some(patch) => return Ok(Some(patch)),
                    None => continue,
                }
            }
            None => return git.map_or(Ok(None), |git| empty_file(lines, git)),
            Some(_) => {}
        }
        let line = lines.pop().unwrap_or_default();
        match line.strip_prefix("diff --git ") {
            Some(paths) => {
                git = Some(GitHeader {
                    path: same_path(paths),
                    ..GitHeader::default()
                })
            }
            None => extended(lines, line, git.as_mut())?,
        }
    }
}

/// Handles an extended header line above `---`.
fn extended(lines: &Lines<'_>, line: &str, git: Option<&mut GitHeader>) -> Result<(), ToolError> {
    if line.starts_with("@@ -") {
        return Err(lines.invalid("a hunk without `---` and `+++` lines before it"));
    }
    let Some(git) = git else { return Ok(()) };
    let refuse = |what: &str| {
        let message = format!(
            "line {} of the diff: {what} cannot be applied here",
            lines.next
        );
        Err(ToolError::capability_gap("diff_unsupported", message))
    };
    match line {
        _ if line.starts_with("new file mode ") => git.created = true,
        _ if line.starts_with("deleted file mode ") => git.deleted = true,
        _ if line.starts_with("rename ") || line.starts_with("copy ") => {
            return refuse("a rename or a copy");
        }
        _ if line.starts_with("old mode ") => return refuse("a change of the file mode"),
        _ if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") => {
            return refuse("a binary patch");
        }
        _ => {}
    }
    Ok(())
}

fn empty_file(lines: &Lines<'_>, git: GitHeader) -> Result<Option<FilePatch>, ToolError> {
    let action = match (git.created, git.deleted) {
        (true, _) => Action::Created,
        (_, true) => Action::Deleted,
        _ => return Ok(None),
    };
    match git.path {
        Some(path) => Ok(Some(FilePatch {
            path,
            action,
            hunks: Vec::new(),
        })),
        None => Err(lines.invalid("a file without a name that can be read")),
    }
}

/// The path in `a/path b/path`, if both are the same.
fn same_path(paths: &str) -> Option<String> {
    let (old, new) = paths.split_at_checked(paths.len() / 2)?;
    let old = old.strip_prefix("a/")?;
    let new = new.strip_prefix(" b/")?;
    (old == new).then(|| old.to_owned())
}

/// Parses `--- old`, `+++ new` and the hunks.
fn named(lines: &mut Lines<'_>) -> Result<FilePatch, ToolError> {
    let old = name(lines, "--- ")?;
    let new = name(lines, "+++ ")?;
    let (path, action) = match (old, new) {
        (None, None) => return Err(lines.invalid("both names are /dev/null")),
        (None, Some(new)) => (without(&new, "b/"), Action::Created),
        (Some(old), None) => (without(&old, "a/"), Action::Deleted),
        (Some(old), Some(new)) => match (old.strip_prefix("a/"), new.strip_prefix("b/")) {
            (Some(old), Some(new)) => (one(lines, old, new)?, Action::Modified),
            _ => (one(lines, &old, &new)?, Action::Modified),
        },
    };
    let mut hunks = Vec::new();
    while lines.peek().is_some_and(|line| line.starts_with("@@ ")) {
        hunks.push(hunk(lines)?);
    }
    if hunks.is_empty() {
        Err(lines.invalid(format!("{path} has no hunks")))
    } else {
        Ok(FilePatch {
            path,
            action,
            hunks,
        })
    }
}

/// The name on a line; `None` for /dev/null. A tab ends the name, because a timestamp follows it.
fn name(lines: &mut Lines<'_>, mark: &str) -> Result<Option<String>, ToolError> {
    let line = lines.pop().unwrap_or_default();
    let Some(rest) = line.strip_prefix(mark) else {
        return Err(lines.invalid(format!(
            "expected a line that begins with `{}`",
            mark.trim_end()
        )));
    };
    let name = rest.split('\t').next().unwrap_or_default().trim_end();
    match name {
        "" => Err(lines.invalid("no name")),
        _ if name.starts_with('"') => Err(lines.invalid("a name in quotes: write it as it is")),
        "/dev/null" => Ok(None),
        _ => Ok(Some(name.to_owned())),
    }
}

fn without(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_owned()
}

fn one(lines: &Lines<'_>, old: &str, new: &str) -> Result<String, ToolError> {
    if old == new {
        Ok(new.to_owned())
    } else {
        Err(lines.invalid(format!(
            "{old} would become {new}: a rename cannot be applied here"
        )))
    }
}

fn hunk(lines: &mut Lines<'_>) -> Result<Hunk, ToolError> {
    let header = lines.pop().unwrap_or_default();
    let Some((old, new)) = ranges(header) else {
        return Err(lines.invalid("expected `@@ -line,count +line,count @@`"));
    };
    let mut hunk = Hunk {
        old_start: old.0,
        ..Hunk::default()
    };
    let mut old_left = old.1;
    let mut new_left = new.1;
    while old_left > 0 || new_left > 0 {
        let Some(line) = lines.pop() else {
            return Err(lines.invalid(count_error(old_left, new_left)));
        };
        let (mark, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        let counters: &mut [&mut usize] = match mark {
            // Many tools drop the space at the start of an empty context line.
            " " => &mut [&mut old_left, &mut new_left],
            "-" => &mut [&mut old_left],
            "+" => &mut [&mut new_left],
            "\\" => {
                open_end(lines, &mut hunk)?;
                continue;
            }
            _ => return Err(lines.invalid(count_error(old_left, new_left))),
        };
        for counter in counters {
            match counter.checked_sub(1) {
                Some(left) => **counter = left,
                None => {
                    return Err(lines.invalid("the hunk has more lines than its `@@` line says"));
                }
            }
        }
        hunk.lines.push(match mark {
            "-" => Line::Removed(text.to_owned()),
            "+" => Line::Added(text.to_owned()),
            _ => Line::Context(text.to_owned()),
        });
    }
    if lines.peek().is_some_and(|line| line.starts_with('\\')) {
        lines.pop();
        open_end(lines, &mut hunk)?;
    }
    Ok(hunk)
}

/// Handles `\ No newline at end of file`. After a removed line it concerns the old file, and is ignored.
fn open_end(lines: &Lines<'_>, hunk: &mut Hunk) -> Result<(), ToolError> {
    match hunk.lines.last() {
        Some(Line::Removed(_)) => {}
        Some(_) => hunk.open_end = true,
        None => return Err(lines.invalid("a word about the end of a line that is not there")),
    }
    Ok(())
}

fn count_error(old_left: usize, new_left: usize) -> String {
    format!(
        "the hunk ends too early: by its `@@` line, {old_left} old and {new_left} new lines are missing"
    )
}

/// More lines than any file has, and small enough to rule out overflow.
const LINES_MAX: usize = 100_000_000;

/// Parses `@@ -1,2 +3,4 @@`, where a count of 1 may be omitted.
fn ranges(header: &str) -> Option<((usize, usize), (usize, usize))> {
    let inner = header.strip_prefix("@@ -")?;
    let (inner, _) = inner.split_once(" @@")?;
    let (old, new) = inner.split_once(" +")?;
    let number = |text: &str| text.parse().ok().filter(|number| *number <= LINES_MAX);
    let range = |text: &str| match text.split_once(',') {
        Some((start, count)) => Some((number(start)?, number(count)?)),
        None => Some((number(text)?, 1)),
    };
    Some((range(old)?, range(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(diff: &str) -> String {
        parse(diff)
            .err()
            .map(|error| error.message)
            .unwrap_or_default()
    }

    #[test]
    fn several_files_with_text_around_them() {
        let patches = parse(concat!(
            "From: somebody\n\nA message.\n\ndiff --git a/x.txt b/x.txt\nindex 1..2 100644\n",
            "--- a/x.txt\n+++ b/x.txt\n@@ -1,2 +1,2 @@ fn x()\n one\n-two\n+2\n",
            "--- /dev/null\t1970-01-01\n+++ b/new.txt\t2026-01-01\n@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n",
            "diff --git a/old.txt b/old.txt\ndeleted file mode 100644\n--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n",
        ))
        .unwrap();
        let seen: Vec<_> = patches
            .iter()
            .map(|patch| (patch.path.as_str(), patch.action))
            .collect();
        let expected = [
            ("x.txt", Action::Modified),
            ("new.txt", Action::Created),
            ("old.txt", Action::Deleted),
        ];
        assert_eq!(seen, expected);
        assert_eq!(patches[0].hunks[0].old(), ["one", "two"]);
        assert!(patches[1].hunks[0].open_end);
    }

    #[test]
    fn empty_files_come_and_go_by_their_git_header() {
        let patches = parse(concat!(
            "diff --git a/m/__init__.py b/m/__init__.py\nnew file mode 100644\nindex 0..1\n",
            "diff --git a/gone b/gone\ndeleted file mode 100644\n",
        ))
        .unwrap();
        let seen: Vec<_> = patches
            .iter()
            .map(|patch| (patch.path.as_str(), patch.action))
            .collect();
        assert_eq!(
            seen,
            [
                ("m/__init__.py", Action::Created),
                ("gone", Action::Deleted)
            ]
        );
    }

    #[test]
    fn a_line_that_looks_like_a_header_is_a_line_of_the_hunk() {
        let patches =
            parse("--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,1 @@\n--- comment\n select\n").unwrap();
        assert_eq!(
            patches[0].hunks[0].lines[0],
            Line::Removed("-- comment".to_owned())
        );
    }

    #[test]
    fn what_is_no_diff_is_refused_with_the_line() {
        assert!(refusal("hello").starts_with("the diff changes no file"));
        assert!(
            refusal("--- a/x\n@@ -1 +1 @@\n")
                .starts_with("line 2 of the diff: expected a line that begins with `+++`")
        );
        assert!(refusal("--- a/x\n+++ b/x\n").contains("x has no hunks"));
        assert!(
            refusal("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n")
                .contains("1 old and 1 new lines are missing")
        );
        assert!(refusal("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n-b\n+c\n").contains("more lines than"));
        assert!(
            refusal("--- a/x\n+++ b/x\n@@ -99999999999999999 +1 @@\n-a\n+b\n")
                .contains("expected `@@")
        );
        assert!(refusal("@@ -1 +1 @@\n-a\n+b\n").contains("a hunk without"));
        assert!(refusal("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n").contains("a rename cannot"));
        assert!(
            refusal("diff --git a/x b/y\nrename from x\nrename to y\n")
                .contains("a rename or a copy")
        );
        let twice = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n".repeat(2);
        assert!(refusal(&twice).contains("x is changed twice"));
    }
}
