//! One file out of an archive. Archives come from strangers: names, sizes and numbers of entries are bounded.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Component, Path};

use flate2::read::GzDecoder;
use toolcell_spec::{ErrorCode, Refusal};
use zip::ZipArchive;
use zip::result::ZipError;

use super::PackageReference;
use crate::source::ComponentSink;

/// In bytes, of all that stands before the file in a tar archive.
const UNPACKED_MAX: u64 = 8 << 30;
/// Shown if the file is not there.
const NAMES_MAX: usize = 10;

pub(super) fn from_zip(
    file: File,
    package: &PackageReference,
    sink: &mut ComponentSink<'_>,
) -> Result<(), Refusal> {
    let broken = |error: ZipError| damaged(package, &error.to_string());
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(broken)?;
    let Some(place) = archive.index_for_name(&package.file) else {
        let names = archive.file_names().filter_map(Result::ok);
        return Err(missing(package, names.map(Cow::into_owned)));
    };
    let mut entry = archive.by_index(place).map_err(broken)?;
    pour(package, &mut entry, sink)
}

pub(super) fn from_tar(
    file: File,
    package: &PackageReference,
    sink: &mut ComponentSink<'_>,
) -> Result<(), Refusal> {
    let broken = |error: io::Error| damaged(package, &error.to_string());
    let unpacked = GzDecoder::new(BufReader::new(file)).take(UNPACKED_MAX);
    let mut archive = tar::Archive::new(unpacked);
    let mut names = Vec::new();
    for entry in archive.entries().map_err(broken)? {
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
        let name = inner.to_string_lossy();
        if names.len() < NAMES_MAX && name.ends_with(".wasm") {
            names.push(name.into_owned());
        }
    }
    Err(missing(package, names.into_iter()))
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

fn missing(package: &PackageReference, names: impl Iterator<Item = String>) -> Refusal {
    let components: Vec<String> = names
        .filter(|name| name.ends_with(".wasm"))
        .take(NAMES_MAX)
        .collect();
    let message = match components.as_slice() {
        [] => format!(
            "the package has no {}, and no file that ends with .wasm",
            package.file
        ),
        names => format!(
            "the package has no {}; it has {}",
            package.file,
            names.join(", ")
        ),
    };
    Refusal::new(ErrorCode::ReferenceNotFound, message)
}
