//! A file lock between processes of toolcell.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use anyhow::{Context, Result};
use toolcell_engine::approval::legible;
use toolcell_system::private;

use super::ProgressSink;

const WORDS_BYTES_MAX: u64 = 4096;

/// Held until dropped.
pub(super) struct FileLock(File);

impl FileLock {
    /// Says `occupied` if it has to wait, with what the holder is busy with. Writes `busy_with` into the file for those
    /// that wait next.
    pub(super) fn take(
        path: &Path,
        occupied: &str,
        busy_with: &str,
        say: ProgressSink,
    ) -> Result<Self> {
        let mut file = private::open_or_create(path)
            .with_context(|| format!("cannot open the lock {}", path.display()))?;
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            let mut holder = Vec::new();
            // These words are for people alone, so that none is no reason to fail.
            let _ = (&file).take(WORDS_BYTES_MAX).read_to_end(&mut holder);
            let holder = legible(String::from_utf8_lossy(&holder).trim());
            say(&if holder.is_empty() {
                occupied.to_owned()
            } else {
                format!("{occupied}: {holder}")
            });
        }
        file.lock()
            .with_context(|| format!("cannot wait for the lock {}", path.display()))?;
        let _ = file
            .rewind()
            .and_then(|()| file.set_len(0))
            .and_then(|()| file.write_all(busy_with.as_bytes()));
        Ok(Self(file))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that another thread just forked has it open until its `exec`.
        self.0.unlock().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_holder_although_a_forked_process_still_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut said = Vec::new();
        let mut take = || {
            FileLock::take(&path, "occupied", "this", &mut |line| {
                said.push(line.to_owned())
            })
            .unwrap()
        };
        let first = take();
        let inherited = first.0.try_clone().unwrap();
        drop(first);
        let second = take();
        let third = File::open(&path).unwrap();
        assert!(matches!(third.try_lock(), Err(TryLockError::WouldBlock)));
        drop((second, inherited));
        assert_eq!(said, Vec::<String>::new());
    }

    #[test]
    fn one_that_waits_says_for_what() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut first = Some(FileLock::take(&path, "waiting", "/a/tool", &mut |_| {}).unwrap());
        let mut said = Vec::new();
        // The first one ends when the second one says that it waits.
        let mut waiting = |line: &str| {
            said.push(line.to_owned());
            drop(first.take());
        };
        drop(FileLock::take(&path, "waiting", "/b", &mut waiting).unwrap());
        assert_eq!(said, ["waiting: /a/tool"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "/b");
    }
}
