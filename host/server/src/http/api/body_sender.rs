//! Bodies that are made while they are sent.

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc;

/// Maximum number of pieces that wait for a slow client.
const WAITING_MAX: usize = 4;

/// Sends the pieces of a body; dropping it ends the body.
pub(super) struct BodySender(mpsc::Sender<Result<Bytes, BoxError>>);

/// The client is gone.
pub(super) struct ClientGone;

/// Returns a body, and what fills it.
pub(super) fn feed() -> (BodySender, Body) {
    let (sender, mut pieces) = mpsc::channel(WAITING_MAX);
    let body = Body::from_stream(poll_fn(move |context| pieces.poll_recv(context)));
    (BodySender(sender), body)
}

impl BodySender {
    pub(super) async fn send(&self, piece: impl Into<Bytes>) -> Result<(), ClientGone> {
        self.0.send(Ok(piece.into())).await.map_err(|_| ClientGone)
    }

    /// Breaks the body off, so that the client does not take a part for the whole.
    pub(super) async fn fail(&self, why: impl Into<BoxError>) {
        let _ = self.0.send(Err(why.into())).await;
    }

    /// Waits until the client is gone.
    pub(super) async fn left(&self) {
        self.0.closed().await;
    }
}
