//! The request ids in use on one connection: of unanswered and of canceled requests.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use rmcp::model::RequestId;
use tokio::sync::watch;

/// Only hashes are kept, because an id may be 16 MiB long; the oldest is dropped first.
const CANCELED_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct PendingRequests(watch::Sender<RequestIds>);

#[derive(Debug, Default)]
struct RequestIds {
    unanswered: HashSet<RequestId>,
    /// Otherwise a canceled call's late response could answer a second request with its id.
    canceled: VecDeque<u64>,
    hasher: RandomState,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum IdInUse {
    #[error("the id {0} is that of a request that still runs: take another one")]
    Unanswered(RequestId),
    #[error("the id {0} is that of a request that was canceled: take another one")]
    Canceled(RequestId),
}

impl RequestIds {
    fn is_canceled(&self, id: &RequestId) -> bool {
        self.canceled.contains(&self.hasher.hash_one(id)) && guard!("canceled_ids")
    }
}

impl PendingRequests {
    /// Fails if the id is in use.
    pub(super) fn begin(&self, id: &RequestId) -> Result<(), IdInUse> {
        let mut begun = Ok(());
        self.0.send_modify(|ids| {
            if ids.is_canceled(id) {
                begun = Err(IdInUse::Canceled(id.clone()));
            } else if !ids.unanswered.insert(id.clone()) {
                begun = Err(IdInUse::Unanswered(id.clone()));
            }
        });
        begun
    }

    pub(super) fn is_free(&self, id: &RequestId) -> bool {
        let ids = self.0.borrow();
        !ids.unanswered.contains(id) && !ids.is_canceled(id)
    }

    /// The id stays in use, because the call may take a while to stop. `false` if there is no such unanswered request.
    pub(super) fn cancel(&self, id: &RequestId) -> bool {
        self.0.send_if_modified(|ids| {
            let is_pending = ids.unanswered.remove(id);
            if is_pending {
                if ids.canceled.len() >= CANCELED_MAX {
                    ids.canceled.pop_front();
                }
                let hash = ids.hasher.hash_one(id);
                ids.canceled.push_back(hash);
            }
            is_pending
        })
    }

    pub(super) fn end(&self, id: &RequestId) {
        self.0.send_if_modified(|ids| ids.unanswered.remove(id));
    }

    /// Waits until every request is answered or canceled.
    pub(super) async fn empty(&self) {
        let mut ids = self.0.subscribe();
        // The sender lives as long as this.
        let _ = ids.wait_for(|ids| ids.unanswered.is_empty()).await;
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestId;

    use super::{CANCELED_MAX, IdInUse, PendingRequests};

    fn id(number: usize) -> RequestId {
        RequestId::Number(i64::try_from(number).unwrap())
    }

    #[test]
    fn an_id_is_free_once_its_request_is_answered_and_not_when_it_is_canceled() {
        let pending = PendingRequests::default();
        pending.begin(&id(1)).unwrap();
        assert_eq!(pending.begin(&id(1)), Err(IdInUse::Unanswered(id(1))));
        pending.end(&id(1));
        pending.begin(&id(1)).unwrap();
        assert!(pending.cancel(&id(1)) && !pending.cancel(&id(1)));
        assert_eq!(pending.begin(&id(1)), Err(IdInUse::Canceled(id(1))));
        assert!(!pending.is_free(&id(1)) && pending.is_free(&id(2)));
        // Only requests are canceled.
        assert!(!pending.cancel(&id(2)));
        assert!(pending.is_free(&id(2)));
        for number in 2..CANCELED_MAX + 2 {
            pending.begin(&id(number)).unwrap();
            pending.cancel(&id(number));
        }
        assert!(pending.is_free(&id(1)), "the oldest is out");
    }

    #[tokio::test]
    async fn what_is_canceled_is_not_waited_for() {
        let pending = PendingRequests::default();
        pending.begin(&id(1)).unwrap();
        pending.begin(&id(2)).unwrap();
        let mut empty = Box::pin(pending.empty());
        assert!(futures_now(&mut empty).is_none());
        pending.end(&id(1));
        assert!(futures_now(&mut empty).is_none());
        pending.cancel(&id(2));
        empty.await;
    }

    fn futures_now<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut cx) {
            std::task::Poll::Ready(done) => Some(done),
            std::task::Poll::Pending => None,
        }
    }
}
