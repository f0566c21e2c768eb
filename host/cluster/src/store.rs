//! The queue and the store of the protocol: NATS in production, a simulation in tests.

use std::future::Future;
use std::time::Duration;

use crate::claim::{Claim, UnixMillis};

/// A number that each write of a value raises.
pub type Revision = u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimEntry {
    pub claim: Claim,
    pub revision: Revision,
}

/// The store does not answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the cluster does not answer: {0}")]
pub struct Unavailable(pub String);

#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// Nothing was written.
    #[error("the value has changed in the meantime")]
    Conflict,
    /// Nobody knows whether it was written.
    #[error(transparent)]
    Unknown(#[from] Unavailable),
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum PublishError {
    /// Nothing was put into the queue.
    #[error("as many calls wait as the queue may have")]
    Full,
    /// Nobody knows whether it is in the queue.
    #[error(transparent)]
    Unknown(#[from] Unavailable),
}

/// The values of a cluster's calls, and the queue of those that no worker has.
pub trait ClaimStore: Sync {
    fn read(
        &self,
        call: &str,
    ) -> impl Future<Output = Result<Option<ClaimEntry>, Unavailable>> + Send;

    /// Writes the first value of a call.
    fn create(
        &self,
        call: &str,
        claim: &Claim,
    ) -> impl Future<Output = Result<Revision, WriteError>> + Send;

    /// Writes the next value, if `revision` is the latest one.
    fn update(
        &self,
        call: &str,
        claim: &Claim,
        revision: Revision,
    ) -> impl Future<Output = Result<Revision, WriteError>> + Send;

    /// The value that this process heard of last, which may be an old one.
    fn heard(&self, call: &str) -> Option<ClaimEntry>;

    /// Returns when the value may have a later revision than `seen`, which is not told at once in every case; with a later
    /// value, if it was heard.
    fn changed(
        &self,
        call: &str,
        seen: Revision,
    ) -> impl Future<Output = Option<ClaimEntry>> + Send;

    /// Puts the question into the queue. It is delivered at least once, and again until a delivery is done.
    fn publish(
        &self,
        call: &str,
        question: &[u8],
    ) -> impl Future<Output = Result<(), PublishError>> + Send;

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;

    fn now(&self) -> UnixMillis;
}

/// One delivery of a question to a worker. A delivery that is dropped comes again.
pub trait Delivery: Sync {
    /// The question needs no further delivery.
    fn done(&self) -> impl Future<Output = ()> + Send;

    /// Another delivery, after this time.
    fn again(&self, after: Duration) -> impl Future<Output = ()> + Send;

    /// The worker is at work: no other delivery yet.
    fn at_work(&self) -> impl Future<Output = ()> + Send;
}
