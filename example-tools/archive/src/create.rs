use std::{
    fs::File,
    io::{self, BufWriter, Read, Take, Write},
    path::Path,
};

use flate2::{
    Compression,
    write::{DeflateEncoder, GzEncoder},
};
use new_file::NewFile;
use rawzip::{CompressionMethod, ZipArchiveWriter};
use toolcell_guest::{Output, ToolError, cancellation, data, tool};

use crate::{
    bytes_max,
    format::Format,
    sources::{self, Source},
};

#[data]
pub(crate) struct Create {
    /// The archive to make. Its ending is the format: `.zip`, `.tar`, `.tar.gz` or `.tgz`.
    path: String,
    /// The folder whose content the archive gets, or one file. Names in the archive start below it.
    from: String,
    /// Files and folders in `from`, relative to it, if the archive gets only those.
    #[serde(default)]
    #[schemars(length(max = 1_000))]
    only: Vec<String>,
    /// `true` if an archive that exists is replaced.
    #[serde(default)]
    overwrite: bool,
    /// Maximum size of all files together, in bytes. Default: 256 MiB.
    #[serde(default = "bytes_max")]
    #[schemars(range(min = 1, max = 1_099_511_627_776_u64))]
    max_bytes: u64,
}

#[data]
pub(crate) struct Created {
    format: Format,
    path: String,
    files: usize,
    folders: usize,
    /// The size of all files.
    bytes: u64,
    /// The size of the archive.
    archive_bytes: u64,
    /// Links and what else is neither a file nor a folder: the archive does not have them. At most 20 names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<String>,
}

/// Makes a zip, tar or tar.gz archive of a folder or a file.
///
/// Links are skipped. Times and rights of files are not kept, so that the same files make the same archive.
#[tool(
    kind = "file_operation",
    search_hint = "make create archive zip tar tar.gz compress folder",
    access = ["file_read", "file_write"],
    write_effects = ["local_persistent"],
    risk = "medium",
    paths = ["path", "from"],
    content = ["text"],
    read_only = false,
    destructive
)]
pub(crate) fn create(input: Create) -> Result<Output<Created>, ToolError> {
    let format = Format::of_name(&input.path).ok_or_else(|| {
        let message = format!(
            "{} has none of the endings .zip, .tar, .tar.gz and .tgz, which name the format",
            input.path
        );
        ToolError::invalid_arguments("unknown_format", message)
    })?;
    let target = Path::new(&input.path);
    new_file::check(target, input.overwrite)?;
    let found = sources::find(Path::new(&input.from), &input.only, target, input.max_bytes)?;
    let mut made = NewFile::beside(target)?;
    let archive_bytes = write(&mut made, format, &found.sources)?;
    made.place(input.overwrite)?;
    let files = found.sources.iter().filter(|source| !source.is_folder);
    let files = files.count();
    let text = format!(
        "made {}: {files} files, {} bytes in {archive_bytes}",
        input.path, found.bytes
    );
    Ok(Output::new().text(text).structured(Created {
        format,
        path: input.path,
        files,
        folders: found.sources.len() - files,
        bytes: found.bytes,
        archive_bytes,
        skipped: found.skipped,
    }))
}

/// Writes the archive; returns its size.
fn write(made: &mut NewFile, format: Format, sources: &[Source]) -> Result<u64, ToolError> {
    let path = made.path().to_owned();
    let failed = |error: io::Error| ToolError::at_path(&path, &error);
    let file = BufWriter::new(made.file());
    let file = match format {
        Format::Zip => zip(file, sources)?,
        Format::Tar => tar(file, sources)?,
        Format::TarGz => {
            let packed = tar(GzEncoder::new(file, Compression::default()), sources)?;
            packed.finish().map_err(failed)?
        }
    };
    let file = file
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    Ok(file.metadata().map_err(failed)?.len())
}

fn zip<W: Write>(file: W, sources: &[Source]) -> Result<W, ToolError> {
    let mut archive = ZipArchiveWriter::new(file);
    for source in sources {
        cancellation::check()?;
        let failed = |error: rawzip::Error| unwritten(source, &error);
        if source.is_folder {
            let name = format!("{}/", source.name);
            archive
                .new_dir(&name)
                .unix_permissions(0o40_755)
                .create()
                .map_err(failed)?;
            continue;
        }
        let (mut entry, config) = archive
            .new_file(&source.name)
            .compression_method(CompressionMethod::DEFLATE)
            .unix_permissions(0o100_644)
            .start()
            .map_err(failed)?;
        let encoder = DeflateEncoder::new(&mut entry, Compression::default());
        let mut content = config.wrap(encoder);
        let mut from = open(source)?;
        io::copy(&mut from, &mut content).map_err(|error| unwritten(source, &error))?;
        is_as_found(source, from)?;
        let (encoder, descriptor) = content.finish().map_err(failed)?;
        encoder
            .finish()
            .map_err(|error| unwritten(source, &error))?;
        entry.finish(descriptor).map_err(failed)?;
    }
    archive
        .finish()
        .map_err(|error| ToolError::execution_failed("not_written", error.to_string()))
}

fn tar<W: Write>(file: W, sources: &[Source]) -> Result<W, ToolError> {
    let mut archive = tar::Builder::new(file);
    for source in sources {
        cancellation::check()?;
        let failed = |error: io::Error| unwritten(source, &error);
        let mut header = tar::Header::new_gnu();
        header.set_mtime(0);
        if source.is_folder {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_mode(0o755);
            header.set_size(0);
            archive
                .append_data(&mut header, format!("{}/", source.name), io::empty())
                .map_err(failed)?;
            continue;
        }
        header.set_mode(0o644);
        header.set_size(source.bytes);
        let mut content = open(source)?;
        archive
            .append_data(&mut header, &source.name, &mut content)
            .map_err(failed)?;
        is_as_found(source, content)?;
    }
    archive
        .into_inner()
        .map_err(|error| ToolError::execution_failed("not_written", error.to_string()))
}

fn open(source: &Source) -> Result<Take<File>, ToolError> {
    let file =
        File::open(&source.path).map_err(|error| ToolError::at_path(&source.path, &error))?;
    Ok(file.take(source.bytes))
}

/// Fails with execution_failed, code `changed_meanwhile`, if the file, which was read, has not the size that it had. A
/// tar header, which has the size, is already written.
fn is_as_found(source: &Source, content: Take<File>) -> Result<(), ToolError> {
    let is_short = content.limit() != 0;
    let rest = content
        .into_inner()
        .read(&mut [0])
        .map_err(|error| ToolError::at_path(&source.path, &error))?;
    if !is_short && rest == 0 {
        return Ok(());
    }
    let message = format!(
        "{} was changed by another program while it was read; make the archive again",
        source.path.display()
    );
    Err(ToolError::execution_failed("changed_meanwhile", message))
}

fn unwritten(source: &Source, error: &dyn std::fmt::Display) -> ToolError {
    let message = format!(
        "{:?} cannot be written to the archive: {error}",
        source.name
    );
    ToolError::execution_failed("not_written", message)
}
