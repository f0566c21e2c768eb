//! Pushes components, and what is attached to them.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use toolcell_spec::Refusal;

use crate::digest::Digest;
use crate::exchange::HttpCall;
use crate::reference::RegistryReference;

use super::auth::RepositoryAction;
use super::manifest::{self, Attachment, ComponentArtifact, Descriptor, EMPTY_CONFIG, MANIFEST};
use super::referrers::fallback_tag;
use super::{Registries, Repository, refusal};

/// A registry says with it that it lists attachments by itself.
const SUBJECT: &str = "oci-subject";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushResult {
    pub digest: Digest,
    pub component: Digest,
    pub subject: Descriptor,
}

impl Registries {
    /// Pushes under the digest alone. [`Self::tag`] gives a name once all is attached: under a tag, an artifact whose
    /// signature is still missing would be refused by everyone who updates to it.
    pub async fn push(
        &self,
        to: &RegistryReference,
        artifact: &ComponentArtifact,
    ) -> Result<PushResult, Refusal> {
        let repository = self.repository(to, RepositoryAction::Push)?;
        repository.upload(&artifact.component).await?;
        repository.upload(&artifact.config()).await?;
        let pushed = Self::foretold(artifact);
        repository
            .put(&pushed.digest.to_string(), MANIFEST, &artifact.manifest())
            .await?;
        Ok(pushed)
    }

    /// Checks that the registry has `artifact` under the tag of `to`.
    pub async fn tag(
        &self,
        to: &RegistryReference,
        artifact: &ComponentArtifact,
    ) -> Result<(), Refusal> {
        let repository = self.repository(to, RepositoryAction::Push)?;
        let bytes = artifact.manifest();
        repository.put(&to.version(), MANIFEST, &bytes).await?;
        let digest = Digest::of(&bytes);
        let kept = repository.manifest(&to.version()).await?.digest;
        if kept == digest {
            Ok(())
        } else {
            let what = "what the registry has under this tag";
            Err(refusal::mismatch(
                what,
                &digest.to_string(),
                &kept.to_string(),
            ))
        }
    }

    /// `subject` is a manifest in the repository of `to`. Returns the digest of the attachment's manifest.
    pub async fn attach(
        &self,
        to: &RegistryReference,
        subject: &Descriptor,
        attachment: &Attachment,
    ) -> Result<Digest, Refusal> {
        let repository = self.repository(to, RepositoryAction::Push)?;
        repository.upload(&attachment.bytes).await?;
        repository.upload(EMPTY_CONFIG).await?;
        let bytes = attachment.manifest(subject);
        let digest = Digest::of(&bytes);
        if repository
            .put(&digest.to_string(), MANIFEST, &bytes)
            .await?
        {
            return Ok(digest);
        }
        // The registry lists nothing by itself: an index under a tag of the subject does.
        let known = subject
            .digest
            .parse::<Digest>()
            .map_err(|_| refusal::malformed(&to.host, "a subject without a digest"))?;
        let mut entries = repository.listed(known).await?;
        if entries
            .iter()
            .all(|entry| entry.digest != digest.to_string())
        {
            let artifact_type = Some(attachment.media_type.clone());
            entries.push(Descriptor {
                artifact_type,
                ..Descriptor::new(MANIFEST, &bytes)
            });
            repository
                .put(
                    &fallback_tag(known),
                    manifest::INDEX,
                    &manifest::index(&entries),
                )
                .await?;
        }
        Ok(digest)
    }

    /// The digests of a push, without any request.
    pub fn foretold(artifact: &ComponentArtifact) -> PushResult {
        let manifest = artifact.manifest();
        let subject = Descriptor::new(MANIFEST, &manifest);
        PushResult {
            digest: Digest::of(&manifest),
            component: Digest::of(&artifact.component),
            subject,
        }
    }
}

impl Repository<'_> {
    /// Unless the registry has it.
    async fn upload(&self, bytes: &[u8]) -> Result<(), Refusal> {
        let digest = Digest::of(bytes).to_string();
        let there = self
            .send(HttpCall::new(
                Method::HEAD,
                self.url(&format!("blobs/{digest}"))?,
            ))
            .await?;
        if there.status() == StatusCode::OK {
            return Ok(());
        }
        let begun = self
            .send(HttpCall::new(Method::POST, self.url("blobs/uploads/")?))
            .await?;
        let what = format!("an upload to {}", self.path);
        if begun.status() != StatusCode::ACCEPTED {
            return Err(self.failed(begun, &what).await);
        }
        let location = begun
            .location()
            .and_then(|location| self.home.0.join(location).ok());
        let mut url =
            location.ok_or_else(|| refusal::malformed(self.host(), "an upload without a place"))?;
        drop(begun);
        url.query_pairs_mut().append_pair("digest", &digest);
        let mut call = HttpCall::new(Method::PUT, url);
        call.headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        );
        call.body = Bytes::copy_from_slice(bytes);
        let done = self.send(call).await?;
        match done.status() {
            StatusCode::CREATED => Ok(()),
            _ => Err(self.failed(done, &what).await),
        }
    }

    /// Returns whether the registry lists attachments by itself.
    async fn put(
        &self,
        version: &str,
        media_type: &'static str,
        bytes: &[u8],
    ) -> Result<bool, Refusal> {
        let mut call = HttpCall::new(Method::PUT, self.url(&format!("manifests/{version}"))?);
        call.headers
            .insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        call.body = Bytes::copy_from_slice(bytes);
        let done = self.send(call).await?;
        match done.status() {
            StatusCode::CREATED => Ok(done.header(SUBJECT).is_some()),
            _ => Err(self.failed(done, &format!("{}:{version}", self.path)).await),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::manifest::{COMPONENT, CONFIG};
    use super::*;

    #[test]
    fn the_same_component_has_the_same_manifest() {
        let artifact = ComponentArtifact {
            component: b"\0asm".to_vec(),
            imports: vec!["wasi:io/poll@0.2.6".to_owned()],
            exports: vec!["toolcell:tool/toolkit@0.2.0".to_owned()],
            created: "1970-01-01T00:00:00Z".to_owned(),
            annotations: BTreeMap::from([(
                "org.opencontainers.image.title".to_owned(),
                "a".to_owned(),
            )]),
        };
        let foretold = Registries::foretold(&artifact);
        assert_eq!(foretold, Registries::foretold(&artifact.clone()));
        assert_eq!(foretold.component, Digest::of(b"\0asm"));
        let manifest = String::from_utf8(artifact.manifest()).unwrap();
        assert!(
            manifest.contains(COMPONENT) && manifest.contains(CONFIG),
            "{manifest}"
        );
    }
}
