//! A check that a call could be recorded now.

use std::fs::File;
use std::io;
use std::path::Path;

use toolcell_policy::secret::private_file;
use toolcell_system::pool::STORE;

use super::segment::{self, RESERVE_BYTES};
use super::{CallLog, Keep, LogError};

impl CallLog {
    /// Changes nothing. Fails on a folder, a key or a segment that cannot be used, or a file system without space.
    pub fn check(&self) -> Result<(), LogError> {
        if self.settings().keep == Keep::None {
            return Ok(());
        }
        let failed = |error: io::Error| self.failed("write", &error);
        // The folder is made by the first call.
        let dir = self.dir();
        let there = dir
            .ancestors()
            .find(|dir| dir.symlink_metadata().is_ok())
            .unwrap_or(dir);
        has_space(there).map_err(failed)?;
        private_file::read_key(&self.0.key_file)
            .map_err(|error| self.failed("open", &format!("{error:#}")))?;
        if there == dir {
            last_opens(dir).map_err(failed)?;
        }
        Ok(())
    }

    /// [`Self::check`] on a thread for the host's own store.
    pub async fn checked(&self) -> Result<(), LogError> {
        let log = self.clone();
        STORE
            .run(move || log.check())
            .await
            .unwrap_or_else(|error| Err(self.failed("write", &error)))
    }
}

/// Reserves a call's space in a file without a name.
fn has_space(dir: &Path) -> io::Result<()> {
    let file = tempfile::tempfile_in(dir)?;
    segment::reserve_space(&file, 0, 2 * RESERVE_BYTES).map(drop)
}

/// Opens the next process's segment.
fn last_opens(dir: &Path) -> io::Result<()> {
    let Some(last) = segment::numbers(dir)?
        .pop()
        .filter(|last| !segment::is_closed(dir, *last))
    else {
        return Ok(());
    };
    match File::options()
        .read(true)
        .write(true)
        .open(segment::path(dir, last))
    {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
