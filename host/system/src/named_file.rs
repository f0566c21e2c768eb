//! Files named by commands or settings. Only a bounded regular file is read: a device has no end, and a named pipe
//! blocks its reader.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Fails for what is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // Without NONBLOCK, a named pipe would block here. It changes nothing for a regular file.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// Fails as [`open`], and for more than `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_open(&open(path)?, bytes_max)
}

/// Fails as [`read`], for an open file.
pub fn read_open(file: &File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("it is larger than {bytes_max} bytes");
        Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
    } else {
        Ok(bytes)
    }
}

/// Fails as [`read`], and for what is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    text(read(path, bytes_max)?)
}

/// Fails as [`read_text`], for an open file.
pub fn read_open_text(file: &File, bytes_max: u64) -> io::Result<String> {
    text(read_open(file, bytes_max)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_is_read_and_only_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "four").unwrap();
        assert_eq!(read_text(&file, 4).unwrap(), "four");
        assert!(
            read(&file, 3)
                .unwrap_err()
                .to_string()
                .contains("larger than 3 bytes")
        );
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        for other in [Path::new("/dev/zero"), folder.path(), &pipe] {
            assert!(
                read(other, 4)
                    .unwrap_err()
                    .to_string()
                    .contains("not a regular file"),
                "{}",
                other.display()
            );
        }
        assert!(read(&folder.path().join("missing"), 4).is_err());
    }
}
