//! The trait of the protocol over JetStream.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::kv::{CreateErrorKind, UpdateErrorKind};
use async_nats::jetstream::{AckKind, Message, context};
use async_nats::{HeaderMap, Subject};

use super::{Cluster, resources};
use crate::claim::{Claim, UnixMillis};
use crate::question::{Seal, digest};
use crate::store::{
    ClaimEntry, ClaimStore, Delivery, PublishError, Revision, Unavailable, WriteError,
};

pub(super) const KEY_HEADER: &str = "Toolcell-Key";
pub(super) const SIGNATURE_HEADER: &str = "Toolcell-Signature";

impl ClaimStore for Cluster {
    async fn read(&self, call: &str) -> Result<Option<ClaimEntry>, Unavailable> {
        let entry = self.resources.calls.entry(call).await;
        let entry = entry.map_err(|error| Unavailable(error.to_string()))?;
        let Some(entry) = entry.filter(|entry| !entry.value.is_empty()) else {
            return Ok(None);
        };
        // Whoever waits for a call whose value is no claim would wait in vain.
        let Ok(claim) = serde_json::from_slice(&entry.value) else {
            return Ok(None);
        };
        let revision = entry.revision;
        Ok(Some(ClaimEntry { claim, revision }))
    }

    async fn create(&self, call: &str, claim: &Claim) -> Result<Revision, WriteError> {
        let created = self.resources.calls.create(call, bytes(claim)).await;
        created.map_err(|error| match error.kind() {
            CreateErrorKind::AlreadyExists => WriteError::Conflict,
            _ => Unavailable(error.to_string()).into(),
        })
    }

    async fn update(
        &self,
        call: &str,
        claim: &Claim,
        revision: Revision,
    ) -> Result<Revision, WriteError> {
        let calls = &self.resources.calls;
        let updated = calls.update(call, bytes(claim), revision).await;
        updated.map_err(|error| match error.kind() {
            UpdateErrorKind::WrongLastRevision => WriteError::Conflict,
            _ => Unavailable(error.to_string()).into(),
        })
    }

    fn heard(&self, call: &str) -> Option<ClaimEntry> {
        self.watching.heard(call)
    }

    async fn changed(&self, call: &str, seen: Revision) -> Option<ClaimEntry> {
        self.watching.changed(call, seen).await
    }

    async fn publish(&self, _call: &str, question: &[u8]) -> Result<(), PublishError> {
        let seal = Seal::new(&self.key, question);
        let seal = seal.map_err(|error| Unavailable(error.to_string()))?;
        let mut headers = HeaderMap::new();
        headers.insert(KEY_HEADER, seal.key);
        headers.insert(SIGNATURE_HEADER, seal.signature);
        // Of its content, so that no other message takes its place.
        headers.insert(NATS_MESSAGE_ID, digest(question).as_str());
        let subject = Subject::from(resources::queue_subject(self.settings.protocol));
        let question = bytes::Bytes::copy_from_slice(question);
        let published = self
            .context
            .publish_with_headers(subject, headers, question)
            .await
            .map_err(not_published)?;
        published.await.map_err(not_published)?;
        Ok(())
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn now(&self) -> UnixMillis {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |now| now.as_millis().try_into().unwrap_or(u64::MAX))
    }
}

/// One delivery. An acknowledgement that is lost brings another delivery, which the claim answers.
pub(super) struct QueueDelivery<'m>(pub(super) &'m Message);

impl Delivery for QueueDelivery<'_> {
    async fn done(&self) {
        let _ = self.0.double_ack().await;
    }

    async fn again(&self, after: Duration) {
        let _ = self.0.ack_with(AckKind::Nak(Some(after))).await;
    }

    async fn at_work(&self) {
        let _ = self.0.ack_with(AckKind::Progress).await;
    }
}

/// The answer of a server whose stream has as many messages as it may have.
const FULL: &str = "maximum messages exceeded";

fn not_published(error: context::PublishError) -> PublishError {
    let error = std::error::Error::source(&error)
        .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
    if error.contains(FULL) {
        return PublishError::Full;
    }
    Unavailable(error).into()
}

fn bytes(claim: &Claim) -> bytes::Bytes {
    // A struct of texts and numbers is always JSON.
    serde_json::to_vec(claim).unwrap_or_default().into()
}
