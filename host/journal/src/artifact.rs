//! Artifacts: files that a tool writes in chunks while it runs.
//!
//! They are drafts (`drafts.rs`) until the call has ended; a draft that the output refers to becomes a payload.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use ulid::Ulid;

use toolcell_policy::Limits;
use toolcell_policy::secret::{Redactor, ScrubStream};
use toolcell_spec::text::deceives;
use toolcell_spec::{ArtifactUsage, Extra, MeteredUsage, PersistedRef, is_media_type};
use toolcell_system::pool::STORE;

use super::PayloadStore;
use super::drafts::Folder;
use super::sparse;

/// Each open artifact keeps a file and a buffer.
const OPEN_MAX: u64 = 8;
/// Longer names are cut.
const NAME_CHARS_MAX: usize = 128;
const NAME_CHARS_READ_MAX: usize = 4_096;
/// For an empty name, or one that must not be shown.
const UNNAMED: &str = "artifact";
const UNTYPED: &str = "application/octet-stream";

/// For the tool's author, without paths of the host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// This call may not write artifacts.
    #[error("{0}")]
    Denied(String),
    /// The call used up its quota.
    #[error("{0}")]
    Quota(String),
    /// An argument is not valid.
    #[error("{0}")]
    Invalid(String),
    /// The file could not be written.
    #[error("{0}")]
    Failed(String),
}

impl ArtifactError {
    fn failed(error: &io::Error) -> Self {
        // The error's own text may name a path of the host.
        Self::Failed(format!(
            "the host cannot store the artifact: {}",
            error.kind()
        ))
    }
}

/// Clones are handles to the same artifacts.
#[derive(Clone)]
pub struct Artifacts(Arc<CallArtifacts>);

struct CallArtifacts {
    payloads: PayloadStore,
    bytes_max: u64,
    created_max: u64,
    /// `Err` says why no artifact of this call can be redacted.
    redactor: Result<Redactor, &'static str>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    folder: Option<Folder>,
    bytes: u64,
    /// Bytes that this call wrote itself.
    written: u64,
    created: u64,
    open: u64,
    finished: Vec<FinishedArtifact>,
    redacted: bool,
}

struct FinishedArtifact {
    id: String,
    name: String,
    media_type: String,
    size_bytes: u64,
    hex: String,
    draft: PathBuf,
}

pub struct KeptArtifact {
    /// Entry of `artifact_refs` (AT-RES-11).
    pub record: Value,
    pub persisted_ref: PersistedRef,
}

impl Artifacts {
    /// Creates nothing on disk.
    pub fn new(
        store: &PayloadStore,
        limits: &Limits,
        redactor: Result<Redactor, &'static str>,
    ) -> Self {
        Self(Arc::new(CallArtifacts {
            payloads: store.clone(),
            bytes_max: limits.artifact_bytes,
            created_max: limits.artifacts,
            redactor,
            state: Mutex::default(),
        }))
    }

    /// May block. Fails with any error but a quota of bytes.
    pub fn begin(&self, name: &str, media_type: &str) -> Result<ArtifactDraft, ArtifactError> {
        let redactor = self
            .0
            .redactor
            .as_ref()
            .map_err(|why| ArtifactError::Denied((*why).to_owned()))?;
        let scrub = redactor
            .stream()
            .map_err(|why| ArtifactError::Denied(why.to_owned()))?;
        let media_type = checked_media_type(media_type)?;
        // The text of a tool with sensitive data is in no result.
        let (name, media_type) = if redactor.is_silent() {
            (UNNAMED.to_owned(), UNTYPED.to_owned())
        } else {
            (shown_name(name, redactor), media_type)
        };
        self.0.draft(name, media_type, scrub)
    }

    /// Fields that the host adds to a reference; `None` if the call did not finish the artifact.
    pub fn find(&self, reference: &str) -> Option<Extra> {
        let state = self.0.lock();
        state
            .finished
            .iter()
            .find(|artifact| artifact.reference() == reference)
            .map(FinishedArtifact::fields)
    }

    pub fn is_redacted(&self) -> bool {
        self.0.lock().redacted
    }

    pub fn usage(&self) -> Option<ArtifactUsage> {
        let state = self.0.lock();
        (state.created > 0).then_some(ArtifactUsage {
            bytes: MeteredUsage {
                used: state.bytes,
                limit: self.0.bytes_max,
            },
            created: MeteredUsage {
                used: state.created,
                limit: self.0.created_max,
            },
        })
    }

    pub fn charge(&self, below: &ArtifactUsage) {
        let mut state = self.0.lock();
        state.bytes = state.bytes.saturating_add(below.bytes.used);
        state.created = state.created.saturating_add(below.created.used);
    }

    pub fn left(&self) -> (u64, u64) {
        let state = self.0.lock();
        (
            self.0.bytes_max.saturating_sub(state.bytes),
            self.0.created_max.saturating_sub(state.created),
        )
    }

    /// Makes payloads of `references`, and removes all others, on a thread for the host's own store.
    pub async fn keep(self, references: Vec<String>) -> anyhow::Result<Vec<KeptArtifact>> {
        if self.0.lock().folder.is_none() {
            return Ok(Vec::new());
        }
        STORE.run(move || self.0.keep(&references)).await?
    }
}

impl CallArtifacts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draft(
        self: &Arc<Self>,
        name: String,
        media_type: String,
        scrub: Option<ScrubStream>,
    ) -> Result<ArtifactDraft, ArtifactError> {
        let mut state = self.lock();
        if state.created >= self.created_max && guard!("artifact_count") {
            let max = self.created_max;
            return Err(ArtifactError::Quota(format!(
                "this call created {max} artifacts, which is all it may"
            )));
        }
        if state.open >= OPEN_MAX && guard!("artifacts_open") {
            return Err(ArtifactError::Quota(format!(
                "{OPEN_MAX} artifacts are open; finish or drop one first"
            )));
        }
        state.created += 1;
        let id = Ulid::generate().to_string();
        let file = self
            .create(&mut state, &id)
            .map_err(|error| ArtifactError::failed(&error))?;
        state.open += 1;
        Ok(ArtifactDraft {
            call: Arc::clone(self),
            id,
            name,
            media_type,
            file,
            scrub,
            is_finished: false,
        })
    }

    fn create(&self, state: &mut State, name: &str) -> io::Result<DraftFile> {
        let folder = match state.folder.take() {
            Some(folder) => folder,
            None => Folder::make(self.payloads.dir())?,
        };
        let path = state.folder.insert(folder).path().join(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(DraftFile {
            path,
            file: Arc::new(file),
            hasher: Sha256::new(),
            size_bytes: 0,
        })
    }

    fn keep(&self, references: &[String]) -> anyhow::Result<Vec<KeptArtifact>> {
        let (folder, finished) = {
            let mut state = self.lock();
            (state.folder.take(), std::mem::take(&mut state.finished))
        };
        let mut kept = Vec::new();
        for artifact in finished
            .iter()
            .filter(|artifact| references.contains(&artifact.reference()))
        {
            let path = self.payloads.dir().join(&artifact.hex);
            let place = || fs::rename(&artifact.draft, path).context("cannot store an artifact");
            self.payloads
                .admit(&artifact.hex, artifact.size_bytes, place)?;
            kept.push(artifact.kept());
        }
        // Removes all others.
        drop(folder);
        Ok(kept)
    }
}

impl Drop for CallArtifacts {
    fn drop(&mut self) {
        let written = self.lock().written;
        self.payloads.undraft(written);
    }
}

impl FinishedArtifact {
    /// Not the digest, because comparing digests would tell the guest whether something was redacted, and so let it
    /// guess at secrets.
    fn reference(&self) -> String {
        format!("toolcell:artifact/{}", self.id)
    }

    fn persisted_ref(&self) -> PersistedRef {
        PersistedRef {
            uri: format!("toolcell:payload/sha256:{}", self.hex),
            digest: format!("sha256:{}", self.hex),
            media_type: self.media_type.clone(),
            size_bytes: self.size_bytes,
        }
    }

    fn fields(&self) -> Extra {
        let PersistedRef {
            uri,
            digest,
            media_type,
            size_bytes,
        } = self.persisted_ref();
        let fields = json!({
            "reference": self.reference(), "name": self.name, "uri": uri, "media_type": media_type, "digest": digest,
            "size_bytes": size_bytes,
        });
        fields.as_object().cloned().unwrap_or_default()
    }

    fn kept(&self) -> KeptArtifact {
        let mut record = Extra::from_iter([("id".to_owned(), Value::String(self.id.clone()))]);
        record.extend(self.fields());
        KeptArtifact {
            record: Value::Object(record),
            persisted_ref: self.persisted_ref(),
        }
    }
}

/// Dropped unfinished, it removes its file.
pub struct ArtifactDraft {
    call: Arc<CallArtifacts>,
    id: String,
    name: String,
    media_type: String,
    file: DraftFile,
    scrub: Option<ScrubStream>,
    is_finished: bool,
}

struct DraftFile {
    path: PathBuf,
    file: Arc<File>,
    hasher: Sha256,
    size_bytes: u64,
}

impl DraftFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        sparse::append(&self.file, bytes)?;
        self.hasher.update(bytes);
        self.size_bytes += bytes.len() as u64;
        Ok(())
    }
}

impl ArtifactDraft {
    /// In bytes, for a guest.
    pub const CHUNK_BYTES_MAX: usize = 1 << 20;

    pub fn file(&self) -> &Arc<File> {
        &self.file.file
    }

    /// Counts `bytes` before they are written. Fails on a chunk or a total that is too large, and then counts nothing.
    pub fn take(&self, bytes: usize) -> Result<(), ArtifactError> {
        if bytes > Self::CHUNK_BYTES_MAX && guard!("artifact_chunks") {
            let why = format!(
                "a chunk has {bytes} bytes; write at most {} at once",
                Self::CHUNK_BYTES_MAX
            );
            return Err(ArtifactError::Invalid(why));
        }
        let mut state = self.call.lock();
        let used = state.bytes.saturating_add(bytes as u64);
        let max = self.call.bytes_max;
        if used > max && guard!("artifact_bytes") {
            let why = format!(
                "the artifacts of this call would have {used} bytes, {max} are allowed; --max-artifact-bytes raises it"
            );
            return Err(ArtifactError::Quota(why));
        }
        let drafted = self.call.payloads.draft(bytes as u64);
        drafted.map_err(|full| {
            ArtifactError::Quota(format!("there is no room for this artifact: {full}"))
        })?;
        state.bytes = used;
        state.written = state.written.saturating_add(bytes as u64);
        Ok(())
    }

    /// Expects counted bytes; may block. After [`ArtifactError::Failed`], the draft cannot be finished.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ArtifactError> {
        let written = match &mut self.scrub {
            None => self.file.append(bytes),
            Some(scrub) => self.file.append(&scrub.push(bytes)),
        };
        written.map_err(|error| ArtifactError::failed(&error))
    }

    /// Returns the guest's reference. May block; fails with [`ArtifactError::Failed`].
    pub fn finish(mut self, rest: &[u8]) -> Result<String, ArtifactError> {
        self.write(rest)?;
        self.close()
            .map_err(|error| ArtifactError::failed(&error))?;
        let finished = FinishedArtifact {
            id: std::mem::take(&mut self.id),
            name: std::mem::take(&mut self.name),
            media_type: std::mem::take(&mut self.media_type),
            size_bytes: self.file.size_bytes,
            hex: HEXLOWER.encode(&std::mem::take(&mut self.file.hasher).finalize()),
            draft: self.file.path.clone(),
        };
        let reference = finished.reference();
        self.is_finished = true;
        let mut state = self.call.lock();
        state.redacted |= self.scrub.as_ref().is_some_and(ScrubStream::found);
        state.finished.push(finished);
        drop(state);
        Ok(reference)
    }

    /// Waits until the disk has all bytes.
    fn close(&mut self) -> io::Result<()> {
        if let Some(scrub) = &mut self.scrub {
            self.file.append(&scrub.finish())?;
        }
        sparse::end(&self.file.file, self.file.size_bytes)?;
        self.file.file.sync_data()
    }
}

impl Drop for ArtifactDraft {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_file(&self.file.path);
        }
        self.call.lock().open -= 1;
    }
}

/// The redacted, cut name, with folders that fit. It misleads no reader, and has no `.` and no `..`, so that a caller
/// that takes it for a path stays where it is.
fn shown_name(name: &str, redactor: &Redactor) -> String {
    let legible = |c: &char| !deceives(*c) || !guard!("artifact_names");
    let mut shown: String = name
        .chars()
        .filter(legible)
        .take(NAME_CHARS_READ_MAX)
        .collect();
    // Before it is divided, because a part of a value may not be found.
    redactor.redact_text(&mut shown);
    let mut parts = shown.rsplit(['/', '\\']).map(str::trim);
    let last: String = parts
        .next()
        .unwrap_or_default()
        .chars()
        .take(NAME_CHARS_MAX)
        .collect();
    let file = if is_step(&last) {
        UNNAMED.to_owned()
    } else {
        last
    };
    // A part with a colon can be a drive.
    parts
        .filter(|part| !is_step(part) && !part.contains(':'))
        .fold(file, |path, folder| {
            let within = format!("{folder}/{path}");
            if within.chars().count() <= NAME_CHARS_MAX {
                within
            } else {
                path
            }
        })
}

fn is_step(part: &str) -> bool {
    matches!(part, "" | "." | "..")
}

/// `type/subtype`, and parameters in printable ASCII.
fn checked_media_type(media_type: &str) -> Result<String, ArtifactError> {
    if is_media_type(media_type) {
        Ok(media_type.to_owned())
    } else {
        Err(ArtifactError::Invalid(
            "the media type is not valid; write for example text/csv".to_owned(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::drafts::DRAFTS;
    use super::*;
    use toolcell_policy::secret::{RedactionTerm, RedactionTerms, SecretValue};

    fn artifacts(dir: &Path, limits: &Limits) -> Artifacts {
        Artifacts::new(
            &PayloadStore::new(dir.to_owned()),
            limits,
            Ok(Redactor::default()),
        )
    }

    fn secretive(dir: &Path) -> Artifacts {
        let mut terms = RedactionTerms::default();
        terms.add(vec![RedactionTerm::secret(
            "KEY",
            &SecretValue::new("sk-live-4f9aB3cD".to_owned()),
        )]);
        let redactor = Redactor::new(&terms, &[], false);
        Artifacts::new(
            &PayloadStore::new(dir.to_owned()),
            &Limits::default(),
            Ok(redactor),
        )
    }

    fn written(artifacts: &Artifacts, name: &str, chunks: &[&str]) -> String {
        let mut draft = artifacts.begin(name, "text/plain").unwrap();
        for chunk in chunks {
            draft.take(chunk.len()).unwrap();
            draft.write(chunk.as_bytes()).unwrap();
        }
        draft.finish(b"").unwrap()
    }

    fn payloads(dir: &Path) -> Vec<String> {
        assert_eq!(
            fs::read_dir(dir.join(DRAFTS)).map_or(0, Iterator::count),
            0,
            "a draft is left"
        );
        let names = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != DRAFTS).collect()
    }

    #[tokio::test]
    async fn only_what_the_output_refers_to_becomes_a_payload() {
        let dir = tempfile::tempdir().unwrap();
        let all = artifacts(dir.path(), &Limits::default());
        let first = written(&all, "a", &["one ", "two"]);
        let _second = written(&all, "b", &["three"]);
        assert!(all.find("toolcell:artifact/forged").is_none());
        assert_eq!(all.find(&first).unwrap()["size_bytes"], 7);
        let kept = all.keep(vec![first]).await.unwrap();
        let reference = &kept[0].persisted_ref;
        assert_eq!(kept.len(), 1);
        assert_eq!(reference.digest, toolcell_spec::digest(b"one two"));
        assert_eq!(
            payloads(dir.path()),
            [reference.digest.trim_start_matches("sha256:")]
        );
    }

    #[tokio::test]
    async fn an_unfinished_artifact_and_a_call_that_ends_leave_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let all = artifacts(dir.path(), &Limits::default());
        let mut draft = all.begin("a", "text/plain").unwrap();
        draft.write(b"half").unwrap();
        assert!(draft.file.path.is_file());
        drop(draft);
        written(&all, "b", &["whole"]);
        drop(all);
        assert!(payloads(dir.path()).is_empty());
    }

    #[test]
    fn a_quota_counts_all_artifacts_and_gives_nothing_back() {
        let dir = tempfile::tempdir().unwrap();
        let all = artifacts(
            dir.path(),
            &Limits {
                artifact_bytes: 10,
                artifacts: 2,
                ..Limits::default()
            },
        );
        let draft = all.begin("a", "text/plain").unwrap();
        draft.take(6).unwrap();
        assert!(
            matches!(draft.take(5), Err(ArtifactError::Quota(why)) if why.contains("11 bytes, 10 are allowed"))
        );
        draft.take(4).unwrap();
        drop(draft);
        let draft = all.begin("b", "text/plain").unwrap();
        assert!(matches!(draft.take(1), Err(ArtifactError::Quota(_))));
        assert!(
            matches!(all.begin("c", "text/plain"), Err(ArtifactError::Quota(why)) if why.contains("2 artifacts"))
        );
        assert!(matches!(
            draft.take(2 << 20),
            Err(ArtifactError::Invalid(_))
        ));
        assert_eq!(
            all.usage()
                .map(|usage| (usage.bytes.used, usage.created.used)),
            Some((10, 2))
        );
    }

    #[test]
    fn few_are_open_at_once_and_a_dropped_one_gives_its_place_back() {
        let dir = tempfile::tempdir().unwrap();
        let all = artifacts(dir.path(), &Limits::default());
        let mut open: Vec<_> = (0..OPEN_MAX)
            .map(|_| all.begin("a", "text/plain").unwrap())
            .collect();
        assert!(
            matches!(all.begin("a", "text/plain"), Err(ArtifactError::Quota(why)) if why.contains("8 artifacts"))
        );
        open.pop();
        assert!(all.begin("a", "text/plain").is_ok());
    }

    #[tokio::test]
    async fn a_secret_is_in_no_payload_even_if_it_is_split_between_chunks() {
        let dir = tempfile::tempdir().unwrap();
        let all = secretive(dir.path());
        let reference = written(
            &all,
            "log of sk-live-4f9aB3cD",
            &["key=sk-li", "ve-4f9", "aB3cD;"],
        );
        assert!(all.is_redacted());
        assert_eq!(all.find(&reference).unwrap()["name"], "log of [secret KEY]");
        let kept = all.keep(vec![reference]).await.unwrap();
        let file = dir
            .path()
            .join(kept[0].persisted_ref.digest.trim_start_matches("sha256:"));
        assert_eq!(fs::read_to_string(file).unwrap(), "key=[secret KEY];");
        assert_eq!(kept[0].persisted_ref.size_bytes, 17);
    }

    #[test]
    fn the_reference_does_not_tell_whether_something_was_redacted() {
        let dir = tempfile::tempdir().unwrap();
        let plain = artifacts(dir.path(), &Limits::default());
        let one = written(&plain, "a", &["same"]);
        let other = written(&plain, "a", &["same"]);
        assert_ne!(one, other, "it is made of the bytes");
    }

    #[test]
    fn a_name_is_shown_and_leads_nowhere() {
        let idle = Redactor::default();
        for (name, shown) in [
            ("report.csv", "report.csv"),
            ("a/b/report.csv", "a/b/report.csv"),
            ("/../../etc//./passwd", "etc/passwd"),
            ("C:\\temp\\a.txt", "temp/a.txt"),
            ("..", "artifact"),
            ("a/", "a/artifact"),
            ("", "artifact"),
            ("a\u{1b}[2Jb\u{202e}\n", "a[2Jb"),
        ] {
            assert_eq!(shown_name(name, &idle), shown, "{name:?}");
        }
        assert_eq!(
            shown_name(&"x".repeat(1 << 20), &idle).chars().count(),
            NAME_CHARS_MAX
        );
        let long = format!("b/{}/a.txt", "x".repeat(200));
        assert_eq!(
            shown_name(&long, &idle),
            "b/a.txt",
            "a folder that has no room is left out"
        );
    }

    #[test]
    fn a_media_type_has_a_type_and_a_subtype() {
        for good in [
            "text/csv",
            "text/plain; charset=utf-8",
            "application/vnd.a+json",
        ] {
            assert_eq!(checked_media_type(good).unwrap(), good);
        }
        let long = format!("text/{}", "x".repeat(255));
        for bad in [
            "",
            "text",
            "text/",
            "/csv",
            "te xt/csv",
            "text/csv\n",
            "text/csv; a=\u{1b}",
            long.as_str(),
        ] {
            assert!(checked_media_type(bad).is_err(), "{bad:?}");
        }
    }
}
