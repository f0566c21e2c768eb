use gix::ObjectId;
use gix::revision::walk::Sorting;
use gix::traverse::commit::simple::CommitTimeOrder;
use toolcell_guest::{Output, ToolError, cancellation, data, tool};

use crate::commit::Commit;
use crate::head;
use crate::repository::{self, damaged};

#[data]
pub(crate) struct Log {
    /// The folder of the repository.
    path: String,
    /// The commit to begin with: a branch, a tag, an id, or an expression such as `HEAD~3`.
    #[serde(default = "head")]
    revision: String,
    /// Leave out this commit and everything before it.
    #[serde(default)]
    since: Option<String>,
    /// Only commits that change this file or folder, named from the top of the repository.
    #[serde(default)]
    file: Option<String>,
    /// Only commits whose author has this in the name or the email address, in any case.
    #[serde(default)]
    author: Option<String>,
    /// Only commits with this in the message, in any case.
    #[serde(default)]
    message: Option<String>,
    /// Maximum number of commits.
    #[serde(default = "commits_max")]
    #[schemars(range(min = 1, max = 1_000))]
    limit: u32,
}

fn commits_max() -> u32 {
    20
}

#[data]
pub(crate) struct Commits {
    /// The newest one first.
    commits: Vec<Commit>,
    /// There are more: begin with the parents of the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// Lists commits of a git repository, the newest first.
#[tool(
    kind = "file_operation",
    search_hint = "git log history commits author",
    access = ["file_read"],
    paths = ["path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
pub(crate) fn log(input: Log) -> Result<Output<Commits>, ToolError> {
    let repository = repository::open(&input.path)?;
    let start = repository::commit(&repository, &input.revision)?;
    let order = Sorting::ByCommitTime(CommitTimeOrder::NewestFirst);
    let mut walk = repository.rev_walk([start.id]).sorting(order);
    if let Some(since) = &input.since {
        walk = walk.with_hidden([repository::commit(&repository, since)?.id]);
    }
    let wanted = Wanted::new(&input);
    let mut commits = Vec::new();
    let mut truncated = false;
    for found in walk.all().map_err(damaged)? {
        cancellation::check()?;
        let commit = found.and_then(|info| info.object()).map_err(damaged)?;
        if !wanted.has(&commit)? {
            continue;
        }
        if commits.len() == input.limit as usize {
            truncated = true;
            break;
        }
        commits.push(Commit::new(&commit)?);
    }
    let rendered: Vec<String> = commits.iter().map(Commit::render).collect();
    let mut text = rendered.join("\n");
    if truncated {
        text.push_str("\n(there are more)");
    }
    let text = match text.is_empty() {
        true => "no commits".to_owned(),
        false => text,
    };
    Ok(Output::new()
        .text(text)
        .structured(Commits { commits, truncated }))
}

struct Wanted<'a> {
    file: Option<&'a str>,
    author: Option<String>,
    message: Option<String>,
}

impl<'a> Wanted<'a> {
    fn new(input: &'a Log) -> Self {
        let lowercase = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
        Self {
            file: input.file.as_deref().map(|file| file.trim_end_matches('/')),
            author: lowercase(&input.author),
            message: lowercase(&input.message),
        }
    }

    fn has(&self, commit: &gix::Commit<'_>) -> Result<bool, ToolError> {
        if let Some(wanted) = &self.author {
            let author = commit.author().map_err(damaged)?;
            let author = format!("{} <{}>", author.name, author.email).to_lowercase();
            if !author.contains(wanted) {
                return Ok(false);
            }
        }
        if let Some(wanted) = &self.message {
            let message = commit.message_raw_sloppy().to_string().to_lowercase();
            if !message.contains(wanted) {
                return Ok(false);
            }
        }
        match self.file {
            Some(file) => changes(commit, file),
            None => Ok(true),
        }
    }
}

/// As git sees it: a merge that takes the file of one parent does not change it.
fn changes(commit: &gix::Commit<'_>, file: &str) -> Result<bool, ToolError> {
    let now = entry(commit, file)?;
    let parents = repository::parents(commit)?;
    for parent in &parents {
        if entry(parent, file)? == now {
            return Ok(false);
        }
    }
    Ok(!parents.is_empty() || now.is_some())
}

fn entry(commit: &gix::Commit<'_>, file: &str) -> Result<Option<ObjectId>, ToolError> {
    let tree = commit.tree().map_err(damaged)?;
    let entry = tree.lookup_entry_by_path(file).map_err(damaged)?;
    Ok(entry.map(|entry| entry.object_id()))
}
