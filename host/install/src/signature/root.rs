//! The trusted root of sigstore: the keys of its authorities and logs.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sigstore_verify::Verifier;
use sigstore_verify::trust_root::{SigstoreInstance, TrustedRoot};
use toolcell_spec::Refusal;
use toolcell_system::named_file;

use super::{provider, refusal};

/// In bytes.
const ROOT_BYTES_MAX: u64 = 1 << 20;

/// Read when the first bundle needs it.
#[derive(Default)]
pub(super) struct SigstoreRoot {
    /// `None`: the public instance's, which is in the program.
    file: Option<PathBuf>,
    read: OnceLock<Result<(TrustedRoot, Verifier), Refusal>>,
}

impl SigstoreRoot {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        Self {
            file,
            read: OnceLock::new(),
        }
    }

    pub(super) fn verifier(&self) -> Result<&Verifier, Refusal> {
        self.get().map(|(_, verifier)| verifier)
    }

    /// Certificates must be in a log. A private deployment may have none.
    pub(super) fn has_certificate_log(&self) -> Result<bool, Refusal> {
        self.get()
            .map(|(root, _)| self.file.is_none() || !root.ctlogs.is_empty())
    }

    fn get(&self) -> Result<&(TrustedRoot, Verifier), Refusal> {
        self.read
            .get_or_init(|| read(self.file.as_deref()))
            .as_ref()
            .map_err(Clone::clone)
    }
}

/// `None` reads the one in the program.
fn read(file: Option<&Path>) -> Result<(TrustedRoot, Verifier), Refusal> {
    provider::install();
    let place = file.map_or_else(
        || "in the program".to_owned(),
        |file| file.display().to_string(),
    );
    let invalid = |why: String| refusal::root_invalid(&place, &why);
    let root = match file {
        Some(file) => TrustedRoot::from_json(&text(file).map_err(invalid)?),
        None => TrustedRoot::from_embedded(SigstoreInstance::PublicGood),
    };
    let root = root.map_err(|error| invalid(error.to_string()))?;
    let verifier = Verifier::new(&root).map_err(|error| invalid(error.to_string()))?;
    Ok((root, verifier))
}

fn text(file: &Path) -> Result<String, String> {
    named_file::read_text(file, ROOT_BYTES_MAX).map_err(|error| error.to_string())
}
