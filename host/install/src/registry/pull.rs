//! Resolves a reference, and fetches its component.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use tokio::time::timeout;
use toolcell_spec::Refusal;
use toolcell_system::component_size::component_bytes_max;

use crate::digest::{Digest, DigestHasher};
use crate::exchange::HttpCall;
use crate::reference::ComponentReference;
use crate::source::{self, ComponentSink, Referrer, ReferrerKind, ResolvedReference};

use super::auth::RepositoryAction;
use super::manifest::{MANIFEST_BYTES_MAX, ManifestDocument};
use super::{Registries, Repository, of_registry, refusal};

/// The digest that a registry says of its content.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// Counted in the registry's patience, for all attachments together.
const ATTACHED_PATIENCE: u32 = 4;

/// An index too, so that its refusal can name it.
const ACCEPTED: &str =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";

pub(super) struct FetchedManifest {
    pub(super) bytes: Vec<u8>,
    pub(super) digest: Digest,
    pub(super) content_type: Option<String>,
}

impl Registries {
    /// Fails on a reference of no registry, a registry that cannot be reached, an artifact that is not one component.
    pub async fn resolve(
        &self,
        reference: &ComponentReference,
    ) -> Result<ResolvedReference, Refusal> {
        let registry = of_registry(reference)?;
        let repository = self.repository(registry, RepositoryAction::Pull)?;
        let sent = repository.manifest(&registry.version()).await?;
        let shown = registry.to_string();
        let document = ManifestDocument::parse(&sent.bytes, sent.content_type.as_deref(), &shown)?;
        let layer = document.component(&shown)?;
        if layer.size > component_bytes_max() {
            return Err(source::too_large(component_bytes_max()));
        }
        Ok(ResolvedReference {
            reference: reference.clone(),
            manifest: Some(source::RegistryManifest {
                digest: sent.digest,
                bytes: sent.bytes,
            }),
            component: Some(layer.digest),
            size: Some(layer.size),
            annotations: document.annotations.unwrap_or_default(),
            archive: None,
        })
    }

    /// Fails if the registry cannot be reached, or the component is not what its manifest says.
    pub async fn fetch(
        &self,
        resolved: &ResolvedReference,
        sink: &mut ComponentSink<'_>,
    ) -> Result<(), Refusal> {
        let registry = of_registry(&resolved.reference)?;
        let repository = self.repository(registry, RepositoryAction::Pull)?;
        let manifest = resolved
            .manifest
            .as_ref()
            .map_or(&[][..], |manifest| manifest.bytes.as_slice());
        let layer = ManifestDocument::parse(manifest, None, &registry.to_string())?
            .component(&registry.to_string())?;
        let mut hasher = DigestHasher::default();
        repository
            .blob(layer.digest, layer.size, |part| {
                hasher.update(part);
                sink.write(part)
            })
            .await?;
        check_digest("the component", layer.digest, hasher.finish())
    }

    /// Fails if attachments exceed the bounds.
    pub async fn referrers(
        &self,
        resolved: &ResolvedReference,
        kind: ReferrerKind,
    ) -> Result<Vec<Referrer>, Refusal> {
        let registry = of_registry(&resolved.reference)?;
        let Some(manifest) = &resolved.manifest else {
            return Ok(Vec::new());
        };
        let repository = self.repository(registry, RepositoryAction::Pull)?;
        let attached = repository.attached(manifest.digest, kind);
        let found = timeout(self.attached_time(), attached).await;
        found.unwrap_or_else(|_| {
            let seconds = self.attached_time().as_secs();
            let why = format!("did not give what is attached within {seconds} s");
            Err(refusal::too_slow(&registry.host, &why))
        })
    }

    /// Each part alone may use up the patience.
    fn attached_time(&self) -> Duration {
        self.settings.patience.saturating_mul(ATTACHED_PATIENCE)
    }
}

/// Refuses bytes without the digest under which they were asked for.
fn check_digest(what: &str, expected: Digest, found: Digest) -> Result<(), Refusal> {
    if expected == found || !guard!("registry_digests") {
        Ok(())
    } else {
        Err(refusal::mismatch(
            what,
            &expected.to_string(),
            &found.to_string(),
        ))
    }
}

impl Repository<'_> {
    pub(super) async fn manifest(&self, version: &str) -> Result<FetchedManifest, Refusal> {
        let what = || format!("{}:{version}", self.path);
        self.manifest_if_there(version)
            .await?
            .ok_or_else(|| refusal::status(self.host(), &what(), StatusCode::NOT_FOUND, &[]))
    }

    /// As [`Self::manifest`]; `None` if the registry has none.
    pub(super) async fn manifest_if_there(
        &self,
        version: &str,
    ) -> Result<Option<FetchedManifest>, Refusal> {
        let mut call = HttpCall::new(Method::GET, self.url(&format!("manifests/{version}"))?);
        call.headers
            .insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        let answer = self.send(call).await?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            _ => {
                return Err(self
                    .failed(answer, &format!("{}:{version}", self.path))
                    .await);
            }
        }
        let content_type = answer.header(CONTENT_TYPE.as_str()).map(str::to_owned);
        let said = answer
            .header(CONTENT_DIGEST)
            .and_then(|said| said.parse::<Digest>().ok());
        let bytes = answer.bytes(MANIFEST_BYTES_MAX).await?;
        let digest = Digest::of(&bytes);
        for expected in [version.parse::<Digest>().ok(), said].into_iter().flatten() {
            check_digest("the manifest", expected, digest)?;
        }
        Ok(Some(FetchedManifest {
            bytes,
            digest,
            content_type,
        }))
    }

    /// Fails if there are not exactly `size` bytes; the caller checks their digest.
    pub(super) async fn blob(
        &self,
        digest: Digest,
        size: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), Refusal> + Send,
    ) -> Result<(), Refusal> {
        let answer = self
            .send(HttpCall::new(
                Method::GET,
                self.url(&format!("blobs/{digest}"))?,
            ))
            .await?;
        if answer.status() != StatusCode::OK {
            return Err(self
                .failed(answer, &format!("{}, blob {digest}", self.path))
                .await);
        }
        let length = answer.length();
        let wrong = |sent: u64| {
            let why = format!("a blob of {sent} bytes, where the manifest says {size}");
            refusal::malformed(self.host(), &why)
        };
        if let Some(length) = length.filter(|length| *length != size) {
            return Err(wrong(length));
        }
        let mut taken = 0;
        let pouring = answer.pour(|part| {
            taken += part.len() as u64;
            if taken > size {
                return Err(wrong(taken));
            }
            take(part)
        });
        pouring.await?;
        if taken == size {
            Ok(())
        } else {
            Err(wrong(taken))
        }
    }

    /// Checks the blob's digest.
    pub(super) async fn small_blob(&self, digest: Digest, size: u64) -> Result<Vec<u8>, Refusal> {
        let mut bytes = Vec::new();
        let taken = self.blob(digest, size, |part| {
            bytes.extend_from_slice(part);
            Ok(())
        });
        taken.await?;
        check_digest("an attachment", digest, Digest::of(&bytes))?;
        Ok(bytes)
    }
}
