use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::Resource;

use crate::dialect::mcp;
use crate::record::{PersistedRef, ResultPersistence};

/// Payloads that one client may read at the same time; the oldest make room for new ones, and stay on disk.
const PAYLOADS_MAX: usize = 1_000;

/// The payloads that results gave to one client: it reads those, and no others, also where it can guess a digest.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<VecDeque<(Resource, String)>>);

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Resource, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts what a result refers to on the shelf.
    pub(super) fn put(&self, persistence: &[ResultPersistence]) {
        for reference in persistence.iter().filter_map(|kept| kept.persisted_ref.as_ref()) {
            self.put_one(reference);
        }
    }

    fn put_one(&self, reference: &PersistedRef) {
        let mut shelf = self.lock();
        shelf.retain(|(_, digest)| *digest != reference.digest);
        if shelf.len() >= PAYLOADS_MAX {
            shelf.pop_front();
        }
        shelf.push_back((mcp::payload_link(reference), reference.digest.clone()));
    }

    /// The newest first.
    pub(super) fn list(&self) -> Vec<Resource> {
        self.lock().iter().rev().map(|(link, _)| link.clone()).collect()
    }

    /// The resource and the digest of its bytes.
    pub(super) fn find(&self, uri: &str) -> Option<(Resource, String)> {
        self.lock().iter().find(|(link, _)| link.uri == uri).cloned()
    }
}
