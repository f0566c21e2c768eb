use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::private;

use super::files::{FileInfo, plain_path};
use super::lease::Lease;
use super::{Workspace, failed};

const UPLOADS: &str = "uploads";
/// Begun, and not complete.
const UPLOADS_MAX: usize = 16;
/// One that was not continued for so long is removed.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// How far a file has come that is written in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadProgress {
    /// Bytes from its beginning.
    Partial(u64),
    Complete(FileInfo),
}

impl Workspace {
    /// Bytes of the file `path` of `total` bytes that have arrived.
    ///
    /// # Errors
    ///
    /// `workspace_path_invalid`, and failures of the file system.
    pub fn uploaded(&self, _lease: &Lease, path: &str, total: u64) -> Result<u64, Refusal> {
        match fs::metadata(self.upload(&plain_path(path)?, total)) {
            Ok(found) => Ok(found.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(failed(self.folder(), &error)),
        }
    }

    /// Writes a part of a file of `total` bytes. Parts arrive in their order; one that is sent again is written again. The
    /// file gets its place once it is complete.
    ///
    /// # Errors
    ///
    /// `upload_out_of_order` for a part that leaves a gap; those of [`Self::put`].
    pub fn put_part(
        &self,
        lease: &Lease,
        (path, total): (&str, u64),
        from: u64,
        bytes: &[u8],
    ) -> Result<UploadProgress, Refusal> {
        let path = plain_path(path)?;
        let arrived = self.uploaded(lease, &path, total)?;
        let end = from.checked_add(bytes.len() as u64);
        let Some(end) = end.filter(|end| from <= arrived && *end <= total) else {
            let message = format!(
                "{arrived} bytes of {path} have arrived, of {total}; go on with the next one"
            );
            return Err(Refusal::new(ErrorCode::UploadOutOfOrder, message));
        };
        let index = self.plain_index(lease)?;
        let replaced = index.file(&path).map_or(0, |file| file.size);
        if total > self.room(index.usage)?.bytes.saturating_add(replaced) {
            return Err(self.full());
        }
        let draft = self.upload(&path, total);
        let written = self.make_room_for_upload(&draft).and_then(|()| {
            let mut file = private::open_or_create(&draft)?;
            file.seek(SeekFrom::Start(from))?;
            file.write_all(bytes)?;
            file.set_len(arrived.max(end))
        });
        written.map_err(|error| failed(&draft, &error))?;
        if arrived.max(end) < total {
            return Ok(UploadProgress::Partial(arrived.max(end)));
        }
        let mut content = File::open(&draft).map_err(|error| failed(&draft, &error))?;
        let info = self.put(lease, &path, &mut content)?;
        fs::remove_file(&draft).map_err(|error| failed(&draft, &error))?;
        Ok(UploadProgress::Complete(info))
    }

    /// Removes what was abandoned, and the oldest uploads if there are too many beside `draft`.
    fn make_room_for_upload(&self, draft: &Path) -> io::Result<()> {
        let folder = self.folder().join(UPLOADS);
        private::create_dir(&folder)?;
        let mut open: Vec<_> = fs::read_dir(&folder)?
            .flatten()
            .filter(|entry| entry.path() != draft)
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        open.sort();
        let too_many = open.len().saturating_sub(UPLOADS_MAX - 1);
        for (at, (touched, path)) in open.into_iter().enumerate() {
            let is_old = touched.elapsed().is_ok_and(|age| age > ABANDONED);
            if is_old || at < too_many {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Of the same file with another size, it is another upload.
    fn upload(&self, path: &str, total: u64) -> PathBuf {
        let name = Sha256::digest(format!("{total} {path}").as_bytes());
        let name = HEXLOWER.encode(name.as_slice());
        self.folder().join(UPLOADS).join(name)
    }
}
