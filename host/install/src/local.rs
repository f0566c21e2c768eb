//! Files, and source folders that were built, as a source of components.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::component_size::component_bytes_max;

use crate::digest::Digest;
use crate::reference::ComponentReference;
use crate::signature::beside;
use crate::source::{
    ComponentSink, MINISIGN, REFERRER_BYTES_MAX, Referrer, ResolvedReference, SIGSTORE_BUNDLE,
    too_large,
};

pub const SIGNATURES: [(&str, &str); 2] =
    [(".minisig", MINISIGN), (".sigstore.json", SIGSTORE_BUNDLE)];

type LocateComponent = dyn Fn(&Path) -> Result<PathBuf, Refusal> + Send + Sync;

pub struct LocalSource {
    locate: Box<LocateComponent>,
}

impl LocalSource {
    /// `locate` returns the component of a path, and builds nothing.
    pub fn new(locate: impl Fn(&Path) -> Result<PathBuf, Refusal> + Send + Sync + 'static) -> Self {
        Self {
            locate: Box::new(locate),
        }
    }

    pub(crate) fn resolve(&self, path: &Path) -> Result<ResolvedReference, Refusal> {
        let bytes = self.read(path)?;
        Ok(ResolvedReference {
            component: Some(Digest::of(&bytes)),
            size: Some(bytes.len() as u64),
            ..ResolvedReference::new(ComponentReference::Path(path.to_owned()))
        })
    }

    pub(crate) fn fetch(&self, path: &Path, sink: &mut ComponentSink<'_>) -> Result<(), Refusal> {
        sink.write(&self.read(path)?)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, Refusal> {
        read(&(self.locate)(path)?, component_bytes_max())
    }

    pub(crate) fn signatures(&self, path: &Path) -> Result<Vec<Referrer>, Refusal> {
        let file = (self.locate)(path)?;
        let mut found = Vec::new();
        for (ending, media_type) in SIGNATURES {
            let beside = beside::path(&file, ending);
            if beside.symlink_metadata().is_ok() {
                let bytes = read(&beside, REFERRER_BYTES_MAX)?;
                found.push(Referrer {
                    media_type: media_type.to_owned(),
                    found: beside.display().to_string(),
                    bytes,
                });
            }
        }
        Ok(found)
    }
}

/// A regular file, also behind a symbolic link.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    // Without NONBLOCK, a named pipe would block the reader.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(std::io::Error::other("it is not a regular file"))
    }
}

fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Refusal> {
    let unreadable = |error: std::io::Error| {
        let message = format!(
            "cannot read {}: {error}; name a file that you may read",
            path.display()
        );
        Refusal::new(ErrorCode::ComponentUnreadable, message)
    };
    let file = open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > bytes_max {
        Err(too_large(bytes_max))
    } else {
        Ok(bytes)
    }
}
