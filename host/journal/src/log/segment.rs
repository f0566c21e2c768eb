//! Files of the log: `<number>.log`, each written by one process at a time.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use blake3::Hash;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::json;

use crate::database::VERSION;
use toolcell_spec::InvocationId;
use toolcell_system::private;

use super::call_lines::EarlierLines;
use super::line::{self, Kind, Line, NO_CALL, NewLine};
use super::{Key, LogSettings, orphan};

/// How the name of a segment ends.
const SUFFIX: &str = "log";
/// Size from which a segment takes no further lines, in bytes: a process reads one at its start.
const SEGMENT_BYTES: u64 = 4 << 20;
/// Space that is reserved ahead of the last line, in bytes, so that a call that started can end on a full disk.
pub(super) const RESERVE_BYTES: u64 = 1 << 20;
/// Maximum number of segments that are removed at once: they are read for what has to be kept of them.
const SURPLUS_MAX: usize = 16;
/// Time within which a segment was written by a clock that may have jumped.
const WRITTEN_NOW: Duration = Duration::from_secs(60 * 60);
/// The part of the maximum age within which a segment was written by a clock that did not jump far.
const RECENT_PART: u32 = 4;
/// Size of a read, in bytes.
const READ_BYTES: usize = 256 << 10;
/// Mode of a full segment that its process left without open calls. Nothing is ever added to it.
const CLOSED_MODE: u32 = 0o400;
/// Maximum length of a line, in bytes; a record is bounded by the limits on input and output.
pub(super) const LINE_BYTES_MAX: u64 = 256 << 20;

/// The segment that this process writes. Its lock ends with the process.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    chain: Hash,
    bytes: u64,
    reserved: u64,
    /// The calls of this process that started in it and did not end.
    pub(super) open: Vec<InvocationId>,
}

pub(super) fn name(number: u64) -> String {
    format!("{number:010}.{SUFFIX}")
}

pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(name(number))
}

/// The numbers of all segments, in order. Another spelling of a number is none.
pub(super) fn numbers(dir: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number: Option<u64> = Path::new(&name)
            .file_stem()
            .and_then(|number| number.to_str()?.parse().ok());
        numbers.extend(number.filter(|number| *name == *self::name(*number)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The numbers and sizes of all segments, in order, to notice a change without reading any. Empty if there is no log.
pub(super) fn sizes(dir: &Path) -> io::Result<Vec<(u64, u64)>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let size = |number| fs::metadata(path(dir, number)).map_or(0, |file| file.len());
    Ok(numbers(dir)?
        .into_iter()
        .map(|number| (number, size(number)))
        .collect())
}

/// `true` if the segment is full and has no open calls.
pub(super) fn is_closed(dir: &Path, number: u64) -> bool {
    fs::metadata(path(dir, number)).is_ok_and(|file| file.permissions().readonly())
}

/// `true` if another process removed the opened file.
fn is_gone(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() == 0)
}

impl Segment {
    /// Takes a segment that no living process writes and that has room, or else a new one. Calls that the earlier
    /// process left open end there.
    pub(super) fn take(dir: &Path, key: &Key) -> io::Result<Self> {
        private::close_dir(dir)?;
        let numbers = numbers(dir)?;
        for number in numbers.iter().rev() {
            if let Ok(file) = fs::metadata(path(dir, *number))
                && file.len() >= SEGMENT_BYTES
            {
                // Only one whose process was killed is read, to end its calls.
                if !file.permissions().readonly() {
                    Self::retake(dir, *number, key)?;
                }
                continue;
            }
            if let Some(segment) = Self::retake(dir, *number, key)?.filter(Self::has_room) {
                return Ok(segment);
            }
        }
        let mut number = numbers.last().map_or(1, |last| last + 1);
        loop {
            let file = private::open_or_create(&path(dir, number))?;
            // Another process may have created the same segment at this moment.
            if file.try_lock().is_ok() && file.metadata()?.len() == 0 && !is_gone(&file)? {
                let chain = line::beginning(key, number);
                let mut segment = Self {
                    file,
                    chain,
                    bytes: 0,
                    reserved: 0,
                    open: Vec::new(),
                };
                let opened =
                    json!({ "segment": number, "format": VERSION, "toolcell": env!("CARGO_PKG_VERSION") }).to_string();
                segment.append(key, Kind::Opened, NO_CALL, &opened)?;
                return Ok(segment);
            }
            number += 1;
        }
    }

    /// Takes the segment `number`, and ends the calls that were left open in it; `None` if a living process has it, if it is
    /// closed, or if it is gone.
    pub(super) fn retake(dir: &Path, number: u64, key: &Key) -> io::Result<Option<Self>> {
        let file = match File::options()
            .read(true)
            .write(true)
            .open(path(dir, number))
        {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_closed(dir, number) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) if is_gone(&file)? => return Ok(None),
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        let mut calls = OpenCalls::default();
        let mut chain = line::beginning(key, number);
        let mut lines = LineReader::new(&file, 0)?;
        while let Some((line, _)) = lines.next()? {
            // A damaged line is the affair of `verify`.
            if let Some(line) = Line::read(line) {
                if line.kind == Kind::Opened {
                    check_format(dir, line.payload)?;
                }
                chain = line.chain;
                calls.read(&line);
            }
        }
        let LineReader { bytes, torn, .. } = lines;
        let OpenCalls(mut open) = calls;
        open.retain(|_, lines| lines.start.is_some());
        let mut segment = Self {
            file,
            chain,
            bytes,
            reserved: 0,
            // While there are any, it must not be closed.
            open: open.keys().filter_map(|id| id.parse().ok()).collect(),
        };
        if torn > 0 {
            segment.file.set_len(segment.bytes)?;
            let removed = json!({ "removed_bytes": torn }).to_string();
            segment.append(key, Kind::Repaired, NO_CALL, &removed)?;
        }
        for (id, lines) in open {
            if let Some(end) = orphan::ended(&id, &lines) {
                segment.append(key, Kind::Ended, &id, &end)?;
            }
        }
        segment.open.clear();
        Ok(Some(segment))
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes < SEGMENT_BYTES
    }

    /// Appends a line, whole or not at all.
    pub(super) fn append(
        &mut self,
        key: &Key,
        kind: Kind,
        id: &str,
        payload: &str,
    ) -> io::Result<()> {
        self.add(key, NewLine::from_text(kind, id, payload))
    }

    /// Appends a line that was made before its turn, whole or not at all.
    pub(super) fn add(&mut self, key: &Key, line: NewLine) -> io::Result<()> {
        let kind = line.kind;
        let (line, chain) = line.after(&self.chain, key);
        if matches!(kind, Kind::Started | Kind::Suspended | Kind::Noted) {
            self.reserve(self.bytes + line.len() as u64)?;
        }
        if let Err(error) = self.file.write_all_at(&line, self.bytes) {
            // A part of a line would hide what comes after it.
            self.file.set_len(self.bytes)?;
            // This may have given up what was reserved.
            self.reserved = 0;
            return Err(error);
        }
        self.bytes += line.len() as u64;
        self.chain = chain;
        Ok(())
    }

    /// Reserves space for the end of a call whose start ends at `end`.
    fn reserve(&mut self, end: u64) -> io::Result<()> {
        if end + RESERVE_BYTES <= self.reserved {
            return Ok(());
        }
        match rustix::fs::fallocate(
            &self.file,
            FallocateFlags::KEEP_SIZE,
            end,
            2 * RESERVE_BYTES,
        ) {
            Ok(()) => {
                self.reserved = end + 2 * RESERVE_BYTES;
                Ok(())
            }
            // Not every file system can reserve space.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl Drop for Segment {
    /// Gives back the space that was reserved behind the last line, and closes a full segment.
    fn drop(&mut self) {
        let _ = self.file.set_len(self.bytes);
        if !self.has_room() && self.open.is_empty() {
            let _ = self
                .file
                .set_permissions(Permissions::from_mode(CLOSED_MODE));
        }
    }
}

/// Checks the version of the journal in the first line of a segment.
///
/// # Errors
///
/// Another version of toolcell wrote the log.
pub(super) fn check_format(dir: &Path, opened: &str) -> io::Result<()> {
    #[derive(Default, Deserialize)]
    struct Opened {
        #[serde(default)]
        format: i64,
    }
    let Opened { format } = serde_json::from_str(opened).unwrap_or_default();
    match format.cmp(&VERSION) {
        Ordering::Equal => Ok(()),
        Ordering::Less => {
            let dir = dir.display().to_string().replace('\'', r"'\''");
            let message = format!(
                "an earlier toolcell wrote it, and this one cannot read it; remove it: rm -r '{dir}'"
            );
            Err(io::Error::other(message))
        }
        Ordering::Greater => Err(io::Error::other("a newer toolcell wrote it")),
    }
}

/// The calls that did not end until a line of a segment, with their lines: in the order of their ids, and so of their time.
#[derive(Default)]
struct OpenCalls(BTreeMap<String, EarlierLines>);

impl OpenCalls {
    /// Reads the next line. Returns the lines before it of the call that it ends.
    fn read(&mut self, line: &Line<'_>) -> EarlierLines {
        let id = line.id;
        match line.kind {
            Kind::Started => {
                let lines = self.0.entry(id.to_owned()).or_default();
                lines.start = Some(line.payload.to_owned());
            }
            // Its notes stay, because it can start again here.
            Kind::Suspended => {
                if let Some(lines) = self.0.get_mut(id) {
                    lines.start = None;
                }
            }
            Kind::Noted if id != NO_CALL => {
                let lines = self.0.entry(id.to_owned()).or_default();
                lines.notes.push(line.payload.to_owned());
            }
            Kind::Ended | Kind::Carried | Kind::Dropped => {
                return self.0.remove(id).unwrap_or_default();
            }
            Kind::Noted | Kind::Opened | Kind::Repaired | Kind::Pruned => {}
        }
        EarlierLines::default()
    }
}

/// Reads the lines of a segment, one at a time, because the ends of many calls can make a full segment far larger.
pub(super) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// The bytes of the file up to the last line break.
    pub(super) bytes: u64,
    /// The bytes after it.
    pub(super) torn: u64,
}

impl<'f> LineReader<&'f File> {
    /// Reads from the byte `from` on, with which a line begins.
    pub(super) fn new(mut file: &'f File, from: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(from))?;
        Ok(Self {
            reader: BufReader::with_capacity(READ_BYTES, file),
            line: Vec::new(),
            bytes: from,
            torn: 0,
        })
    }
}

impl<R: Read> LineReader<R> {
    /// The next whole line, without its line break, and where it ends; `None` at the end of the file.
    pub(super) fn next(&mut self) -> io::Result<Option<(&[u8], u64)>> {
        loop {
            self.line.clear();
            let read = self
                .reader
                .by_ref()
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut self.line)?;
            self.torn += read as u64;
            if self.line.pop_if(|last| *last == b'\n').is_some() {
                self.bytes += std::mem::take(&mut self.torn);
                return Ok(Some((&self.line, self.bytes)));
            }
            // Not to be read on: a process that writes may add the rest of the last line now, which is no line. Else it is a
            // part of a line that is longer than any that was written.
            if (read as u64) < LINE_BYTES_MAX {
                return Ok(None);
            }
        }
    }
}

/// Gives `each` the lines of the segment `number` that can be read, and for the end of a call the lines of the call before it,
/// until it breaks.
pub(super) fn each_line_of(
    dir: &Path,
    number: u64,
    mut each: impl FnMut(&Line<'_>, EarlierLines) -> io::Result<ControlFlow<()>>,
) -> io::Result<ControlFlow<()>> {
    let file = File::open(path(dir, number))?;
    let mut calls = OpenCalls::default();
    let mut lines = LineReader::new(&file, 0)?;
    while let Some((line, _)) = lines.next()? {
        if let Some(line) = Line::read(line) {
            let earlier = calls.read(&line);
            if each(&line, earlier)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// A segment that the log has to lose. No process writes it while this lives.
pub(super) struct Surplus {
    pub(super) number: u64,
    /// `true` if its age is the reason.
    pub(super) is_old: bool,
    path: PathBuf,
    // Closing the file releases the lock.
    _file: File,
}

impl Surplus {
    pub(super) fn remove(self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            // Another process removed it between its being opened and locked.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// The first segments that are too old, or the oldest ones while all of them are larger than the log may be. A segment that
/// a process writes stays. More than [`SURPLUS_MAX`] go later. Also returns whether the clock can be trusted to say what is old.
pub(super) fn surplus(dir: &Path, settings: &LogSettings) -> io::Result<(Vec<Surplus>, bool)> {
    let mut segments = Vec::new();
    for number in numbers(dir)? {
        let Ok(metadata) = fs::metadata(path(dir, number)) else {
            continue;
        };
        segments.push((number, metadata.len(), metadata.modified()?));
    }
    let mut total: u64 = segments.iter().map(|(_, bytes, _)| bytes).sum();
    let now = SystemTime::now();
    let age = |modified: &SystemTime| now.duration_since(*modified).unwrap_or_default();
    // A clock that jumps ahead makes all segments old at once: then none is of the last weeks but those that were just written.
    let is_clock_sure = segments.iter().any(|(_, _, modified)| {
        (WRITTEN_NOW..settings.age_max / RECENT_PART).contains(&age(modified))
    }) || !guard!("clock_jumps");
    let mut surplus = Vec::new();
    for (number, bytes, modified) in segments {
        let is_old = is_clock_sure && age(&modified) > settings.age_max;
        if (is_old || total > settings.bytes_max)
            && surplus.len() < SURPLUS_MAX
            && let Some(found) = unwritten(number, is_old, path(dir, number))
        {
            total -= bytes;
            surplus.push(found);
        }
    }
    Ok((surplus, is_clock_sure))
}

/// Takes the segment at `path`, unless a living process writes it.
fn unwritten(number: u64, is_old: bool, path: PathBuf) -> Option<Surplus> {
    // One that is closed can only be read.
    let file = File::options()
        .write(true)
        .open(&path)
        .or_else(|_| File::open(&path))
        .ok()?;
    file.try_lock().ok()?;
    Some(Surplus {
        number,
        is_old,
        path,
        _file: file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file to which a process adds more each time that its end was reached.
    struct GrowingFile(Vec<&'static [u8]>);

    impl Read for GrowingFile {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(more) = self.0.first_mut() else {
                return Ok(0);
            };
            let read = more.read(buffer)?;
            if read == 0 {
                self.0.remove(0);
            }
            Ok(read)
        }
    }

    #[test]
    fn the_rest_of_a_line_that_was_incomplete_is_no_line() {
        let mut lines = LineReader {
            reader: BufReader::new(GrowingFile(vec![b"one\nt", b"wo\n"])),
            line: Vec::new(),
            bytes: 0,
            torn: 0,
        };
        assert_eq!(lines.next().unwrap(), Some((&b"one"[..], 4)));
        assert_eq!(lines.next().unwrap(), None);
        assert_eq!((lines.bytes, lines.torn), (4, 1));
    }
}
