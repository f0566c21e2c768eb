//! A file lock between processes of toolcell.

use std::fs::{File, TryLockError};
use std::io;

use super::Say;

/// A lock that is held until this is dropped.
pub(super) struct Held(File);

impl Held {
    /// Takes the lock of `file`, and says `occupied` if it has to wait for it.
    pub(super) fn take(file: File, occupied: &str, say: Say) -> io::Result<Self> {
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            say(occupied);
        }
        file.lock()?;
        Ok(Self(file))
    }
}

impl Drop for Held {
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
        let open = || File::create(folder.path().join("lock")).unwrap();
        let mut said = Vec::new();
        let mut take = |file| Held::take(file, "occupied", &mut |line| said.push(line.to_owned())).unwrap();
        let first = open();
        let inherited = first.try_clone().unwrap();
        drop(take(first));
        let second = take(open());
        assert!(matches!(open().try_lock(), Err(TryLockError::WouldBlock)));
        drop((second, inherited));
        assert_eq!(said, Vec::<String>::new());
    }
}
