use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::Resource;

use crate::dialect::mcp;
use crate::record::{PersistedRef, ResultPersistence, ResultProvenance};

/// Payloads that one client may read at the same time; the oldest make room for new ones, and stay on disk.
const PAYLOADS_MAX: usize = 1_000;

/// The payloads that results gave to one client: it reads those, and no others, also where it can guess a digest.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<VecDeque<Shelved>>);

/// One payload.
#[derive(Clone, Debug)]
pub(super) struct Shelved {
    pub(super) link: Resource,
    /// Of its bytes.
    pub(super) digest: String,
    /// That of the result which refers to it.
    pub(super) provenance: Arc<ResultProvenance>,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Shelved>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts what a result refers to on the shelf.
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

    /// The newest first.
    pub(super) fn list(&self) -> Vec<Resource> {
        self.lock().iter().rev().map(|shelved| shelved.link.clone()).collect()
    }

    /// The payload with this address.
    pub(super) fn find(&self, uri: &str) -> Option<Shelved> {
        self.lock().iter().find(|shelved| shelved.link.uri == uri).cloned()
    }
}
