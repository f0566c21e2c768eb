use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde::Serialize;

use crate::database;

use super::head::{LogHead, SegmentEnd};
use super::line::{self, Kind, Line};
use super::prune::PrunedSegments;
use super::segment::{self, LINE_BYTES_MAX};
use super::{CallLog, Key, LogError};

/// The damage of a segment that is not there.
const REMOVED: &str = "the file was removed";

/// The result of [`CallLog::verify`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifiedLog {
    pub segments: u64,
    pub lines: u64,
    pub bytes: u64,
    /// Calls that were removed, because the log was full or they were too old. This is no damage.
    pub evicted_calls: u64,
}

/// The first line that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{file}{}{}: {what}", place(*line), call.as_ref().map(|id| format!(" (call {id})")).unwrap_or_default())]
pub struct Damage {
    pub file: String,
    /// Counts from 1; 0 if it is in no line.
    pub line: u64,
    /// The call that the line is about, if that can be read.
    pub call: Option<String>,
    pub what: &'static str,
}

fn place(line: u64) -> String {
    if line == 0 {
        String::new()
    } else {
        format!(", line {line}")
    }
}

impl CallLog {
    /// Checks every line of every segment: each must be as it was written, and follow the line before it. None may be
    /// missing that the index has seen, and the index must say what the lines say.
    ///
    /// # Errors
    ///
    /// The log cannot be read. Damage is a value, in the inner result.
    pub fn verify(&self) -> Result<Result<VerifiedLog, Damage>, LogError> {
        match self.verify_all()? {
            // Another process may have removed it meanwhile, and written that down in a segment that was read before.
            Err(damage) if damage.what == REMOVED => self.verify_all(),
            verified => Ok(verified),
        }
    }

    fn verify_all(&self) -> Result<Result<VerifiedLog, Damage>, LogError> {
        let mut verified = VerifiedLog::default();
        if !self.dir().is_dir() {
            return Ok(Ok(verified));
        }
        let key = self.key()?;
        let head = self.head(&key)?;
        if head.is_changed {
            return Ok(Err(Damage {
                file: self.0.head_file().display().to_string(),
                line: 0,
                call: None,
                what: "it was changed",
            }));
        }
        let numbers = segment::numbers(self.dir()).map_err(|error| self.failed("read", &error))?;
        let mut pruned = PrunedSegments::default();
        let mut gone = Vec::new();
        for number in &numbers {
            let seen = head.ends.get(number);
            let mut checking = LogVerification {
                key: &key,
                seen,
                verified: &mut verified,
                pruned: &mut pruned,
            };
            match checking.segment(self.dir(), *number) {
                Ok(Ok(())) => {}
                Ok(Err(damage)) => return Ok(Err(damage)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => gone.push(*number),
                Err(error) => return Err(self.failed("read", &error)),
            }
        }
        verified.evicted_calls = pruned.evicted_calls.values().sum();
        let last = numbers.last().copied().unwrap_or_default();
        let is_gone =
            |number: &u64| numbers.binary_search(number).is_err() || gone.contains(number);
        // Of the last segments, the head alone knows that they were there.
        let mut known = (1..last)
            .chain(head.ends.keys().copied())
            .chain(gone.iter().copied());
        match known.find(|number| is_gone(number) && !pruned.removed_segments.contains(number)) {
            None => Ok(self.forged_row()?.map_or(Ok(verified), Err)),
            Some(number) => Ok(Err(Damage {
                file: segment::name(number),
                line: 1,
                call: None,
                what: REMOVED,
            })),
        }
    }

    fn head(&self, key: &Key) -> Result<LogHead, LogError> {
        LogHead::read(&self.0.head_file(), key).map_err(|error| self.failed("read", &error))
    }

    /// The first row of the index that is not what the lines say.
    fn forged_row(&self) -> Result<Option<Damage>, LogError> {
        let call = self
            .0
            .index()
            .and_then(|_| self.0.forged_row())
            .map_err(|error| self.failed("index", &error))?;
        Ok(call.map(|call| Damage {
            file: database::FILE_NAME.to_owned(),
            line: 0,
            call: Some(call),
            what: "its row was changed",
        }))
    }

    /// Checks every line of the segment `number`, as [`Self::verify`] does.
    pub(super) fn verify_segment(&self, number: u64) -> Result<Result<(), Damage>, LogError> {
        let key = self.key()?;
        let head = self.head(&key)?;
        let seen = head.ends.get(&number);
        let mut verified = VerifiedLog::default();
        let mut pruned = PrunedSegments::default();
        let mut checking = LogVerification {
            key: &key,
            seen,
            verified: &mut verified,
            pruned: &mut pruned,
        };
        checking
            .segment(self.dir(), number)
            .map_err(|error| self.failed("read", &error))
    }
}

/// The segments `numbers`, which are about to be removed, with those that they say were removed before. Otherwise nothing
/// would say so any more. What is not as it was written says nothing.
pub(super) fn with_earlier(dir: &Path, key: &Key, numbers: &[u64]) -> io::Result<PrunedSegments> {
    let mut verified = VerifiedLog::default();
    let mut pruned = PrunedSegments {
        removed_segments: numbers.to_vec(),
        ..PrunedSegments::default()
    };
    for number in numbers {
        let mut checking = LogVerification {
            key,
            seen: None,
            verified: &mut verified,
            pruned: &mut pruned,
        };
        match checking.segment(dir, *number) {
            // Another process removes surplus segments too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Damage ends the reading; the lines before it count.
            read => drop(read?),
        }
    }
    pruned.removed_segments.sort_unstable();
    pruned.removed_segments.dedup();
    Ok(pruned)
}

struct LogVerification<'a> {
    key: &'a Key,
    /// The end that the segment had.
    seen: Option<&'a SegmentEnd>,
    verified: &'a mut VerifiedLog,
    /// The segments that were pruned.
    pruned: &'a mut PrunedSegments,
}

impl LogVerification<'_> {
    fn segment(&mut self, dir: &Path, number: u64) -> io::Result<Result<(), Damage>> {
        let file = File::open(segment::path(dir, number))?;
        // A living process may be in the middle of its last line.
        let is_written = file.try_lock_shared().is_err();
        let mut reader = BufReader::new(file);
        let mut chain = line::beginning(self.key, number);
        let mut at = 0;
        let mut bytes = 0;
        let mut line = Vec::new();
        let damage = |line: u64, call: Option<&str>, what| {
            Ok(Err(Damage {
                file: segment::name(number),
                line,
                call: call.map(str::to_owned),
                what,
            }))
        };
        loop {
            line.clear();
            let read = reader
                .by_ref()
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut line)? as u64;
            if read == 0 {
                break;
            }
            at += 1;
            let Some(content) = line.strip_suffix(b"\n") else {
                if is_written {
                    break;
                }
                return damage(
                    at,
                    None,
                    "it is incomplete: a process was killed while it wrote, or the file was cut",
                );
            };
            let Some(content) = Line::read(content) else {
                return damage(at, None, "it cannot be read");
            };
            if !content.follows(self.key, &chain) {
                let call = Some(content.id).filter(|id| *id != line::NO_CALL);
                return damage(
                    at,
                    call,
                    "it was changed, or a line before it was removed or moved",
                );
            }
            if content.kind == Kind::Pruned {
                let said =
                    serde_json::from_str::<PrunedSegments>(content.payload).unwrap_or_default();
                self.pruned.removed_segments.extend(said.removed_segments);
                self.pruned.evicted_calls.extend(said.evicted_calls);
            }
            chain = content.chain;
            bytes += read;
            if self
                .seen
                .is_some_and(|seen| seen.bytes == bytes && seen.chain != chain)
            {
                return damage(at, None, "the lines up to here were replaced");
            }
        }
        if self.seen.is_some_and(|seen| seen.bytes > bytes) {
            return damage(at, None, "the lines after it were removed");
        }
        self.verified.segments += 1;
        self.verified.lines += at;
        self.verified.bytes += bytes;
        Ok(Ok(()))
    }
}
