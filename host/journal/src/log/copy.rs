//! A copy of a log that other processes go on to write.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::database;
use crate::waiting::StoreError;
use toolcell_system::private;

use super::head::{self, LogHead};
use super::segment;
use super::{CallLog, Inner, LogError};

/// Repeated if segments were removed meanwhile.
const ATTEMPTS: u32 = 5;
const BLOCK_BYTES: u64 = 64 << 10;

impl CallLog {
    /// Copies log and database into the empty folder `journal`, and the head beside `key_file`. A restored copy has all
    /// calls that had ended before.
    pub fn copy_to(&self, journal: &Path, key_file: &Path) -> Result<(), LogError> {
        let failed = |error: StoreError| self.failed("copy", &error);
        if !self.0.journal.is_dir() {
            return Ok(());
        }
        for _ in 0..ATTEMPTS {
            if self.0.copy(journal, key_file).map_err(failed)? {
                return Ok(());
            }
            fs::remove_dir_all(journal).map_err(|error| self.failed("copy", &error))?;
        }
        Err(self.failed("copy", &"it loses segments too fast"))
    }
}

impl Inner {
    /// `false` if a segment was removed meanwhile.
    fn copy(&self, journal: &Path, key_file: &Path) -> Result<bool, StoreError> {
        let key = self
            .key()
            .map_err(|error| StoreError::Unavailable(format!("{error:#}")))?;
        let index = self.index()?;
        // First what says how far the log goes, and then the log: it only grows.
        let head = LogHead::read(&self.head_file(), &key)?;
        let dir = journal.join("calls");
        private::create_dir(&dir)?;
        database::copy_to(&index, &journal.join(database::FILE_NAME))?;
        let mut copied = BTreeSet::new();
        for number in segment::numbers(&self.dir)? {
            match copy_lines(
                &segment::path(&self.dir, number),
                &segment::path(&dir, number),
            ) {
                Ok(()) => _ = copied.insert(number),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        head.write(&head::path(key_file, &dir), &key)?;
        // Under the name for its old place too.
        let restored = self.head_file();
        if let (Some(keys), Some(name)) = (key_file.parent(), restored.file_name()) {
            head.write(&keys.join(name), &key)?;
        }
        Ok(head.ends.keys().all(|number| copied.contains(number)))
    }
}

fn copy_lines(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let end = end_of_lines(&mut source)?;
    source.seek(SeekFrom::Start(0))?;
    let mut copy = private::open_or_create(to)?;
    io::copy(&mut source.take(end), &mut copy)?;
    let times = fs::FileTimes::new().set_modified(fs::metadata(from)?.modified()?);
    copy.set_times(times)
}

fn end_of_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = Vec::new();
    while end > 0 {
        let begin = end.saturating_sub(BLOCK_BYTES);
        block.clear();
        file.seek(SeekFrom::Start(begin))?;
        file.by_ref().take(end - begin).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}
