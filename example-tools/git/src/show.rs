use gix::bstr::ByteSlice;
use gix::object::Kind;
use gix::{Object, Repository};
use toolcell_guest::{Output, ToolError, data, tool};

use crate::commit::Commit;
use crate::patch::{ChangedFile, Patch};
use crate::repository::{self, damaged};
use crate::{chars_max, head};

/// Maximum number of entries of a folder in an answer.
const ENTRIES_MAX: usize = 2_000;
const CONTEXT_LINES: u32 = 3;
/// Maximum size of a file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 32 << 20;

#[data]
pub(crate) struct Show {
    /// The folder of the repository.
    path: String,
    /// A commit (`HEAD~2`, a branch, a tag, an id), or a file or folder in one: `HEAD:src/main.rs`.
    #[serde(default = "head")]
    revision: String,
    /// Maximum number of characters of the patch, or of the file. Default: 50,000.
    #[serde(default = "chars_max")]
    #[schemars(range(min = 1, max = 1_000_000))]
    max_chars: u32,
}

#[data]
#[derive(Default)]
pub(crate) struct Shown {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commit: Option<Commit>,
    /// Files that the commit changed, compared with its first parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<Vec<ChangedFile>>,
    /// Names in a folder; the name of a folder ends with `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<String>>,
    /// The size of a file, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// `true` if there is more than the answer has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// Shows a commit of a git repository with its changes, or a file or folder as it was in a commit.
#[tool(
    kind = "file_operation",
    search_hint = "git show commit patch file at revision",
    access = ["file_read"],
    paths = ["path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
pub(crate) fn show(input: Show) -> Result<Output<Shown>, ToolError> {
    let repository = repository::open(&input.path)?;
    let id = repository::id(&repository, &input.revision)?;
    let size = id.header().map_err(damaged)?.size();
    if size > FILE_BYTES_MAX {
        let message = format!(
            "{} has {size} bytes, more than {FILE_BYTES_MAX}",
            input.revision
        );
        return Err(ToolError::capability_gap("file_too_large", message));
    }
    let object = id.object().map_err(damaged)?;
    let (text, shown) = match object.kind {
        Kind::Blob => file(&object, size, input.max_chars as usize),
        Kind::Tree => folder(object)?,
        Kind::Commit | Kind::Tag => commit(&repository, &input)?,
    };
    Ok(Output::new().text(text).structured(shown))
}

fn file(object: &Object<'_>, size: u64, max_chars: usize) -> (String, Shown) {
    let mut shown = Shown {
        id: object.id.to_string(),
        size: Some(size),
        ..Shown::default()
    };
    let Ok(text) = object.data.to_str() else {
        return (format!("(no text: {size} bytes)"), shown);
    };
    let end = text.char_indices().nth(max_chars).map(|(end, _)| end);
    shown.truncated = end.is_some();
    let text = match end {
        Some(end) => format!("{}\n(there is more)", &text[..end]),
        None => text.to_owned(),
    };
    (text, shown)
}

fn folder(object: Object<'_>) -> Result<(String, Shown), ToolError> {
    let id = object.id.to_string();
    let tree = object.into_tree();
    let mut entries = Vec::new();
    let mut truncated = false;
    for entry in tree.iter() {
        let entry = entry.map_err(damaged)?;
        if entries.len() == ENTRIES_MAX {
            truncated = true;
            break;
        }
        let end = if entry.mode().is_tree() { "/" } else { "" };
        entries.push(format!("{}{end}", entry.filename()));
    }
    let shown = Shown {
        id,
        truncated,
        entries: Some(entries.clone()),
        ..Shown::default()
    };
    Ok((entries.join("\n"), shown))
}

fn commit(repository: &Repository, input: &Show) -> Result<(String, Shown), ToolError> {
    let found = repository::commit(repository, &input.revision)?;
    let new = found.tree().map_err(damaged)?;
    let parents = repository::parents(&found)?;
    let old = match parents.first() {
        Some(parent) => Some(parent.tree().map_err(damaged)?),
        None => None,
    };
    let mut patch = Patch::new(repository, false, CONTEXT_LINES, input.max_chars)?;
    patch.add_trees(repository, old.as_ref(), Some(&new), None)?;
    let commit = Commit::new(&found)?;
    let mut text = format!("{}\n{}", commit.render(), patch.text);
    if patch.truncated {
        text.push_str("(there is more)");
    }
    let shown = Shown {
        id: commit.id.clone(),
        commit: Some(commit),
        files: Some(patch.files),
        truncated: patch.truncated,
        ..Shown::default()
    };
    Ok((text, shown))
}
