//! `Idempotency-Key`: a request that is sent again makes no second call.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::calls::CallEntry;
use parking_lot::Mutex;

/// Limit of one principal; a new key displaces the oldest whose call has ended.
const KEYS_MAX: usize = 1_024;

#[derive(Default)]
pub(super) struct IdempotencyKeys(Mutex<KeyTable>);

#[derive(Default)]
struct KeyTable {
    calls: HashMap<Arc<str>, (blake3::Hash, Arc<CallEntry>)>,
    order: VecDeque<Arc<str>>,
}

pub(super) enum KeyClaim {
    Call(Arc<CallEntry>),
    /// The key belongs to a request with another body.
    OtherBody,
    /// All keys belong to calls that run.
    Full,
}

impl IdempotencyKeys {
    /// `begin` runs if the key is new, for one of two requests at once. Fails if `begin` does, and the key stays free.
    pub(super) fn claim<E>(
        &self,
        key: &str,
        body: blake3::Hash,
        begin: impl FnOnce() -> Result<Arc<CallEntry>, E>,
    ) -> Result<KeyClaim, E> {
        let mut known = self.0.lock();
        match known.calls.get(key) {
            Some((same, call)) if *same == body => return Ok(KeyClaim::Call(Arc::clone(call))),
            Some(_) => return Ok(KeyClaim::OtherBody),
            None => {}
        }
        if !known.has_room() {
            return Ok(KeyClaim::Full);
        }
        let call = begin()?;
        let key = Arc::<str>::from(key);
        known.order.push_back(Arc::clone(&key));
        known.calls.insert(key, (body, Arc::clone(&call)));
        Ok(KeyClaim::Call(call))
    }
}

impl KeyTable {
    /// Drops the oldest key whose call has ended.
    fn has_room(&mut self) -> bool {
        if self.order.len() < KEYS_MAX {
            return true;
        }
        let has_ended =
            |key: &Arc<str>| self.calls.get(key).is_none_or(|(_, call)| !call.is_open());
        let Some(at) = self.order.iter().position(has_ended) else {
            return false;
        };
        if let Some(oldest) = self.order.remove(at) {
            self.calls.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::calls::Calls;

    use super::{CallEntry, IdempotencyKeys, KEYS_MAX, KeyClaim};

    fn call() -> Arc<CallEntry> {
        Arc::new(CallEntry::new("anna".into(), None))
    }

    fn claim(keys: &IdempotencyKeys, key: &str, body: &str) -> Option<Arc<CallEntry>> {
        let claimed: Result<KeyClaim, ()> =
            keys.claim(key, blake3::hash(body.as_bytes()), || Ok(call()));
        match claimed.unwrap() {
            KeyClaim::Call(call) => Some(call),
            KeyClaim::OtherBody | KeyClaim::Full => None,
        }
    }

    #[test]
    fn a_key_belongs_to_one_body_and_one_call() {
        let keys = IdempotencyKeys::default();
        let first = claim(&keys, "a", "1").unwrap();
        assert!(Arc::ptr_eq(&first, &claim(&keys, "a", "1").unwrap()));
        assert!(claim(&keys, "a", "2").is_none());
        assert!(!Arc::ptr_eq(&first, &claim(&keys, "b", "1").unwrap()));
    }

    #[test]
    fn a_key_whose_call_did_not_begin_is_free() {
        let keys = IdempotencyKeys::default();
        assert!(
            keys.claim("a", blake3::hash(b"1"), || Err("no room"))
                .is_err()
        );
        assert!(claim(&keys, "a", "2").is_some());
    }

    #[test]
    fn keys_are_bounded_and_those_of_ended_calls_leave_first() {
        let keys = IdempotencyKeys::default();
        let calls: Vec<_> = (0..KEYS_MAX)
            .map(|n| claim(&keys, &n.to_string(), "1").unwrap())
            .collect();
        assert!(claim(&keys, "one more", "1").is_none());
        Calls::default().lose(&calls[7]);
        assert!(claim(&keys, "one more", "1").is_some());
        assert!(Arc::ptr_eq(&calls[6], &claim(&keys, "6", "1").unwrap()));
        assert!(claim(&keys, "yet another", "1").is_none());
    }
}
