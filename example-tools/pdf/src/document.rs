//! Opens a PDF file.

use std::{
    fs::File,
    io::{self, Read},
};

use lopdf::{DecompressError, Dictionary, Document, Error, LoadOptions, Object, ObjectId};
use toolcell_guest::{ToolError, cancellation};

/// Maximum size of a file, in bytes. The file and its objects are held in memory.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// Maximum unpacked size of one stream that holds objects, in bytes.
const STREAM_BYTES_MAX: usize = 16 << 20;
/// The version of the format stands somewhere in the first bytes.
const HEAD_BYTES: usize = 1_024;
pub(crate) const PAGES_MAX: usize = 100_000;

/// An opened file.
pub(crate) struct Pdf {
    pub(crate) document: Document,
    pub(crate) is_encrypted: bool,
    /// `true` if nothing but the trailer can be read.
    pub(crate) needs_password: bool,
}

impl Pdf {
    pub(crate) fn open(path: &str) -> Result<Self, ToolError> {
        let bytes = read(path)?;
        let head = bytes.get(..HEAD_BYTES).unwrap_or(&bytes);
        if !head.windows(5).any(|part| part == b"%PDF-") {
            let message = format!("{path} is not a PDF file");
            return Err(ToolError::capability_gap("not_a_pdf", message));
        }
        cancellation::check()?;
        let options = LoadOptions {
            filter: Some(without_images),
            max_decompressed_size: Some(STREAM_BYTES_MAX),
            ..LoadOptions::default()
        };
        let document = match Document::load_mem_with_options(&bytes, options) {
            Ok(document) => document,
            Err(Error::InvalidPassword) => return Ok(Self::locked()),
            Err(error) => return Err(explain(path, &error)),
        };
        Ok(Self {
            is_encrypted: document.is_encrypted() || document.was_encrypted(),
            needs_password: document.is_encrypted() && document.encryption_state.is_none(),
            document,
        })
    }

    fn locked() -> Self {
        Self {
            document: Document::new(),
            is_encrypted: true,
            needs_password: true,
        }
    }

    /// The pages in their order.
    ///
    /// # Errors
    ///
    /// Code `damaged_pdf` if there are none; `too_many_pages`.
    pub(crate) fn pages(&self, path: &str) -> Result<Vec<ObjectId>, ToolError> {
        let pages: Vec<ObjectId> = self.document.page_iter().take(PAGES_MAX + 1).collect();
        if pages.is_empty() {
            return Err(damaged(path, "it has no pages"));
        }
        if pages.len() > PAGES_MAX {
            let message = format!("{path} has more than {PAGES_MAX} pages");
            return Err(ToolError::capability_gap("too_many_pages", message));
        }
        Ok(pages)
    }

    /// The object that `key` of `dictionary` refers to.
    pub(crate) fn get<'d>(&'d self, dictionary: &'d Dictionary, key: &[u8]) -> Option<&'d Object> {
        dictionary.get_deref(key, &self.document).ok()
    }

    pub(crate) fn resolve<'d>(&'d self, object: &'d Object) -> Option<&'d Object> {
        self.document
            .dereference(object)
            .ok()
            .map(|(_, object)| object)
    }
}

fn read(path: &str) -> Result<Vec<u8>, ToolError> {
    let failed = |error: io::Error| ToolError::at_path(path, &error);
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    let mut bytes = Vec::new();
    // Counted as it is read, because the file may grow.
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let message = format!("{path} is larger than {FILE_BYTES_MAX} bytes");
        return Err(ToolError::capability_gap("file_too_large", message));
    }
    Ok(bytes)
}

/// Drops images, which are most of a file and have no text.
fn without_images(id: ObjectId, object: &mut Object) -> Option<(ObjectId, Object)> {
    let is_image = object.as_stream().is_ok_and(|stream| {
        let subtype = stream.dict.get(b"Subtype").and_then(Object::as_name);
        subtype.is_ok_and(|name| name == b"Image")
    });
    (!is_image).then(|| (id, object.clone()))
}

pub(crate) fn explain(path: &str, error: &Error) -> ToolError {
    match error {
        Error::Decompress(DecompressError::MemoryLimitExceeded { limit }) => {
            let message = format!("{path} has a stream that unpacks to more than {limit} bytes");
            ToolError::capability_gap("stream_too_large", message)
        }
        Error::UnsupportedSecurityHandler(_) | Error::Decryption(_) => {
            let message = format!("{path} is encrypted in a way that is not supported: {error}");
            ToolError::capability_gap("encryption_not_supported", message)
        }
        error => damaged(path, &error.to_string()),
    }
}

pub(crate) fn damaged(path: &str, why: &str) -> ToolError {
    ToolError::execution_failed(
        "damaged_pdf",
        format!("{path} is damaged or incomplete: {why}"),
    )
}
