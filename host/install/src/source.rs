//! The common part of registries, URLs and files as sources of components, and the bounds that hold for all.

use std::collections::BTreeMap;
use std::io::Write;

use toolcell_spec::text::deceives;
use toolcell_spec::{ErrorClass, ErrorCode, Refusal};
use toolcell_system::component_size::{component_bytes_max, larger_than_allowed};

use crate::digest::{Digest, DigestHasher};
use crate::package_index::PackageArchive;
use crate::reference::ComponentReference;

pub const REFERRERS_MAX: usize = 32;
/// In bytes.
pub const REFERRER_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedReference {
    pub reference: ComponentReference,
    /// Signatures are over its digest. `None` for URLs and files, where they are over the component, and for packages.
    pub manifest: Option<RegistryManifest>,
    /// `None` if only the bytes tell, as with a URL.
    pub component: Option<Digest>,
    /// In bytes, as the source declares it; checked when the component is fetched.
    pub size: Option<u64>,
    /// The publisher's, untrusted.
    pub annotations: BTreeMap<String, String>,
    /// Of a package: it holds the component, and attestations are over it.
    pub archive: Option<PackageArchive>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryManifest {
    pub digest: Digest,
    pub bytes: Vec<u8>,
}

/// Says which version of a tool a manifest is.
pub const VERSION_ANNOTATION: &str = "org.opencontainers.image.version";
/// In bytes.
const VERSION_MAX: usize = 128;

/// A short word, because locks store it, and messages repeat it.
pub(crate) fn is_version(text: &str) -> bool {
    text.len() <= VERSION_MAX && !text.chars().any(|c| c.is_whitespace() || deceives(c))
}

impl ResolvedReference {
    pub(crate) fn new(reference: ComponentReference) -> Self {
        Self {
            reference,
            manifest: None,
            component: None,
            size: None,
            annotations: BTreeMap::new(),
            archive: None,
        }
    }

    /// The publisher's. Untrusted, unless the manifest is signed.
    pub fn version(&self) -> Option<&str> {
        self.annotations
            .get(VERSION_ANNOTATION)
            .map(String::as_str)
            .filter(|version| is_version(version))
    }

    /// `None` if it is not known before the component is fetched: the manifest's, or the component's.
    pub fn digest(&self) -> Option<Digest> {
        self.manifest
            .as_ref()
            .map(|manifest| manifest.digest)
            .or(self.component)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferrerKind {
    Signature,
    Sbom,
}

/// Attached to an artifact; the bytes are untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    /// `application/vnd.dev.sigstore.bundle.v0.3+json`, [`MINISIGN`], or another.
    pub media_type: String,
    /// A digest, a URL or a path, for messages.
    pub found: String,
    /// At most [`REFERRER_BYTES_MAX`].
    pub bytes: Vec<u8>,
}

pub const MINISIGN: &str = "application/vnd.toolcell.minisign";
pub const SIGSTORE_BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// Counts a component's bytes against a bound, and hashes them on their way.
pub struct ComponentSink<'a> {
    target: &'a mut (dyn Write + Send),
    hasher: DigestHasher,
    written: u64,
    bytes_max: u64,
}

impl<'a> ComponentSink<'a> {
    /// Never takes more than [`component_bytes_max`].
    pub fn new(target: &'a mut (dyn Write + Send), bytes_max: u64) -> Self {
        Self {
            target,
            hasher: DigestHasher::default(),
            written: 0,
            bytes_max: bytes_max.min(component_bytes_max()),
        }
    }

    /// Fails on more bytes than the sink takes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.written = self.written.saturating_add(bytes.len() as u64);
        if self.written > self.bytes_max {
            return Err(too_large(self.bytes_max));
        }
        self.hasher.update(bytes);
        self.target
            .write_all(bytes)
            .map_err(|error| unwritable(&error))
    }

    /// In bytes.
    pub fn room(&self) -> u64 {
        self.bytes_max.saturating_sub(self.written)
    }

    pub fn finish(self) -> Digest {
        self.hasher.finish()
    }
}

pub fn too_large(bytes_max: u64) -> Refusal {
    let message = if bytes_max < component_bytes_max() {
        format!(
            "the component has more than the {bytes_max} bytes that its source declares, so it was not fetched"
        )
    } else {
        format!(
            "the component was not fetched: it has {}",
            larger_than_allowed()
        )
    };
    Refusal::new(ErrorCode::ComponentTooLarge, message).with_class(ErrorClass::ResultTooLarge)
}

fn unwritable(error: &std::io::Error) -> Refusal {
    Refusal::new(
        ErrorCode::StoreUnwritable,
        format!("cannot write to the store of tools: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_short_word() {
        let of = |version: &str| {
            let reference = ComponentReference::parse("./a.wasm", "/".as_ref()).unwrap();
            let annotations = BTreeMap::from([(VERSION_ANNOTATION.to_owned(), version.to_owned())]);
            let resolved = ResolvedReference {
                annotations,
                ..ResolvedReference::new(reference)
            };
            resolved.version().map(str::to_owned)
        };
        assert_eq!(of("v1.2.0-rc.1+a"), Some("v1.2.0-rc.1+a".to_owned()));
        for wrong in [
            "1.0\n  signed by Debian",
            "1.0 signed",
            "1\u{202e}0",
            "1\u{1b}[2K",
            &"1".repeat(129),
        ] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_sink_counts_hashes_and_ends() {
        let mut kept = Vec::new();
        let mut sink = ComponentSink::new(&mut kept, 4);
        sink.write(b"ab").unwrap();
        sink.write(b"cd").unwrap();
        assert_eq!(
            sink.write(b"e").unwrap_err().code,
            ErrorCode::ComponentTooLarge
        );
        let mut kept = Vec::new();
        let mut sink = ComponentSink::new(&mut kept, u64::MAX);
        sink.write(b"abc").unwrap();
        assert_eq!(sink.finish(), Digest::of(b"abc"));
        assert_eq!(kept, b"abc");
    }
}
