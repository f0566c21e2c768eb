//! The files of a command: the caller's are written into the scratch folder, and what it leaves there becomes
//! artifacts.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::OFlags;
use toolcell_journal::{ArtifactError, Artifacts};
use toolcell_system::pool::GUEST_FILES;
use wasmtime_wasi::WasiCtxBuilder;

use super::input::{DEPTH_MAX, PATH_BYTES_MAX};
use crate::call::UNFINISHED;
use crate::filesystem::FileRules;
use crate::state::StoreState;
use crate::trap::ExceededLimit;

/// Few of them can become artifacts.
const FILES_MAX: usize = 10_000;
const CHUNK_BYTES: usize = 256 << 10;

/// Digests by path: what the command did not change is not kept.
pub(super) type GivenFiles = Arc<HashMap<String, blake3::Hash>>;

#[derive(Default)]
pub(super) struct CommandFiles {
    pub(super) kept: Vec<(String, String)>,
    /// Links, files with several names, and what has no name that could be shown.
    pub(super) left_out: u64,
    pub(super) problem: Option<String>,
}

/// Within the quotas of the call.
pub(super) async fn write(
    state: &mut StoreState,
    files: Vec<(String, Bytes)>,
) -> wasmtime::Result<Result<GivenFiles, String>> {
    if files.is_empty() {
        return Ok(Ok(GivenFiles::default()));
    }
    let Some(root) = state.scratch().map(Path::to_owned) else {
        return Ok(Err(
            "cannot write the files: this call has no folder for them".to_owned(),
        ));
    };
    charge(&state.file_rules, &files)?;
    let given: GivenFiles = Arc::new(
        files
            .iter()
            .map(|(path, bytes)| (path.clone(), blake3::hash(bytes)))
            .collect(),
    );
    let folder = match File::open(&root) {
        Ok(folder) => Arc::new(folder),
        Err(error) => return Ok(Err(format!("cannot write the files: {}", error.kind()))),
    };
    // A thread that began goes on after the call is stopped, and would make the scratch folder again after its removal.
    state.file_rules.quota.changes(&folder);
    let work = move || {
        let _at_work = folder;
        write_all(&root, &files)
    };
    let written = GUEST_FILES.run(work).await;
    Ok(written
        .unwrap_or_else(|error| Err(format!("cannot write the files: {error}")))
        .map(|()| given))
}

fn charge(rules: &FileRules, files: &[(String, Bytes)]) -> Result<(), ExceededLimit> {
    for (path, bytes) in files {
        // A folder that several files share counts for each: the quota is far above what can be given.
        let entries = path.split('/').count();
        rules.quota.given(bytes.len() as u64, entries as u64)?;
    }
    Ok(())
}

fn write_all(root: &Path, files: &[(String, Bytes)]) -> Result<(), String> {
    for (path, bytes) in files {
        write_one(&root.join(path), bytes)
            .map_err(|error| format!("cannot write the file {path:?}: {}", error.kind()))?;
    }
    Ok(())
}

fn write_one(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)?
        .write_all(bytes)
}

/// The instance has ended: nothing that it opened is of use.
pub(super) async fn keep(state: &mut StoreState, given: GivenFiles) -> CommandFiles {
    let Some(root) = state.scratch().map(Path::to_owned) else {
        return CommandFiles::default();
    };
    let lost = |why: &dyn std::fmt::Display| CommandFiles {
        problem: Some(format!("cannot keep its files: {why}")),
        ..CommandFiles::default()
    };
    // Its streams hold what was not written yet. Closing them may block.
    let closed = (
        std::mem::take(&mut state.table),
        std::mem::replace(&mut state.wasi, WasiCtxBuilder::new().build()),
    );
    let rules = Arc::clone(&state.file_rules);
    if GUEST_FILES.run(move || drop(closed)).await.is_err() || !rules.quota.settled().await {
        return lost(&UNFINISHED);
    }
    let found = {
        let root = root.clone();
        GUEST_FILES.run(move || find(&root)).await
    };
    let (files, left_out) = match found {
        Ok(found) => found,
        Err(error) => return lost(&error),
    };
    let mut made = CommandFiles {
        left_out,
        ..CommandFiles::default()
    };
    let count = files.len();
    for (at, path) in files.into_iter().enumerate() {
        let left = LeftFile {
            path: root.join(&path),
            name: path.clone(),
            given: Arc::clone(&given),
            rules: Arc::clone(&rules),
        };
        let artifacts = state.artifacts.clone();
        let kept = GUEST_FILES.run(move || left.keep(artifacts.as_ref())).await;
        match kept.unwrap_or_else(|error| Err(ArtifactError::Failed(error.to_string()))) {
            Ok(FileOutcome::Artifact(reference)) => made.kept.push((path, reference)),
            Ok(FileOutcome::Unchanged) => {}
            Ok(FileOutcome::LeftOut) => made.left_out = made.left_out.saturating_add(1),
            Err(error) => {
                let more = match count.saturating_sub(at).saturating_sub(1) {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                made.problem = Some(format!("cannot keep the file {path:?}{more}: {error}"));
                break;
            }
        }
    }
    made
}

/// Nothing can put a link in a folder's place, because the guest has ended and no other call sees the folder.
fn find(root: &Path) -> (Vec<String>, u64) {
    let mut files = Vec::new();
    let mut left_out = 0_u64;
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else {
            left_out = left_out.saturating_add(1);
            continue;
        };
        for entry in entries.flatten() {
            let path = match (entry.file_name().into_string(), folder.is_empty()) {
                (Ok(name), true) => Some(name),
                (Ok(name), false) => Some(format!("{folder}/{name}")),
                (Err(_), _) => None,
            };
            let path = path.filter(|path| {
                path.len() <= PATH_BYTES_MAX && path.split('/').count() <= DEPTH_MAX
            });
            match (path, entry.file_type()) {
                (Some(path), Ok(kind)) if kind.is_dir() => folders.push(path),
                (Some(path), Ok(kind)) if kind.is_file() && files.len() < FILES_MAX => {
                    files.push(path)
                }
                _ => left_out = left_out.saturating_add(1),
            }
        }
    }
    files.sort_unstable();
    (files, left_out)
}

#[derive(Debug, PartialEq)]
enum FileOutcome {
    Artifact(String),
    Unchanged,
    LeftOut,
}

struct LeftFile {
    path: PathBuf,
    name: String,
    given: GivenFiles,
    rules: Arc<FileRules>,
}

impl LeftFile {
    fn keep(&self, artifacts: Option<&Artifacts>) -> Result<FileOutcome, ArtifactError> {
        let mut file = match self.open() {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(FileOutcome::LeftOut),
            Err(error) => return Err(unreadable(&error)),
        };
        if self
            .is_unchanged(&mut file)
            .map_err(|error| unreadable(&error))?
        {
            return Ok(FileOutcome::Unchanged);
        }
        let Some(artifacts) = artifacts else {
            return Err(ArtifactError::Denied(
                "this call may write no artifacts".to_owned(),
            ));
        };
        let mut draft = artifacts.begin(&self.name, media_type(&self.name))?;
        self.rules.quota.opened(draft.file());
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = file.read(&mut chunk).map_err(|error| unreadable(&error))?;
            let bytes = chunk.get(..count).unwrap_or_default();
            if bytes.is_empty() {
                return draft.finish(b"").map(FileOutcome::Artifact);
            }
            draft.take(bytes.len())?;
            draft.write(bytes)?;
        }
    }

    /// `None` for a link, and for a file with several names: the others could lie in a folder whose files the call must
    /// not read.
    fn open(&self) -> io::Result<Option<File>> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&self.path)?;
        let metadata = file.metadata()?;
        let single = metadata.nlink() == 1 || !guard!("command_links");
        Ok((metadata.is_file() && single).then_some(file))
    }

    fn is_unchanged(&self, file: &mut File) -> io::Result<bool> {
        let Some(given) = self.given.get(&self.name) else {
            return Ok(false);
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&mut *file)?;
        file.rewind()?;
        Ok(hasher.finalize() == *given)
    }
}

/// The error's own text may name a path of the host.
fn unreadable(error: &io::Error) -> ArtifactError {
    ArtifactError::Failed(format!("the host cannot read it: {}", error.kind()))
}

fn media_type(name: &str) -> &'static str {
    let extension = name
        .rsplit('/')
        .next()
        .and_then(|file| file.rsplit_once('.'))
        .map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "json" => "application/json",
        "xml" => "application/xml",
        "yaml" | "yml" => "application/yaml",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "wasm" => "application/wasm",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "svg" => "image/svg+xml",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::pin::pin;
    use std::time::Duration;

    use toolcell_journal::PayloadStore;
    use toolcell_policy::secret::Redactor;
    use toolcell_policy::{Capability, Limits};

    use super::*;
    use crate::call::NullObserver;
    use crate::egress::Egress;
    use crate::nondeterminism::NondeterminismSources;
    use crate::own_files::OpenFolders;
    use crate::wasi::WasiInputs;

    fn left(root: &Path, name: &str, given: &[(&str, &[u8])]) -> LeftFile {
        let given = given
            .iter()
            .map(|(path, bytes)| ((*path).to_owned(), blake3::hash(bytes)))
            .collect();
        let rules = Arc::new(FileRules::new(
            &Capability::default(),
            &Limits::default(),
            None,
        ));
        LeftFile {
            path: root.join(name),
            name: name.to_owned(),
            given: Arc::new(given),
            rules,
        }
    }

    #[test]
    fn files_are_found_in_order_and_links_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let deep = vec!["d"; DEPTH_MAX].join("/");
        let files = [
            "b".to_owned(),
            "a/c".to_owned(),
            "a/b".to_owned(),
            format!("{deep}/too-deep"),
        ];
        let files = files.map(|path| (path, Bytes::from_static(b"x")));
        write_all(root, &files).unwrap();
        symlink("/etc/passwd", root.join("link")).unwrap();
        symlink(root.join("a"), root.join("folder")).unwrap();
        assert_eq!(
            find(root),
            (["a/b", "a/c", "b"].map(str::to_owned).to_vec(), 3)
        );
    }

    #[test]
    fn a_file_becomes_an_artifact_unless_the_caller_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = tempfile::tempdir().unwrap();
        let root = dir.path();
        let store = PayloadStore::new(store.path().join("payloads"));
        let artifacts = Artifacts::new(&store, &Limits::default(), Ok(Redactor::default()));
        fs::write(root.join("a.png"), "x".repeat(CHUNK_BYTES + 1)).unwrap();
        fs::write(root.join("b"), "same").unwrap();
        let Ok(FileOutcome::Artifact(reference)) =
            left(root, "a.png", &[("b", b"same")]).keep(Some(&artifacts))
        else {
            panic!()
        };
        let fields = artifacts.find(&reference).unwrap();
        assert_eq!(
            (&fields["name"], &fields["media_type"]),
            (&"a.png".into(), &"image/png".into())
        );
        assert_eq!(fields["size_bytes"], CHUNK_BYTES + 1);
        assert_eq!(
            left(root, "b", &[("b", b"same")]).keep(Some(&artifacts)),
            Ok(FileOutcome::Unchanged)
        );
        let changed = left(root, "b", &[("b", b"other")]).keep(Some(&artifacts));
        assert!(
            matches!(changed, Ok(FileOutcome::Artifact(_))),
            "{changed:?}"
        );
        assert!(matches!(
            left(root, "a.png", &[]).keep(None),
            Err(ArtifactError::Denied(_))
        ));
    }

    #[test]
    fn a_link_and_a_file_with_a_second_name_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("closed"), "secret").unwrap();
        fs::hard_link(other.path().join("closed"), dir.path().join("second")).unwrap();
        symlink(other.path().join("closed"), dir.path().join("link")).unwrap();
        assert_eq!(
            left(dir.path(), "second", &[]).keep(None),
            Ok(FileOutcome::LeftOut)
        );
        assert!(matches!(
            left(dir.path(), "link", &[]).keep(None),
            Err(ArtifactError::Failed(_))
        ));
    }

    #[test]
    fn files_of_a_caller_are_written_once_and_count() {
        let dir = tempfile::tempdir().unwrap();
        let files = [("a/b".to_owned(), Bytes::from_static(b"x"))];
        write_all(dir.path(), &files).unwrap();
        assert_eq!(fs::read(dir.path().join("a/b")).unwrap(), b"x");
        assert!(
            write_all(dir.path(), &files)
                .unwrap_err()
                .contains("\"a/b\"")
        );
        let limits = Limits {
            disk_bytes: 1,
            files_created: 2,
            ..Limits::default()
        };
        let rules = FileRules::new(&Capability::default(), &limits, None);
        charge(&rules, &files).unwrap();
        assert!(matches!(
            charge(&rules, &files),
            Err(ExceededLimit::DiskBytes)
        ));
        assert!(matches!(
            charge(&rules, &[("c".to_owned(), Bytes::new())]),
            Err(ExceededLimit::FilesCreated)
        ));
    }

    #[tokio::test]
    async fn the_end_of_a_call_waits_until_no_thread_writes_files_of_its_caller() {
        let parent = tempfile::tempdir().unwrap();
        let capability = Capability {
            scratch: Some("/scratch".to_owned()),
            ..Capability::default()
        };
        let limits = Limits::default();
        let sources = NondeterminismSources::default();
        let own_files = OpenFolders::default();
        let setup = WasiInputs {
            room: None,
            capability: &capability,
            own_files: &own_files,
            scratch_dir: parent.path(),
            sources: &sources,
            process: None,
        };
        let mut state = StoreState::new(
            setup,
            &limits,
            crate::never(),
            Arc::new(NullObserver),
            Egress::new(None),
        )
        .unwrap();
        let root = state.scratch().unwrap().to_owned();
        {
            let files = (0..200)
                .map(|at| (format!("{at}/a"), Bytes::from_static(b"x")))
                .collect();
            let mut writing = pin!(write(&mut state, files));
            while fs::read_dir(&root).unwrap().next().is_none() {
                assert!(
                    tokio::time::timeout(Duration::from_millis(1), &mut writing)
                        .await
                        .is_err()
                );
            }
        }
        let unsettled = state.unsettled();
        drop(state);
        assert!(unsettled.settle().await);
        assert!(!root.exists());
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!root.exists(), "a thread made it again");
    }

    #[test]
    fn a_media_type_follows_from_the_extension() {
        for (name, media_type) in [
            ("a.PNG", "image/png"),
            ("a.b/c", "application/octet-stream"),
            ("d/a.tar.gz", "application/gzip"),
            (".csv", "text/csv"),
            ("", "application/octet-stream"),
        ] {
            assert_eq!(super::media_type(name), media_type, "{name}");
        }
    }
}
