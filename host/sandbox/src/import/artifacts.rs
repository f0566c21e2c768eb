use toolcell_journal::{ArtifactDraft, ArtifactError};
use toolcell_system::pool::GUEST_FILES;
use wasmtime::component::Resource;

use crate::state::StoreState;

use super::wit::artifacts::{Host, HostArtifact, StoreError};

/// A guest that writes single bytes would otherwise wait for a thread each time.
const GATHERED_BYTES: usize = 64 << 10;

#[allow(unreachable_pub, reason = "the generated bindings export it again")]
pub struct GuestArtifact {
    /// `None` after a write failed.
    draft: Option<ArtifactDraft>,
    gathered: Vec<u8>,
}

impl GuestArtifact {
    pub(crate) fn new(draft: ArtifactDraft) -> Self {
        Self {
            draft: Some(draft),
            gathered: Vec::new(),
        }
    }

    /// An artifact that the guest left open.
    pub(crate) fn take_draft(&mut self) -> Option<ArtifactDraft> {
        self.draft.take()
    }

    fn add(&mut self, chunk: Vec<u8>) -> Result<Option<(ArtifactDraft, Vec<u8>)>, ArtifactError> {
        self.draft.as_ref().ok_or_else(lost)?.take(chunk.len())?;
        if self.gathered.is_empty() {
            self.gathered = chunk
        } else {
            self.gathered.extend_from_slice(&chunk)
        }
        if self.gathered.len() < GATHERED_BYTES {
            return Ok(None);
        }
        let gathered = std::mem::take(&mut self.gathered);
        Ok(self.draft.take().map(|draft| (draft, gathered)))
    }
}

impl Host for StoreState {
    async fn create(
        &mut self,
        name: String,
        media_type: String,
    ) -> wasmtime::Result<Result<Resource<GuestArtifact>, StoreError>> {
        let Some(artifacts) = self.artifacts.clone() else {
            let why = "artifacts can be written during a call only, not in describe, validation or classification";
            return Ok(Err(StoreError::Denied(why.to_owned())));
        };
        let draft = match aside(move || artifacts.begin(&name, &media_type)).await {
            Ok(draft) => draft,
            Err(error) => return Ok(Err(error.into())),
        };
        self.file_rules.quota.opened(draft.file());
        Ok(Ok(self.table.push(GuestArtifact::new(draft))?))
    }
}

impl HostArtifact for StoreState {
    async fn write(
        &mut self,
        artifact: Resource<GuestArtifact>,
        chunk: Vec<u8>,
    ) -> wasmtime::Result<Result<(), StoreError>> {
        let (mut draft, bytes) = match self.table.get_mut(&artifact)?.add(chunk) {
            Ok(Some(work)) => work,
            Ok(None) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error.into())),
        };
        // A draft whose write failed is dropped, and its file with it.
        match aside(move || draft.write(&bytes).map(|()| draft)).await {
            Ok(draft) => {
                self.table.get_mut(&artifact)?.draft = Some(draft);
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error.into())),
        }
    }

    async fn finish(
        &mut self,
        artifact: Resource<GuestArtifact>,
    ) -> wasmtime::Result<Result<String, StoreError>> {
        let GuestArtifact { draft, gathered } = self.table.delete(artifact)?;
        let finished = match draft {
            Some(draft) => aside(move || draft.finish(&gathered)).await,
            None => Err(lost()),
        };
        Ok(finished.map_err(StoreError::from))
    }

    async fn drop(&mut self, artifact: Resource<GuestArtifact>) -> wasmtime::Result<()> {
        let GuestArtifact { draft, .. } = self.table.delete(artifact)?;
        // Removing a large file takes long.
        let _ = GUEST_FILES.run(move || drop(draft)).await;
        Ok(())
    }
}

async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArtifactError> + Send + 'static,
) -> Result<T, ArtifactError> {
    let busy = |_| {
        Err(ArtifactError::Failed(
            "the host has no thread for it now; try again later".to_owned(),
        ))
    };
    GUEST_FILES.run(work).await.unwrap_or_else(busy)
}

fn lost() -> ArtifactError {
    ArtifactError::Failed("an earlier write of this artifact failed; create another one".to_owned())
}

impl From<ArtifactError> for StoreError {
    fn from(error: ArtifactError) -> Self {
        match error {
            ArtifactError::Denied(why) => Self::Denied(why),
            ArtifactError::Quota(why) => Self::QuotaExceeded(why),
            ArtifactError::Invalid(why) => Self::Invalid(why),
            ArtifactError::Failed(why) => Self::Failed(why),
        }
    }
}
