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
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// `S_IFREG`.
const REGULAR_FILE: u32 = 0o100_000;
/// `S_IFDIR`.
const FOLDER: u32 = 0o040_000;

pub(super) struct Entry {
    pub(super) name: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

/// Packs each entry as it is added, in the order in which they are added. Fails if the archive would need the format's
/// extension for 4 GiB or 65,536 entries and more.
#[derive(Default)]
pub(super) struct ZipWriter {
    archive: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

pub(super) fn archive(entries: &[Entry]) -> Result<Vec<u8>, String> {
    let mut writer = ZipWriter::default();
    for entry in entries {
        writer.file(entry)?;
    }
    writer.finish()
}

impl ZipWriter {
    pub(super) fn file(&mut self, entry: &Entry) -> Result<(), String> {
        let deflated = compress_to_vec(&entry.bytes, LEVEL);
        let mode = REGULAR_FILE | entry.mode;
        self.add(&entry.name, mode, (DEFLATED, &deflated), &entry.bytes)
    }

    /// `name` ends with a slash.
    pub(super) fn folder(&mut self, name: &str) -> Result<(), String> {
        self.add(name, FOLDER | 0o755, (STORED, &[]), &[])
    }

    fn add(
        &mut self,
        name: &str,
        mode: u32,
        (method, packed): (u16, &[u8]),
        bytes: &[u8],
    ) -> Result<(), String> {
        let offset = length(self.archive.len())?;
        // What the header of a file and its entry in the directory have in common.
        let mut common = Vec::<u8>::new();
        for word in [VERSION_NEEDED, FLAGS, method, 0, DATE] {
            common.extend(word.to_le_bytes());
        }
        let name_bytes =
            u16::try_from(name.len()).map_err(|_| "the name of a file is too long".to_owned())?;
        for word in [
            crc32fast::hash(bytes),
            length(packed.len())?,
            length(bytes.len())?,
        ] {
            common.extend(word.to_le_bytes());
        }
        common.extend(name_bytes.to_le_bytes());
        common.extend([0; 2]);
        self.archive.extend(b"PK\x03\x04");
        self.archive.extend(&common);
        self.archive.extend(name.as_bytes());
        self.archive.extend(packed);

        self.directory.extend(b"PK\x01\x02");
        self.directory.extend(MADE_BY.to_le_bytes());
        self.directory.extend(&common);
        // No comment, first disk, no internal attributes.
        self.directory.extend([0; 6]);
        self.directory.extend((mode << 16).to_le_bytes());
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.count =
            (self.count.checked_add(1)).ok_or_else(|| "it has too many files".to_owned())?;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Vec<u8>, String> {
        let Self {
            mut archive,
            directory,
            count,
        } = self;
        let count = count.to_le_bytes();
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
}

fn length(bytes: usize) -> Result<u32, String> {
    u32::try_from(bytes).map_err(|_| "it is larger than 4 GiB".to_owned())
}
