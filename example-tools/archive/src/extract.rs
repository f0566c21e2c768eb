use std::ops::ControlFlow;

use toolcell_guest::{Output, ToolError, data, tool};

use crate::{
    bytes_max,
    entry::{Archive, Kind, damaged},
    entry_name,
    format::Format,
    meter::Meter,
    names::Names,
    staging::{Staging, nothing_done},
};

#[data]
pub(crate) struct Extract {
    /// The archive: zip, tar or tar.gz. Its content decides, not its name.
    path: String,
    /// The folder to extract to. It is made if it does not exist.
    #[serde(default = "here")]
    to: String,
    /// `true` if files that exist are replaced. Without it, one of them refuses the whole archive.
    #[serde(default)]
    overwrite: bool,
    /// Maximum unpacked size of the whole archive, in bytes. Default: 256 MiB.
    #[serde(default = "bytes_max")]
    #[schemars(range(min = 1, max = 1_099_511_627_776_u64))]
    max_bytes: u64,
}

fn here() -> String {
    ".".to_owned()
}

#[data]
pub(crate) struct Extracted {
    format: Format,
    /// The folder.
    to: String,
    files: usize,
    /// Folders of the archive, also those that existed.
    folders: usize,
    /// The size of all files.
    bytes: u64,
    /// Files that existed before.
    #[serde(default, skip_serializing_if = "is_zero")]
    overwritten: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Extracts a zip, tar or tar.gz archive into a folder, all of it or nothing.
///
/// The archive is refused if an entry is a link or a device, has an absolute path or `..`, is encrypted, or exists in the
/// folder (unless `overwrite` is set), and if it unpacks to more than `max_bytes` or 10,000 files and folders.
#[tool(
    kind = "file_operation",
    search_hint = "extract unpack unzip untar archive zip tar.gz",
    access = ["file_read", "file_write"],
    write_effects = ["local_persistent"],
    risk = "medium",
    paths = ["path", "to"],
    content = ["text"],
    read_only = false,
    destructive
)]
pub(crate) fn extract(input: Extract) -> Result<Output<Extracted>, ToolError> {
    let archive = Archive::open(&input.path)?;
    // A compressed tar archive has no names that can be read before its content.
    if archive.format != Format::TarGz {
        check_names(&archive, input.max_bytes).map_err(nothing_done)?;
    }
    let mut staging = Staging::begin(&input.to)?;
    let unpacked = unpack(&archive, &mut staging, &input);
    let (names, bytes) = match unpacked {
        Ok(unpacked) => unpacked,
        Err(error) => return Err(staging.undo(error)),
    };
    let overwritten = staging.finish();
    let (files, folders) = (names.files.len(), names.folders.len());
    let text = format!("extracted {files} files ({bytes} bytes) to {}", input.to);
    Ok(Output::new().text(text).structured(Extracted {
        format: archive.format,
        to: input.to,
        files,
        folders,
        bytes,
        overwritten,
    }))
}

/// Checks all names and declared sizes before anything is unpacked.
fn check_names(archive: &Archive<'_>, bytes_max: u64) -> Result<(), ToolError> {
    let meter = Meter::new(archive.file_bytes, bytes_max);
    let mut names = Names::default();
    archive.walk(&meter, &mut |entry, _| {
        names.add(entry)?;
        // What is passed over in a tar archive is counted already.
        if archive.format == Format::Zip {
            meter.add(entry.bytes)?;
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// Unpacks into the staging folder, then moves the files. Returns what was extracted, and the size of the files.
fn unpack(
    archive: &Archive<'_>,
    staging: &mut Staging,
    input: &Extract,
) -> Result<(Names, u64), ToolError> {
    let meter = Meter::new(archive.file_bytes, input.max_bytes);
    let mut names = Names::default();
    let mut bytes = 0;
    archive.walk(&meter, &mut |entry, content| {
        let path = names.add(entry)?;
        if entry.kind == Kind::Folder {
            staging.add_folder(&path)?;
            return Ok(ControlFlow::Continue(()));
        }
        let written = staging.add_file(archive.path, &path, content)?;
        if written != entry.bytes {
            let name = entry_name::shown(&entry.name);
            let why = format!("{name:?} has {written} bytes instead of {}", entry.bytes);
            return Err(damaged(archive.path, &why));
        }
        bytes += written;
        Ok(ControlFlow::Continue(()))
    })?;
    staging.place(&names, input.overwrite)?;
    Ok((names, bytes))
}
