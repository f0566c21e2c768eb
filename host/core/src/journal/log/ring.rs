//! The ring of a segment: a file in memory of the kernel that takes lines for a copy instead of a system call. It outlives
//! its process as a written file does, and whoever takes the segment of a dead process puts its lines there.
//!
//! It begins with a header of five numbers: [`MAGIC`]; the position after the last frame; the position of the first frame
//! that may not be in the segment yet; the length of the segment when its first frame was added; and the boot of the machine,
//! because a machine that loses power may keep a part of the file. Positions count bytes from the creation of the file. A frame is `LENGTH COUNT MAC CONTENT`: COUNT is the number of frames since that length,
//! and MAC a keyed hash of that length, COUNT and CONTENT, because nothing else links a line that is not in its segment.
//! Numbers have 8 bytes, the least significant first.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use memmap2::MmapMut;
use rustix::fs::FallocateFlags;
use siphasher::sip::SipHasher24;

use crate::private::{self, Others};

use super::{Damage, Key, line};

/// How the name of a ring ends.
pub(super) const SUFFIX: &str = ".ring";
/// How that of a ring ends that was changed after its process was killed.
const CHANGED: &str = ".changed";
const MAGIC: u64 = u64::from_le_bytes(*b"toolring");
const NUMBER: usize = size_of::<u64>();
const NUMBERS: usize = 5;
const HEADER: usize = NUMBERS * NUMBER;
/// Bytes of a frame without its content.
const FRAME: usize = 3 * NUMBER;
/// Bytes from the begin of a content to the end of its id.
const ID_PLACE: usize = 28;
/// Bytes of frames that a ring can hold: those of a hundred calls.
const ROOM: usize = 256 << 10;
/// Time between two looks at the ring of another process.
const LOOK: Duration = Duration::from_micros(200);
/// How long a reader waits for another process to empty its ring. One that is stopped never does.
const PATIENCE: Duration = Duration::from_secs(1);

/// The ring of a segment that this process writes.
pub(super) struct Ring {
    pub(super) number: u64,
    map: MmapMut,
    path: PathBuf,
    mac: Mac,
    head: u64,
    tail: u64,
    /// The length of the segment when the first frame was added.
    base: u64,
    /// Frames since, and how many of them the segment has.
    count: u64,
    written: u64,
}

/// Frames as they are in the file, from one position to another.
pub(super) struct Frames {
    bytes: Vec<u8>,
    base: u64,
}

/// Frames that are not as they were written.
pub(super) struct Changed {
    /// The place of the first one, from 0.
    pub(super) at: u64,
}

fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}{SUFFIX}"))
}

/// The numbers of the segments with a file whose name ends so.
pub(super) fn numbers(dir: &Path, suffix: &str) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number: Option<u64> = name.to_str().and_then(|name| name.strip_suffix(suffix)?.parse().ok());
        numbers.extend(number);
    }
    Ok(numbers)
}

/// Allocates the space of a ring, and maps it.
fn mapped(file: &File) -> io::Result<MmapMut> {
    file.set_len(0)?;
    rustix::fs::fallocate(file, FallocateFlags::empty(), 0, (HEADER + ROOM) as u64)?;
    file.write_all_at(&vec![0; HEADER + ROOM], 0)?;
    #[allow(unsafe_code, reason = "no safe function maps a file")]
    // SAFETY: the file has a fixed size, all of its space is allocated, and only the process that locks the segment opens it
    // for writing. What another process reads meanwhile is checked as foreign data.
    unsafe {
        MmapMut::map_mut(file)
    }
}

/// A number of the boot of this machine; 0 if there is none.
fn boot() -> u64 {
    let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    blake3::hash(&id).as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl Ring {
    /// Creates the ring of the segment `number`; `None` where a copy to it could fail for want of space.
    pub(super) fn create(dir: &Path, number: u64, key: &Key) -> io::Result<Option<Self>> {
        let path = path(dir, number);
        let file = private::open_or_create(&path)?;
        let mapped = if keeps_space(&file) { mapped(&file).map(Some) } else { Ok(None) };
        let Some(mut map) = mapped.inspect_err(|_| _ = fs::remove_file(&path))? else {
            fs::remove_file(&path)?;
            return Ok(None);
        };
        put(&mut map, 4, boot());
        put(&mut map, 0, MAGIC);
        Ok(Some(Self { number, map, path, mac: Mac::of(key), head: 0, tail: 0, base: 0, count: 0, written: 0 }))
    }

    /// Says that the segment has `base` bytes. The ring must be empty.
    pub(super) fn begin(&mut self, base: u64) {
        (self.base, self.count, self.written) = (base, 0, 0);
        put(&mut self.map, 3, base);
        // Before the frames that count from there, should the process be killed in between.
        fence(Ordering::Release);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Adds a frame; `false` if there is no room.
    pub(super) fn push(&mut self, content: &[u8]) -> bool {
        let free = ROOM as u64 - (self.head - self.tail);
        if (FRAME + content.len()) as u64 > free {
            return false;
        }
        let mac = self.mac.of_frame(self.base, self.count, content);
        let mut at = self.head;
        for number in [content.len() as u64, self.count, mac] {
            at = self.copy(at, &number.to_le_bytes());
        }
        self.head = self.copy(at, content);
        self.count += 1;
        // A process that is killed in between leaves no part of a frame.
        fence(Ordering::Release);
        put(&mut self.map, 1, self.head);
        true
    }

    /// Copies `bytes` to the position `at`. Returns the position after them.
    fn copy(&mut self, at: u64, bytes: &[u8]) -> u64 {
        let place = (at % ROOM as u64) as usize;
        let (first, rest) = bytes.split_at(bytes.len().min(ROOM - place));
        for (place, part) in [(place, first), (0, rest)] {
            if let Some(room) = self.map.get_mut(HEADER + place..HEADER + place + part.len()) {
                room.copy_from_slice(part);
            }
        }
        at + bytes.len() as u64
    }

    /// The frames that the segment does not have, and their end.
    pub(super) fn pending(&self) -> Pending {
        let frames = Frames { bytes: between(&self.map, self.tail, self.head), base: self.base };
        Pending { frames, mac: self.mac.clone(), written: self.written, head: self.head, count: self.count }
    }

    /// Says that the segment has the frames that were `pending`.
    pub(super) fn written(&mut self, pending: &Pending) {
        (self.tail, self.written) = (pending.head, pending.count);
        put(&mut self.map, 2, self.tail);
    }
}

/// The frames that a segment did not have at one moment.
pub(super) struct Pending {
    frames: Frames,
    mac: Mac,
    written: u64,
    /// What becomes of the ring's numbers when the segment has them.
    head: u64,
    count: u64,
}

impl Pending {
    /// The contents of the frames.
    ///
    /// # Errors
    ///
    /// Another process wrote to the ring.
    pub(super) fn contents(&self) -> io::Result<Vec<&[u8]>> {
        match self.frames.contents(&self.mac, self.written) {
            (contents, None) => Ok(contents),
            (_, Some(_)) => Err(io::Error::other("lines that wait for it were changed")),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Frames {
    /// The contents of the frames, without the first ones that the segment has already: those whose number is less than
    /// `lines`, the lines that the segment has behind `base`. With the frames that are not as they were written.
    fn contents(&self, mac: &Mac, lines: u64) -> (Vec<&[u8]>, Option<Changed>) {
        let (mut contents, mut rest, mut at, mut next) = (Vec::new(), self.bytes.as_slice(), 0, None);
        while !rest.is_empty() {
            let Some((count, content, more)) = self.first(mac, rest) else { return (contents, Some(Changed { at })) };
            // None is left out, and none comes twice.
            if next.unwrap_or(count.min(lines)) != count && guard!("log_ring") {
                return (contents, Some(Changed { at }));
            }
            if count >= lines {
                contents.push(content);
            }
            (next, at, rest) = (Some(count + 1), at + 1, more);
        }
        (contents, None)
    }

    /// The call that the frame at the place `at` is about, as far as that can be read.
    fn call(&self, at: u64) -> Option<String> {
        let mut rest = self.bytes.as_slice();
        for _ in 0..at {
            let (length, more) = take(rest)?;
            rest = more.get(2 * NUMBER..)?.get(usize::try_from(length).ok()?..)?;
        }
        line::id(rest.get(FRAME..)?.split_at_checked(ID_PLACE)?.0).map(str::to_owned)
    }

    /// The number and the content of the first frame of `rest`, and what follows it.
    fn first<'a>(&self, mac: &Mac, rest: &'a [u8]) -> Option<(u64, &'a [u8], &'a [u8])> {
        let (length, rest) = take(rest)?;
        let (count, rest) = take(rest)?;
        let (said, rest) = take(rest)?;
        let (content, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        let is_same = said == mac.of_frame(self.base, count, content);
        (is_same || !guard!("log_ring")).then_some((count, content, rest))
    }
}

fn take(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}

/// The keyed hash of frames.
#[derive(Clone)]
struct Mac(SipHasher24);

impl Mac {
    /// Its key follows from that of the log.
    fn of(key: &Key) -> Self {
        let key = blake3::keyed_hash(key, b"ring");
        Self(SipHasher24::new_with_key(key.as_bytes().first_chunk().unwrap_or(&[0; 16])))
    }

    fn of_frame(&self, base: u64, count: u64, content: &[u8]) -> u64 {
        let mut hasher = self.0;
        hasher.write_u64(base);
        hasher.write_u64(count);
        hasher.write(content);
        hasher.finish()
    }
}

fn put(map: &mut MmapMut, place: usize, number: u64) {
    if let Some(room) = map.get_mut(place * NUMBER..(place + 1) * NUMBER) {
        room.copy_from_slice(&number.to_le_bytes());
    }
}

/// The bytes of the file `ring` between two positions that are at most [`ROOM`] apart.
fn between(ring: &[u8], from: u64, to: u64) -> Vec<u8> {
    let (place, length) = ((from % ROOM as u64) as usize, (to - from) as usize);
    let first = length.min(ROOM - place);
    let part = |place: usize, length: usize| ring.get(HEADER + place..HEADER + place + length).unwrap_or_default();
    [part(place, first), part(0, length - first)].concat()
}

/// A ring that a dead process left.
pub(super) struct Left {
    path: PathBuf,
    frames: Frames,
    /// Whether the header is one.
    is_whole: bool,
    /// Whether the machine was started since.
    is_of_earlier_boot: bool,
}

impl Left {
    /// That of the segment `number`, which the caller has locked; `None` if there is none.
    pub(super) fn read(dir: &Path, number: u64) -> io::Result<Option<Self>> {
        Self::at(path(dir, number))
    }

    fn at(path: PathBuf) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        let is_file = match private::open(&path, Others::Read) {
            Ok(file) => file.take((HEADER + ROOM) as u64).read_to_end(&mut bytes).is_ok(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Another kind of file, or one that others can write.
            Err(_) => false,
        };
        let [magic, head, tail, base, booted] = header(&bytes);
        let is_whole = magic == MAGIC && head.checked_sub(tail).is_some_and(|length| length <= ROOM as u64);
        // A process that was killed while it made the ring had no frame to add.
        let is_new = magic == 0 && head == 0 && is_file;
        let frames = match is_whole {
            true => Frames { bytes: between(&bytes, tail, head), base },
            false => Frames { bytes: Vec::new(), base: 0 },
        };
        let is_of_earlier_boot = booted != boot();
        Ok(Some(Self { path, frames, is_whole: is_whole || is_new, is_of_earlier_boot }))
    }

    /// The number of lines that the segment has behind the length from which the frames count.
    pub(super) fn lines_in(&self, segment: &File, length: u64) -> io::Result<u64> {
        let missing = length.saturating_sub(self.frames.base);
        let mut bytes = vec![0; usize::try_from(missing).unwrap_or(0)];
        segment.read_exact_at(&mut bytes, self.frames.base.min(length))?;
        Ok(bytes.iter().filter(|byte| **byte == b'\n').count() as u64)
    }

    /// The contents of the frames that the segment does not have, and the damage.
    pub(super) fn contents(&self, key: &Key, lines: u64) -> (Vec<&[u8]>, Option<Changed>) {
        match self.is_whole {
            true => self.frames.contents(&Mac::of(key), lines),
            false => (Vec::new(), Some(Changed { at: 0 })),
        }
    }

    /// Removes the ring, or keeps what was `changed` for [`super::CallLog::verify`], unless that is what a loss of power left.
    pub(super) fn close(self, changed: bool) -> io::Result<()> {
        match changed && !self.is_of_earlier_boot {
            true => fs::rename(&self.path, self.path.with_extension(CHANGED.trim_start_matches('.'))),
            false => fs::remove_file(&self.path),
        }
    }
}

/// The first frame of a ring that was changed after its process was killed.
pub(super) fn changed(dir: &Path, key: &Key) -> io::Result<Option<Damage>> {
    let Some(number) = numbers(dir, CHANGED)?.into_iter().min() else { return Ok(None) };
    let file = format!("{number:010}{CHANGED}");
    let Some(left) = Left::at(dir.join(&file))? else { return Ok(None) };
    let (_, changed) = left.contents(key, u64::MAX);
    let at = changed.map_or(0, |changed| changed.at);
    let call = left.frames.call(at);
    Ok(Some(Damage { file, line: at + 1, call, what: "it was changed before it came into the log" }))
}

fn header(bytes: &[u8]) -> [u64; NUMBERS] {
    let mut numbers = bytes.chunks_exact(NUMBER).map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
    [(); NUMBERS].map(|()| numbers.next().unwrap_or(0))
}

/// Waits until the living process that writes the segment `number` has put the frames there that are in its ring now.
pub(super) fn wait(dir: &Path, number: u64) {
    let look = || {
        let mut bytes = [0; HEADER];
        let read = private::open(&path(dir, number), Others::Read).and_then(|file| file.read_exact_at(&mut bytes, 0));
        read.ok().map(|()| header(&bytes))
    };
    let Some([_, wanted, ..]) = look() else { return };
    let end = Instant::now() + PATIENCE;
    // Without a file, the ring was emptied.
    while look().is_some_and(|[_, _, tail, ..]| tail < wanted) && Instant::now() < end {
        thread::sleep(LOOK);
    }
}

/// Whether the file system writes to allocated space in place. Another one may have no space when a page is written, and
/// then kills the process. The list is short on purpose.
#[cfg(target_os = "linux")]
fn keeps_space(file: &File) -> bool {
    const EXT4: u64 = 0xEF53;
    const XFS: u64 = 0x5846_5342;
    const TMPFS: u64 = 0x0102_1994;
    // The type is `i64` or `u32`, depending on the platform.
    rustix::fs::fstatfs(file).is_ok_and(|found| [EXT4, XFS, TMPFS].contains(&(found.f_type as u64)))
}

#[cfg(not(target_os = "linux"))]
fn keeps_space(_file: &File) -> bool {
    false
}
