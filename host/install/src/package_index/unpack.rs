//! One file out of an archive. Archives come from strangers: an entry is looked at in turn, and none is kept.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Component, Path};

use flate2::read::{DeflateDecoder, GzDecoder};
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive};
use toolcell_spec::{ErrorCode, Refusal};

use super::PackageReference;
use crate::source::ComponentSink;

/// In bytes, of all that stands before the file in a tar archive.
const UNPACKED_MAX: u64 = 2 << 30;
/// Shown if the file is not there.
const NAMES_MAX: usize = 10;

pub(super) fn from_zip(
    file: &File,
    package: &PackageReference,
    sink: &mut ComponentSink<'_>,
) -> Result<(), Refusal> {
    let broken = |error: rawzip::Error| damaged(package, &error.to_string());
    // Of an entry, the name, the extra fields and the comment have at most 64 KiB each.
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE.max(3 << 16)];
    let archive = ZipArchive::from_seekable(file, &mut buffer).map_err(broken)?;
    let mut names = Vec::new();
    let mut entries = archive.entries(&mut buffer);
    while let Some(record) = entries.next_entry().map_err(broken)? {
        let path = record.file_path();
        let name: &[u8] = path.as_ref();
        if name != package.file.as_bytes() {
            note(&mut names, &String::from_utf8_lossy(name));
            continue;
        }
        let method = record.compression_method();
        let is_known = [CompressionMethod::STORE, CompressionMethod::DEFLATE].contains(&method);
        if record.flags().is_encrypted() || !is_known {
            return Err(damaged(
                package,
                "the file is encrypted, or packed in a way that is not known",
            ));
        }
        let entry = archive.get_entry(record.wayfinder()).map_err(broken)?;
        let packed: Box<dyn Read + '_> = if method == CompressionMethod::STORE {
            Box::new(entry.reader())
        } else {
            Box::new(DeflateDecoder::new(entry.reader()))
        };
        return pour(package, &mut entry.verifying_reader(packed), sink);
    }
    Err(missing(package, &names))
}

pub(super) fn from_tar(
    file: &File,
    package: &PackageReference,
    sink: &mut ComponentSink<'_>,
) -> Result<(), Refusal> {
    let broken = |error: io::Error| damaged(package, &error.to_string());
    let unpacked = GzDecoder::new(BufReader::new(file)).take(UNPACKED_MAX);
    let mut archive = tar::Archive::new(unpacked);
    let mut names = Vec::new();
    // Raw: an entry that holds the long name of the next one would be read into memory, whatever its size.
    for entry in archive.entries().map_err(broken)?.raw(true) {
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.into_owned();
        // All of a package is in one folder, mostly `package`.
        let inner: &Path = match path.components().next() {
            Some(first @ Component::Normal(_)) => path.strip_prefix(first).unwrap_or(&path),
            _ => &path,
        };
        if inner == Path::new(&package.file) && entry.header().entry_type().is_file() {
            return pour(package, &mut entry, sink);
        }
        note(&mut names, &inner.to_string_lossy());
    }
    Err(missing(package, &names))
}

fn note(names: &mut Vec<String>, name: &str) {
    if names.len() < NAMES_MAX && name.ends_with(".wasm") {
        names.push(name.to_owned());
    }
}

fn pour(
    package: &PackageReference,
    from: &mut dyn Read,
    sink: &mut ComponentSink<'_>,
) -> Result<(), Refusal> {
    let mut part = vec![0; 64 << 10];
    loop {
        match from.read(&mut part) {
            Ok(0) => return Ok(()),
            Ok(read) => sink.write(part.get(..read).unwrap_or_default())?,
            Err(error) => return Err(damaged(package, &error.to_string())),
        }
    }
}

fn damaged(package: &PackageReference, why: &str) -> Refusal {
    let message = format!("the archive of {package} cannot be read: {why}");
    Refusal::new(ErrorCode::SourceRefused, message)
}

fn missing(package: &PackageReference, names: &[String]) -> Refusal {
    let message = if names.is_empty() {
        format!(
            "the package has no {}, and no file that ends with .wasm",
            package.file
        )
    } else {
        let names = names.join(", ");
        format!("the package has no {}; it has {names}", package.file)
    };
    Refusal::new(ErrorCode::ReferenceNotFound, message)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::{EntryType, Header};

    use super::super::PackageIndex;
    use super::*;

    fn header(name: &str, kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_path(name).unwrap();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_cksum();
        header
    }

    #[test]
    fn a_long_name_is_passed_over_however_long_it_is() {
        let mut file = tempfile::tempfile().unwrap();
        let mut packed = GzEncoder::new(&mut file, Compression::fast());
        let long: u64 = 256 << 20;
        packed
            .write_all(header("long", EntryType::GNULongName, long).as_bytes())
            .unwrap();
        io::copy(&mut io::repeat(b'a').take(long), &mut packed).unwrap();
        packed
            .write_all(header("package/a.wasm", EntryType::Regular, 3).as_bytes())
            .unwrap();
        packed.write_all(b"abc").unwrap();
        packed.write_all(&[0; 509 + 1024]).unwrap();
        packed.finish().unwrap();
        file.rewind().unwrap();
        let package = PackageReference::parse(PackageIndex::Npm, "x#a.wasm").unwrap();
        let mut kept = Vec::new();
        from_tar(&file, &package, &mut ComponentSink::new(&mut kept, 3)).unwrap();
        assert_eq!(kept, b"abc");
    }
}
