//! The part of the crate memmap2 that gix uses, for WASI, which cannot map files: they are read.

use std::{
    fs::File,
    io::{Error, ErrorKind, Read, Result, Seek, SeekFrom},
    ops::Deref,
};

/// Maximum size of a file, in bytes. It is held in the memory of the call.
const BYTES_MAX: u64 = 96 << 20;

/// The content of a file.
#[derive(Debug)]
pub struct Mmap(Vec<u8>);

impl Deref for Mmap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Mmap {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Default)]
pub struct MmapOptions;

impl MmapOptions {
    pub fn new() -> Self {
        Self
    }

    /// Reads the file.
    ///
    /// # Safety
    ///
    /// Safe, unlike with a map: the bytes stay when somebody changes the file.
    pub unsafe fn map(&self, mut file: &File) -> Result<Mmap> {
        let size = file.metadata()?.len();
        if size > BYTES_MAX {
            let message = format!(
                "a file of the repository has {size} bytes, and at most {BYTES_MAX} can be read"
            );
            return Err(Error::new(ErrorKind::FileTooLarge, message));
        }
        let mut bytes = Vec::with_capacity(size as usize);
        // A map leaves the position in the file as it is.
        let position = file.stream_position()?;
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        file.seek(SeekFrom::Start(position))?;
        Ok(Mmap(bytes))
    }

    /// As [`map`](Self::map).
    ///
    /// # Safety
    ///
    /// As for [`map`](Self::map).
    pub unsafe fn map_copy_read_only(&self, file: &File) -> Result<Mmap> {
        unsafe { self.map(file) }
    }
}
