//! What an archive holds, and how its entries are visited.

use std::{
    fs::File,
    io::{self, Seek},
    ops::ControlFlow,
};

use flate2::bufread::MultiGzDecoder;
use toolcell_guest::{ToolError, data};

use crate::{format::Format, meter::Meter, tar_file, zip_file};

#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    File,
    Folder,
    /// A symbolic link, or a second name of a file.
    Link,
    /// A device, a pipe, or what else is no file.
    Special,
}

/// One entry as the archive declares it. Nothing of it is checked.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Kind,
    /// The declared size of the content.
    pub(crate) bytes: u64,
    /// Why the content cannot be read, such as a password.
    pub(crate) unreadable: Option<String>,
}

/// Called for each entry with a reader of its content. `Break` ends the walk.
pub(crate) type Visit<'v> =
    dyn FnMut(&Entry, &mut dyn io::Read) -> Result<ControlFlow<()>, ToolError> + 'v;

/// An opened archive.
pub(crate) struct Archive<'p> {
    pub(crate) path: &'p str,
    pub(crate) format: Format,
    pub(crate) file_bytes: u64,
    file: File,
}

impl<'p> Archive<'p> {
    pub(crate) fn open(path: &'p str) -> Result<Self, ToolError> {
        let failed = |error: io::Error| ToolError::at_path(path, &error);
        let mut file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let format = Format::of_file(path, &mut file)?;
        Ok(Self {
            path,
            format,
            file_bytes: metadata.len(),
            file,
        })
    }

    /// Visits the entries in the order of the archive. `meter` counts what is unpacked.
    pub(crate) fn walk(&self, meter: &Meter, visit: &mut Visit<'_>) -> Result<(), ToolError> {
        let mut file = &self.file;
        file.rewind()
            .map_err(|error| ToolError::at_path(self.path, &error))?;
        match self.format {
            Format::Zip => zip_file::walk(self.path, file, meter, visit),
            Format::Tar => tar_file::walk(self.path, file, meter, visit),
            Format::TarGz => {
                let unpacked = MultiGzDecoder::new(io::BufReader::new(file));
                tar_file::walk(self.path, unpacked, meter, visit)
            }
        }
    }
}

/// The error of a reader: one of this tool's own, or a damaged archive.
pub(crate) fn broken(path: &str, error: io::Error) -> ToolError {
    let told = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<ToolError>());
    match told {
        Some(told) => told.clone(),
        None => damaged(path, &error.to_string()),
    }
}

pub(crate) fn damaged(path: &str, why: &str) -> ToolError {
    ToolError::execution_failed(
        "damaged_archive",
        format!("{path} is damaged or incomplete: {why}"),
    )
}
