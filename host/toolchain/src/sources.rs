//! The files that a build of a tool reads, with a digest of each. A stat call tells whether a file is unchanged: only
//! the kernel sets the change time, so a tool that restores size and modification time is noticed.

mod scope;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use toolcell_system::file_state::FileState;
use toolcell_system::named_file;

pub(super) use scope::{SourceScope, naming_text};

/// Files and folders of one tool, and entries of one folder.
const FILES_MAX: usize = 100_000;
const LINKS_MAX: usize = 40;
/// In bytes. Reading a larger file, or one that never ends, would delay every command.
const FILE_BYTES_MAX: u64 = 256 << 20;
const INCLUDES_MAX: u32 = 8;
/// In bytes: a project is looked at before its user agreed to anything. A larger file is refused, because what it names
/// behind a cut would not count.
const NAMING_BYTES_MAX: u64 = 1 << 20;

/// Each counts in a tool's folder and every folder above it. A manifest above can make the tool part of a workspace.
const STEERING: [&str; 5] = [
    "Cargo.toml",
    ".cargo/config.toml",
    ".cargo/config",
    "rust-toolchain.toml",
    "rust-toolchain",
];

/// No build reads them: documents, tests, and what other programs write.
const IDLE_FOLDERS: [&str; 19] = [
    ".git",
    ".github",
    ".hg",
    ".idea",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    ".venv",
    ".vscode",
    "__pycache__",
    "benches",
    "doc",
    "docs",
    "examples",
    "node_modules",
    "test",
    "tests",
    "venv",
];
const IDLE_ENDS: [&str; 9] = [
    ".md",
    ".log",
    ".bak",
    ".orig",
    ".rej",
    ".swp",
    ".tmp",
    "~",
    ".gitignore",
];

/// They end alike. A new one is a part of the next build.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct FileGroup {
    pub(super) folder: PathBuf,
    pub(super) ends: Vec<String>,
    pub(super) tests: String,
    /// `true` if subfolders count, except hidden ones, `target` and [`IDLE_FOLDERS`].
    pub(super) deep: bool,
}

impl FileGroup {
    /// Sorted. Fails on more than [`FILES_MAX`] files and folders.
    pub(super) fn files(&self) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.clone()];
        let mut seen = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)
                .with_context(|| format!("cannot read {}", folder.display()))?
            {
                let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
                seen += 1;
                if seen > FILES_MAX {
                    return Err(too_many());
                }
                let Ok(name) = entry.file_name().into_string() else {
                    continue;
                };
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder
                    && self.deep
                    && !name.starts_with('.')
                    && name != "target"
                    && !is_idle(&name, true)
                {
                    folders.push(entry.path());
                }
                let ends = self.ends.iter().any(|end| name.ends_with(end.as_str()));
                if !is_folder && ends && !name.ends_with(self.tests.as_str()) {
                    found.push(entry.path());
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

fn is_idle(name: &str, is_folder: bool) -> bool {
    if is_folder {
        IDLE_FOLDERS.contains(&name)
    } else {
        IDLE_ENDS.iter().any(|end| name.ends_with(end))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PathContent {
    File(String),
    Link(PathBuf),
    /// A socket, a named pipe, a device, or a folder in place of a file.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ListedPath {
    #[serde(flatten)]
    content: PathContent,
    /// The content is valid in this state; `None` if it must be read again.
    state: Option<FileState>,
}

const CHANGED: &str = "has changed";

/// A missing file has no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SourceListing(BTreeMap<PathBuf, ListedPath>);

impl SourceListing {
    /// Reads the files whose state differs from `known`. Fails on a scope with unknown places, and more than
    /// [`FILES_MAX`] files and folders, [`FILE_BYTES_MAX`] bytes or [`LINKS_MAX`] links.
    pub(super) fn read(scope: &SourceScope, known: &Self) -> Result<Self> {
        if let Some(why) = &scope.refused {
            bail!("{why}");
        }
        let mut walk = SourceWalk {
            scope,
            known,
            found: BTreeMap::new(),
            walked: BTreeSet::new(),
            folders: 0,
        };
        for folder in &scope.folders {
            walk.folder(folder)?;
        }
        for group in &scope.groups {
            // A folder that is gone has none.
            let files = if group.folder.is_dir() {
                group.files()?
            } else {
                Vec::new()
            };
            for file in files {
                walk.one(&file, false)?;
            }
        }
        for file in &scope.files {
            walk.one(file, false)?;
        }
        Ok(Self(walk.found))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn edited(&self, earlier: &Self) -> Option<PathBuf> {
        let mut changes = self.changes(earlier).into_iter();
        changes.find_map(|(path, what)| (what == CHANGED).then_some(path))
    }

    pub(super) fn changes(&self, earlier: &Self) -> Vec<(PathBuf, &'static str)> {
        let mut changes = Vec::new();
        for (path, seen) in &self.0 {
            match earlier.0.get(path) {
                None => changes.push((path.clone(), "is new")),
                Some(before) if before.content != seen.content => {
                    changes.push((path.clone(), CHANGED))
                }
                Some(_) => {}
            }
        }
        changes.extend(
            earlier
                .0
                .keys()
                .filter(|path| !self.0.contains_key(*path))
                .map(|path| (path.clone(), "was removed")),
        );
        changes
    }

    pub(super) fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut part = |bytes: &[u8]| {
            // The length prefix keeps adjacent parts distinct.
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        for (path, seen) in &self.0 {
            part(path.as_os_str().as_encoded_bytes());
            match &seen.content {
                PathContent::File(digest) => part(format!("file {digest}").as_bytes()),
                PathContent::Link(target) => {
                    part(&[b"link ", target.as_os_str().as_encoded_bytes()].concat())
                }
                PathContent::Other => part(b"other"),
            }
        }
        hasher.finalize().to_hex().to_string()
    }
}

struct SourceWalk<'a> {
    scope: &'a SourceScope,
    known: &'a SourceListing,
    found: BTreeMap<PathBuf, ListedPath>,
    /// Devices and inodes, because links can form a cycle.
    walked: BTreeSet<(u64, u64)>,
    /// Includes folders that are not walked yet.
    folders: usize,
}

impl SourceWalk<'_> {
    fn folder(&mut self, folder: &Path) -> Result<()> {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let Some(metadata) = there(std::fs::metadata(&folder), &folder)? else {
                continue;
            };
            if !metadata.is_dir() || !self.walked.insert((metadata.dev(), metadata.ino())) {
                continue;
            }
            let entries = std::fs::read_dir(&folder)
                .with_context(|| format!("cannot list {}", folder.display()))?;
            let entries = entries
                .take(FILES_MAX + 1)
                .collect::<std::io::Result<Vec<_>>>();
            let entries = entries.with_context(|| format!("cannot list {}", folder.display()))?;
            if entries.len() > FILES_MAX {
                return Err(too_many());
            }
            let has_manifest = entries
                .iter()
                .any(|entry| entry.file_name() == "Cargo.toml");
            for entry in entries {
                let name = entry.file_name();
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let idle = name.to_str().is_some_and(|name| is_idle(name, is_folder));
                // Build output is no source, and changes without an edit.
                if idle
                    || (name == "target" && has_manifest)
                    || self.is_skipped(&entry.path(), &name)
                {
                    continue;
                }
                if let Some(inner) = self.one(&entry.path(), true)? {
                    self.folders += 1;
                    folders.push(inner);
                }
            }
        }
        Ok(())
    }

    fn is_skipped(&self, path: &Path, name: &OsStr) -> bool {
        let named = || {
            name.to_str()
                .is_some_and(|name| self.scope.skipped_names.contains(name))
        };
        // A link or a file of this name is no folder that a build wrote.
        (self.scope.skipped.contains(path) || named())
            && std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
    }

    /// Returns the folder to walk if the path leads to one. `within` is false for a single file's path, where a folder
    /// is not walked.
    fn one(&mut self, path: &Path, within: bool) -> Result<Option<PathBuf>> {
        let mut at = path.to_owned();
        for _ in 0..=LINKS_MAX {
            let Some(metadata) = there(std::fs::symlink_metadata(&at), &at)? else {
                return Ok(None);
            };
            // Empty folders count too, because walking them takes time and memory.
            if self.found.len() + self.folders >= FILES_MAX {
                return Err(too_many());
            }
            if metadata.is_dir() && within {
                return Ok(Some(at));
            }
            if !metadata.is_symlink() {
                if !self.found.contains_key(&at) {
                    let seen = self.seen(&at, &metadata)?;
                    self.found.insert(at, seen);
                }
                return Ok(None);
            }
            let target = std::fs::read_link(&at)
                .with_context(|| format!("cannot read the link {}", at.display()))?;
            let led_to = at.parent().unwrap_or(Path::new("/")).join(&target);
            let link = ListedPath {
                content: PathContent::Link(target),
                state: None,
            };
            // A chain of links is followed one step at a time; a link that was seen before ends it.
            if self.found.insert(at, link).is_some() {
                return Ok(None);
            }
            at = led_to;
        }
        bail!(
            "{} leads through more than {LINKS_MAX} links, so that no file can be opened by it: remove it",
            path.display()
        )
    }

    fn seen(&self, path: &Path, metadata: &Metadata) -> Result<ListedPath> {
        if !metadata.is_file() {
            return Ok(ListedPath {
                content: PathContent::Other,
                state: None,
            });
        }
        let now = FileState::from(metadata);
        if let Some(known) = self
            .known
            .0
            .get(path)
            .filter(|known| known.state == Some(now))
        {
            return Ok(known.clone());
        }
        let context = || format!("cannot read {}", path.display());
        let file = named_file::open(path).with_context(context)?;
        // Taken before reading, so that a later change shows in the state.
        let began = SystemTime::now();
        let state = FileState::from_file(&file).with_context(context)?;
        let mut hasher = blake3::Hasher::new();
        hasher
            .update_reader(file.take(FILE_BYTES_MAX + 1))
            .with_context(context)?;
        if hasher.count() > FILE_BYTES_MAX {
            bail!(
                "{}, among the sources of the tool, has more than {FILE_BYTES_MAX} bytes",
                path.display()
            );
        }
        let state = Some(state).filter(|state| state.is_settled(began));
        Ok(ListedPath {
            content: PathContent::File(hasher.finalize().to_hex().to_string()),
            state,
        })
    }
}

fn too_many() -> anyhow::Error {
    anyhow!(
        "more than {FILES_MAX} files and folders lie beside the sources of the tool: give the tool a folder of its own"
    )
}

/// `None` if the path does not exist.
fn there(metadata: std::io::Result<Metadata>, path: &Path) -> Result<Option<Metadata>> {
    match metadata {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("cannot inspect {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Project(tempfile::TempDir);

    impl Project {
        fn new() -> Self {
            let project = Self(tempfile::tempdir().unwrap());
            for name in [
                "Cargo.toml",
                "src/lib.rs",
                "target/debug/made",
                "src/target/mod.rs",
                ".git/HEAD",
            ] {
                project.write(name, name);
            }
            project
        }

        fn write(&self, name: &str, text: &str) {
            let file = self.0.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }

        fn scope(&self) -> SourceScope {
            let mut scope = SourceScope::default();
            scope.add(self.0.path());
            scope
        }

        fn listing(&self, known: &SourceListing) -> SourceListing {
            SourceListing::read(&self.scope(), known).unwrap()
        }

        fn changes(&self, known: &SourceListing) -> Vec<String> {
            let changes = self.listing(known).changes(known);
            let below = |path: PathBuf| {
                path.strip_prefix(self.0.path())
                    .unwrap()
                    .display()
                    .to_string()
            };
            changes
                .into_iter()
                .map(|(path, what)| format!("{} {what}", below(path)))
                .collect()
        }
    }

    #[test]
    fn every_source_counts_and_what_cargo_made_does_not() {
        let project = Project::new();
        let before = project.listing(&SourceListing::default());
        project.write("target/debug/made", "other");
        project.write(".git/HEAD", "other");
        assert!(project.changes(&before).is_empty());
        project.write("src/target/mod.rs", "other");
        project.write("build.rs", "fn main() {}");
        project.write(".cargo/config.toml", "");
        std::fs::remove_file(project.0.path().join("src/lib.rs")).unwrap();
        for idle in [
            "build.log",
            "README.md",
            "node_modules/a/index.js",
            "tests/it.rs",
            "docs/page.html",
        ] {
            project.write(idle, "other");
        }
        let changes = project.changes(&before);
        assert_eq!(
            changes,
            [
                ".cargo/config.toml is new",
                "build.rs is new",
                "src/target/mod.rs has changed",
                "src/lib.rs was removed"
            ]
        );
        assert_ne!(project.listing(&before).digest(), before.digest());
    }

    #[test]
    fn a_change_that_puts_back_size_and_time_is_noticed() {
        let project = Project::new();
        let file = project.0.path().join("src/lib.rs");
        let long_ago = SystemTime::now() - Duration::from_secs(3_600);
        let date = || {
            std::fs::File::options()
                .write(true)
                .open(&file)
                .unwrap()
                .set_modified(long_ago)
                .unwrap()
        };
        date();
        let before = project.listing(&SourceListing::default());
        assert!(project.changes(&before).is_empty());
        project.write("src/lib.rs", "src/LIB.rs");
        date();
        assert_eq!(project.changes(&before), ["src/lib.rs has changed"]);
        // The same bytes in a new file are the same source.
        std::fs::remove_file(&file).unwrap();
        project.write("src/lib.rs", "src/lib.rs");
        assert!(project.changes(&before).is_empty());
        assert_eq!(project.listing(&before).digest(), before.digest());
    }

    #[test]
    fn links_are_followed_and_pipes_are_not_waited_for() {
        let project = Project::new();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("mod.rs"), "one").unwrap();
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, project.0.path().join(name)).unwrap()
        };
        link(elsewhere.path(), "src/linked");
        link(Path::new("."), "src/round");
        link(Path::new("loop"), "src/loop");
        let made = std::process::Command::new("mkfifo")
            .arg(project.0.path().join("src/pipe"))
            .status()
            .unwrap();
        assert!(made.success());
        let before = project.listing(&SourceListing::default());
        std::fs::write(elsewhere.path().join("mod.rs"), "two").unwrap();
        let changes = project.listing(&before).changes(&before);
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert!(changes[0].0.ends_with("mod.rs"), "{changes:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn links_are_followed_as_far_as_the_kernel_does() {
        let project = Project::new();
        let elsewhere = tempfile::tempdir().unwrap();
        let link = |to: usize, name: usize| {
            std::os::unix::fs::symlink(to.to_string(), elsewhere.path().join(name.to_string()))
                .unwrap();
        };
        std::fs::write(elsewhere.path().join("0"), "one").unwrap();
        (1..20_000).for_each(|name| link(name - 1, name));
        let enter = |name: usize| {
            let entrance = project.0.path().join("src/entrance");
            let _ = std::fs::remove_file(&entrance);
            std::os::unix::fs::symlink(elsewhere.path().join(name.to_string()), &entrance).unwrap();
            (
                std::fs::read_to_string(entrance).is_ok(),
                SourceListing::read(&project.scope(), &SourceListing::default()),
            )
        };
        // The entrance is a link as well.
        let (is_open, listing) = enter(LINKS_MAX - 1);
        assert!(is_open && listing.unwrap().0.contains_key(&elsewhere.path().join("0")));
        for name in [LINKS_MAX, 19_999] {
            let (is_open, listing) = enter(name);
            let error = listing.unwrap_err().to_string();
            assert!(
                !is_open && error.contains("src/entrance leads through more than 40 links"),
                "{error}"
            );
        }
    }

    #[test]
    fn folders_count_as_files_do() {
        let folder = tempfile::tempdir().unwrap();
        let known = SourceListing::default();
        let scope = SourceScope::default();
        std::fs::create_dir_all(folder.path().join("one/two")).unwrap();
        let walked = |folders: usize| {
            let scope = &scope;
            let found = BTreeMap::new();
            let walked = BTreeSet::new();
            SourceWalk {
                scope,
                known: &known,
                found,
                walked,
                folders,
            }
            .folder(folder.path())
        };
        walked(FILES_MAX - 2).unwrap();
        assert!(
            walked(FILES_MAX - 1)
                .unwrap_err()
                .to_string()
                .contains("more than 100000 files and folders")
        );
    }

    #[test]
    fn what_a_configuration_includes_counts() {
        let project = Project::new();
        project.write(
            ".cargo/config.toml",
            "include = [\"../more.conf\", { path = \"last.conf\" }]",
        );
        let files = project.scope().files;
        for name in [
            ".cargo/../more.conf",
            ".cargo/last.conf",
            "rust-toolchain",
            "../Cargo.toml",
        ] {
            let path = match name.strip_prefix("../") {
                Some(above) => project.0.path().parent().unwrap().join(above),
                None => project.0.path().join(name),
            };
            assert!(files.contains(&path), "{name} is not in {files:?}");
        }
    }
}
