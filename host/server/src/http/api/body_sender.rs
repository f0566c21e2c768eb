//! Bodies that are made while they are sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::mpsc;

/// Maximum number of pieces that wait for a slow client.
const WAITING_MAX: usize = 4;

/// Sends the pieces of a body; dropping it ends the body.
pub(super) struct BodySender(mpsc::Sender<Result<Bytes, BoxError>>);

/// The client is gone.
pub(super) struct ClientGone;

struct ChannelBody {
    pieces: mpsc::Receiver<Result<Bytes, BoxError>>,
    /// Size of the whole body, in bytes; `None` if it is not known.
    left: Option<u64>,
}

/// Returns a body, and what fills it; `size` is its size, if that is known.
pub(super) fn feed(size: Option<u64>) -> (BodySender, Body) {
    let (sender, pieces) = mpsc::channel(WAITING_MAX);
    (
        BodySender(sender),
        Body::new(ChannelBody { pieces, left: size }),
    )
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

impl HttpBody for ChannelBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let piece = std::task::ready!(self.pieces.poll_recv(cx));
        if let (Some(left), Some(Ok(piece))) = (&mut self.left, &piece) {
            *left = left.saturating_sub(piece.len() as u64);
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
