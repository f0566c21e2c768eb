//! Reads tar archives.

use std::{
    io::{self, Read},
    ops::ControlFlow,
};

use tar::{EntryType, Header, PaxExtensions};
use toolcell_guest::{ToolError, cancellation};

use crate::{
    entry::{Entry, Kind, Visit, broken, damaged},
    meter::Meter,
};

/// Maximum size of a long name, in bytes, with its final NUL.
const LONG_NAME_BYTES_MAX: u64 = 4_097;
/// Maximum size of the extended attributes of one file, in bytes.
const ATTRIBUTES_BYTES_MAX: u64 = 64 << 10;

/// What headers say about the file whose own header follows.
#[derive(Default)]
struct Before {
    name: Option<Vec<u8>>,
    /// The size in an extended header, which counts instead of the one in the file's header.
    bytes: Option<u64>,
    is_sparse: bool,
}

/// Visits the entries. Names and attributes that stand in headers of their own are read here, because the crate reads
/// them whole, whatever their size is.
pub(crate) fn walk<R: Read>(
    path: &str,
    file: R,
    meter: &Meter,
    visit: &mut Visit<'_>,
) -> Result<(), ToolError> {
    let failed = |error: io::Error| broken(path, error);
    let mut archive = tar::Archive::new(meter.reader(file));
    let mut before = Before::default();
    for entry in archive.entries().map_err(failed)?.raw(true) {
        cancellation::check()?;
        let mut entry = entry.map_err(failed)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => {
                let name = bounded(path, &mut entry, LONG_NAME_BYTES_MAX)?;
                before.name = Some(until_nul(&name).to_vec());
            }
            // The target of a link, which is refused anyway.
            EntryType::GNULongLink => {}
            EntryType::XHeader => {
                let attributes = bounded(path, &mut entry, ATTRIBUTES_BYTES_MAX)?;
                before.add(path, &attributes)?;
            }
            EntryType::XGlobalHeader => {
                let attributes = bounded(path, &mut entry, ATTRIBUTES_BYTES_MAX)?;
                let mut global = Before::default();
                global.add(path, &attributes)?;
                if global.name.is_some() || global.bytes.is_some() || global.is_sparse {
                    return Err(damaged(path, "its global header names a file"));
                }
            }
            _ => {
                let found = entry_of(path, entry.header(), std::mem::take(&mut before))?;
                if visit(&found, &mut entry)? == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
        }
    }
    if before.name.is_some() || before.bytes.is_some() {
        return Err(damaged(path, "the file of its last header is missing"));
    }
    // A compressed archive has a checksum at its end.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(failed)?;
    Ok(())
}

/// The content of a header, which must be small.
fn bounded<R: Read>(
    path: &str,
    entry: &mut tar::Entry<'_, R>,
    max: u64,
) -> Result<Vec<u8>, ToolError> {
    let declared = entry.size();
    if declared > max {
        let why =
            format!("a header for a name or attributes has {declared} bytes, more than {max}");
        return Err(damaged(path, &why));
    }
    let mut content = Vec::new();
    entry
        .read_to_end(&mut content)
        .map_err(|error| broken(path, error))?;
    if content.len() as u64 != declared {
        return Err(damaged(path, "it ends in the middle of a header"));
    }
    Ok(content)
}

impl Before {
    fn add(&mut self, path: &str, attributes: &[u8]) -> Result<(), ToolError> {
        for attribute in PaxExtensions::new(attributes) {
            let attribute = attribute.map_err(|error| broken(path, error))?;
            match attribute.key_bytes() {
                b"path" => self.name = Some(attribute.value_bytes().to_vec()),
                b"size" => {
                    let bytes = attribute.value().ok().and_then(|text| text.parse().ok());
                    self.bytes = Some(bytes.ok_or_else(|| damaged(path, "a size is no number"))?);
                }
                key if key.starts_with(b"GNU.sparse.") => self.is_sparse = true,
                _ => {}
            }
        }
        Ok(())
    }
}

fn entry_of(path: &str, header: &Header, before: Before) -> Result<Entry, ToolError> {
    let bytes = header.entry_size().map_err(|error| broken(path, error))?;
    // If two sizes differ, programs see different files in the same archive.
    if before.bytes.is_some_and(|declared| declared != bytes) {
        return Err(damaged(path, "two headers of a file give different sizes"));
    }
    let name = before
        .name
        .unwrap_or_else(|| header.path_bytes().into_owned());
    let kind = match header.entry_type() {
        // The first tar format has no type for folders.
        EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") => Kind::Folder,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Kind::File,
        EntryType::Directory => Kind::Folder,
        EntryType::Link | EntryType::Symlink => Kind::Link,
        _ => Kind::Special,
    };
    let is_sparse = before.is_sparse || header.entry_type() == EntryType::GNUSparse;
    Ok(Entry {
        name,
        kind,
        bytes,
        unreadable: is_sparse.then(|| "it is a sparse file, which is not supported".to_owned()),
    })
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(bytes)
}
