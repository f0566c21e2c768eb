//! Signatures in files.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::named_file;

use super::SIGNATURE_BYTES_MAX;
use crate::source::{MINISIGN, Referrer, SIGSTORE_BUNDLE};

pub fn path(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

pub fn read(file: &Path) -> Result<Referrer, Refusal> {
    let found = file.display().to_string();
    let unreadable = |error: io::Error| {
        let message = format!("the signature {found} cannot be read: {error}");
        Refusal::new(ErrorCode::SignatureUnreadable, message)
    };
    let mut bytes = Vec::new();
    // One byte more, which the verifier refuses.
    let open = named_file::open(file).map_err(unreadable)?;
    open.take(SIGNATURE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    let is_minisign = file
        .extension()
        .is_some_and(|extension| extension == "minisig");
    let media_type = if is_minisign {
        MINISIGN
    } else {
        SIGSTORE_BUNDLE
    };
    Ok(Referrer {
        media_type: media_type.to_owned(),
        found,
        bytes,
    })
}
