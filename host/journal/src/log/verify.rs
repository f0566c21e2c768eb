use std::fs::File;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::database;

use super::head::{LogHead, SegmentEnd};
use super::line::{self, Kind, Line};
use super::prune::PrunedSegments;
use super::segment::{self, LineReader};
use super::{CallLog, Key, LogError};

const REMOVED: &str = "the file was removed";
/// Not each replaced line is reported.
const FINDINGS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifiedLog {
    pub segments: u64,
    pub lines: u64,
    pub bytes: u64,
    /// Calls removed because of a full log or age, which is no damage.
    pub evicted_calls: u64,
}

/// A place that is not as it was written.
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
    /// Checks that every line is as it was written and follows the line before, that no indexed line is missing, and
    /// that the index agrees. Damage is a value: at most 100 findings.
    pub fn verify(&self) -> Result<Result<VerifiedLog, Vec<Damage>>, LogError> {
        let mut checked = self.verify_all()?;
        // Another process may have removed it meanwhile, and written that down in a segment that was read before.
        if checked.findings.iter().any(|damage| damage.what == REMOVED) {
            checked = self.verify_all()?;
        }
        Ok(if checked.findings.is_empty() {
            Ok(checked.verified)
        } else {
            Err(checked.findings)
        })
    }

    fn verify_all(&self) -> Result<Verification, LogError> {
        let mut checked = Verification::default();
        if !self.dir().is_dir() {
            return Ok(checked);
        }
        let key = self.key()?;
        let head = self.head(&key)?;
        if head.is_changed {
            let file = self.0.head_file().display().to_string();
            checked.found(file, 0, None, "it was changed");
        }
        let numbers = segment::numbers(self.dir()).map_err(|error| self.failed("read", &error))?;
        let mut there = Vec::new();
        for number in numbers {
            match checked.segment(self.dir(), &key, number, head.ends.get(&number)) {
                Ok(()) => there.push(number),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.failed("read", &error)),
            }
        }
        checked.verified.evicted_calls = checked.pruned.evicted_calls.values().sum();
        // Of the last segments, the head alone knows that they were there.
        let last = there.last().into_iter().chain(head.ends.keys()).max();
        for number in 1..=last.copied().unwrap_or_default() {
            let is_known = there.binary_search(&number).is_ok()
                || checked.pruned.removed_segments.contains(&number);
            if !is_known {
                checked.found(segment::name(number), 1, None, REMOVED);
            }
            // A file can have any number in its name.
            if checked.findings.len() == FINDINGS_MAX {
                break;
            }
        }
        let forged = self
            .0
            .index()
            .and_then(|_| self.0.forged_rows(FINDINGS_MAX));
        let forged = match forged {
            Ok(forged) => forged,
            Err(error) if checked.findings.is_empty() => return Err(self.failed("index", &error)),
            // What was changed can be why there is no index.
            Err(_) => Vec::new(),
        };
        for call in forged {
            let file = database::FILE_NAME.to_owned();
            checked.found(file, 0, Some(&call), "its row was changed");
        }
        Ok(checked)
    }

    fn head(&self, key: &Key) -> Result<LogHead, LogError> {
        LogHead::read(&self.0.head_file(), key).map_err(|error| self.failed("read", &error))
    }

    /// First damage of one segment, as in [`Self::verify`].
    pub(super) fn verify_segment(&self, number: u64) -> Result<Result<(), Damage>, LogError> {
        let key = self.key()?;
        let head = self.head(&key)?;
        let mut checked = Verification::default();
        checked
            .segment(self.dir(), &key, number, head.ends.get(&number))
            .map_err(|error| self.failed("read", &error))?;
        Ok(checked.findings.into_iter().next().map_or(Ok(()), Err))
    }
}

/// Adds removals that the segments `numbers`, about to go, record: otherwise nothing would say so any more. Changed
/// lines say nothing.
pub(super) fn with_earlier(dir: &Path, key: &Key, numbers: &[u64]) -> io::Result<PrunedSegments> {
    let mut checked = Verification::default();
    for number in numbers {
        match checked.segment(dir, key, *number, None) {
            // Another process removes surplus segments too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => read?,
        }
    }
    let mut pruned = checked.pruned;
    pruned.removed_segments.extend(numbers);
    pruned.removed_segments.sort_unstable();
    pruned.removed_segments.dedup();
    Ok(pruned)
}

#[derive(Default)]
struct Verification {
    verified: VerifiedLog,
    pruned: PrunedSegments,
    findings: Vec<Damage>,
}

impl Verification {
    fn found(&mut self, file: String, line: u64, call: Option<&str>, what: &'static str) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Damage {
                file,
                line,
                call: call.map(str::to_owned),
                what,
            });
        }
    }

    fn segment(
        &mut self,
        dir: &Path,
        key: &Key,
        number: u64,
        seen: Option<&SegmentEnd>,
    ) -> io::Result<()> {
        let file = File::open(segment::path(dir, number))?;
        // A living process may be in the middle of its last line.
        let is_written = file.try_lock_shared().is_err();
        let mut lines = LineReader::new(&file, 0)?;
        let mut at = 0;
        let found = |checked: &mut Self, at: u64, call: Option<&str>, what: &'static str| {
            checked.found(segment::name(number), at, call, what);
        };
        let mut is_intact = true;
        // Not known after a line that cannot be read.
        let mut chain = Some(line::beginning(key, number));
        while let Some((line, end)) = lines.next()? {
            at += 1;
            let Some(content) = Line::read(line) else {
                found(self, at, None, "it cannot be read");
                is_intact = false;
                chain = None;
                continue;
            };
            match chain.replace(content.chain) {
                Some(before) if !content.follows(key, &before) => {
                    let call = Some(content.id).filter(|id| *id != line::NO_CALL);
                    let what = "it was changed, or a line before it was removed or moved";
                    found(self, at, call, what);
                    is_intact = false;
                }
                Some(_) if is_intact => self.read_pruned(&content),
                _ => {}
            }
            if seen.is_some_and(|seen| seen.bytes == end && seen.chain != content.chain) {
                found(self, at, None, "the lines up to here were replaced");
                is_intact = false;
            }
        }
        if lines.torn > 0 && !is_written {
            let what = "it is incomplete: a process was killed while it wrote, or the file was cut";
            found(self, at + 1, None, what);
        }
        if seen.is_some_and(|seen| seen.bytes > lines.bytes) {
            found(self, at, None, "the lines after it were removed");
        }
        self.verified.segments += 1;
        self.verified.lines += at;
        self.verified.bytes += lines.bytes;
        Ok(())
    }

    fn read_pruned(&mut self, line: &Line<'_>) {
        if line.kind == Kind::Pruned {
            let said = serde_json::from_str::<PrunedSegments>(line.payload).unwrap_or_default();
            self.pruned.removed_segments.extend(said.removed_segments);
            self.pruned.evicted_calls.extend(said.evicted_calls);
        }
    }
}
