use std::collections::HashSet;

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
    /// The first line in the old file by the header, counted from 1; 0 for an empty file. `None` if the header has no
    /// numbers.
    pub(crate) old_start: Option<usize>,
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
    let mut paths = HashSet::new();
    while let Some(patch) = file(&mut lines)? {
        if !paths.insert(patch.path.clone()) {
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

    /// The line `distance` lines after the next one.
    fn ahead(&self, distance: usize) -> Option<&'d str> {
        self.lines.get(self.next + distance).copied()
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
    if line.starts_with("@@") {
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
    while at_hunk(lines) {
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

/// Whether a hunk comes next. Blank lines before it are skipped.
fn at_hunk(lines: &mut Lines<'_>) -> bool {
    let blank = blank_lines(lines);
    let is_hunk = lines
        .ahead(blank)
        .is_some_and(|line| line.starts_with("@@"));
    if is_hunk {
        lines.next += blank;
    }
    is_hunk
}

/// The number of blank lines that come next.
fn blank_lines(lines: &Lines<'_>) -> usize {
    lines.lines[lines.next..]
        .iter()
        .take_while(|line| line.is_empty())
        .count()
}

/// Parses a hunk. Its lines are counted as its header says if that fits, because only the counts tell a removed line
/// `-- x` from the header of a file. Otherwise the hunk ends where its lines end, because models miscount.
fn hunk(lines: &mut Lines<'_>) -> Result<Hunk, ToolError> {
    let header = Header::parse(lines.pop().unwrap_or_default());
    let first = lines.next;
    let counted = match header.counts {
        Some((old, new)) => counted(lines, old, new)?,
        None => None,
    };
    let parsed = match counted {
        Some(hunk) => hunk,
        None => {
            lines.next = first;
            uncounted(lines)?
        }
    };
    if parsed.lines.is_empty() {
        return Err(lines.invalid("a hunk without lines"));
    }
    Ok(Hunk {
        old_start: header.old_start,
        ..parsed
    })
}

/// The hunk with as many lines as its header says; `None` if its lines do not fit the counts.
fn counted(lines: &mut Lines<'_>, old: usize, new: usize) -> Result<Option<Hunk>, ToolError> {
    let mut hunk = Hunk::default();
    let (mut old_left, mut new_left) = (old, new);
    while old_left > 0 || new_left > 0 {
        let Some(line) = lines.pop().and_then(Body::parse) else {
            return Ok(None);
        };
        let counters: &mut [&mut usize] = match line {
            Body::OpenEnd => &mut [],
            Body::Line(Line::Context(_)) => &mut [&mut old_left, &mut new_left],
            Body::Line(Line::Removed(_)) => &mut [&mut old_left],
            Body::Line(Line::Added(_)) => &mut [&mut new_left],
        };
        for counter in counters {
            match counter.checked_sub(1) {
                Some(left) => **counter = left,
                None => return Ok(None),
            }
        }
        hunk.push(lines, line)?;
    }
    if lines.peek().is_some_and(|line| line.starts_with('\\')) {
        lines.pop();
        hunk.push(lines, Body::OpenEnd)?;
    }
    Ok(is_end(lines).then_some(hunk))
}

/// Whether no more lines of the hunk follow. A counted hunk with more lines is miscounted; to leave them out would apply
/// half of the change.
fn is_end(lines: &Lines<'_>) -> bool {
    let blank = blank_lines(lines);
    let Some(line) = lines.ahead(blank) else {
        return true;
    };
    // `-- ` begins the signature of a mail.
    !line.starts_with([' ', '+', '-']) || line == "-- " || is_file_header(lines, blank)
}

/// Whether the header of a file is `distance` lines ahead.
fn is_file_header(lines: &Lines<'_>, distance: usize) -> bool {
    let has = |distance, start| {
        lines
            .ahead(distance)
            .is_some_and(|line: &str| line.starts_with(start))
    };
    has(distance, "--- ") && has(distance + 1, "+++ ") && has(distance + 2, "@@")
}

/// Whether no line of the diff, from `distance` lines ahead on, can belong to an uncounted hunk. Only what no forgotten
/// space could explain counts, because the lines after it are left out.
fn is_over(lines: &Lines<'_>, distance: usize) -> bool {
    let Some(line) = lines.ahead(distance) else {
        return true;
    };
    // Models put a diff between fences.
    let is_last_fence = || {
        let rest = &lines.lines[lines.next + distance + 1..];
        line == "```" && rest.iter().all(|line| line.is_empty())
    };
    line.starts_with("@@")
        || line.starts_with("diff -")
        || is_file_header(lines, distance)
        || is_last_fence()
}

/// The hunk up to the next header, or to the end of the diff.
fn uncounted(lines: &mut Lines<'_>) -> Result<Hunk, ToolError> {
    let mut hunk = Hunk::default();
    while let Some(line) = lines.peek() {
        let blank = blank_lines(lines);
        // Blank lines before a header belong to nothing, and less context cannot lead to a wrong place.
        if is_over(lines, blank) {
            lines.next += blank;
            break;
        }
        for _ in 0..blank {
            hunk.push(lines, Body::Line(Line::Context(String::new())))?;
        }
        lines.next += blank;
        if blank > 0 {
            continue;
        }
        lines.pop();
        match Body::parse(line) {
            Some(body) => hunk.push(lines, body)?,
            // To end the hunk here could leave out lines that follow.
            None => {
                return Err(lines.invalid("a line of a hunk must begin with a space, `+` or `-`"));
            }
        }
    }
    Ok(hunk)
}

/// A line below the header of a hunk.
enum Body {
    Line(Line),
    /// `\ No newline at end of file`.
    OpenEnd,
}

impl Body {
    fn parse(line: &str) -> Option<Self> {
        let (mark, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        let text = text.to_owned();
        match mark {
            // Many tools drop the space at the start of an empty context line.
            " " => Some(Self::Line(Line::Context(text))),
            "-" => Some(Self::Line(Line::Removed(text))),
            "+" => Some(Self::Line(Line::Added(text))),
            "\\" => Some(Self::OpenEnd),
            _ => None,
        }
    }
}

impl Hunk {
    fn push(&mut self, lines: &Lines<'_>, body: Body) -> Result<(), ToolError> {
        match (body, self.lines.last()) {
            (Body::Line(line), _) => self.lines.push(line),
            // After a removed line it concerns the old file.
            (Body::OpenEnd, Some(Line::Removed(_))) => {}
            (Body::OpenEnd, Some(_)) => self.open_end = true,
            (Body::OpenEnd, None) => {
                return Err(lines.invalid("a word about the end of a line that is not there"));
            }
        }
        Ok(())
    }
}

/// More lines than any file has, and small enough to rule out overflow.
const LINES_MAX: usize = 100_000_000;

/// The numbers of a line `@@ -1,2 +3,4 @@`, as far as it has any.
#[derive(Debug, Default, PartialEq)]
struct Header {
    old_start: Option<usize>,
    /// How many lines the hunk has in the old and in the new file.
    counts: Option<(usize, usize)>,
}

impl Header {
    /// Also takes `@@`, `@@ ... @@` and `@@ fn name`. A count of 1 may be omitted.
    fn parse(line: &str) -> Self {
        let mut words = line.trim_start_matches('@').split_whitespace();
        let old = words.next().and_then(|word| range(word, '-'));
        let new = words.next().and_then(|word| range(word, '+'));
        Self {
            old_start: old.map(|(start, _)| start),
            counts: old.zip(new).map(|(old, new)| (old.1, new.1)),
        }
    }
}

/// The start and the count in `-1,2`.
fn range(word: &str, mark: char) -> Option<(usize, usize)> {
    let number = |text: &str| text.parse().ok().filter(|number| *number <= LINES_MAX);
    let word = word.strip_prefix(mark)?.trim_end_matches('@');
    match word.split_once(',') {
        Some((start, count)) => Some((number(start)?, number(count)?)),
        None => Some((number(word)?, 1)),
    }
}

#[cfg(test)]
mod tests;
