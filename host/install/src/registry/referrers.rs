//! Attachments of an artifact: signatures, and software bills of materials.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use toolcell_spec::Refusal;

use crate::digest::Digest;
use crate::exchange::HttpCall;
use crate::source::{MINISIGN, REFERRER_BYTES_MAX, REFERRERS_MAX, Referrer, ReferrerKind};

use super::manifest::{Descriptor, INDEX, MANIFEST_BYTES_MAX, ManifestDocument};
use super::{Repository, refusal};

/// Prefixes of media types: bundles of all versions, cosign's earlier ones, and minisign's.
const SIGNATURES: [&str; 4] = [
    "application/vnd.dev.sigstore.bundle",
    "application/vnd.dev.cosign.",
    "application/vnd.dsse.envelope",
    MINISIGN,
];
const SBOMS: [&str; 2] = ["application/vnd.cyclonedx", "application/spdx"];

fn is_of(kind: ReferrerKind, media_type: &str) -> bool {
    let known: &[&str] = match kind {
        ReferrerKind::Signature => &SIGNATURES,
        ReferrerKind::Sbom => &SBOMS,
    };
    known.iter().any(|start| media_type.starts_with(start))
}

impl Repository<'_> {
    /// Attachments of this kind.
    ///
    /// Does not trust an index's claims about its entries, because registries fill it in differently: each entry's own
    /// manifest has its type and its subject.
    pub(super) async fn attached(
        &self,
        subject: Digest,
        kind: ReferrerKind,
    ) -> Result<Vec<Referrer>, Refusal> {
        let mut entries = self.listed(subject).await?;
        // Those that claim to be of this kind first, so that others cannot hide them behind their number.
        entries.sort_by_key(|entry| {
            !entry
                .artifact_type
                .as_deref()
                .is_some_and(|claimed| is_of(kind, claimed))
        });
        let mut found = Vec::new();
        for entry in entries.into_iter().take(REFERRERS_MAX) {
            let Ok(digest) = entry.digest.parse::<Digest>() else {
                continue;
            };
            // An entry whose manifest is gone is attached no more.
            let Some(sent) = self.manifest_if_there(&digest.to_string()).await? else {
                continue;
            };
            let shown = format!("{}@{digest}", self.reference.name());
            // One that cannot be read must not hide the others.
            let Ok(document) =
                ManifestDocument::parse(&sent.bytes, sent.content_type.as_deref(), &shown)
            else {
                continue;
            };
            let is_attached = document
                .subject
                .as_ref()
                .is_some_and(|known| known.digest == subject.to_string());
            if !is_attached {
                continue;
            }
            for layer in document.layers.unwrap_or_default() {
                let artifact_type = document.artifact_type.as_deref().unwrap_or_default();
                let media_type = [layer.media_type.as_str(), artifact_type]
                    .into_iter()
                    .find(|named| is_of(kind, named));
                let (Some(media_type), Ok(blob)) = (media_type, layer.digest.parse::<Digest>())
                else {
                    continue;
                };
                if layer.size > REFERRER_BYTES_MAX {
                    return Err(refusal::too_long(self.host(), REFERRER_BYTES_MAX));
                }
                let media_type = media_type.to_owned();
                let bytes = self.small_blob(blob, layer.size).await?;
                found.push(Referrer {
                    media_type,
                    found: digest.to_string(),
                    bytes,
                });
                if found.len() >= REFERRERS_MAX {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    /// Includes all entries: an attachment is added to them, and must replace none.
    pub(super) async fn listed(&self, subject: Digest) -> Result<Vec<Descriptor>, Refusal> {
        let mut call = HttpCall::new(Method::GET, self.url(&format!("referrers/{subject}"))?);
        call.headers.insert(ACCEPT, HeaderValue::from_static(INDEX));
        let answer = self.send(call).await?;
        let shown = format!("what is attached to {}@{subject}", self.reference.name());
        let (bytes, content_type) = match answer.status() {
            StatusCode::OK => {
                let content_type = answer.header(CONTENT_TYPE.as_str()).map(str::to_owned);
                (answer.bytes(MANIFEST_BYTES_MAX).await?, content_type)
            }
            StatusCode::NOT_FOUND => {
                drop(answer);
                match self.manifest_if_there(&fallback_tag(subject)).await? {
                    Some(sent) => (sent.bytes, sent.content_type),
                    None => return Ok(Vec::new()),
                }
            }
            _ => return Err(self.failed(answer, &shown).await),
        };
        let document = ManifestDocument::parse(&bytes, content_type.as_deref(), &shown)?;
        document
            .manifests
            .ok_or_else(|| refusal::malformed(self.host(), &format!("{shown} is no index")))
    }
}

/// A registry without a list of its own needs it.
pub(super) fn fallback_tag(subject: Digest) -> String {
    subject.to_string().replace(':', "-")
}
