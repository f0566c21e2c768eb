//! Notes: events that are appended while their call runs, for those who follow the log from another process. No call waits
//! for one: a thread appends them, at most one line per call in [`TICK`]. The record of the call repeats them.

use std::fs::{self, FileTimes};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::pool::STORE;
use crate::private;
use crate::record::{EventType, InvocationId, Timestamp, ToolEvent};

use super::line::Kind;
use super::{CallLog, Inner, Keep, LogError};

/// Time between two lines of one call.
const TICK: Duration = Duration::from_millis(100);
/// How long the thread waits for more to do.
const IDLE: Duration = Duration::from_millis(500);
/// Stack of the thread, in bytes.
const STACK_BYTES: usize = 512 << 10;
/// The file that says, by its time, that the log is followed.
const FOLLOWED: &str = "followed";
/// How long the log counts as followed after a follower said so.
const FOLLOWED_FOR: Duration = Duration::from_secs(5);
/// Time between two looks at that file, in milliseconds: a call may cost no system call of its own for this.
const LOOK_MS: u64 = 100;

/// The payload of a note.
#[derive(Serialize)]
pub(in crate::journal) struct EventNote<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::journal) session: Option<&'a str>,
    /// The place of the first event among the events of the call.
    pub(in crate::journal) first: usize,
    pub(in crate::journal) events: &'a [ToolEvent],
}

/// A call that runs, and has events that the log does not have yet.
pub(in crate::journal) trait NoteSource: Send + Sync {
    /// Appends them to `log`.
    fn note(&self, log: &CallLog);
}

/// The calls with events to note. Apart from the log, so that the thread that waits for them keeps no segment locked.
#[derive(Default)]
pub(super) struct Notes {
    waiting: Mutex<NoteQueue>,
    more: Condvar,
}

#[derive(Default)]
struct NoteQueue {
    calls: Vec<Weak<dyn NoteSource>>,
    /// `true` if there is a thread.
    is_served: bool,
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, NoteQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for calls to note; `false` if none came.
    fn wait(&self) -> bool {
        let is_empty = |waiting: &mut NoteQueue| waiting.calls.is_empty();
        let waited = self.more.wait_timeout_while(self.lock(), IDLE, is_empty);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.is_served = !waiting.calls.is_empty();
        waiting.is_served
    }

    /// Appends notes of the calls that have some, until there were none for a while.
    fn serve(&self, log: &Weak<Inner>) {
        while self.wait() {
            thread::sleep(TICK);
            let calls = std::mem::take(&mut self.lock().calls);
            let Some(inner) = log.upgrade() else { break };
            let log = CallLog(inner);
            calls
                .iter()
                .filter_map(Weak::upgrade)
                .for_each(|call| call.note(&log));
        }
    }
}

impl CallLog {
    /// `true` if `event` of a running call is for followers of the log: its progress, or, if the log is followed now, its
    /// start.
    pub(in crate::journal) fn wants(&self, event: &ToolEvent) -> bool {
        let wanted = match event.event_type {
            EventType::Progress
            | EventType::PartialResult
            | EventType::NeedsInput
            | EventType::Resumed
            | EventType::PermissionRequested
            | EventType::CancelRequested => true,
            EventType::Queued | EventType::Started => self.is_followed(event.time),
            _ => false,
        };
        // With less, the journal shall not keep what calls did that succeed.
        wanted && self.0.settings.keep == Keep::All
    }

    /// Has the events of `call` noted soon.
    pub(in crate::journal) fn note_soon(&self, call: Weak<dyn NoteSource>) {
        let mut waiting = self.0.notes.lock();
        waiting.calls.push(call);
        if !std::mem::replace(&mut waiting.is_served, true) {
            let notes = Arc::clone(&self.0.notes);
            let log = Arc::downgrade(&self.0);
            let thread = thread::Builder::new()
                .name("notes".to_owned())
                .stack_size(STACK_BYTES);
            // Without a thread, followers hear of the call when it ends.
            waiting.is_served = thread.spawn(move || notes.serve(&log)).is_ok();
        }
        self.0.notes.more.notify_one();
    }

    /// Appends events of the call `id`.
    pub(in crate::journal) fn noted(
        &self,
        id: InvocationId,
        note: &EventNote<'_>,
    ) -> Result<(), LogError> {
        self.append(Kind::Noted, Some(id), note).map(drop)
    }

    /// Appends events that belong to no call, on a thread for the host's own store.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub async fn announced(
        &self,
        events: Vec<ToolEvent>,
        session: Option<String>,
    ) -> Result<(), LogError> {
        if self.0.settings.keep != Keep::All || events.is_empty() {
            return Ok(());
        }
        let log = self.clone();
        let append = move || {
            let note = EventNote {
                session: session.as_deref(),
                first: 0,
                events: &events,
            };
            log.append(Kind::Noted, None, &note).map(drop)
        };
        STORE
            .run(append)
            .await
            .unwrap_or_else(|error| Err(self.failed("write", &error)))
    }

    /// `true` if another process lately followed the log.
    fn is_followed(&self, now: Timestamp) -> bool {
        let followed = &self.0.followed;
        let millis = now.unix_millis();
        if followed.looked.load(Ordering::Relaxed).abs_diff(millis) >= LOOK_MS {
            followed.looked.store(millis, Ordering::Relaxed);
            followed
                .is_so
                .store(was_touched(&followed_file(self.dir())), Ordering::Relaxed);
        }
        followed.is_so.load(Ordering::Relaxed)
    }
}

/// Followers in other processes, as far as they are known.
#[derive(Default)]
pub(super) struct LogFollowers {
    /// When it last looked, in milliseconds since 1970.
    looked: AtomicI64,
    is_so: AtomicBool,
}

fn followed_file(dir: &Path) -> PathBuf {
    dir.join(FOLLOWED)
}

/// A time in the future is from before a clock was set back: a living follower touches the file again.
fn was_touched(file: &Path) -> bool {
    let modified = fs::metadata(file).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|at| {
        SystemTime::now()
            .duration_since(at)
            .is_ok_and(|age| age < FOLLOWED_FOR)
    })
}

/// Says that the log in `dir` is followed, to the processes that write it. Holds for a few seconds, so that a follower that
/// was killed costs nothing.
pub(super) fn follow(dir: &Path) -> io::Result<()> {
    private::create_dir(dir)?;
    private::open_or_create(&followed_file(dir))?
        .set_times(FileTimes::new().set_modified(SystemTime::now()))
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};
    use std::time::{Duration, SystemTime};

    use super::{FOLLOWED_FOR, follow, followed_file, was_touched};

    #[test]
    fn a_log_is_followed_for_a_while_whatever_the_clock_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = followed_file(folder.path());
        assert!(!was_touched(&file));
        follow(folder.path()).unwrap();
        assert!(was_touched(&file));
        let now = SystemTime::now();
        for other in [now - FOLLOWED_FOR, now + Duration::from_secs(3_600)] {
            let times = FileTimes::new().set_modified(other);
            File::options()
                .write(true)
                .open(&file)
                .unwrap()
                .set_times(times)
                .unwrap();
            assert!(!was_touched(&file), "{other:?}");
        }
    }
}
