//! Detects the format of an archive.

use std::{
    fs::File,
    io::{self, Read, Seek},
};

use toolcell_guest::{ToolError, data};

/// The offset of the magic bytes in a tar header.
const USTAR_OFFSET: usize = 257;
const BLOCK_BYTES: usize = 512;

#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    #[serde(rename = "zip")]
    Zip,
    #[serde(rename = "tar")]
    Tar,
    #[serde(rename = "tar.gz")]
    TarGz,
}

impl Format {
    /// The format that the ending of a file's name stands for.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        [
            (".zip", Self::Zip),
            (".tar", Self::Tar),
            (".tar.gz", Self::TarGz),
            (".tgz", Self::TarGz),
        ]
        .into_iter()
        .find_map(|(ending, format)| name.ends_with(ending).then_some(format))
    }

    /// Detects the format by the first bytes of a file, because its name can lie. Rewinds the file.
    ///
    /// # Errors
    ///
    /// capability_gap, code `not_an_archive`.
    pub(crate) fn of_file(path: &str, file: &mut File) -> Result<Self, ToolError> {
        let failed = |error: io::Error| ToolError::at_path(path, &error);
        let mut head = Vec::new();
        file.take(BLOCK_BYTES as u64)
            .read_to_end(&mut head)
            .map_err(failed)?;
        file.rewind().map_err(failed)?;
        // An empty zip file begins with the end of its table.
        let is_zip = head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06");
        let is_tar = head.get(USTAR_OFFSET..USTAR_OFFSET + 5) == Some(b"ustar")
            || head.len() == BLOCK_BYTES && tar_checksum_fits(&head);
        match () {
            () if is_zip => Ok(Self::Zip),
            () if head.starts_with(&[0x1f, 0x8b]) => Ok(Self::TarGz),
            () if is_tar => Ok(Self::Tar),
            () => {
                let message = format!("{path} is not a zip, tar or tar.gz archive");
                Err(ToolError::capability_gap("not_an_archive", message))
            }
        }
    }
}

/// `true` if the block is a header of the first tar format, which has no magic bytes, or the empty end of an archive.
fn tar_checksum_fits(block: &[u8]) -> bool {
    let mut header = tar::Header::new_old();
    header.as_mut_bytes().copy_from_slice(block);
    let written = header.cksum().ok();
    header.set_cksum();
    block.iter().all(|byte| *byte == 0) || written.is_some() && header.cksum().ok() == written
}
