//! Files `<number>.log`, each written by one process at a time.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use blake3::Hash;
use serde::Deserialize;
use serde_json::json;

use crate::database::VERSION;
use toolcell_spec::InvocationId;
use toolcell_system::private;

use super::call_lines::EarlierLines;
use super::line::{self, Kind, Line, NO_CALL, NewLine};
use super::{Key, LogSettings, orphan};

const SUFFIX: &str = "log";
/// Then no lines follow; a process reads one segment at its start.
const SEGMENT_BYTES: u64 = 4 << 20;
/// Ahead of the last line, so that a started call can end on a full disk.
pub(super) const RESERVE_BYTES: u64 = 1 << 20;
/// Removed segments are read for what has to be kept.
const SURPLUS_MAX: usize = 16;
/// Within it, the clock that a segment was written by may have jumped.
const WRITTEN_NOW: Duration = Duration::from_secs(60 * 60);
/// Part of the maximum age within which a clock did not jump far.
const RECENT_PART: u32 = 4;
const READ_BYTES: usize = 256 << 10;
/// For a full segment without open calls, to which nothing is added.
const CLOSED_MODE: u32 = 0o400;
/// Limits on input and output bound a record.
pub(super) const LINE_BYTES_MAX: u64 = 256 << 20;

/// Written by this process, and locked as long as it lives.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    chain: Hash,
    bytes: u64,
    reserved: u64,
    pub(super) open: Vec<InvocationId>,
}

pub(super) fn name(number: u64) -> String {
    format!("{number:010}.{SUFFIX}")
}

pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(name(number))
}

/// Sorted; another spelling of a number is none.
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

/// Sorted, to notice a change without reading any. Empty without a log.
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

pub(super) fn is_closed(dir: &Path, number: u64) -> bool {
    fs::metadata(path(dir, number)).is_ok_and(|file| file.permissions().readonly())
}

fn is_gone(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() == 0)
}

impl Segment {
    /// Takes a segment with room and without a living process, or a new one. Calls left open in it end.
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

    /// Ends the calls left open; `None` if a living process has the segment, or it is closed or gone.
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

    /// Appends all or nothing.
    pub(super) fn append(
        &mut self,
        key: &Key,
        kind: Kind,
        id: &str,
        payload: &str,
    ) -> io::Result<()> {
        self.add(key, NewLine::from_text(kind, id, payload))
    }

    /// Appends a prepared line, all or nothing.
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

    /// The start ends at `end`.
    fn reserve(&mut self, end: u64) -> io::Result<()> {
        if end + RESERVE_BYTES <= self.reserved {
            return Ok(());
        }
        if reserve_space(&self.file, end, 2 * RESERVE_BYTES)? {
            self.reserved = end + 2 * RESERVE_BYTES;
        }
        Ok(())
    }

    pub(super) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl Drop for Segment {
    /// Gives back reserved space, and closes a full segment.
    fn drop(&mut self) {
        let _ = self.file.set_len(self.bytes);
        if !self.has_room() && self.open.is_empty() {
            let _ = self
                .file
                .set_permissions(Permissions::from_mode(CLOSED_MODE));
        }
    }
}

/// Reserves space of the disk without a change of the file's size. Returns `false` where that cannot be done: then a
/// write may fail.
pub(super) fn reserve_space(file: &File, start: u64, bytes: u64) -> io::Result<bool> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(file, FallocateFlags::KEEP_SIZE, start, bytes) {
            Ok(()) => Ok(true),
            // Not every file system can reserve space.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, start, bytes);
        Ok(false)
    }
}

/// Fails if another version of toolcell wrote the log.
pub(super) fn check_format(dir: &Path, opened: &str) -> io::Result<()> {
    #[derive(Default, Deserialize)]
    struct SegmentStart {
        #[serde(default)]
        format: i64,
    }
    let SegmentStart { format } = serde_json::from_str(opened).unwrap_or_default();
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

/// Calls without an end so far, with their lines, in the order of their ids, and so of time.
#[derive(Default)]
struct OpenCalls(BTreeMap<String, EarlierLines>);

impl OpenCalls {
    /// Returns earlier lines of the call that `line` ends.
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

/// Reads line by line, because the ends of many calls can make a full segment far larger.
pub(super) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// Bytes up to the last line break.
    pub(super) bytes: u64,
    /// Bytes after it.
    pub(super) torn: u64,
}

impl<'f> LineReader<&'f File> {
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
    /// Without line break, and with its end; `None` at the end of the file.
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

/// Skips unreadable lines; an end comes with earlier lines of its call. Stops when `each` breaks.
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

/// A segment to be lost, which no process writes meanwhile.
pub(super) struct Surplus {
    pub(super) number: u64,
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

/// Segments that are too old, or the oldest while all are too large; not those in use, and at most [`SURPLUS_MAX`].
/// Also returns whether the clock can be trusted with ages.
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

    /// Another process adds more whenever its end was reached.
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
