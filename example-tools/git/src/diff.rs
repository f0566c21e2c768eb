use std::collections::BTreeSet;
use std::path::Path;

use gix::bstr::{BStr, BString};
use gix::object::tree::EntryKind;
use gix::{ObjectId, Repository, Tree};
use toolcell_guest::{Output, ToolError, data, tool};

use crate::patch::{Change, ChangedFile, Patch, Version};
use crate::repository::{self, damaged};
use crate::status::{changed_paths, staged};
use crate::{chars_max, head};

#[data]
pub(crate) struct Diff {
    /// The folder of the repository.
    path: String,
    /// The commit before the changes.
    #[serde(default = "head")]
    from: String,
    /// The commit after the changes. Default: the files in the folder.
    #[serde(default)]
    to: Option<String>,
    /// The changes since `HEAD` that are staged for the next commit.
    #[serde(default)]
    staged: bool,
    /// Only this file or folder, named from the top of the repository.
    #[serde(default)]
    file: Option<String>,
    /// Number of unchanged lines around each change.
    #[serde(default = "context")]
    #[schemars(range(max = 100))]
    context: u32,
    /// Maximum number of characters of the patch. Default: 50,000.
    #[serde(default = "chars_max")]
    #[schemars(range(min = 1, max = 1_000_000))]
    max_chars: u32,
}

fn context() -> u32 {
    3
}

#[data]
pub(crate) struct Changes {
    files: Vec<ChangedFile>,
    /// `true` if the patch, or the list of files, is longer than the limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// Shows what changed between two commits of a git repository, or since one of them.
///
/// New files that are not staged are no part of it: `status` lists them.
#[tool(
    kind = "file_operation",
    search_hint = "git diff changes patch working tree staged",
    access = ["file_read"],
    paths = ["path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
pub(crate) fn diff(input: Diff) -> Result<Output<Changes>, ToolError> {
    let repository = repository::open(&input.path)?;
    let with_worktree = input.to.is_none() && !input.staged;
    let mut patch = Patch::new(&repository, with_worktree, input.context, input.max_chars)?;
    let file = input.file.as_deref();
    if input.staged {
        if input.to.is_some() || input.from != head() {
            let message = "`staged` is about HEAD and the next commit: leave out `from` and `to`";
            return Err(ToolError::invalid_arguments("two_questions", message));
        }
        for change in staged(&repository)? {
            if change.is_below(file) {
                patch.add(&repository, &change)?;
            }
        }
    } else {
        let old = repository::commit(&repository, &input.from)?
            .tree()
            .map_err(damaged)?;
        match &input.to {
            Some(to) => {
                let new = repository::commit(&repository, to)?.tree();
                patch.add_trees(&repository, Some(&old), Some(&new.map_err(damaged)?), file)?;
            }
            None => add_worktree(&mut patch, &repository, &old, file)?,
        }
    }
    let mut text = patch.text;
    if patch.truncated {
        text.push_str("(there is more)");
    } else if text.is_empty() {
        text.push_str("no changes");
    }
    Ok(Output::new().text(text).structured(Changes {
        files: patch.files,
        truncated: patch.truncated,
    }))
}

fn add_worktree(
    patch: &mut Patch,
    repository: &Repository,
    old: &Tree<'_>,
    file: Option<&str>,
) -> Result<(), ToolError> {
    let Some(folder) = repository.workdir() else {
        let message = "this repository has no files beside its history: name two commits";
        return Err(ToolError::invalid_arguments("bare_repository", message));
    };
    let mut paths: BTreeSet<BString> = changed_paths(repository)?;
    if let Some(head) = repository::checked_out(repository)? {
        let head = repository
            .find_commit(head)
            .and_then(|head| head.tree())
            .map_err(damaged)?;
        for change in repository
            .diff_tree_to_tree(Some(old), Some(&head), gix::diff::Options::default())
            .map_err(damaged)?
        {
            paths.insert(change.location().to_owned());
        }
    }
    for path in paths {
        let change = Change {
            old: in_tree(old, &path)?,
            new: in_folder(repository, folder, path)?,
        };
        if change.is_below(file) {
            patch.add(repository, &change)?;
        }
    }
    Ok(())
}

fn in_tree(tree: &Tree<'_>, path: &BString) -> Result<Option<Version>, ToolError> {
    let names = path.split(|byte| *byte == b'/');
    let entry = tree.lookup_entry(names).map_err(damaged)?;
    Ok(entry.and_then(|entry| Version::new(path.clone(), entry.object_id(), entry.mode())))
}

fn in_folder(
    repository: &Repository,
    folder: &Path,
    path: BString,
) -> Result<Option<Version>, ToolError> {
    let file = folder.join(gix::path::from_bstr(BStr::new(&path)).map_err(damaged)?);
    let Ok(metadata) = file.symlink_metadata() else {
        return Ok(None);
    };
    let kind = if metadata.is_symlink() {
        EntryKind::Link
    } else if metadata.is_file() {
        // WASI has no executable bit.
        known_kind(repository, &path)?.unwrap_or(EntryKind::Blob)
    } else {
        return Ok(None);
    };
    Ok(Some(Version {
        path,
        id: ObjectId::null(repository.object_hash()),
        kind,
    }))
}

/// The kind of a file in the index.
fn known_kind(repository: &Repository, path: &BString) -> Result<Option<EntryKind>, ToolError> {
    let index = repository.index_or_empty().map_err(damaged)?;
    let entry = index.entry_by_path(BStr::new(path));
    let mode = entry.and_then(|entry| entry.mode.to_tree_entry_mode());
    Ok(mode
        .map(|mode| mode.kind())
        .filter(|kind| *kind != EntryKind::Link))
}
