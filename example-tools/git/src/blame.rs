use std::collections::HashMap;
use std::collections::hash_map::Entry;

use gix::bstr::ByteSlice;
use gix::repository::blame_file::Options;
use gix::{ObjectId, Repository};
use toolcell_guest::{Output, ToolError, data, tool};

use crate::commit::Commit;
use crate::head;
use crate::repository::{self, damaged};

/// Maximum number of lines in an answer.
const LINES_MAX: u32 = 2_000;

#[data]
pub(crate) struct Blame {
    /// The folder of the repository.
    path: String,
    /// The file, named from the top of the repository.
    file: String,
    /// The commit whose file it is.
    #[serde(default = "head")]
    revision: String,
    /// The first line, from 1 on.
    #[serde(default = "first")]
    #[schemars(range(min = 1))]
    first: u32,
    /// The last line. Default: the last one of the file, but at most 2,000 lines.
    #[serde(default)]
    #[schemars(range(min = 1))]
    last: Option<u32>,
}

fn first() -> u32 {
    1
}

#[data]
pub(crate) struct Origins {
    parts: Vec<Part>,
    /// The line to continue with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_line: Option<u32>,
}

/// Lines that follow one another and come from one commit.
#[data]
pub(crate) struct Part {
    commit: String,
    author: String,
    date: String,
    subject: String,
    first: u32,
    lines: Vec<String>,
}

/// Tells for each line of a file in a git repository which commit wrote it.
#[tool(
    kind = "file_operation",
    search_hint = "git blame who wrote line author commit",
    access = ["file_read"],
    paths = ["path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
pub(crate) fn blame(input: Blame) -> Result<Output<Origins>, ToolError> {
    let repository = repository::open(&input.path)?;
    let commit = repository::commit(&repository, &input.revision)?;
    let lines = lines_of(&commit, &input)?;
    let end = input.last.unwrap_or(u32::MAX).min(lines.len() as u32);
    if input.first > end {
        let message = format!("{} has {} lines", input.file, lines.len());
        return Err(ToolError::invalid_arguments("no_such_line", message));
    }
    let last = end.min(input.first.saturating_add(LINES_MAX - 1));
    let ranges = gix::blame::BlameRanges::from_one_based_inclusive_range(input.first..=last);
    let options = Options {
        ranges: ranges.map_err(damaged)?,
        rewrites: Some(gix::diff::Rewrites::default()),
        ..Options::default()
    };
    let outcome = repository
        .blame_file(input.file.as_str().into(), commit.id, options)
        .map_err(|error| match repository.is_shallow() {
            Ok(true) => {
                let message =
                    "this clone is shallow: the commits that wrote the file are not in it";
                ToolError::capability_gap("shallow_clone", message)
            }
            _ => damaged(error),
        })?;
    let mut known = HashMap::new();
    let mut parts = Vec::new();
    for entry in outcome.entries {
        let begins = entry.start_in_blamed_file as usize;
        let ends = begins + entry.len.get() as usize;
        let origin = origin(&repository, &mut known, entry.commit_id)?;
        parts.push(Part {
            commit: origin.id.clone(),
            author: origin.author.clone(),
            date: origin.date.clone(),
            subject: origin.subject.clone(),
            first: entry.start_in_blamed_file + 1,
            lines: lines.get(begins..ends).unwrap_or_default().to_vec(),
        });
    }
    let next_line = (last < end).then_some(last + 1);
    let origins = Origins { parts, next_line };
    Ok(Output::new().text(render(&origins)).structured(origins))
}

fn lines_of(commit: &gix::Commit<'_>, input: &Blame) -> Result<Vec<String>, ToolError> {
    let tree = commit.tree().map_err(damaged)?;
    let entry = tree.lookup_entry_by_path(&input.file).map_err(damaged)?;
    let file = entry
        .filter(|entry| entry.mode().is_blob())
        .ok_or_else(|| {
            let message = format!("there is no file {} in {}", input.file, input.revision);
            ToolError::invalid_arguments("no_such_file", message)
        })?;
    let object = file.object().map_err(damaged)?;
    let lines = object
        .data
        .lines()
        .map(|line| line.to_str_lossy().into_owned());
    Ok(lines.collect())
}

fn origin<'a>(
    repository: &Repository,
    known: &'a mut HashMap<ObjectId, Commit>,
    id: ObjectId,
) -> Result<&'a Commit, ToolError> {
    Ok(match known.entry(id) {
        Entry::Occupied(found) => found.into_mut(),
        Entry::Vacant(place) => {
            let commit = repository.find_commit(id).map_err(damaged)?;
            place.insert(Commit::new(&commit)?)
        }
    })
}

fn render(origins: &Origins) -> String {
    let mut text = String::new();
    for part in &origins.parts {
        let commit = &part.commit[..part.commit.len().min(8)];
        text.push_str(&format!(
            "{commit} {} {} {}\n",
            part.author, part.date, part.subject
        ));
        for (number, line) in (part.first..).zip(&part.lines) {
            text.push_str(&format!("{number:>6}  {line}\n"));
        }
    }
    if let Some(next) = origins.next_line {
        text.push_str(&format!("(more from line {next})"));
    }
    text
}
