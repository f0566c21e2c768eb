//! Gets a component: the reference is resolved and verified before the component is fetched, wherever that is possible,
//! and what was fetched is compared with what was resolved.

use std::path::Path;

use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::BoxFuture;
use toolcell_system::component_size::component_bytes_max;

use crate::digest::Digest;
use crate::local::LocalSource;
use crate::package_index::{self, DownloadedArchive, InterpreterParts, attestation};
use crate::reference::ComponentReference;
use crate::registry::Registries;
use crate::signature::SignatureVerifier;
use crate::source::{ComponentSink, Referrer, ReferrerKind, ResolvedReference};
use crate::store::{self, ComponentDraft, ComponentStore};
use crate::verifier::{SignatureSubject, SignatureVerdict, Signer};
use crate::web::WebSource;

/// Makes a component of an interpreter.
pub type InterpreterMaker =
    Box<dyn Fn(InterpreterParts) -> BoxFuture<'static, Result<Vec<u8>, Refusal>> + Send + Sync>;

pub struct ComponentSources {
    pub registry: Registries,
    pub web: WebSource,
    pub local: LocalSource,
    pub interpreters: InterpreterMaker,
    /// `true` if only files of this machine are read.
    pub offline: bool,
}

impl ComponentSources {
    /// Fetches no component. Fails on a reference that needs a network that is not to be used, and an artifact that is
    /// not one component.
    pub async fn resolve(
        &self,
        reference: &ComponentReference,
    ) -> Result<ResolvedReference, Refusal> {
        if self.offline && !reference.is_path() {
            let message = format!("{reference} is not on this machine; fetch it without --offline");
            return Err(Refusal::new(ErrorCode::Offline, message));
        }
        match reference {
            ComponentReference::Registry(_) => self.registry.resolve(reference).await,
            ComponentReference::Package(package) => {
                package_index::resolve(&self.web, package).await
            }
            // A URL says nothing of its bytes.
            ComponentReference::Url(_) => Ok(ResolvedReference::new(reference.clone())),
            ComponentReference::Path(path) => self.local.resolve(path),
        }
    }

    /// Downloads the archive of a package; `None` for what is in no package.
    pub async fn archive(
        &self,
        resolved: &ResolvedReference,
    ) -> Result<Option<DownloadedArchive>, Refusal> {
        match (&resolved.reference, &resolved.archive) {
            (ComponentReference::Package(package), Some(archive)) => {
                let downloaded = package_index::download(&self.web, package, archive);
                downloaded.await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// `sink` counts and hashes. Fails if the source cannot be reached or stalls, and as [`ComponentSink::write`] does.
    /// `archive`: from [`Self::archive`].
    pub async fn fetch(
        &self,
        resolved: &ResolvedReference,
        archive: Option<&DownloadedArchive>,
        sink: &mut ComponentSink<'_>,
    ) -> Result<(), Refusal> {
        match &resolved.reference {
            ComponentReference::Registry(_) => self.registry.fetch(resolved, sink).await,
            ComponentReference::Package(package) => {
                let archive = archive.ok_or_else(|| {
                    Refusal::host_fault(format!("{package} was not downloaded before"))
                })?;
                if package.is_interpreter() {
                    let parts = package_index::interpreter_parts(package, archive)?;
                    return sink.write(&(self.interpreters)(parts).await?);
                }
                package_index::write_file(package, archive, sink)
            }
            ComponentReference::Url(url) => self.web.fetch(url, sink).await,
            ComponentReference::Path(path) => self.local.fetch(path, sink),
        }
    }

    /// Returns at most [`REFERRERS_MAX`](crate::source::REFERRERS_MAX), of bounded sizes; more is an error.
    pub async fn referrers(
        &self,
        resolved: &ResolvedReference,
        kind: ReferrerKind,
    ) -> Result<Vec<Referrer>, Refusal> {
        match (&resolved.reference, kind) {
            (ComponentReference::Registry(_), _) => self.registry.referrers(resolved, kind).await,
            (_, ReferrerKind::Sbom) => Ok(Vec::new()),
            (ComponentReference::Package(package), _) => match &resolved.archive {
                Some(archive) => attestation::find(&self.web, package, archive).await,
                None => Ok(Vec::new()),
            },
            (ComponentReference::Url(url), _) => self.web.signatures(url).await,
            (ComponentReference::Path(path), _) => self.local.signatures(path),
        }
    }
}

pub struct FetchRequest<'a> {
    pub reference: &'a ComponentReference,
    /// Required by a lock: the one resolved, and the component's.
    pub pinned: Option<(Digest, Digest)>,
    pub is_unsigned_allowed: bool,
    pub last_signer: Option<&'a Signer>,
}

/// Not in the store yet, unless it was there before.
pub struct VerifiedComponent {
    pub resolved: ResolvedReference,
    pub verdict: SignatureVerdict,
    pub component: Digest,
    pub bytes: Vec<u8>,
    /// `None` if the store has it.
    draft: Option<ComponentDraft>,
}

impl VerifiedComponent {
    pub fn keep(self, store: &ComponentStore) -> Result<(), Refusal> {
        self.draft
            .map_or(Ok(()), |draft| store.keep(draft, &self.component))
    }

    /// The manifest's in a registry, or else the component's.
    pub fn digest(&self) -> Digest {
        self.resolved.digest().unwrap_or(self.component)
    }
}

/// Fails if a source cannot be reached, a signature does not hold or is missing, or the bytes are not those resolved or
/// locked.
pub async fn obtain(
    wanted: &FetchRequest<'_>,
    sources: &ComponentSources,
    verifier: &SignatureVerifier,
    (store, home): (&ComponentStore, &Path),
) -> Result<VerifiedComponent, Refusal> {
    let reference = wanted.reference;
    let resolved = sources.resolve(reference).await?;
    if let (Some((locked, _)), Some(found)) = (wanted.pinned, resolved.digest()) {
        check(reference, &locked, &found)?;
    }
    let found = sources
        .referrers(&resolved, ReferrerKind::Signature)
        .await?;
    let verify = |digest, bytes: &[u8], found: &[Referrer]| {
        let FetchRequest {
            is_unsigned_allowed,
            last_signer,
            ..
        } = *wanted;
        verifier.verify(
            &SignatureSubject {
                reference,
                digest,
                bytes,
                is_unsigned_allowed,
                last_signer,
            },
            found,
        )
    };
    let archive = sources.archive(&resolved).await?;
    let before = match (&resolved.manifest, &archive) {
        (Some(manifest), _) => Some(verify(manifest.digest, &manifest.bytes, &found)?),
        (None, Some(archive)) => Some(verify(archive.digest, &archive.bytes()?, &found)?),
        (None, None) => None,
    };
    let from = (&resolved, archive.as_ref());
    let (component, bytes, draft) = fetch(sources, from, (store, home)).await?;
    if let Some((_, locked)) = wanted.pinned {
        check(reference, &locked, &component)?;
    }
    let verdict = match before {
        Some(verdict) => verdict,
        None => verify(component, &bytes, &found)?,
    };
    Ok(VerifiedComponent {
        resolved,
        verdict,
        component,
        bytes,
        draft,
    })
}

async fn fetch(
    sources: &ComponentSources,
    (resolved, archive): (&ResolvedReference, Option<&DownloadedArchive>),
    (store, home): (&ComponentStore, &Path),
) -> Result<(Digest, Vec<u8>, Option<ComponentDraft>), Refusal> {
    if let Some(digest) = resolved.component
        && let Ok(bytes) = store::read(home, &digest)
    {
        return Ok((digest, bytes, None));
    }
    let mut draft = store.draft()?;
    let bytes_max = resolved.size.unwrap_or(component_bytes_max());
    let mut sink = ComponentSink::new(draft.target(), bytes_max);
    sources.fetch(resolved, archive, &mut sink).await?;
    let digest = sink.finish();
    if let Some(expected) = resolved.component {
        check(&resolved.reference, &expected, &digest)?;
    }
    let bytes = draft.bytes()?;
    // Loads the bytes that were hashed, even if the file has changed since.
    check(&resolved.reference, &digest, &Digest::of(&bytes))?;
    Ok((digest, bytes, Some(draft)))
}

fn check(reference: &ComponentReference, expected: &Digest, found: &Digest) -> Result<(), Refusal> {
    if expected == found || !guard!("fetched_digests") {
        return Ok(());
    }
    let message = format!(
        "{reference} gives {found}, and {expected} is expected: the bytes were changed. `toolcell update` takes other \
         bytes, if they are meant"
    );
    Err(Refusal::new(ErrorCode::DigestMismatch, message))
}
