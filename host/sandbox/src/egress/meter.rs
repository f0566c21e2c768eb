use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use toolcell_spec::ErrorCode;
use wasmtime_wasi_http::Error;

use super::gate::NetworkGate;

/// Counts bytes where they leave and enter the machine, so that no part of a response can grow without a limit.
pub(super) struct MeteredSocket {
    socket: TcpStream,
    gate: Arc<NetworkGate>,
}

impl MeteredSocket {
    pub(super) fn new(socket: TcpStream, gate: Arc<NetworkGate>) -> Self {
        Self { socket, gate }
    }
}

impl NetworkGate {
    /// Returns the limit that was exceeded, or `otherwise`.
    pub(super) fn explain(&self, otherwise: Error) -> Error {
        let limits = self.limits();
        let used = |meter: &AtomicU64| meter.load(Ordering::Relaxed);
        if used(&self.received) > limits.received_bytes {
            return Error::HttpResponseBodySize(Some(limits.received_bytes));
        }
        if used(&self.sent) >= limits.sent_bytes {
            return Error::HttpRequestBodySize(Some(limits.sent_bytes));
        }
        otherwise
    }

    fn too_much(&self, code: ErrorCode, way: &str, limit: u64) -> io::Error {
        let what = format!("more than {limit} bytes {way} in one call");
        let _ = self.over(code, &what, Error::ConnectionTerminated);
        io::Error::other(what)
    }
}

impl AsyncRead for MeteredSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let limit = self.gate.limits().received_bytes;
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        let read = buf.filled().len().saturating_sub(before) as u64;
        let received = self
            .gate
            .received
            .fetch_add(read, Ordering::Relaxed)
            .saturating_add(read);
        if received > limit {
            return Poll::Ready(Err(self.gate.too_much(
                ErrorCode::NetworkReceivedLimit,
                "received",
                limit,
            )));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MeteredSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let limit = self.gate.limits().sent_bytes;
        if self.gate.sent.load(Ordering::Relaxed) >= limit {
            return Poll::Ready(Err(self.gate.too_much(
                ErrorCode::NetworkSentLimit,
                "sent",
                limit,
            )));
        }
        let written = ready!(Pin::new(&mut self.socket).poll_write(cx, buf))?;
        self.gate.sent.fetch_add(written as u64, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
