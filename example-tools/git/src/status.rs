use std::collections::{BTreeMap, BTreeSet};

use gix::Repository;
use gix::bstr::BString;
use gix::diff::index::Change as IndexChange;
use gix::status::index_worktree::iter::Summary;
use gix::status::{Item, Submodule, UntrackedFiles};
use toolcell_guest::{Output, ToolError, data, tool};

use crate::patch::{Change, Version};
use crate::repository::{self, damaged};

/// Maximum number of files in an answer.
const FILES_MAX: usize = 1_000;

#[data]
pub(crate) struct Folder {
    /// The folder of the repository.
    path: String,
}

#[data]
pub(crate) struct State {
    /// `None` if a commit is checked out, and no branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    /// The id of the commit that is checked out. Absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    files: Vec<FileState>,
    /// `true` if there are more files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[data]
#[derive(Default)]
pub(crate) struct FileState {
    /// Named from the top of the repository; a folder of new files ends with `/`.
    path: String,
    /// The change since `HEAD` that is staged for the next commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    staged: Option<String>,
    /// The change that is not staged, `untracked` for a new file, or `conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unstaged: Option<String>,
}

/// Tells which files of a git repository were changed, staged or added since the last commit, and the branch.
#[tool(
    kind = "file_operation",
    search_hint = "git status branch changed untracked staged files",
    access = ["file_read"],
    paths = ["path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
pub(crate) fn status(input: Folder) -> Result<Output<State>, ToolError> {
    let repository = repository::open(&input.path)?;
    let branch = repository.head_name().map_err(damaged)?;
    let head = repository::checked_out(&repository)?;
    let mut files = BTreeMap::new();
    for item in items(&repository, UntrackedFiles::Collapsed)? {
        note(&mut files, &item);
    }
    let truncated = files.len() > FILES_MAX;
    let state = State {
        branch: branch.map(|name| name.shorten().to_string()),
        head: head.map(|id| id.to_string()),
        files: files.into_values().take(FILES_MAX).collect(),
        truncated,
    };
    Ok(Output::new().text(render(&state)).structured(state))
}

fn note(files: &mut BTreeMap<String, FileState>, item: &Item) {
    let mut path = item.location().to_string();
    let (staged, unstaged) = match item {
        Item::TreeIndex(change) => {
            let word = match change {
                IndexChange::Addition { .. } => "added",
                IndexChange::Deletion { .. } => "deleted",
                IndexChange::Modification { .. } => "modified",
                IndexChange::Rewrite { copy: true, .. } => "copied",
                IndexChange::Rewrite { .. } => "renamed",
            };
            (Some(word), None)
        }
        Item::IndexWorktree(change) => {
            let Some(summary) = change.summary() else {
                return;
            };
            if let gix::status::index_worktree::Item::DirectoryContents { entry, .. } = change
                && entry.disk_kind.is_some_and(|kind| kind.is_dir())
            {
                path.push('/');
            }
            let word = match summary {
                Summary::Removed => "deleted",
                Summary::Added => "untracked",
                Summary::Modified => "modified",
                Summary::TypeChange => "type_changed",
                Summary::Renamed => "renamed",
                Summary::Copied => "copied",
                Summary::IntentToAdd => "added",
                Summary::Conflict => "conflict",
            };
            (None, Some(word))
        }
    };
    let file = files.entry(path.clone()).or_default();
    file.path = path;
    file.staged = staged.map(str::to_owned).or(file.staged.take());
    file.unstaged = unstaged.map(str::to_owned).or(file.unstaged.take());
}

fn render(state: &State) -> String {
    let mut text = match (&state.branch, &state.head) {
        (Some(branch), Some(_)) => format!("on branch {branch}\n"),
        (Some(branch), None) => format!("on branch {branch}, without commits\n"),
        (None, Some(head)) => format!("at {head}, on no branch\n"),
        (None, None) => String::new(),
    };
    for file in &state.files {
        let parts = [
            file.staged.as_ref().map(|word| format!("{word}, staged")),
            file.unstaged.clone(),
        ];
        let words: Vec<String> = parts.into_iter().flatten().collect();
        text.push_str(&format!("{}: {}\n", words.join("; "), file.path));
    }
    if state.files.is_empty() {
        text.push_str("nothing changed\n");
    } else if state.truncated {
        text.push_str("(there are more)\n");
    }
    text
}

fn items(repository: &Repository, untracked: UntrackedFiles) -> Result<Vec<Item>, ToolError> {
    let status = repository
        .status(gix::progress::Discard)
        .map_err(damaged)?
        .untracked_files(untracked)
        // They are repositories of their own.
        .index_worktree_submodules(Submodule::Given {
            ignore: gix::submodule::config::Ignore::All,
            check_dirty: false,
        });
    let items = status.into_iter(Vec::new()).map_err(damaged)?;
    items.map(|item| item.map_err(damaged)).collect()
}

/// Files that differ from `HEAD` or from what is staged.
pub(crate) fn changed_paths(repository: &Repository) -> Result<BTreeSet<BString>, ToolError> {
    let items = items(repository, UntrackedFiles::None)?;
    let mut paths = BTreeSet::new();
    for item in items {
        paths.insert(item.location().to_owned());
        if let Item::TreeIndex(IndexChange::Rewrite {
            source_location, ..
        }) = item
        {
            paths.insert(source_location.into_owned());
        }
    }
    Ok(paths)
}

/// Changes between `HEAD` and the index.
pub(crate) fn staged(repository: &Repository) -> Result<Vec<Change>, ToolError> {
    let items = items(repository, UntrackedFiles::None)?;
    let changes = items.into_iter().filter_map(|item| match item {
        Item::TreeIndex(change) => Some(of_index(change)),
        Item::IndexWorktree(_) => None,
    });
    Ok(changes.collect())
}

fn of_index(change: IndexChange) -> Change {
    let version = |path: &BString, id, mode: gix::index::entry::Mode| {
        Version::new(path.clone(), id, mode.to_tree_entry_mode()?)
    };
    let path = change.location().to_owned();
    let (old, new) = match change {
        IndexChange::Addition { entry_mode, id, .. } => {
            (None, version(&path, id.into_owned(), entry_mode))
        }
        IndexChange::Deletion { entry_mode, id, .. } => {
            (version(&path, id.into_owned(), entry_mode), None)
        }
        IndexChange::Modification {
            previous_entry_mode,
            previous_id,
            entry_mode,
            id,
            ..
        } => (
            version(&path, previous_id.into_owned(), previous_entry_mode),
            version(&path, id.into_owned(), entry_mode),
        ),
        IndexChange::Rewrite {
            source_location,
            source_entry_mode,
            source_id,
            entry_mode,
            id,
            ..
        } => (
            version(
                &source_location.into_owned(),
                source_id.into_owned(),
                source_entry_mode,
            ),
            version(&path, id.into_owned(), entry_mode),
        ),
    };
    Change { old, new }
}
