//! The bytes that a signature covers, and the existing signatures.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use toolcell_install::digest::Digest;
use toolcell_install::obtain::ComponentSources;
use toolcell_install::reference::ComponentReference;
use toolcell_install::signature::sign::KEY_BYTES_MAX;
use toolcell_install::source::{ComponentSink, Referrer, ReferrerKind};
use toolcell_spec::Refusal;
use toolcell_system::component_size::component_bytes_max;

use super::exit::BadRequest;

pub(super) struct Artifact {
    pub(super) digest: Digest,
    pub(super) bytes: Vec<u8>,
    pub(super) signatures: Vec<Referrer>,
}

pub(super) async fn artifact(
    reference: &ComponentReference,
    sources: &ComponentSources,
) -> Result<Artifact, Refusal> {
    let resolved = sources.resolve(reference).await?;
    let signatures = sources
        .referrers(&resolved, ReferrerKind::Signature)
        .await?;
    if let Some(manifest) = resolved.manifest {
        return Ok(Artifact {
            digest: manifest.digest,
            bytes: manifest.bytes,
            signatures,
        });
    }
    if let Some(archive) = sources.archive(&resolved).await? {
        return Ok(Artifact {
            digest: archive.digest,
            bytes: archive.bytes()?,
            signatures,
        });
    }
    let mut bytes = Vec::new();
    let mut sink = ComponentSink::new(&mut bytes, resolved.size.unwrap_or(component_bytes_max()));
    sources.fetch(&resolved, None, &mut sink).await?;
    let digest = sink.finish();
    Ok(Artifact {
        digest,
        bytes,
        signatures,
    })
}

pub(super) fn small_text(file: &Path) -> Result<String, BadRequest> {
    let unreadable =
        |error: std::io::Error| BadRequest(format!("cannot read {}: {error}", file.display()));
    let mut text = String::new();
    let read =
        File::open(file).and_then(|open| open.take(KEY_BYTES_MAX + 1).read_to_string(&mut text));
    if read.map_err(unreadable)? as u64 > KEY_BYTES_MAX {
        Err(BadRequest(format!(
            "{} is larger than {KEY_BYTES_MAX} bytes",
            file.display()
        )))
    } else {
        Ok(text)
    }
}
