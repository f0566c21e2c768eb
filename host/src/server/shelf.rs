use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::Resource;

use crate::dialect::mcp;
use crate::record::{PersistedRef, ResultPersistence, ResultProvenance};

/// Maximum number of payloads that one client can read; new ones displace the oldest, which stay on disk.
const PAYLOADS_MAX: usize = 1_000;

/// The payloads that results referred one client to. It can read no others, even if it guesses a digest.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<VecDeque<Shelved>>);

/// One payload.
#[derive(Clone, Debug)]
pub(super) struct Shelved {
    pub(super) link: Resource,
    /// The digest of the payload's bytes.
    pub(super) digest: String,
    /// The provenance of the result that refers to the payload.
    pub(super) provenance: Arc<ResultProvenance>,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Shelved>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the payloads that a result refers to.
    pub(super) fn put(&self, persistence: &[ResultPersistence], provenance: &ResultProvenance) {
        let mut references = persistence.iter().filter_map(|kept| kept.persisted_ref.as_ref()).peekable();
        // Most results refer to none.
        if references.peek().is_some() {
            let provenance = Arc::new(provenance.clone());
            references.for_each(|reference| self.put_one(reference, &provenance));
        }
    }

    fn put_one(&self, reference: &PersistedRef, provenance: &Arc<ResultProvenance>) {
        let mut shelf = self.lock();
        shelf.retain(|shelved| shelved.digest != reference.digest);
        if shelf.len() >= PAYLOADS_MAX {
            shelf.pop_front();
        }
        shelf.push_back(Shelved {
            link: mcp::payload_link(reference),
            digest: reference.digest.clone(),
            provenance: Arc::clone(provenance),
        });
    }

    /// Lists the payloads, newest first.
    pub(super) fn list(&self) -> Vec<Resource> {
        self.lock().iter().rev().map(|shelved| shelved.link.clone()).collect()
    }

    /// Returns the payload with this URI.
    pub(super) fn find(&self, uri: &str) -> Option<Shelved> {
        self.lock().iter().find(|shelved| shelved.link.uri == uri).cloned()
    }
}
