//! Bodies that are made while they are sent.

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc;

const WAITING_MAX: usize = 4;

/// Dropping it ends the body.
pub(super) struct BodySender(mpsc::Sender<Result<Bytes, BoxError>>);

pub(super) struct ClientGone;

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

    pub(super) async fn left(&self) {
        self.0.closed().await;
    }
}
