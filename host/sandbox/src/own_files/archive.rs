//! Archives come from strangers: every name is checked before anything is unpacked, and what comes out is counted.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use flate2::bufread::DeflateDecoder;
use rawzip::{
    CompressionMethod, ZipArchive, ZipArchiveEntryWayfinder, ZipFileHeaderRecord, ZipSliceArchive,
};
use toolcell_spec::dialect::wrapping::OwnFilesRoom;

use super::{plain, shown};

/// Its owner can remove what is in it.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o400;
/// 1980-01-01, so that a call sees the same wherever and whenever they were unpacked.
const FILE_TIME: Duration = Duration::from_secs(315_532_800);
const PART_BYTES: usize = 64 << 10;

/// The part of a Unix mode that says what an entry is.
const KIND: u32 = 0o170_000;
const REGULAR_FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    #[error("{0}")]
    Archive(String),
    #[error("cannot unpack them: {0}")]
    Disk(#[from] io::Error),
}

pub(crate) type Zip<'a> = ZipSliceArchive<&'a [u8]>;

pub(crate) fn zip(archive: &[u8]) -> Result<Zip<'_>, String> {
    ZipArchive::from_slice(archive).map_err(|error| broken(&error))
}

fn broken(error: &rawzip::Error) -> String {
    format!("the archive cannot be read: {error}")
}

/// Its names are checked.
pub(crate) struct FilesArchive<'a> {
    zip: &'a Zip<'a>,
    /// Each after those around it.
    folders: Vec<&'a str>,
    files: Vec<PackedFile<'a>>,
}

struct PackedFile<'a> {
    path: &'a str,
    bytes: u64,
    is_deflated: bool,
    place: ZipArchiveEntryWayfinder,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
}

impl<'a> FilesArchive<'a> {
    pub(crate) fn read(zip: &'a Zip<'a>, room: &mut OwnFilesRoom) -> Result<Self, String> {
        let mut read = Self {
            zip,
            folders: Vec::new(),
            files: Vec::new(),
        };
        let mut known = HashMap::new();
        let mut entries = zip.entries();
        while let Some(record) = entries.next_entry().map_err(|error| broken(&error))? {
            let path = record.file_path();
            let name = path.as_bytes();
            let told = |why: &str| format!("the entry {} {why}", shown(name));
            let (path, kind) = named(name, &record).map_err(told)?;
            read.add_folders(path, &mut known, room)?;
            match (known.insert(path, kind), kind) {
                (None, Kind::Folder) => {
                    room.take(1, 0)?;
                    read.folders.push(path);
                }
                (None, Kind::File) => {
                    room.take(1, record.uncompressed_size_hint())?;
                    read.files.push(packed(path, &record).map_err(told)?);
                }
                // Made for what is in it.
                (Some(Kind::Folder), Kind::Folder) => {}
                _ => return Err(told("is there twice")),
            }
        }
        Ok(read)
    }

    /// From the innermost one, up to one that is known, so that the work is bounded by the number of folders.
    fn add_folders(
        &mut self,
        path: &'a str,
        known: &mut HashMap<&'a str, Kind>,
        room: &mut OwnFilesRoom,
    ) -> Result<(), String> {
        let begun = self.folders.len();
        let mut inner = path;
        while let Some((folder, _)) = inner.rsplit_once('/') {
            match known.get(folder) {
                Some(Kind::Folder) => break,
                Some(Kind::File) => {
                    let file = shown(folder.as_bytes());
                    return Err(format!("the entry {file} is a file, and others are in it"));
                }
                None => {}
            }
            room.take(1, 0)?;
            known.insert(folder, Kind::Folder);
            self.folders.push(folder);
            inner = folder;
        }
        if let Some(added) = self.folders.get_mut(begun..) {
            added.reverse();
        }
        Ok(())
    }

    pub(super) fn files(&self) -> u64 {
        self.files.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Makes the folder `into`. What was unpacked before an error is left there.
    pub(crate) fn unpack(&self, into: &Path) -> Result<(), UnpackError> {
        let mut builder = DirBuilder::new();
        builder.mode(FOLDER_MODE).create(into)?;
        for folder in &self.folders {
            builder.create(into.join(folder))?;
        }
        let mut part = vec![0; PART_BYTES];
        for file in &self.files {
            self.unpack_file(file, &into.join(file.path), &mut part)?;
        }
        // Now that nothing is added to them any more.
        for folder in &self.folders {
            date(&File::open(into.join(folder))?)?;
        }
        Ok(())
    }

    fn unpack_file(
        &self,
        file: &PackedFile<'_>,
        to: &Path,
        part: &mut [u8],
    ) -> Result<(), UnpackError> {
        let told = |error: &dyn std::fmt::Display| {
            let name = shown(file.path.as_bytes());
            UnpackError::Archive(format!("the entry {name} cannot be read: {error}"))
        };
        let entry = self.zip.get_entry(file.place);
        let entry = entry.map_err(|error| told(&error))?;
        let packed: Box<dyn Read + '_> = if file.is_deflated {
            Box::new(DeflateDecoder::new(entry.data()))
        } else {
            Box::new(entry.data())
        };
        let mut content = entry.verifying_reader(packed);
        let mut options = OpenOptions::new();
        let mut unpacked = (options.write(true).create_new(true))
            .mode(FILE_MODE)
            .open(to)?;
        loop {
            // Fails beyond the size that was counted before, and at the end if the size or the checksum is another.
            let read = content.read(part).map_err(|error| told(&error))?;
            if read == 0 {
                return Ok(date(&unpacked)?);
            }
            unpacked.write_all(part.get(..read).unwrap_or_default())?;
        }
    }
}

fn date(file: &File) -> io::Result<()> {
    file.set_modified(SystemTime::UNIX_EPOCH + FILE_TIME)
}

fn named<'a>(
    name: &'a [u8],
    record: &ZipFileHeaderRecord<'_>,
) -> Result<(&'a str, Kind), &'static str> {
    let (path, kind) = match name.strip_suffix(b"/") {
        Some(folder) => (folder, Kind::Folder),
        None => (name, Kind::File),
    };
    let path = plain(path)?;
    // Whatever system it says to be from: no file has such a mode by chance.
    let mode = (record.external_attributes() >> 16) & KIND;
    if mode != 0
        && mode
            != if kind == Kind::File {
                REGULAR_FILE
            } else {
                FOLDER
            }
    {
        return Err("is a link or something else that is no file");
    }
    if kind == Kind::Folder && record.uncompressed_size_hint() != 0 {
        return Err("is a folder with content");
    }
    Ok((path, kind))
}

fn packed<'a>(
    path: &'a str,
    record: &ZipFileHeaderRecord<'_>,
) -> Result<PackedFile<'a>, &'static str> {
    if record.flags().is_encrypted() {
        return Err("is encrypted");
    }
    let is_deflated = match record.compression_method() {
        CompressionMethod::STORE => false,
        CompressionMethod::DEFLATE => true,
        _ => return Err("is packed in a way that is not known; use deflate"),
    };
    Ok(PackedFile {
        path,
        bytes: record.uncompressed_size_hint(),
        is_deflated,
        place: record.wayfinder(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::PermissionsExt;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    /// An entry as an archive has it, which may lie.
    pub(in super::super) struct Packed {
        pub(in super::super) name: String,
        pub(in super::super) mode: u32,
        pub(in super::super) flags: u16,
        pub(in super::super) method: u16,
        pub(in super::super) crc: u32,
        pub(in super::super) size: u32,
        pub(in super::super) packed: Vec<u8>,
    }

    pub(in super::super) fn file(name: &str, content: &[u8]) -> Packed {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content).unwrap();
        Packed {
            name: name.to_owned(),
            mode: 0o100_644,
            flags: 0,
            method: 8,
            crc: rawzip::crc32(content),
            size: u32::try_from(content.len()).unwrap(),
            packed: encoder.finish().unwrap(),
        }
    }

    fn stored(name: &str, content: &[u8]) -> Packed {
        Packed {
            method: 0,
            packed: content.to_vec(),
            ..file(name, content)
        }
    }

    pub(in super::super) fn zip_of(entries: &[Packed]) -> Vec<u8> {
        let (mut archive, mut directory) = (Vec::new(), Vec::new());
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
        for entry in entries {
            let offset = length(&archive);
            let mut common = Vec::new();
            for word in [20, entry.flags, entry.method, 0, 33] {
                common.extend(word.to_le_bytes());
            }
            common.extend(entry.crc.to_le_bytes());
            common.extend(length(&entry.packed));
            common.extend(entry.size.to_le_bytes());
            common.extend(u16::try_from(entry.name.len()).unwrap().to_le_bytes());
            common.extend([0; 2]);
            archive.extend(b"PK\x03\x04");
            for part in [&common[..], entry.name.as_bytes(), &entry.packed] {
                archive.extend(part);
            }
            directory.extend(b"PK\x01\x02\x14\x03");
            directory.extend(&common);
            directory.extend([0; 6]);
            directory.extend((entry.mode << 16).to_le_bytes());
            directory.extend(offset);
            directory.extend(entry.name.as_bytes());
        }
        let (start, size) = (length(&archive), length(&directory));
        let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
        archive.extend(directory);
        archive.extend(b"PK\x05\x06\0\0\0\0");
        for part in [&count[..], &count, &size, &start, &[0; 2]] {
            archive.extend(part);
        }
        archive
    }

    fn unpacked(archive: &[u8], into: &Path) -> Result<(u64, u64), String> {
        let zip = zip(archive)?;
        let read = FilesArchive::read(&zip, &mut OwnFilesRoom::default())?;
        read.unpack(into).map_err(|error| error.to_string())?;
        Ok((read.files(), read.bytes()))
    }

    fn refused(entries: &[Packed]) -> String {
        let root = tempfile::tempdir().unwrap();
        unpacked(&zip_of(entries), &root.path().join("new")).unwrap_err()
    }

    #[test]
    fn files_and_folders_are_unpacked_read_only_and_always_alike() {
        let root = tempfile::tempdir().unwrap();
        let folder = Packed {
            mode: 0o040_755,
            ..stored("empty/", b"")
        };
        let known = Packed {
            mode: 0,
            ..stored("a/b/", b"")
        };
        let long = vec![7; 200_000];
        let archive = zip_of(&[
            file("a/b/long", &long),
            stored("a/\u{e4} 1", b"one"),
            file("none", b""),
            folder,
            known,
        ]);
        let into = root.path().join("new");
        assert_eq!(unpacked(&archive, &into).unwrap(), (3, 200_003));
        assert_eq!(std::fs::read(into.join("a/b/long")).unwrap(), long);
        assert_eq!(std::fs::read(into.join("a/\u{e4} 1")).unwrap(), b"one");
        assert_eq!(std::fs::read(into.join("none")).unwrap(), b"");
        for (path, mode) in [("a/b", 0o700), ("empty", 0o700), ("none", 0o400)] {
            let metadata = std::fs::metadata(into.join(path)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode, "{path}");
            let modified = metadata.modified().unwrap();
            assert_eq!(modified, SystemTime::UNIX_EPOCH + FILE_TIME, "{path}");
        }
    }

    #[test]
    fn an_entry_with_a_name_that_leads_elsewhere_is_refused() {
        for (name, why) in [
            ("/etc/passwd", "absolute"),
            ("../up", "`.` or `..`"),
            ("a/../../up", "`.` or `..`"),
            ("a/./b", "`.` or `..`"),
            ("a//b", "empty name"),
            ("", "empty name"),
            ("/", "empty name"),
            ("a\\b", "backslash"),
            ("a\0b", "control character"),
            (&"a".repeat(256), "name that is too long"),
            (&"a/".repeat(600), "path that is too long"),
        ] {
            let message = refused(&[file("good", b"x"), file(name, b"x")]);
            assert!(message.contains(why), "{name}: {message}");
        }
    }

    #[test]
    fn only_files_and_folders_in_a_known_packing_are_unpacked() {
        let link = |mode| Packed {
            mode,
            ..stored("link", b"/etc/passwd")
        };
        let crypt = Packed {
            flags: 1,
            ..file("secret", b"x")
        };
        let other = Packed {
            method: 93,
            ..file("zstd", b"x")
        };
        for (entry, why) in [
            (link(0o120_777), "`link` is a link"),
            (link(0o010_644), "`link` is a link or something else"),
            (link(0o060_644), "`link` is a link or something else"),
            (link(0o040_755), "`link` is a link or something else"),
            (stored("a/", b"x"), "something else"),
            (crypt, "`secret` is encrypted"),
            (other, "`zstd` is packed in a way"),
        ] {
            let message = refused(&[entry]);
            assert!(message.contains(why), "{message}");
        }
        let full = Packed {
            mode: 0,
            ..stored("a/", b"x")
        };
        assert!(refused(&[full]).contains("a folder with content"));
        assert!(unpacked(b"no archive", Path::new("/nowhere")).is_err());
        let whole = zip_of(&[file("a", b"x")]);
        assert!(unpacked(&whole[..whole.len() - 30], Path::new("/nowhere")).is_err());
    }

    #[test]
    fn no_two_entries_have_one_place() {
        for entries in [
            &[file("a", b"x"), file("a", b"y")][..],
            &[file("a/b", b"x"), file("a", b"y")],
            &[file("a", b"x"), file("a/b", b"y")],
            &[file("a", b"x"), file("a/b/c", b"y")],
        ] {
            let message = refused(entries);
            let is_told =
                message.contains("is there twice") || message.contains("others are in it");
            assert!(is_told, "{message}");
        }
    }

    #[test]
    fn content_that_is_not_what_the_archive_says_is_refused() {
        let large = file("a", &[0; 500_000]);
        let wrong = |crc, size| Packed {
            crc,
            size,
            packed: large.packed.clone(),
            ..file("a", b"")
        };
        let broken = Packed {
            packed: vec![0xff; 100],
            ..file("a", &[0; 500_000])
        };
        for entry in [
            wrong(large.crc ^ 1, 500_000),
            // More comes out than the archive says, and less.
            wrong(large.crc, 499_999),
            wrong(large.crc, 0),
            wrong(large.crc, 500_001),
            broken,
        ] {
            let message = refused(&[entry]);
            assert!(
                message.contains("the entry `a` cannot be read"),
                "{message}"
            );
        }
    }

    #[test]
    fn what_comes_out_is_bounded_before_anything_does() {
        let huge = |name: &str| Packed {
            size: 600 << 20,
            ..file(name, b"x")
        };
        let root = tempfile::tempdir().unwrap();
        let into = root.path().join("new");
        let message = unpacked(&zip_of(&[huge("a"), huge("b")]), &into).unwrap_err();
        assert!(message.contains("more than 1073741824 bytes"), "{message}");
        assert!(!into.exists());
        // Of few entries: each folder around a file counts.
        let deep = |at: usize| file(&format!("{at}{}/f", "/a".repeat(250)), b"");
        let many: Vec<Packed> = (0..400).map(deep).collect();
        let message = unpacked(&zip_of(&many), &into).unwrap_err();
        assert!(
            message.contains("more than 100000 files and folders"),
            "{message}"
        );
        assert_eq!(unpacked(&zip_of(&many[..4]), &into).unwrap(), (4, 0));
    }
}
