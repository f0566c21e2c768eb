//! Manifests: which kinds are read, what they must say, and how those are written that toolcell pushes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use toolcell_spec::{ErrorCode, Refusal};

use crate::digest::Digest;

use super::refusal;

/// In bytes, as the distribution specification has it.
pub(super) const MANIFEST_BYTES_MAX: u64 = 4 << 20;

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const COMPONENT: &str = "application/wasm";
pub const CONFIG: &str = "application/vnd.wasm.config.v0+json";
pub(super) const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// The CNCF layout's, ACT's, and those with which Wassette's tools push a single layer.
const CONFIGS: [&str; 5] = [
    CONFIG,
    "application/vnd.actcore.component.config.v1+cbor",
    "application/vnd.wasm.config.v1+json",
    "application/vnd.oci.image.config.v1+json",
    EMPTY,
];
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const SCHEMA_VERSION: u32 = 2;

/// A manifest or an index, as it was sent. A name that is there twice is an error, because two readers could see two
/// manifests.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManifestDocument {
    schema_version: u32,
    media_type: Option<String>,
    pub(super) artifact_type: Option<String>,
    pub(super) config: Option<Descriptor>,
    pub(super) layers: Option<Vec<Descriptor>>,
    pub(super) manifests: Option<Vec<Descriptor>>,
    pub(super) subject: Option<Descriptor>,
    #[serde(default)]
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

/// A manifest's reference to content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    pub media_type: String,
    pub digest: String,
    pub size: u64,
    /// The manifest's type, in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// Its author's annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

impl Descriptor {
    pub fn new(media_type: &str, bytes: &[u8]) -> Self {
        let digest = Digest::of(bytes).to_string();
        let size = bytes.len() as u64;
        Self {
            media_type: media_type.to_owned(),
            digest,
            size,
            artifact_type: None,
            annotations: None,
        }
    }
}

/// The layer that is the component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ComponentLayer {
    pub(super) digest: Digest,
    pub(super) size: u64,
}

impl ManifestDocument {
    pub(super) fn parse(
        bytes: &[u8],
        content_type: Option<&str>,
        reference: &str,
    ) -> Result<Self, Refusal> {
        let document: Self = serde_json::from_slice(bytes).map_err(|error| {
            refusal::unsupported(
                reference,
                &format!("its manifest cannot be parsed: {error}"),
            )
        })?;
        if document.schema_version != SCHEMA_VERSION {
            let why = format!(
                "its manifest is of schema version {}, not {SCHEMA_VERSION}",
                document.schema_version
            );
            return Err(refusal::unsupported(reference, &why));
        }
        let sent = content_type.map(|header| header.split(';').next().unwrap_or_default().trim());
        let contradicts = |own: &str| sent.is_some_and(|sent| !sent.eq_ignore_ascii_case(own));
        let is_index = document.manifests.is_some();
        let is_twofold = is_index && (document.layers.is_some() || document.config.is_some());
        let is_sent_otherwise =
            sent.is_some_and(|sent| sent == if is_index { MANIFEST } else { INDEX });
        let contradicts =
            document.media_type.as_deref().is_some_and(contradicts) || is_sent_otherwise;
        if contradicts || is_twofold {
            let why = "its manifest can be read as a manifest and as an index, so two programs could see two artifacts";
            return Err(refusal::unsupported(reference, why));
        }
        Ok(document)
    }

    fn is_index(&self) -> bool {
        let said = self.media_type.as_deref().unwrap_or_default();
        self.manifests.is_some() || said.starts_with(INDEX) || said.starts_with(DOCKER_INDEX)
    }

    /// Fails if this is not the manifest of a component.
    pub(super) fn component(&self, reference: &str) -> Result<ComponentLayer, Refusal> {
        let unsupported = |why: &str| Err(refusal::unsupported(reference, why));
        if self.is_index() {
            let message = format!(
                "{reference} is an index of several manifests, not a component; name one of its manifests by its digest"
            );
            return Err(Refusal::new(ErrorCode::ArtifactIsIndex, message));
        }
        if self.subject.is_some() {
            return unsupported("it is attached to another artifact");
        }
        let config = self
            .config
            .as_ref()
            .map_or("", |config| config.media_type.as_str());
        if !CONFIGS.contains(&config) {
            return unsupported(&format!("its configuration is of the type {config:?}"));
        }
        let layers = self.layers.as_deref().unwrap_or_default();
        let [layer] = layers else {
            return unsupported(&format!(
                "it has {} layers, where one of the type {COMPONENT} is expected",
                layers.len()
            ));
        };
        if layer.media_type != COMPONENT {
            return unsupported(&format!(
                "its layer is of the type {:?}, not {COMPONENT}",
                layer.media_type
            ));
        }
        let digest = layer.digest.parse::<Digest>();
        let digest = digest.map_err(|error| {
            refusal::unsupported(reference, &format!("the digest of its layer: {error}"))
        })?;
        Ok(ComponentLayer {
            digest,
            size: layer.size,
        })
    }
}

#[derive(Clone, Debug)]
pub struct ComponentArtifact {
    pub component: Vec<u8>,
    pub imports: Vec<String>,
    pub exports: Vec<String>,
    /// RFC 3339. The same for the same component, because it is part of the digest.
    pub created: String,
    /// `org.opencontainers.image.title` and others.
    pub annotations: BTreeMap<String, String>,
}

impl ComponentArtifact {
    pub fn config(&self) -> Vec<u8> {
        let config = json!({
            "created": self.created,
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [Digest::of(&self.component)],
            "component": { "exports": self.exports, "imports": self.imports, "target": null },
        });
        config.to_string().into_bytes()
    }

    pub fn manifest(&self) -> Vec<u8> {
        let manifest = json!({
            "schemaVersion": SCHEMA_VERSION,
            "mediaType": MANIFEST,
            "config": Descriptor::new(CONFIG, &self.config()),
            "layers": [Descriptor::new(COMPONENT, &self.component)],
            "annotations": self.annotations,
        });
        manifest.to_string().into_bytes()
    }
}

#[derive(Clone, Debug)]
pub struct Attachment {
    pub media_type: String,
    pub bytes: Vec<u8>,
}

impl Attachment {
    /// Attaches it to `subject`; JSON.
    pub fn manifest(&self, subject: &Descriptor) -> Vec<u8> {
        let manifest = json!({
            "schemaVersion": SCHEMA_VERSION,
            "mediaType": MANIFEST,
            "artifactType": self.media_type,
            "config": Descriptor::new(EMPTY, EMPTY_CONFIG),
            "layers": [Descriptor::new(&self.media_type, &self.bytes)],
            "subject": subject,
        });
        manifest.to_string().into_bytes()
    }
}

pub(super) const EMPTY_CONFIG: &[u8] = b"{}";

pub(super) fn index(manifests: &[Descriptor]) -> Vec<u8> {
    json!({ "schemaVersion": SCHEMA_VERSION, "mediaType": INDEX, "manifests": manifests })
        .to_string()
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const EMPTY_DIGEST: &str =
        "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    fn manifest() -> Value {
        let artifact = ComponentArtifact {
            component: b"\0asm".to_vec(),
            imports: vec![],
            exports: vec!["toolcell:tool/toolkit@0.2.0".to_owned()],
            created: "1970-01-01T00:00:00Z".to_owned(),
            annotations: BTreeMap::new(),
        };
        serde_json::from_slice(&artifact.manifest()).unwrap()
    }

    fn read(manifest: &str, content_type: &str) -> Result<ComponentLayer, Refusal> {
        ManifestDocument::parse(manifest.as_bytes(), Some(content_type), "x")?.component("x")
    }

    #[test]
    fn what_is_pushed_can_be_read() {
        let layer = read(&manifest().to_string(), MANIFEST).unwrap();
        assert_eq!((layer.digest, layer.size), (Digest::of(b"\0asm"), 4));
        assert_eq!(Digest::of(EMPTY_CONFIG).to_string(), EMPTY_DIGEST);
    }

    #[test]
    fn kinds_of_others_are_read_and_no_other_is() {
        let changed = |pointer: &str, value: Value| {
            let mut changed = manifest();
            *changed.pointer_mut(pointer).unwrap() = value;
            changed.to_string()
        };
        for config in CONFIGS {
            assert!(
                read(&changed("/config/mediaType", json!(config)), MANIFEST).is_ok(),
                "{config}"
            );
        }
        let layer = manifest()["layers"][0].clone();
        let policy = json!({ "mediaType": "application/yaml", "digest": EMPTY_DIGEST, "size": 2 });
        for (manifest, why) in [
            (
                changed(
                    "/config/mediaType",
                    json!("application/vnd.docker.container.image.v1+json"),
                ),
                "configuration",
            ),
            (
                changed("/layers", json!([layer, policy])),
                "it has 2 layers",
            ),
            (changed("/layers", json!([])), "it has 0 layers"),
            (
                changed("/layers/0/mediaType", json!("application/tar")),
                "its layer is of the type",
            ),
            (
                changed("/layers/0/digest", json!("sha512:00")),
                "is not a digest",
            ),
            (changed("/schemaVersion", json!(1)), "schema version 1"),
            (
                manifest()
                    .to_string()
                    .replacen("\"layers\"", "\"layers\":[],\"layers\"", 1),
                "duplicate field `layers`",
            ),
            ("[]".to_owned(), "cannot be parsed"),
        ] {
            let refusal = read(&manifest, MANIFEST).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::ArtifactUnsupported);
            assert!(refusal.message.contains(why), "{why}: {refusal}");
        }
    }

    #[test]
    fn an_index_is_not_taken_for_a_manifest() {
        let index = String::from_utf8(index(&[])).unwrap();
        assert_eq!(
            read(&index, INDEX).unwrap_err().code,
            ErrorCode::ArtifactIsIndex
        );
        let mut both = manifest();
        both["manifests"] = json!([]);
        for (text, content_type) in [
            (manifest().to_string(), INDEX),
            (index, MANIFEST),
            (both.to_string(), MANIFEST),
        ] {
            let refusal = read(&text, content_type).unwrap_err();
            assert!(
                refusal.message.contains("as a manifest and as an index"),
                "{text}: {refusal}"
            );
        }
    }
}
