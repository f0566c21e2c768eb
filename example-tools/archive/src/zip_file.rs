//! Reads zip files.

use std::{
    fs::File,
    io::{self, Read},
    ops::ControlFlow,
};

use flate2::read::DeflateDecoder;
use rawzip::{
    CompressionMethod, ErrorKind, RECOMMENDED_BUFFER_SIZE, ZipArchive, ZipFileHeaderRecord,
};
use toolcell_guest::{ToolError, cancellation};

use crate::{
    entry::{Entry, Kind, Visit, broken, damaged},
    meter::Meter,
};

/// The part of a Unix mode that is the type of a file.
const TYPE_MASK: u32 = 0o170_000;
const TYPE_FILE: u32 = 0o100_000;
const TYPE_FOLDER: u32 = 0o040_000;

/// Visits the entries of the central directory.
pub(crate) fn walk(
    path: &str,
    file: &File,
    meter: &Meter,
    visit: &mut Visit<'_>,
) -> Result<(), ToolError> {
    let failed = |error: rawzip::Error| explain(path, error);
    // A record has to fit: its name, extra fields and comment have at most 64 KiB each.
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE.max(3 << 16)];
    let archive = ZipArchive::from_seekable(file, &mut buffer).map_err(failed)?;
    let declared = archive.entries_hint();
    let mut seen = 0;
    let mut entries = archive.entries(&mut buffer);
    while let Some(record) = entries.next_entry().map_err(failed)? {
        cancellation::check()?;
        seen += 1;
        let entry = entry_of(&record);
        let method = record.compression_method();
        // A link or a folder may have a position that is wrong, and nothing of it is read.
        let flow = if entry.kind != Kind::File || entry.unreadable.is_some() {
            visit(&entry, &mut io::empty())?
        } else {
            let found = archive.get_entry(record.wayfinder()).map_err(failed)?;
            let raw: Box<dyn Read + '_> = if method == CompressionMethod::STORE {
                Box::new(found.reader())
            } else {
                Box::new(DeflateDecoder::new(found.reader()))
            };
            // Counted before the check of the sum, which reads all of a file whose size is a lie.
            let mut content = found.verifying_reader(meter.reader(raw));
            visit(&entry, &mut content)?
        };
        if flow == ControlFlow::Break(()) {
            return Ok(());
        }
    }
    if seen == declared {
        return Ok(());
    }
    let why = format!("its table has {seen} entries instead of {declared}");
    Err(damaged(path, &why))
}

fn entry_of(record: &ZipFileHeaderRecord<'_>) -> Entry {
    let mode = record.mode();
    let kind = match mode.value() & TYPE_MASK {
        _ if mode.is_symlink() => Kind::Link,
        TYPE_FOLDER => Kind::Folder,
        TYPE_FILE if record.is_dir() => Kind::Folder,
        TYPE_FILE => Kind::File,
        _ => Kind::Special,
    };
    let method = record.compression_method();
    let unreadable = if record.flags().is_encrypted() {
        Some("it is encrypted".to_owned())
    } else if ![CompressionMethod::STORE, CompressionMethod::DEFLATE].contains(&method) {
        Some(format!("its compression ({method}) is not supported"))
    } else {
        None
    };
    Entry {
        name: AsRef::<[u8]>::as_ref(&record.file_path()).to_vec(),
        kind,
        bytes: record.uncompressed_size_hint(),
        unreadable,
    }
}

fn explain(path: &str, error: rawzip::Error) -> ToolError {
    match error.into_kind() {
        ErrorKind::IO(error) => broken(path, error),
        kind => damaged(path, &rawzip::Error::from(kind).to_string()),
    }
}
