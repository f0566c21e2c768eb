use std::path::Path;

use toolcell_guest::{Output, ToolError, data, tool};

use crate::{
    closest::closest,
    store::{self, FILE_BYTES_MAX, too_large},
};

/// Maximum number of places that an error names.
const PLACES_SHOWN: usize = 10;

#[data]
pub(crate) struct Edits {
    /// The file.
    path: String,
    /// What to replace. Edits apply in order, each to the result of the one before.
    #[schemars(length(min = 1, max = 100))]
    edits: Vec<Edit>,
}

#[data]
pub(crate) struct Edit {
    /// The text to replace, exactly as it is in the file, with enough around it to occur only once.
    old: String,
    /// The text to put in its place.
    new: String,
    /// Replace every occurrence instead of the only one.
    #[serde(default)]
    all: bool,
}

#[data]
pub(crate) struct Edited {
    path: String,
    /// The number of places that each edit replaced.
    replaced: Vec<u64>,
    /// The size of the file.
    bytes: u64,
}

/// Replaces parts of a text file, all of them or none.
///
/// Each `old` must occur exactly once, unless `all` is set. If one edit fails, nothing is written. A file whose lines all
/// end with `\r\n` takes edits with `\n`.
#[tool(
    kind = "file_operation",
    search_hint = "edit replace change part of text file",
    access = ["file_read", "file_write"],
    write_effects = ["local_persistent"],
    risk = "medium",
    paths = ["path"],
    content = ["text"],
    read_only = false,
    destructive,
    validate = makes_sense
)]
pub(crate) fn edit(input: Edits) -> Result<Output<Edited>, ToolError> {
    makes_sense(&input)?;
    let path = Path::new(&input.path);
    let before = store::load(path)?;
    let (after, replaced) = apply(path, &before, &input.edits)?;
    store::replace(path, Some(&before), &after)?;
    let bytes = after.len() as u64;
    let places: u64 = replaced.iter().sum();
    let text = format!(
        "edited {} (places replaced: {places}; {bytes} bytes)",
        input.path
    );
    Ok(Output::new().text(text).structured(Edited {
        path: input.path,
        replaced,
        bytes,
    }))
}

/// Checks, before an approver is asked, that each edit replaces something with something else.
fn makes_sense(input: &Edits) -> Result<(), ToolError> {
    for (number, edit) in (1..).zip(&input.edits) {
        let (code, what) = if edit.old.is_empty() {
            (
                "old_empty",
                "`old` is empty; to fill an empty file, use `write`",
            )
        } else if edit.old == edit.new {
            ("edit_changes_nothing", "`old` and `new` are the same")
        } else {
            continue;
        };
        let place = Position {
            path: Path::new(&input.path),
            number,
            count: input.edits.len(),
        };
        return Err(place.refuse(code, what));
    }
    Ok(())
}

/// The text with all edits applied, and the number of places that each replaced.
fn apply(path: &Path, text: &str, edits: &[Edit]) -> Result<(String, Vec<u64>), ToolError> {
    // Models often lose the `\r` of the lines that they read.
    let is_windows = has_windows_lines(text)
        && !edits
            .iter()
            .any(|edit| edit.old.contains('\r') || edit.new.contains('\r'));
    let mut text = if is_windows {
        text.replace("\r\n", "\n")
    } else {
        text.to_owned()
    };
    let mut replaced = Vec::new();
    for (number, edit) in (1..).zip(edits) {
        let place = Position {
            path,
            number,
            count: edits.len(),
        };
        let count = place.count(&text, edit)?;
        let left = text.len() as u64 - count * edit.old.len() as u64;
        // Checked before the text is built, because many short occurrences can grow beyond the memory.
        if left.saturating_add(count.saturating_mul(edit.new.len() as u64)) > FILE_BYTES_MAX {
            return Err(too_large(path, "would be"));
        }
        text = text.replace(&edit.old, &edit.new);
        replaced.push(count);
    }
    if is_windows {
        let ends = text.bytes().filter(|byte| *byte == b'\n').count();
        if (text.len() + ends) as u64 > FILE_BYTES_MAX {
            return Err(too_large(path, "would be"));
        }
        text = text.replace('\n', "\r\n");
    }
    Ok((text, replaced))
}

/// Whether there are lines, and all of them end with `\r\n`.
fn has_windows_lines(text: &str) -> bool {
    let mut ends = text.match_indices('\n').peekable();
    ends.peek().is_some() && ends.all(|(at, _)| text[..at].ends_with('\r'))
}

/// Which edit it is, for errors.
struct Position<'p> {
    path: &'p Path,
    number: usize,
    count: usize,
}

impl Position<'_> {
    /// The number of places that the edit replaces. Fails if `old` does not occur, or more often than it may.
    fn count(&self, text: &str, edit: &Edit) -> Result<u64, ToolError> {
        let found = Occurrences::of(&edit.old, text);
        match found.count {
            0 => {
                let closest = closest(text, &edit.old);
                Err(self.refuse("old_not_found", &format!("`old` does not occur; {closest}")))
            }
            1 => Ok(1),
            count if edit.all && !found.overlap => Ok(count),
            count if edit.all => Ok(count - 1),
            _ => Err(self.refuse(
                "old_ambiguous",
                &format!(
                    "`old` occurs {} times, in lines {}; add text around it, or set `all`",
                    found.count,
                    found.lines()
                ),
            )),
        }
    }

    fn refuse(&self, code: &str, what: &str) -> ToolError {
        let which = match self.count {
            1 => String::new(),
            count => format!(" edit {} of {count}:", self.number),
        };
        // Its line numbers are not those of the file if an edit before added or removed lines.
        let after = match self.number {
            1 => "",
            _ => " (in the text after the edits before it)",
        };
        let message = format!(
            "{}:{which} {what}{after}; nothing was changed",
            self.path.display()
        );
        ToolError::invalid_arguments(code, message)
    }
}

/// Where a text occurs.
struct Occurrences {
    count: u64,
    /// The lines of the first ones.
    first: Vec<usize>,
    /// Whether the last one counted overlaps the one before, so that both cannot be replaced.
    overlap: bool,
}

impl Occurrences {
    fn of(old: &str, text: &str) -> Self {
        let mut found = Self {
            count: 0,
            first: Vec::new(),
            overlap: false,
        };
        let mut line = 1;
        let mut counted = 0;
        let mut last = 0;
        for (at, _) in text.match_indices(old) {
            if found.first.len() < PLACES_SHOWN {
                line += newlines(&text[counted..at]);
                counted = at;
                found.first.push(line);
            }
            found.count += 1;
            last = at;
        }
        // `aa` is twice in `aaa`, although only one of them can be replaced.
        let next = last + old.chars().next().map_or(0, char::len_utf8);
        if found.count == 1
            && let Some(at) = text[next..].find(old)
        {
            found.first.push(line + newlines(&text[last..next + at]));
            found.count = 2;
            found.overlap = true;
        }
        found
    }

    fn lines(&self) -> String {
        let mut lines: Vec<String> = self.first.iter().map(usize::to_string).collect();
        let more = self.count - self.first.len() as u64;
        let last = match more {
            0 => lines.pop().unwrap_or_default(),
            more => format!("{more} more"),
        };
        format!("{} and {last}", lines.join(", "))
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests;
