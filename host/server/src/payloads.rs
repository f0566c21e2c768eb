use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::Resource;
use serde_json::Value;
use toolcell_dialect::mcp;
use toolcell_spec::{PersistedRef, ResultPersistence, ResultProvenance};

/// Limit of one client; new payloads displace the oldest, which stay on disk.
const PAYLOADS_MAX: usize = 1_000;

/// The client can read no others, even if it guesses a digest.
#[derive(Debug, Default)]
pub(super) struct ReadablePayloads {
    readable: Mutex<VecDeque<ReadablePayload>>,
    /// URIs of the last ones, to tell them from unknown ones.
    displaced: Mutex<VecDeque<String>>,
}

#[derive(Clone, Debug)]
pub(super) struct ReadablePayload {
    pub(super) link: Resource,
    pub(super) digest: String,
    pub(super) provenance: Arc<ResultProvenance>,
}

impl ReadablePayloads {
    pub(super) fn put(&self, persistence: &[ResultPersistence], provenance: &ResultProvenance) {
        let mut references = persistence
            .iter()
            .filter_map(|kept| kept.persisted_ref.as_ref())
            .peekable();
        // Most results refer to none.
        if references.peek().is_some() {
            let provenance = Arc::new(provenance.clone());
            references.for_each(|reference| self.put_one(reference, &provenance));
        }
    }

    pub(super) fn name(&self, artifact_refs: &[Value]) {
        if artifact_refs.is_empty() {
            return;
        }
        let mut shelf = self.readable.lock();
        for artifact in artifact_refs {
            let text = |field: &str| artifact.get(field).and_then(Value::as_str);
            let found = shelf
                .iter_mut()
                .find(|shelved| text("digest") == Some(shelved.digest.as_str()));
            if let (Some(shelved), Some(name)) = (found, text("name")) {
                name.clone_into(&mut shelved.link.name);
            }
        }
    }

    fn put_one(&self, reference: &PersistedRef, provenance: &Arc<ResultProvenance>) {
        let mut shelf = self.readable.lock();
        shelf.retain(|shelved| shelved.digest != reference.digest);
        if shelf.len() >= PAYLOADS_MAX
            && let Some(oldest) = shelf.pop_front()
        {
            let mut displaced = self.displaced.lock();
            displaced.push_back(oldest.link.uri.clone());
            if displaced.len() > PAYLOADS_MAX {
                displaced.pop_front();
            }
        }
        shelf.push_back(ReadablePayload {
            link: mcp::payload_link(reference),
            digest: reference.digest.clone(),
            provenance: Arc::clone(provenance),
        });
    }

    pub(super) fn list(&self) -> Vec<Resource> {
        self.readable
            .lock()
            .iter()
            .rev()
            .map(|shelved| shelved.link.clone())
            .collect()
    }

    pub(super) fn has_any(&self) -> bool {
        !self.readable.lock().is_empty()
    }

    pub(super) fn has_expired(&self, uri: &str) -> bool {
        self.displaced
            .lock()
            .iter()
            .any(|displaced| displaced == uri)
    }

    pub(super) fn find(&self, uri: &str) -> Option<ReadablePayload> {
        self.readable
            .lock()
            .iter()
            .find(|shelved| shelved.link.uri == uri)
            .cloned()
    }
}
