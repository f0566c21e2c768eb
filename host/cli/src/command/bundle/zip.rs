//! A zip archive that depends on nothing but its files: no time, no user, no order of a folder.

use miniz_oxide::deflate::compress_to_vec;

/// A higher level takes twice the time for one more percent.
const LEVEL: u8 = 6;
/// 1980-01-01, the first day that the format can name.
const DATE: u16 = (1 << 5) | 1;
/// Version 2.0, which has deflate.
const VERSION_NEEDED: u16 = 20;
/// Unix, so that readers take the mode from the external attributes.
const MADE_BY: u16 = (3 << 8) | VERSION_NEEDED;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;
const DEFLATED: u16 = 8;
/// `S_IFREG`.
const REGULAR_FILE: u32 = 0o100_000;

pub(super) struct Entry {
    pub(super) name: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

/// Fails if the archive would need the format's extension for 4 GiB and more.
pub(super) fn archive(entries: &[Entry]) -> Result<Vec<u8>, String> {
    let mut archive = Vec::<u8>::new();
    let mut directory = Vec::<u8>::new();
    for entry in entries {
        let deflated = compress_to_vec(&entry.bytes, LEVEL);
        let offset = length(archive.len())?;
        // What the header of a file and its entry in the directory have in common.
        let mut common = Vec::<u8>::new();
        for word in [VERSION_NEEDED, FLAGS, DEFLATED, 0, DATE] {
            common.extend(word.to_le_bytes());
        }
        let name = u16::try_from(entry.name.len())
            .map_err(|_| "the name of a file is too long".to_owned())?;
        for word in [
            crc32fast::hash(&entry.bytes),
            length(deflated.len())?,
            length(entry.bytes.len())?,
        ] {
            common.extend(word.to_le_bytes());
        }
        common.extend(name.to_le_bytes());
        common.extend([0; 2]);
        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(entry.name.as_bytes());
        archive.extend(&deflated);

        directory.extend(b"PK\x01\x02");
        directory.extend(MADE_BY.to_le_bytes());
        directory.extend(&common);
        // No comment, first disk, no internal attributes.
        directory.extend([0; 6]);
        directory.extend(((REGULAR_FILE | entry.mode) << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(entry.name.as_bytes());
    }
    let count = u16::try_from(entries.len())
        .map_err(|_| "it has too many files".to_owned())?
        .to_le_bytes();
    let start = length(archive.len())?;
    let size = length(directory.len())?;
    archive.extend(directory);
    archive.extend(b"PK\x05\x06");
    archive.extend([0; 4]);
    archive.extend([count, count].concat());
    archive.extend(size.to_le_bytes());
    archive.extend(start.to_le_bytes());
    archive.extend([0; 2]);
    Ok(archive)
}

fn length(bytes: usize) -> Result<u32, String> {
    u32::try_from(bytes).map_err(|_| "it is larger than 4 GiB".to_owned())
}
