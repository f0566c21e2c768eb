use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};
use wasmtime_wasi_http::{Error, WasiBody};

use super::RequestSecrets;
use super::credentials::BodyScrubber;
use super::gate::NetworkGate;

/// Exactly the body's length, if known or declared, or chunks. Empty writes and trailers are not sent.
pub(super) struct RequestBody {
    body: WasiBody,
    /// Bytes to come; `None` if unknown.
    left: Option<u64>,
}

impl RequestBody {
    pub(super) fn new(body: WasiBody, declared: Option<u64>) -> Self {
        // A length that is declared for no body at all says nothing.
        let left = body.size_hint().exact().or(declared);
        Self { body, left }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(frame) => frame?,
                None if self.left.is_some_and(|left| left > 0) => {
                    return Poll::Ready(Some(Err(Error::HttpRequestBodySize(None))));
                }
                None => return Poll::Ready(None),
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if data.is_empty() {
                continue;
            }
            if let Some(left) = self.left {
                let Some(rest) = left.checked_sub(data.len() as u64) else {
                    return Poll::Ready(Some(Err(Error::HttpRequestBodySize(None))));
                };
                self.left = Some(rest);
            }
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Trailers are dropped.
pub(super) struct ResponseBody {
    body: Incoming,
    gate: Arc<NetworkGate>,
    patience: Duration,
    deadline: Instant,
    alarm: Pin<Box<Sleep>>,
    scrubber: Option<BodyScrubber>,
}

impl ResponseBody {
    pub(super) fn new(
        body: Incoming,
        gate: Arc<NetworkGate>,
        patience: Duration,
        deadline: Instant,
    ) -> Self {
        let scrubber = gate
            .credentials
            .as_ref()
            .filter(|_| guard!("scrub_body"))
            .map(RequestSecrets::scrub_body);
        let alarm = Box::pin(tokio::time::sleep_until(deadline));
        let mut answered = Self {
            body,
            gate,
            patience,
            deadline,
            alarm,
            scrubber,
        };
        answered.rearm();
        answered
    }

    fn shown(&mut self, data: Bytes) -> Bytes {
        match &mut self.scrubber {
            Some(scrubber) => scrubber.push(&data).into(),
            None => data,
        }
    }

    fn rest(&mut self) -> Option<Bytes> {
        let rest: Bytes = self.scrubber.take()?.finish().into();
        (!rest.is_empty()).then_some(rest)
    }

    fn rearm(&mut self) {
        let next = Instant::now()
            .checked_add(self.patience)
            .unwrap_or(self.deadline);
        self.alarm.as_mut().reset(next.min(self.deadline));
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            // Checked before the body, so that a body that always has something to read ends too.
            if Instant::now() >= self.deadline {
                return Poll::Ready(Some(Err(Error::HttpResponseTimeout)));
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.rearm();
                    let Ok(data) = frame.into_data() else {
                        continue;
                    };
                    let data = self.shown(data);
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    let otherwise = if error.is_incomplete_message() {
                        Error::HttpResponseIncomplete
                    } else {
                        Error::HttpProtocolError
                    };
                    return Poll::Ready(Some(Err(self.gate.explain(otherwise))));
                }
                Poll::Ready(None) => {
                    return Poll::Ready(self.rest().map(|rest| Ok(Frame::data(rest))));
                }
                Poll::Pending => {
                    ready!(self.alarm.as_mut().poll(cx));
                    return Poll::Ready(Some(Err(Error::ConnectionReadTimeout)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.scrubber.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.scrubber.is_some() {
            SizeHint::default()
        } else {
            self.body.size_hint()
        }
    }
}
