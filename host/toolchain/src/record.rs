//! Records of builds that the user agreed to, with the component. They are in toolcell's data folder, which no grant
//! reaches, so that a tool cannot replace what is run.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use toolcell_system::private::{self, OthersAccess};

use super::file_lock::FileLock;
use super::sources::{SourceListing, SourceScope};
use super::{ProgressSink, language};

const FORMAT: u32 = 2;
const FILE: &str = "record.json";
/// In bytes; 100,000 files with long paths take less.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// One build.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct BuildRecord {
    pub(super) format: u32,
    /// The tool's folder. A digest of it names the record.
    pub(super) dir: PathBuf,
    /// The component's file name, beside the record.
    pub(super) component: PathBuf,
    /// The digest of the component, which is all that a call runs of the folder.
    pub(super) made: SourceListing,
    /// In bytes; the next build begins with it.
    pub(super) initial_memory: u64,
    /// Digest of everything that decided what this build made; empty if a build is never skipped.
    #[serde(default)]
    pub(super) key: String,
    pub(super) scope: SourceScope,
    pub(super) sources: SourceListing,
    /// Everything that can decide what the next build runs.
    pub(super) around: SourceScope,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildState {
    /// No source has changed since.
    Built(PathBuf),
    /// The component, and how its sources differ now, such as `src/lib.rs has changed since it was built`.
    Outdated(PathBuf, String),
    /// No component was made here, or another took its place.
    NotBuilt(String),
}

fn folder(records: &Path, dir: &Path) -> PathBuf {
    records.join(
        blake3::hash(dir.as_os_str().as_encoded_bytes())
            .to_hex()
            .as_str(),
    )
}

/// Runs nothing of the folder: calls stat on each file, and reads a file if its state has changed.
pub fn standing(dir: &Path, records: &Path) -> BuildState {
    check(dir, records).unwrap_or_else(BuildState::NotBuilt)
}

fn check(dir: &Path, records: &Path) -> std::result::Result<BuildState, String> {
    let dir = std::fs::canonicalize(dir)
        .map_err(|error| format!("{} cannot be found: {error}", dir.display()))?;
    let mut record = read(records, &dir).ok_or("it was never built here")?;
    let component = folder(records, &dir).join(&record.component);
    let made = SourceListing::read(&SourceScope::of_files([component.clone()]), &record.made)
        .map_err(|error| format!("{error:#}"))?;
    if made.is_empty() {
        return Err("its component was removed".to_owned());
    }
    if !made.changes(&record.made).is_empty() {
        return Err("its component is not the one that was built".to_owned());
    }
    // What was built was agreed to, so sources that changed, or that cannot be read, do not keep it from running.
    let now = match SourceListing::read(&record.scope, &record.sources) {
        Ok(now) => now,
        Err(error) => return Ok(BuildState::Outdated(component, format!("{error:#}"))),
    };
    let changes = now.changes(&record.sources);
    if let Some((path, what)) = changes.first() {
        let more = match changes.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let path = path.strip_prefix(&dir).unwrap_or(path).display();
        return Ok(BuildState::Outdated(
            component,
            format!("{path} {what} since it was built{more}"),
        ));
    }
    if now != record.sources || made != record.made {
        // Same contents, other states: keep them, so that the files need not be read again.
        (record.sources, record.made) = (now, made);
        let _ = keep(records, &record);
    }
    Ok(BuildState::Built(component))
}

/// Every place, as far as it is known without running cargo. Write access to one of them decides what the next build
/// runs.
pub fn source_places(dir: &Path, records: &Path) -> Vec<PathBuf> {
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let (read, around) = read(records, &dir)
        .map(|record| (record.scope, record.around))
        .unwrap_or_default();
    let places = read.places().chain(around.places());
    let places: BTreeSet<PathBuf> = places
        .chain(language::scope(&dir).places())
        .cloned()
        .collect();
    places.into_iter().collect()
}

/// `None` for a record of another version of toolcell, or one that another user could have written.
pub(super) fn read(records: &Path, dir: &Path) -> Option<BuildRecord> {
    let file = private::open(&folder(records, dir).join(FILE), OthersAccess::Read).ok()?;
    if file.metadata().ok()?.len() > RECORD_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let record: BuildRecord = serde_json::from_slice(&bytes).ok()?;
    (record.format == FORMAT && record.dir == dir).then_some(record)
}

/// Two tools of one name could otherwise take each other's output.
pub(super) fn lock(compiling: &Path, dir: &Path, say: ProgressSink) -> Result<FileLock> {
    make_folder(compiling)?;
    let busy_with = format!("{} (process {})", dir.display(), std::process::id());
    let lock = compiling.join("lock");
    FileLock::take(&lock, "waiting for another build", &busy_with, say)
}

fn make_folder(folder: &Path) -> Result<()> {
    private::create_dir(folder).with_context(|| format!("cannot create {}", folder.display()))
}

impl BuildRecord {
    /// A build of the package `name` in `dir`.
    pub(super) fn new(dir: &Path, name: &str) -> Self {
        Self {
            format: FORMAT,
            dir: dir.to_owned(),
            component: format!("{name}.wasm").into(),
            ..Self::default()
        }
    }
}

pub(super) fn write(records: &Path, mut made: BuildRecord, component: &[u8]) -> Result<()> {
    let folder = folder(records, &made.dir);
    make_folder(&folder)?;
    // The old record must not vouch for the new component.
    match std::fs::remove_file(folder.join(FILE)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).context("cannot remove the record of a build");
        }
        _ => {}
    }
    let file = folder.join(&made.component);
    replace(&file, component)?;
    let scope = SourceScope::of_files([file]);
    made.made = SourceListing::read(&scope, &SourceListing::default())?;
    keep(records, &made)?;
    remove_orphans(records);
    Ok(())
}

fn keep(records: &Path, record: &BuildRecord) -> Result<()> {
    // Fails for a path that is not Unicode, because JSON cannot hold it.
    let text = serde_json::to_vec(record).context("cannot write the record of a build")?;
    replace(&folder(records, &record.dir).join(FILE), &text)
}

/// Records of folders that are gone.
fn remove_orphans(records: &Path) {
    #[derive(Deserialize)]
    struct RecordedFolder {
        dir: PathBuf,
    }
    for entry in std::fs::read_dir(records).into_iter().flatten().flatten() {
        let bytes = std::fs::read(entry.path().join(FILE)).unwrap_or_default();
        let recorded = serde_json::from_slice::<RecordedFolder>(&bytes);
        if recorded.is_ok_and(|recorded| !recorded.dir.exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Renames, so that a reader never sees a part. An unchanged file keeps its time, so that what was derived from it
/// stays valid.
pub(super) fn replace(file: &Path, bytes: &[u8]) -> Result<()> {
    let same = || {
        std::fs::symlink_metadata(file)
            .is_ok_and(|found| found.is_file() && found.len() == bytes.len() as u64)
    };
    if same() && std::fs::read(file).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    let folder = file.parent().unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let temporary = tempfile::Builder::new()
            .prefix(".new-")
            .permissions(readable())
            .tempfile_in(folder)?;
        std::fs::write(temporary.path(), bytes)?;
        temporary.persist(file)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

/// A temporary file would be private; the umask applies.
fn readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tool {
        folder: tempfile::TempDir,
        records: tempfile::TempDir,
    }

    impl Tool {
        fn new() -> Self {
            let tool = Self {
                folder: tempfile::tempdir().unwrap(),
                records: tempfile::tempdir().unwrap(),
            };
            std::fs::write(tool.dir().join("Cargo.toml"), "[package]").unwrap();
            std::fs::write(tool.dir().join("lib.rs"), "fn a() {}").unwrap();
            tool
        }

        fn dir(&self) -> PathBuf {
            self.folder.path().canonicalize().unwrap()
        }

        fn record(&self) {
            let dir = self.dir();
            let mut scope = SourceScope::default();
            scope.add(&dir);
            let sources = SourceListing::read(&scope, &SourceListing::default()).unwrap();
            let made = BuildRecord {
                initial_memory: 2 << 20,
                around: scope.clone(),
                scope,
                sources,
                ..BuildRecord::new(&dir, "tool")
            };
            let component = b"\0asm";
            write(self.records.path(), made, component).unwrap();
        }

        fn standing(&self) -> BuildState {
            standing(self.folder.path(), self.records.path())
        }

        #[track_caller]
        fn is_not_built(&self, why: &str) {
            assert_eq!(self.standing(), BuildState::NotBuilt(why.to_owned()));
        }

        #[track_caller]
        fn is_outdated(&self, why: &str) {
            let BuildState::Outdated(component, found) = self.standing() else {
                panic!("{:?}", self.standing())
            };
            assert_eq!(found, why);
            assert_eq!(std::fs::read(component).unwrap(), b"\0asm");
        }
    }

    #[test]
    fn a_record_is_for_one_folder_with_one_content() {
        let tool = Tool::new();
        tool.is_not_built("it was never built here");
        tool.record();
        let BuildState::Built(component) = tool.standing() else {
            panic!("{:?}", tool.standing())
        };
        assert_eq!(std::fs::read(&component).unwrap(), b"\0asm");
        assert!(component.starts_with(tool.records.path()));
        std::fs::write(tool.dir().join("build.rs"), "fn main() {}").unwrap();
        tool.is_outdated("build.rs is new since it was built");
        std::fs::write(tool.dir().join("lib.rs"), "fn b() {}").unwrap();
        tool.is_outdated("build.rs is new since it was built, and 1 more");
        tool.record();
        assert!(matches!(tool.standing(), BuildState::Built(_)));
        // The same sources in another folder, which the user did not agree to.
        let copy = Tool::new();
        assert_eq!(
            standing(copy.folder.path(), tool.records.path()),
            BuildState::NotBuilt("it was never built here".to_owned())
        );
    }

    #[test]
    fn a_record_that_others_could_write_or_that_is_broken_counts_for_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let tool = Tool::new();
        tool.record();
        let file = folder(tool.records.path(), &tool.dir()).join(FILE);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        tool.is_not_built("it was never built here");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(tool.standing(), BuildState::Built(_)));
        std::fs::write(&file, "{\"format\": 1").unwrap();
        tool.is_not_built("it was never built here");
        tool.record();
        std::fs::write(file.with_file_name("tool.wasm"), "\0asn").unwrap();
        tool.is_not_built("its component is not the one that was built");
        std::fs::remove_file(file.with_file_name("tool.wasm")).unwrap();
        tool.is_not_built("its component was removed");
    }

    #[test]
    fn what_the_user_agreed_to_is_forgotten_with_its_folder() {
        let gone = Tool::new();
        let kept = Tool::new();
        gone.record();
        let kept = Tool {
            records: gone.records,
            ..kept
        };
        drop(gone.folder);
        kept.record();
        let entries = std::fs::read_dir(kept.records.path()).unwrap().count();
        assert_eq!(entries, 1);
        assert!(matches!(kept.standing(), BuildState::Built(_)));
    }

    #[test]
    fn all_that_steers_a_build_is_among_its_places() {
        let tool = Tool::new();
        let places = source_places(tool.folder.path(), tool.records.path());
        let above = tool.dir().parent().unwrap().to_owned();
        for place in [
            tool.dir(),
            above.join("Cargo.toml"),
            above.join(".cargo/config.toml"),
        ] {
            assert!(
                places.contains(&place),
                "{} is not in {places:?}",
                place.display()
            );
        }
    }
}
