//! A file lock between processes of toolcell.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};

use toolcell_engine::approval::legible;

use super::ProgressSink;

/// Maximum length of what is read of a lock file.
const WORDS_BYTES_MAX: u64 = 4096;

/// A lock that is held until this is dropped.
pub(super) struct FileLock(File);

impl FileLock {
    /// Takes the lock of `file`, and says `occupied` if it has to wait for it, with what its holder is busy with. Writes
    /// `busy_with` into the file for those that wait next.
    pub(super) fn take(
        mut file: File,
        occupied: &str,
        busy_with: &str,
        say: ProgressSink,
    ) -> io::Result<Self> {
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
        file.lock()?;
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
        let open = || {
            File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .unwrap()
        };
        let mut said = Vec::new();
        let mut take = |file| {
            FileLock::take(file, "occupied", "this", &mut |line| {
                said.push(line.to_owned())
            })
            .unwrap()
        };
        let first = open();
        let inherited = first.try_clone().unwrap();
        drop(take(first));
        let second = take(open());
        assert!(matches!(open().try_lock(), Err(TryLockError::WouldBlock)));
        drop((second, inherited));
        assert_eq!(said, Vec::<String>::new());
    }

    #[test]
    fn one_that_waits_says_for_what() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let open = || {
            File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .unwrap()
        };
        let mut first = Some(FileLock::take(open(), "waiting", "/a/tool", &mut |_| {}).unwrap());
        let mut said = Vec::new();
        // The first one ends when the second one says that it waits.
        let mut waiting = |line: &str| {
            said.push(line.to_owned());
            drop(first.take());
        };
        drop(FileLock::take(open(), "waiting", "/b", &mut waiting).unwrap());
        assert_eq!(said, ["waiting: /a/tool"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "/b");
    }
}
