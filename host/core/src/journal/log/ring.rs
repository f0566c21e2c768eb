//! The ring of a segment: a file in memory of the kernel that takes lines for a copy instead of a system call. It outlives
//! its process as a written file does, and the process that takes the segment of a dead one puts its lines there.
//!
//! It begins with a header of five numbers: [`MAGIC`]; the position after the last frame; the position of the first frame
//! that may not be in the segment yet; the base, which is the length of the segment when its first frame was added; and the
//! boot of the machine, because a machine that loses power may keep a part of the file. Positions count bytes from the creation
//! of the file. A frame is `LENGTH COUNT MAC CONTENT`: COUNT is the number of frames since the base, and MAC a keyed hash of COUNT
//! and CONTENT, because nothing else links a line that is not in its segment. Its key follows from the chain at the base, so
//! that frames belong to one place of one segment. Numbers have 8 bytes, the least significant first.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use blake3::Hash;
use memmap2::MmapMut;
use rustix::fs::{FallocateFlags, OFlags};
use siphasher::sip::SipHasher24;

use crate::private;

use super::{Damage, Key, line, segment};

/// How the name of a ring ends.
pub(super) const SUFFIX: &str = "ring";
/// How the name of a ring ends that was changed after its process was killed.
pub(super) const CHANGED: &str = "changed";
const MAGIC: u64 = u64::from_le_bytes(*b"toolring");
const NUMBER: usize = size_of::<u64>();
const NUMBERS: usize = 5;
const HEADER: usize = NUMBERS * NUMBER;
/// Bytes of a frame without its content.
const FRAME: usize = 3 * NUMBER;
/// Bytes from the begin of a content to the end of its id.
const ID_PLACE: usize = 28;
/// Bytes of frames that a ring can hold: enough for a hundred calls.
const ROOM: usize = 256 << 10;

/// The ring of a segment that this process writes.
pub(super) struct Ring {
    pub(super) number: u64,
    map: MmapMut,
    path: PathBuf,
    mac: Mac,
    head: u64,
    tail: u64,
    /// Frames since the base, and how many of them the segment has.
    count: u64,
    written: u64,
}

/// Frames that are not as they were written.
struct FrameDamage {
    /// The place of the first one, from 0.
    at: u64,
}

/// The lines that follow in a segment.
pub(super) struct FollowingLines {
    pub(super) chain: Hash,
    /// The hashes of the contents of the lines.
    pub(super) lines: Vec<Hash>,
}

fn path(dir: &Path, number: u64, suffix: &str) -> PathBuf {
    dir.join(segment::numbered_name(number, suffix))
}

/// The numbers of the segments that have a ring.
pub(super) fn numbers(dir: &Path) -> io::Result<Vec<u64>> {
    segment::numbered(dir, SUFFIX)
}

/// Removes the file beside the segment `number` whose name ends so, if there is one.
pub(super) fn remove(dir: &Path, number: u64, suffix: &str) {
    let _ = fs::remove_file(path(dir, number, suffix));
}

/// Allocates the space of a ring, and maps it.
fn mapped(file: &File) -> io::Result<MmapMut> {
    rustix::fs::fallocate(file, FallocateFlags::empty(), 0, (HEADER + ROOM) as u64)?;
    file.write_all_at(&vec![0; HEADER + ROOM], 0)?;
    #[allow(unsafe_code, reason = "no safe function maps a file")]
    // SAFETY: the file has a fixed size, all of its space is allocated, and only the process that locks the segment opens it
    // for writing. What another process reads meanwhile is checked as foreign data.
    unsafe {
        MmapMut::map_mut(file)
    }
}

/// A number of the boot of this machine, if the kernel tells.
fn boot() -> Option<u64> {
    let id = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    blake3::hash(&id)
        .as_bytes()
        .first_chunk()
        .map(|bytes| u64::from_le_bytes(*bytes))
}

impl Ring {
    /// Creates the ring of the segment `number`; `None` where a copy to it could fail for want of space.
    pub(super) fn create(dir: &Path, number: u64, key: &Key) -> io::Result<Option<Self>> {
        let path = path(dir, number, SUFFIX);
        let Some(boot) = boot() else { return Ok(None) };
        // One that exists may be mapped.
        let _ = fs::remove_file(&path);
        let file = private::open_or_create(&path)?;
        let mapped = if keeps_space(&file) {
            mapped(&file).map(Some)
        } else {
            Ok(None)
        };
        let Some(mut map) = mapped.inspect_err(|_| _ = fs::remove_file(&path))? else {
            fs::remove_file(&path)?;
            return Ok(None);
        };
        put(&mut map, 4, boot);
        put(&mut map, 0, MAGIC);
        let mac = Mac::new(key, &line::beginning(key, number));
        Ok(Some(Self {
            number,
            map,
            path,
            mac,
            head: 0,
            tail: 0,
            count: 0,
            written: 0,
        }))
    }

    /// Says that the segment has `base` bytes, and what its chain is there. The ring must be empty.
    pub(super) fn begin(&mut self, key: &Key, base: u64, chain: &Hash) {
        (self.mac, self.count, self.written) = (Mac::new(key, chain), 0, 0);
        put(&mut self.map, 3, base);
        // Before the frames that count from there, should this process be killed in between.
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
        let mac = self.mac.of_frame(self.count, content);
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
            if let Some(room) = self
                .map
                .get_mut(HEADER + place..HEADER + place + part.len())
            {
                room.copy_from_slice(part);
            }
        }
        at + bytes.len() as u64
    }

    /// The frames that the segment does not have.
    pub(super) fn pending(&self) -> PendingFrames {
        let frames = Frames(between(&self.map, self.tail, self.head));
        PendingFrames {
            frames,
            mac: self.mac.clone(),
            written: self.written,
            head: self.head,
            count: self.count,
        }
    }

    /// Says that the segment has the frames that were `pending`.
    pub(super) fn written(&mut self, pending: &PendingFrames) {
        (self.tail, self.written) = (pending.head, pending.count);
        put(&mut self.map, 2, self.tail);
    }
}

/// The frames that a segment did not have at one moment.
pub(super) struct PendingFrames {
    frames: Frames,
    mac: Mac,
    written: u64,
    /// The ring's next numbers, once the segment has them.
    head: u64,
    count: u64,
}

impl PendingFrames {
    /// The contents of the frames.
    ///
    /// # Errors
    ///
    /// Another process wrote to the ring.
    pub(super) fn contents(&self) -> io::Result<Vec<&[u8]>> {
        match self.frames.read(&self.mac) {
            (frames, None)
                if frames
                    .first()
                    .is_none_or(|(count, _)| *count == self.written) =>
            {
                Ok(frames.into_iter().map(|(_, content)| content).collect())
            }
            _ => Err(io::Error::other("lines that wait for it were changed")),
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

/// Frames as they are in the file, from one position to another.
struct Frames(Vec<u8>);

impl Frames {
    /// The numbers and the contents of the frames, and the first frame that is not as it was written.
    fn read(&self, mac: &Mac) -> (Vec<(u64, &[u8])>, Option<FrameDamage>) {
        let mut frames = Vec::<(u64, &[u8])>::new();
        let mut rest = self.0.as_slice();
        while !rest.is_empty() {
            let next = frames.last().map(|(count, _)| count + 1);
            let found =
                first(mac, rest).filter(|(count, ..)| next.is_none_or(|next| next == *count));
            let Some((count, content, more)) = found else {
                let at = frames.len() as u64;
                return (frames, Some(FrameDamage { at }));
            };
            frames.push((count, content));
            rest = more;
        }
        (frames, None)
    }

    /// The call that the frame at the place `at` is about, as far as that can be read.
    fn call(&self, at: u64) -> Option<String> {
        let mut rest = self.0.as_slice();
        for _ in 0..at {
            let (length, more) = take(rest)?;
            rest = more
                .get(2 * NUMBER..)?
                .get(usize::try_from(length).ok()?..)?;
        }
        line::id(rest.get(FRAME..)?.split_at_checked(ID_PLACE)?.0).map(str::to_owned)
    }
}

/// The number and the content of the first frame of `rest`, and what follows it.
fn first<'a>(mac: &Mac, rest: &'a [u8]) -> Option<(u64, &'a [u8], &'a [u8])> {
    let (length, rest) = take(rest)?;
    let (count, rest) = take(rest)?;
    let (said, rest) = take(rest)?;
    let (content, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let is_same = said == mac.of_frame(count, content);
    (is_same || !guard!("log_ring")).then_some((count, content, rest))
}

fn take(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}

/// The keyed hash of frames.
#[derive(Clone)]
struct Mac(SipHasher24);

impl Mac {
    fn new(key: &Key, chain: &Hash) -> Self {
        let key = blake3::keyed_hash(key, &[b"ring".as_slice(), chain.as_bytes()].concat());
        Self(SipHasher24::new_with_key(
            key.as_bytes().first_chunk().unwrap_or(&[0; 16]),
        ))
    }

    fn of_frame(&self, count: u64, content: &[u8]) -> u64 {
        let mut hasher = self.0;
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
    let place = (from % ROOM as u64) as usize;
    let length = (to - from) as usize;
    let first = length.min(ROOM - place);
    let part = |place: usize, length: usize| {
        ring.get(HEADER + place..HEADER + place + length)
            .unwrap_or_default()
    };
    [part(place, first), part(0, length - first)].concat()
}

#[derive(Clone, Copy)]
struct Header {
    head: u64,
    tail: u64,
    base: u64,
    boot: u64,
}

impl Header {
    /// `None` if it is not one.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut numbers = bytes
            .chunks_exact(NUMBER)
            .map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
        let [magic, head, tail, base, boot] = [(); NUMBERS].map(|()| numbers.next().unwrap_or(0));
        let is_one = magic == MAGIC
            && head
                .checked_sub(tail)
                .is_some_and(|length| length <= ROOM as u64);
        is_one.then_some(Self {
            head,
            tail,
            base,
            boot,
        })
    }
}

/// Opens a ring, or what is in its place; `None` if that is no file.
fn open(path: &Path) -> io::Result<Option<File>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(None);
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    File::options()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map(Some)
}

/// A ring that a dead process left.
pub(super) struct LeftoverRing {
    path: PathBuf,
    header: Option<Header>,
    frames: Frames,
    /// `true` if the process was killed while it made the ring, when it had no frame to add.
    is_new: bool,
}

impl LeftoverRing {
    /// That of the segment `number`, which the caller has locked; `None` if there is none.
    pub(super) fn read(dir: &Path, number: u64) -> io::Result<Option<Self>> {
        Self::at(path(dir, number, SUFFIX))
    }

    fn at(path: PathBuf) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        let file = match open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let is_file = file.is_some();
        if let Some(file) = file {
            file.take((HEADER + ROOM) as u64).read_to_end(&mut bytes)?;
        }
        let header = Header::read(&bytes);
        let frames = Frames(
            header.map_or_else(Vec::new, |header| between(&bytes, header.tail, header.head)),
        );
        // One that was cut has no header that says what it has.
        let header = header.filter(|header| header.head - header.tail == frames.0.len() as u64);
        let is_new = is_file && bytes.iter().take(2 * NUMBER).all(|byte| *byte == 0);
        Ok(Some(Self {
            path,
            header,
            frames,
            is_new,
        }))
    }

    /// The length of the segment from which the frames count.
    pub(super) fn base(&self) -> Option<u64> {
        self.header.map(|header| header.base)
    }

    /// The contents of the frames that the segment does not have, and whether others are not as they were written. `behind`
    /// is what the segment has behind the base.
    pub(super) fn contents(
        &self,
        key: &Key,
        behind: Option<&FollowingLines>,
    ) -> (Vec<&[u8]>, bool) {
        if self.is_new || self.header.is_some() && self.frames.0.is_empty() {
            return (Vec::new(), false);
        }
        let Some(FollowingLines { chain, lines }) = behind else {
            return (Vec::new(), true);
        };
        let (frames, changed) = self.frames.read(&Mac::new(key, chain));
        let place = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let end = |frame: Option<&(u64, &[u8])>| frame.map_or(0, |(count, _)| place(*count));
        // None is left out, and what the segment has came from here.
        let is_same = |(count, content): &(u64, &[u8])| {
            lines
                .get(place(*count))
                .is_none_or(|line| *line == blake3::hash(content))
        };
        let follow = end(frames.first()) <= lines.len() && lines.len() <= end(frames.last()) + 1;
        if !(follow && frames.iter().all(is_same)) && guard!("log_ring") {
            return (Vec::new(), true);
        }
        let new = frames
            .into_iter()
            .filter(|(count, _)| place(*count) >= lines.len());
        (new.map(|(_, content)| content).collect(), changed.is_some())
    }

    /// Removes the ring, or keeps what was `changed` for [`super::CallLog::verify`], unless that is what a loss of power left.
    pub(super) fn close(self, changed: bool) -> io::Result<()> {
        let is_of_earlier_boot = self
            .header
            .is_some_and(|header| Some(header.boot) != boot());
        if changed && !is_of_earlier_boot {
            fs::rename(&self.path, self.path.with_extension(CHANGED))
        } else {
            fs::remove_file(&self.path)
        }
    }
}

/// The first frame of a ring that was changed after its process was killed.
pub(super) fn changed(dir: &Path, key: &Key) -> io::Result<Option<Damage>> {
    let Some(number) = segment::numbered(dir, CHANGED)?.first().copied() else {
        return Ok(None);
    };
    let Some(left) = LeftoverRing::at(path(dir, number, CHANGED))? else {
        return Ok(None);
    };
    let behind = match (left.base(), File::open(segment::path(dir, number))) {
        (Some(base), Ok(file)) => segment::behind(&file, base)?,
        _ => None,
    };
    let changed = behind.and_then(|behind| left.frames.read(&Mac::new(key, &behind.chain)).1);
    let at = changed.map_or(0, |changed| changed.at);
    let file = segment::numbered_name(number, CHANGED);
    let call = left.frames.call(at);
    Ok(Some(Damage {
        file,
        line: at + 1,
        call,
        what: "it was changed before it came into the log",
    }))
}

/// The position after the last frame of the ring of the segment `number`; `None` if there is no ring.
pub(super) fn end(dir: &Path, number: u64) -> Option<u64> {
    look(dir, number).map(|header| header.head)
}

/// `true` if the segment `number` has all frames before the position `end` of its ring.
pub(super) fn is_written(dir: &Path, number: u64, end: u64) -> bool {
    // Without a file, the ring was emptied.
    look(dir, number).is_none_or(|header| header.tail >= end)
}

fn look(dir: &Path, number: u64) -> Option<Header> {
    let mut bytes = [0; HEADER];
    open(&path(dir, number, SUFFIX))
        .ok()??
        .read_exact_at(&mut bytes, 0)
        .ok()?;
    Header::read(&bytes)
}

/// `true` if the file system writes to allocated space in place. Another one may run out of space at a page write, and
/// then kills the process; so may XFS, if a copy of the file shares its space. The list is short on purpose.
#[cfg(target_os = "linux")]
fn keeps_space(file: &File) -> bool {
    const EXT4: u64 = 0xEF53;
    const TMPFS: u64 = 0x0102_1994;
    // The type is `i64` or `u32`, depending on the platform.
    rustix::fs::fstatfs(file).is_ok_and(|found| [EXT4, TMPFS].contains(&(found.f_type as u64)))
}

#[cfg(not(target_os = "linux"))]
fn keeps_space(_file: &File) -> bool {
    false
}
