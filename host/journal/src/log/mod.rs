//! The log of all calls: what was started, and how it ended, in files that only grow.
//!
//! A process appends to a *segment* of its own, locked while it lives. A keyed hash links every line to the one before,
//! so that an edited, removed or reordered line shows itself ([`CallLog::verify`]). The start of a call is on record
//! before its effect, and its end before the caller hears of it. Neither waits for the disk, unless asked to: a killed
//! process loses nothing, and a machine that loses power may lose the last seconds.
//!
//! All lines of a call are in one segment, locked until its calls have ended, even if it is full; notes of running
//! calls (`notes.rs`) are for followers in other processes (`events.rs`). Lines omit what earlier lines of the call
//! have (`call_lines.rs`).
//!
//! The segments are the evidence. The index (`fold.rs`) can be made again; its progress is also in a file outside of
//! the folder (`head.rs`).

mod call_lines;
mod check;
mod copy;
mod derive;
mod events;
mod fold;
mod head;
mod index;
mod known;
mod line;
mod notes;
mod numbers;
mod orphan;
mod prune;
mod scan;
mod segment;
mod share;
#[cfg(test)]
mod tests;
mod upkeep;
mod verify;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use zeroize::Zeroizing;

use crate::Start;
use crate::log_settings::{Keep, LogError, LogSettings};
use toolcell_policy::secret::private_file::{self, KEY_BYTES};
use toolcell_spec::{CallRecord, InvocationId, ToolInvocation};
use toolcell_system::BoxFuture;
use toolcell_system::pool::STORE;

use call_lines::{EndPayload, StartedCall};
pub use events::{EventReader, FollowedEvent, LoggedEvent};
pub use index::{CallQuery, CallSummary};
use line::{Kind, NewLine};
use notes::Notes;
use segment::Segment;
use upkeep::Upkeep;
pub use verify::{Damage, VerifiedLog};

type Key = Zeroizing<[u8; KEY_BYTES]>;

/// Cheap to clone. The first written call takes a segment.
#[derive(Clone, Debug)]
pub struct CallLog(Arc<Inner>);

struct Inner {
    journal: PathBuf,
    dir: PathBuf,
    key_file: PathBuf,
    settings: LogSettings,
    writer: Mutex<Option<Writer>>,
    upkeep: Arc<Upkeep>,
    notes: Arc<Notes>,
    started: Mutex<HashMap<InvocationId, StartedCall>>,
}

struct Writer {
    key: Key,
    current: Segment,
    full: Vec<Segment>,
}

impl Writer {
    fn full_of(&self, id: InvocationId) -> Option<usize> {
        self.full
            .iter()
            .position(|segment| segment.open.contains(&id))
    }

    /// `true` if the line belongs into the next segment.
    fn must_move(&self, kind: Kind, id: Option<InvocationId>) -> bool {
        let is_here =
            || id.is_some_and(|id| self.current.open.contains(&id) || self.full_of(id).is_some());
        !self.current.has_room() && (kind == Kind::Started || !is_here())
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallLog")
            .field("dir", &self.dir)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn head_file(&self) -> PathBuf {
        head::path(&self.key_file, &self.dir)
    }

    fn key(&self) -> anyhow::Result<Key> {
        private_file::read_or_make_key(&self.key_file)
    }

    fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn started(&self) -> MutexGuard<'_, HashMap<InvocationId, StartedCall>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallLog {
    /// A key in `key_file` links the lines. The first call creates both.
    pub fn new(journal: PathBuf, key_file: PathBuf, settings: LogSettings) -> Self {
        Self(Arc::new(Inner {
            dir: journal.join("calls"),
            journal,
            key_file,
            settings,
            writer: Mutex::new(None),
            upkeep: Arc::default(),
            notes: Arc::default(),
            started: Mutex::default(),
        }))
    }

    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    pub fn settings(&self) -> LogSettings {
        self.0.settings
    }

    /// A large start goes to a thread for the host's own store. Fails also without space for the end of the call.
    pub async fn started(&self, mut start: Start, is_large: bool) -> Result<(), LogError> {
        if self.0.settings.keep == Keep::None {
            return Ok(());
        }
        if start.invocation.keeps_no_input {
            start.hide_input();
        }
        let log = self.clone();
        let write = move || log.start(Kind::Started, start);
        let written = if is_large {
            self.aside(write).await?
        } else {
            write()?
        };
        self.sync(written).await
    }

    /// A started call waits for an answer, in the store of suspended calls. It ends there, or starts again. Uses a
    /// thread for the host's own store.
    pub async fn suspended(
        &self,
        invocation: ToolInvocation,
        changes: bool,
    ) -> Result<(), LogError> {
        let log = self.clone();
        let written = self
            .aside(move || log.start(Kind::Suspended, Start::new(invocation, changes)))
            .await?;
        self.sync(written).await
    }

    fn start(&self, kind: Kind, mut start: Start) -> Result<Option<File>, LogError> {
        // With less, the journal shall not keep what calls did that succeed.
        if self.0.settings.keep != Keep::All {
            start.events.clear();
        }
        let id = start.invocation.invocation_id;
        let started = StartedCall::new(&start);
        let unsynced = self.append(kind, Some(id), &start.into_payload())?;
        if kind == Kind::Started {
            self.0.started().insert(id, started);
        } else {
            self.0.started().remove(&id);
        }
        Ok(unsynced)
    }

    /// Omits the declaration, and an output that may be on no disk.
    pub async fn ended(&self, record: &CallRecord) -> Result<(), LogError> {
        let written = self.end(record)?;
        self.sync(written).await
    }

    /// [`Self::ended`] on a thread for the host's own store, for a large record.
    pub async fn large_ended(&self, record: CallRecord) -> (CallRecord, Result<(), LogError>) {
        let log = self.clone();
        let shared = Arc::new(record);
        let record = Arc::clone(&shared);
        let written = match self.aside(move || log.end(&record)).await {
            Ok(unsynced) => self.sync(unsynced).await,
            Err(error) => Err(error),
        };
        (Arc::unwrap_or_clone(shared), written)
    }

    fn end(&self, record: &CallRecord) -> Result<Option<File>, LogError> {
        let id = record.invocation.invocation_id;
        let start = self.0.started().remove(&id);
        match self.0.settings.keep {
            Keep::None => Ok(None),
            Keep::Failures if !record.result.is_error => self.append(Kind::Dropped, Some(id), &()),
            _ if record.is_never_persisted() && guard!("never_persisted") => {
                let record = record.without_output();
                self.append(Kind::Ended, Some(id), &EndPayload::new(&record, None))
            }
            _ => {
                let start = start.filter(|_| guard!("journal_inputs"));
                let after = start.and_then(|start| start.parts(record));
                self.append(Kind::Ended, Some(id), &EndPayload::new(record, after))
            }
        }
    }

    /// Boxed, to keep the future of a call that needs no thread small.
    fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, LogError> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, LogError>> {
        Box::pin(async {
            STORE
                .run(work)
                .await
                .unwrap_or_else(|error| Err(self.failed("write", &error)))
        })
    }

    /// Only if asked for.
    async fn sync(&self, unsynced: Option<File>) -> Result<(), LogError> {
        let Some(file) = unsynced else { return Ok(()) };
        let log = self.clone();
        self.aside(move || {
            file.sync_data()
                .map_err(|error| log.failed("write", &error))
        })
        .await
    }

    /// Returns the file if it has to reach the disk.
    fn append(
        &self,
        kind: Kind,
        id: Option<InvocationId>,
        payload: &impl Serialize,
    ) -> Result<Option<File>, LogError> {
        let name = id.map_or_else(|| line::NO_CALL.to_owned(), |id| id.to_string());
        let line = NewLine::from_payload(kind, &name, payload)
            .map_err(|error| self.failed("write", &error))?;
        self.write(id, line)
    }

    fn write(&self, id: Option<InvocationId>, line: NewLine) -> Result<Option<File>, LogError> {
        let kind = line.kind;
        let failed = |error: io::Error| self.failed("write", &error);
        let mut kept = self.0.writer();
        let writer = match &mut *kept {
            Some(writer) => writer,
            none => none.insert(self.begin()?),
        };
        if writer.must_move(kind, id) {
            self.move_on(writer)?;
        }
        let at = id.and_then(|id| writer.full_of(id));
        let Writer {
            key, current, full, ..
        } = writer;
        let segment = at.and_then(|at| full.get_mut(at)).unwrap_or(current);
        segment.add(key, line).map_err(failed)?;
        let file = if self.0.settings.flush && kind != Kind::Noted {
            Some(segment.file().map_err(failed)?)
        } else {
            None
        };
        match (kind, id) {
            (Kind::Started, Some(id)) => segment.open.push(id),
            (Kind::Suspended | Kind::Ended | Kind::Dropped, Some(id)) => {
                segment.open.retain(|open| *open != id)
            }
            _ => {}
        }
        full.retain(|segment| !segment.open.is_empty());
        self.keep_up(false);
        Ok(file)
    }

    fn begin(&self) -> Result<Writer, LogError> {
        let key = self.key()?;
        let mut current = self.take(&key)?;
        self.0
            .prune(&key, |removed| prune::note(&mut current, &key, removed))
            .map_err(|error| self.failed("write", &error))?;
        Ok(Writer {
            key,
            current,
            full: Vec::new(),
        })
    }

    /// The full segment stays locked while calls of it run, because other processes would take them for calls of a
    /// killed process.
    fn move_on(&self, writer: &mut Writer) -> Result<(), LogError> {
        let next = self.take(&writer.key)?;
        let full = std::mem::replace(&mut writer.current, next);
        if !full.open.is_empty() {
            writer.full.push(full);
        }
        // No call of a busy process waits for the disk.
        self.keep_up(true);
        Ok(())
    }

    fn take(&self, key: &Key) -> Result<Segment, LogError> {
        Segment::take(&self.0.dir, key).map_err(|error| self.failed("write", &error))
    }

    fn key(&self) -> Result<Key, LogError> {
        self.0
            .key()
            .map_err(|error| self.failed("open", &format!("{error:#}")))
    }

    fn failed(&self, what: &'static str, why: &dyn std::fmt::Display) -> LogError {
        LogError::Failed {
            what,
            dir: self.0.dir.clone(),
            why: why.to_string(),
        }
    }

    /// Ends the calls of killed processes.
    pub fn close_orphans(&self) -> Result<(), LogError> {
        self.settled().map(drop)
    }

    /// Handles segments with open calls. Returns whether any call was ended.
    fn end_orphans(&self, unfinished: &[u64]) -> Result<bool, LogError> {
        if unfinished.is_empty() {
            return Ok(false);
        }
        let key = self.key()?;
        let mut ended = false;
        for number in unfinished {
            if segment::is_closed(&self.0.dir, *number) {
                continue;
            }
            // A segment that is locked belongs to a living process.
            let taken = Segment::retake(&self.0.dir, *number, &key)
                .map_err(|error| self.failed("repair", &error))?;
            ended |= taken.is_some();
        }
        Ok(ended)
    }
}
