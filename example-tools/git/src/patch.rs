//! Differences between files, as git writes them.

use gix::bstr::{BStr, BString, ByteSlice};
use gix::diff::blob::pipeline::{Mode, WorktreeRoots};
use gix::diff::blob::platform::prepare_diff::Operation;
use gix::diff::blob::unified_diff::{ConsumeHunk, ContextSize, DiffLineKind, HunkHeader};
use gix::diff::blob::{
    InternedInput, Platform, ResourceKind, UnifiedDiff, diff_with_slider_heuristics,
};
use gix::object::tree::diff::ChangeDetached;
use gix::object::tree::{EntryKind, EntryMode};
use gix::{ObjectId, Repository, Tree};
use toolcell_guest::{ToolError, cancellation, data};

use crate::repository::damaged;

/// Maximum number of files in an answer.
const FILES_MAX: usize = 1_000;

/// A file before or after a change.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) path: BString,
    /// All zeros for the file of the working tree.
    pub(crate) id: ObjectId,
    pub(crate) kind: EntryKind,
}

impl Version {
    /// `None` for folders, whose files are changes of their own, and for other repositories.
    pub(crate) fn new(path: BString, id: ObjectId, mode: EntryMode) -> Option<Self> {
        mode.is_blob_or_symlink().then(|| Self {
            path,
            id,
            kind: mode.kind(),
        })
    }
}

pub(crate) struct Change {
    pub(crate) old: Option<Version>,
    pub(crate) new: Option<Version>,
}

#[data]
pub(crate) struct ChangedFile {
    /// Named from the top of the repository.
    path: String,
    /// `added`, `deleted`, `modified` or `renamed`.
    change: String,
    /// The name before it was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old_path: Option<String>,
    /// Number of added lines.
    added: u32,
    /// Number of removed lines.
    removed: u32,
    /// The file is no text, or too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    binary: bool,
}

/// A patch while it is written.
pub(crate) struct Patch {
    pub(crate) files: Vec<ChangedFile>,
    pub(crate) text: String,
    /// Something was left out.
    pub(crate) truncated: bool,
    chars_left: usize,
    context: ContextSize,
    cache: Platform,
}

impl Patch {
    /// `with_worktree`: new versions are files of the working tree.
    pub(crate) fn new(
        repository: &Repository,
        with_worktree: bool,
        context: u32,
        max_chars: u32,
    ) -> Result<Self, ToolError> {
        let new_root = repository.workdir().filter(|_| with_worktree);
        let roots = WorktreeRoots {
            old_root: None,
            new_root: new_root.map(ToOwned::to_owned),
        };
        let mut cache = repository
            .diff_resource_cache(Mode::ToGit, roots)
            .map_err(damaged)?;
        // A program that the repository names for it is not there.
        cache.options.skip_internal_diff_if_external_is_configured = false;
        Ok(Self {
            files: Vec::new(),
            text: String::new(),
            truncated: false,
            chars_left: max_chars as usize,
            context: ContextSize::symmetrical(context),
            cache,
        })
    }

    /// Adds what changed between two trees, in files and folders below `file`.
    pub(crate) fn add_trees(
        &mut self,
        repository: &Repository,
        old: Option<&Tree<'_>>,
        new: Option<&Tree<'_>>,
        file: Option<&str>,
    ) -> Result<(), ToolError> {
        let changes = repository
            .diff_tree_to_tree(old, new, None)
            .map_err(damaged)?;
        let mut changes: Vec<Change> = changes.into_iter().map(between_trees).collect();
        changes.retain(|change| change.is_below(file));
        // Renamed files come last otherwise.
        changes.sort_by(|one, other| one.path().cmp(&other.path()));
        for change in &changes {
            self.add(repository, change)?;
        }
        Ok(())
    }

    pub(crate) fn add(
        &mut self,
        repository: &Repository,
        change: &Change,
    ) -> Result<(), ToolError> {
        cancellation::check()?;
        let Some(present) = change.new.as_ref().or(change.old.as_ref()) else {
            return Ok(());
        };
        if self.files.len() == FILES_MAX {
            self.truncated = true;
            return Ok(());
        }
        for (version, side) in [
            (&change.old, ResourceKind::OldOrSource),
            (&change.new, ResourceKind::NewOrDestination),
        ] {
            let absent = Version {
                id: ObjectId::null(repository.object_hash()),
                ..present.clone()
            };
            let Version { path, id, kind } = version.as_ref().unwrap_or(&absent);
            self.cache
                .set_resource(*id, *kind, path.as_ref(), side, &repository.objects)
                .map_err(|error| damaged(error.into_error()))?;
        }
        let mut file = ChangedFile::new(change, present.path.as_ref());
        let head = header(change, present);
        let hunks = self.hunks(&mut file)?;
        // A file whose time alone is another one.
        let is_same = hunks.as_ref().is_some_and(String::is_empty)
            && change.kinds_agree()
            && file.change == "modified";
        self.cache.clear_resource_cache_keep_allocation();
        if is_same {
            return Ok(());
        }
        self.files.push(file);
        self.write(&head);
        let [old, new] = names(change);
        match hunks {
            None => self.write(&format!("Binary files {old} and {new} differ\n")),
            Some(hunks) if hunks.is_empty() => {}
            Some(hunks) => {
                self.write(&format!("--- {old}\n+++ {new}\n"));
                self.write(&hunks);
            }
        }
        Ok(())
    }

    /// `None` if there are none, because the file is no text.
    fn hunks(&mut self, file: &mut ChangedFile) -> Result<Option<String>, ToolError> {
        let prepared = self.cache.prepare_diff();
        let prepared = prepared.map_err(|error| damaged(error.into_error()))?;
        let Operation::InternalDiff { algorithm } = prepared.operation else {
            file.binary = true;
            return Ok(None);
        };
        let input = InternedInput::new(prepared.old.intern_source(), prepared.new.intern_source());
        let diff = diff_with_slider_heuristics(algorithm, &input);
        file.added = diff.count_additions();
        file.removed = diff.count_removals();
        let hunks = UnifiedDiff::new(&diff, &input, Hunks::default(), self.context);
        Ok(Some(hunks.consume().map_err(damaged)?))
    }

    /// Whole lines, up to the limit.
    fn write(&mut self, text: &str) {
        for line in text.split_inclusive('\n') {
            let chars = line.chars().count();
            if self.truncated || chars > self.chars_left {
                self.truncated = true;
                return;
            }
            self.chars_left -= chars;
            self.text.push_str(line);
        }
    }
}

#[derive(Default)]
struct Hunks(String);

impl ConsumeHunk for Hunks {
    type Out = String;

    fn consume_hunk(
        &mut self,
        header: HunkHeader,
        lines: &[(DiffLineKind, &[u8])],
    ) -> std::io::Result<()> {
        let range = |start: u32, len| match len {
            // After that line.
            0 => format!("{},0", start.saturating_sub(1)),
            1 => format!("{start}"),
            _ => format!("{start},{len}"),
        };
        let old = range(header.before_hunk_start, header.before_hunk_len);
        let new = range(header.after_hunk_start, header.after_hunk_len);
        self.0.push_str(&format!("@@ -{old} +{new} @@\n"));
        for (kind, line) in lines {
            self.0.push(kind.to_prefix());
            self.0.push_str(&line.to_str_lossy());
            if !line.ends_with(b"\n") {
                self.0.push_str("\n\\ No newline at end of file\n");
            }
        }
        Ok(())
    }

    fn finish(self) -> String {
        self.0
    }
}

impl Change {
    pub(crate) fn is_below(&self, file: Option<&str>) -> bool {
        let Some(folder) = file.map(|file| file.trim_end_matches('/')) else {
            return true;
        };
        let is_below = |version: &Option<Version>| {
            let path = version.as_ref().map(|version| version.path.as_bytes());
            path.and_then(|path| path.strip_prefix(folder.as_bytes()))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        is_below(&self.old) || is_below(&self.new)
    }

    fn path(&self) -> Option<&BString> {
        let present = self.new.as_ref().or(self.old.as_ref());
        present.map(|version| &version.path)
    }

    fn kinds_agree(&self) -> bool {
        let kind = |version: &Option<Version>| version.as_ref().map(|version| version.kind);
        kind(&self.old) == kind(&self.new)
    }
}

impl ChangedFile {
    fn new(change: &Change, path: &BStr) -> Self {
        let old_path = match (&change.old, &change.new) {
            (Some(old), Some(new)) if old.path != new.path => Some(old.path.to_string()),
            _ => None,
        };
        let change = match (&change.old, &change.new) {
            (None, _) => "added",
            (_, None) => "deleted",
            _ if old_path.is_some() => "renamed",
            _ => "modified",
        };
        Self {
            path: path.to_string(),
            change: change.to_owned(),
            old_path,
            added: 0,
            removed: 0,
            binary: false,
        }
    }
}

fn between_trees(change: ChangeDetached) -> Change {
    let (old, new) = match change {
        ChangeDetached::Addition {
            location,
            entry_mode,
            id,
            ..
        } => (None, Version::new(location, id, entry_mode)),
        ChangeDetached::Deletion {
            location,
            entry_mode,
            id,
            ..
        } => (Version::new(location, id, entry_mode), None),
        ChangeDetached::Modification {
            location,
            previous_entry_mode,
            previous_id,
            entry_mode,
            id,
        } => (
            Version::new(location.clone(), previous_id, previous_entry_mode),
            Version::new(location, id, entry_mode),
        ),
        ChangeDetached::Rewrite {
            source_location,
            source_entry_mode,
            source_id,
            entry_mode,
            location,
            id,
            ..
        } => (
            Version::new(source_location, source_id, source_entry_mode),
            Version::new(location, id, entry_mode),
        ),
    };
    Change { old, new }
}

fn header(change: &Change, present: &Version) -> String {
    let old = change.old.as_ref().unwrap_or(present);
    let new = change.new.as_ref().unwrap_or(present);
    let mut text = format!("diff --git a/{} b/{}\n", old.path, new.path);
    let mode = |version: &Version| EntryMode::from(version.kind).value();
    match (&change.old, &change.new) {
        (None, Some(new)) => text.push_str(&format!("new file mode {:o}\n", mode(new))),
        (Some(old), None) => text.push_str(&format!("deleted file mode {:o}\n", mode(old))),
        _ if old.kind != new.kind => {
            text.push_str(&format!(
                "old mode {:o}\nnew mode {:o}\n",
                mode(old),
                mode(new)
            ));
        }
        _ => {}
    }
    if old.path != new.path {
        text.push_str(&format!(
            "rename from {}\nrename to {}\n",
            old.path, new.path
        ));
    }
    text
}

/// Of both versions.
fn names(change: &Change) -> [String; 2] {
    [("a", &change.old), ("b", &change.new)].map(|(side, version)| match version {
        Some(version) => format!("{side}/{}", version.path),
        None => "/dev/null".to_owned(),
    })
}
