//! The common part of registries, URLs and files as sources of components, and the bounds that hold for all.

use std::collections::BTreeMap;
use std::io::Write;

use toolcell_spec::text::deceives;
use toolcell_spec::{ErrorClass, ErrorCode, Refusal};
use toolcell_system::component_size::{component_bytes_max, larger_than_allowed};

use crate::digest::{Digest, DigestHasher};
use crate::reference::ComponentReference;

/// Maximum number of referrers that are read, for each kind.
pub const REFERRERS_MAX: usize = 32;
/// Maximum size of one referrer, in bytes.
pub const REFERRER_BYTES_MAX: u64 = 1 << 20;

/// A resolved reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedReference {
    /// The reference as it was written.
    pub reference: ComponentReference,
    /// The manifest in a registry, whose digest is what signatures are over. `None` for URLs and files, where they are
    /// over the component.
    pub manifest: Option<RegistryManifest>,
    /// Digest of the component. `None` if only its bytes tell, as with a URL.
    pub component: Option<Digest>,
    /// Size of the component, in bytes, as the source declares it; checked when it is fetched.
    pub size: Option<u64>,
    /// The publisher's annotations, such as `org.opencontainers.image.version`. Untrusted.
    pub annotations: BTreeMap<String, String>,
}

/// A manifest whose bytes have its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryManifest {
    /// Digest of `bytes`.
    pub digest: Digest,
    /// The manifest as the registry sent it.
    pub bytes: Vec<u8>,
}

/// The annotation that says which version of a tool a manifest is.
pub const VERSION_ANNOTATION: &str = "org.opencontainers.image.version";
/// Maximum length of a version, in bytes.
const VERSION_MAX: usize = 128;

/// `true` if `text` can be a version: a short word, because locks store it, and messages repeat it.
pub(crate) fn is_version(text: &str) -> bool {
    text.len() <= VERSION_MAX && !text.chars().any(|c| c.is_whitespace() || deceives(c))
}

impl ResolvedReference {
    /// A reference of which nothing is known before its component is fetched.
    pub(crate) fn new(reference: ComponentReference) -> Self {
        Self {
            reference,
            manifest: None,
            component: None,
            size: None,
            annotations: BTreeMap::new(),
        }
    }

    /// The version that the publisher gives, if it is one. Untrusted, unless the manifest is signed.
    pub fn version(&self) -> Option<&str> {
        self.annotations
            .get(VERSION_ANNOTATION)
            .map(String::as_str)
            .filter(|version| is_version(version))
    }

    /// The digest for the lock, if it is known before the component is fetched: the manifest's, or the component's.
    pub fn digest(&self) -> Option<Digest> {
        self.manifest
            .as_ref()
            .map(|manifest| manifest.digest)
            .or(self.component)
    }
}

/// A kind of attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferrerKind {
    /// Signatures, of any format.
    Signature,
    /// Software bills of materials.
    Sbom,
}

/// Something that is attached to an artifact. Its bytes are untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    /// The media type, such as `application/vnd.dev.sigstore.bundle.v0.3+json`, or [`MINISIGN`].
    pub media_type: String,
    /// Where it was found, for messages: a digest, a URL or a path.
    pub found: String,
    /// At most [`REFERRER_BYTES_MAX`].
    pub bytes: Vec<u8>,
}

/// Media type of a minisign signature.
pub const MINISIGN: &str = "application/vnd.toolcell.minisign";
/// Media type of a sigstore bundle, version 0.3.
pub const SIGSTORE_BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// Takes the bytes of a component: counts them against a bound, and hashes them on their way.
pub struct ComponentSink<'a> {
    target: &'a mut (dyn Write + Send),
    hasher: DigestHasher,
    written: u64,
    bytes_max: u64,
}

impl<'a> ComponentSink<'a> {
    /// A sink that takes at most `bytes_max` bytes, and never more than [`component_bytes_max`].
    pub fn new(target: &'a mut (dyn Write + Send), bytes_max: u64) -> Self {
        Self {
            target,
            hasher: DigestHasher::default(),
            written: 0,
            bytes_max: bytes_max.min(component_bytes_max()),
        }
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    ///
    /// More bytes than the sink takes, and a target that cannot be written.
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

    /// Number of bytes that it still takes.
    pub fn room(&self) -> u64 {
        self.bytes_max.saturating_sub(self.written)
    }

    /// The digest of all that was written.
    pub fn finish(self) -> Digest {
        self.hasher.finish()
    }
}

/// The refusal of a component with more than `bytes_max` bytes.
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
                reference,
                manifest: None,
                component: None,
                size: None,
                annotations,
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
