//! Counts the calls of a server. With a semaphore, waiting for the last call would acquire every free permit, and calls
//! read before the end of input would get none.

use std::sync::Arc;

use tokio::sync::watch;

/// Waiting calls count; more are refused as `rate_limited`.
pub(crate) const CALLS_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct CallPlaces(watch::Sender<usize>);

#[derive(Debug)]
pub(crate) struct CallPlace(Arc<CallPlaces>);

impl CallPlaces {
    pub(crate) fn begin(self: &Arc<Self>) -> Option<CallPlace> {
        let is_taken = self.0.send_if_modified(|count| {
            let has_room = *count < CALLS_MAX;
            *count += usize::from(has_room);
            has_room
        });
        is_taken.then(|| CallPlace(Arc::clone(self)))
    }

    pub(crate) async fn end(&self) {
        // The sender lives as long as this.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{CALLS_MAX, CallPlaces};

    #[tokio::test]
    async fn who_waits_for_the_last_call_takes_no_place() {
        let calls = Arc::new(CallPlaces::default());
        let first = calls.begin().unwrap();
        let mut ends = Box::pin(calls.end());
        assert!(futures_now(&mut ends).is_none());
        let places: Vec<_> = std::iter::from_fn(|| calls.begin()).collect();
        assert_eq!(places.len(), CALLS_MAX - 1);
        drop(first);
        assert!(futures_now(&mut ends).is_none());
        drop(places);
        ends.await;
    }

    fn futures_now<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut cx) {
            std::task::Poll::Ready(done) => Some(done),
            std::task::Poll::Pending => None,
        }
    }
}
