//! How a busy process writes lines: into the ring of its segment, for a copy each. A thread puts them into the segment a
//! moment later, and readers wait for that. Where lines are rare, each is written at once, and there is no ring.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::record::InvocationId;

use super::line::{self, Kind, UnlinkedLine};
use super::ring::{self, Ring};
use super::segment::{self, Segment};
use super::{CallLog, Inner, Key, LogError, Writer};

/// How long lines wait in the ring.
const TICK: Duration = Duration::from_millis(1);
/// Time between two attempts to write to a segment that cannot be written.
const RETRY: Duration = Duration::from_millis(100);
/// Ticks without a line after which the process is busy no more.
const IDLE_TICKS: u32 = 500;
/// So many lines, each less than [`PAUSE`] after the one before, make a process busy.
const BUSY_LINES: u32 = 16;
const PAUSE: Duration = Duration::from_millis(10);
/// Time between two looks at the ring of another process.
const LOOK: Duration = Duration::from_micros(200);
/// How long a reader waits for other processes to empty their rings. One that is stopped never does.
const PATIENCE: Duration = Duration::from_secs(1);
/// Stack of the thread, in bytes.
const STACK_BYTES: usize = 512 << 10;

/// The ring of a busy process. While there is one, it holds the state of the segment of the process.
pub(super) struct Front {
    ring: Ring,
    open: Vec<InvocationId>,
    /// Bytes of lines for which the segment has room, with space that is reserved.
    room: u64,
}

impl Front {
    /// `true` if the call started in the segment of this process, and did not end.
    pub(super) fn has(&self, id: InvocationId) -> bool {
        self.open.contains(&id)
    }

    /// Adds a line; `false` if it has to be written to a segment at once.
    fn push(&mut self, kind: Kind, id: InvocationId, content: &[u8]) -> bool {
        let is_for_it = match kind {
            Kind::Started => true,
            // It belongs where its call started.
            Kind::Ended | Kind::Dropped => self.open.contains(&id),
            _ => false,
        };
        let bytes = line::length(content);
        if !is_for_it || self.room < bytes || !self.ring.push(content) {
            return false;
        }
        self.room -= bytes;
        match kind {
            Kind::Started => self.open.push(id),
            _ => self.open.retain(|open| *open != id),
        }
        true
    }
}

/// How fast lines follow each other.
pub(super) struct Pace {
    last: Instant,
    lines: u32,
    /// `true` if a thread empties the ring.
    is_served: bool,
    /// `true` if no ring can be made.
    is_plain: bool,
}

impl Pace {
    pub(super) fn new(is_plain: bool) -> Self {
        Self {
            last: Instant::now(),
            lines: 0,
            is_served: false,
            is_plain,
        }
    }

    /// `true` if a thread empties the ring of the segment.
    pub(super) fn is_served(&self) -> bool {
        self.is_served
    }

    /// Counts a line; whether the process is busy.
    fn count(&mut self) -> bool {
        if self.is_plain {
            return false;
        }
        let now = Instant::now();
        let is_next = now.duration_since(self.last) < PAUSE;
        self.lines = if is_next {
            self.lines.saturating_add(1)
        } else {
            0
        };
        self.last = now;
        self.lines >= BUSY_LINES
    }
}

impl Inner {
    fn front(&self) -> MutexGuard<'_, Option<Front>> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line to the ring; `false` if there is none, or if the line has to be written to a segment at once.
    pub(super) fn push(&self, kind: Kind, id: Option<InvocationId>, line: &UnlinkedLine) -> bool {
        let mut front = self.front();
        id.zip(front.as_mut())
            .is_some_and(|(id, front)| front.push(kind, id, line.content()))
    }

    /// Takes the front back, so that lines can be written to the segment, after the ring's lines.
    pub(super) fn land(&self, writer: &mut Writer) -> io::Result<Option<Ring>> {
        // Calls that find none wait for the writer.
        let Some(mut front) = self.front().take() else {
            return Ok(None);
        };
        let pending = front.ring.pending();
        let added = pending
            .contents()
            .and_then(|contents| writer.current.add_all(&writer.key, &contents));
        match added {
            Ok(()) => {
                front.ring.written(&pending);
                writer.current.open = front.open;
                Ok(Some(front.ring))
            }
            Err(error) => {
                // Its lines are on record. There is no room for more.
                front.room = 0;
                *self.front() = Some(front);
                Err(error)
            }
        }
    }

    /// Lets calls write to a ring from now on if they are many: to `ring`, if it belongs to the segment.
    pub(super) fn lift(self: &Arc<Self>, writer: &mut Writer, ring: Option<Ring>) {
        let is_busy = ring.is_some() || writer.pace.count();
        if !is_busy {
            return;
        }
        let Writer {
            key, current, pace, ..
        } = writer;
        let ring = ring.filter(|ring| ring.number == current.number);
        let mut ring = match ring.map_or_else(
            || Ring::create(&self.dir, current.number, key),
            |ring| Ok(Some(ring)),
        ) {
            Ok(Some(ring)) if pace.is_served || self.serve() => ring,
            Ok(None) => {
                pace.is_plain = true;
                return;
            }
            // Without space or a thread, perhaps later.
            Ok(Some(_)) | Err(_) => {
                pace.lines = 0;
                return;
            }
        };
        pace.is_served = true;
        let (bytes, chain) = current.end();
        ring.begin(key, bytes, chain);
        let room = current.room();
        *self.front() = Some(Front {
            ring,
            open: std::mem::take(&mut current.open),
            room,
        });
    }

    /// Starts the thread that empties the ring; `false` if there can be none.
    fn serve(self: &Arc<Self>) -> bool {
        // Apart from the log, so that the thread keeps no segment locked.
        let log = Arc::downgrade(self);
        let thread = thread::Builder::new()
            .name("log".to_owned())
            .stack_size(STACK_BYTES);
        thread.spawn(move || serve(&log)).is_ok()
    }

    /// Puts the lines of the ring into the segment, beside calls that go on. Whether there were any.
    fn drain(&self) -> io::Result<bool> {
        self.drain_into(&mut self.writer())
    }

    fn drain_into(&self, writer: &mut Option<Writer>) -> io::Result<bool> {
        let Some(Writer { key, current, .. }) = writer else {
            return Ok(false);
        };
        let pending = match &*self.front() {
            Some(front) if !front.ring.is_empty() => front.ring.pending(),
            _ => return Ok(false),
        };
        let added = pending
            .contents()
            .and_then(|contents| current.add_all(key, &contents));
        // Only a thread that has the writer takes it away.
        if let Some(front) = &mut *self.front() {
            match &added {
                Ok(()) => front.ring.written(&pending),
                Err(_) => front.room = 0,
            }
        }
        added.map(|()| true)
    }

    /// Removes the ring, because lines are rare again; `false` if its lines cannot be written.
    fn rest(&self) -> bool {
        let mut writer = self.writer();
        let Some(writer) = &mut *writer else {
            return true;
        };
        let is_empty = self.land(writer).is_ok();
        if is_empty {
            writer.pace = Pace::new(false);
        }
        is_empty
    }
}

/// Empties the ring of `log` until it rests.
fn serve(log: &Weak<Inner>) {
    let mut idle = 0;
    let mut pause = TICK;
    loop {
        thread::sleep(pause);
        let Some(log) = log.upgrade() else { return };
        let drained = log.drain();
        pause = if drained.is_ok() { TICK } else { RETRY };
        idle = if drained.unwrap_or(false) {
            0
        } else {
            idle + 1
        };
        if idle >= IDLE_TICKS && log.rest() {
            return;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // What cannot be written stays in the ring, for the process that takes the segment.
        let _ = writer.as_mut().map(|writer| self.land(writer));
    }
}

impl CallLog {
    /// Writes all lines that wait in rings of this process and of dead ones to their segments, so that they can be read.
    /// Living processes do so themselves.
    pub(super) fn gather(&self) -> Result<(), LogError> {
        let own = {
            let mut writer = self.0.writer();
            self.0
                .drain_into(&mut writer)
                .map_err(|error| self.failed("write", &error))?;
            writer.as_ref().map(|writer| writer.current.number)
        };
        let numbers = match ring::numbers(self.dir()) {
            Ok(numbers) => numbers,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.failed("read", &error)),
        };
        let end = Instant::now() + PATIENCE;
        for number in numbers.into_iter().filter(|number| Some(*number) != own) {
            let key = self.key()?;
            self.gather_other(number, &key, end)
                .map_err(|error| self.failed("repair", &error))?;
        }
        Ok(())
    }

    /// Waits until `end` for the lines of the ring of another process, which may die meanwhile.
    fn gather_other(&self, number: u64, key: &Key, end: Instant) -> io::Result<()> {
        if segment::is_closed(self.dir(), number) {
            // A process that closes a segment has put all lines there.
            ring::remove(self.dir(), number, ring::SUFFIX);
            return Ok(());
        }
        let Some(wanted) = ring::end(self.dir(), number) else {
            return Segment::retake(self.dir(), number, key).map(drop);
        };
        while Segment::retake(self.dir(), number, key)?.is_none()
            && segment::path(self.dir(), number).exists()
            && !ring::is_written(self.dir(), number, wanted)
            && Instant::now() < end
        {
            thread::sleep(LOOK);
        }
        Ok(())
    }
}
