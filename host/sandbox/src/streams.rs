//! Streams of WASI 0.2 in the form of WASI 0.3, so that both have the same limits.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot::Sender;
use wasmtime::StoreContextMut;
use wasmtime::component::{Destination, Source, StreamConsumer, StreamProducer, StreamResult};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, StreamError};

use crate::state::StoreState;

const CHUNK_BYTES: usize = 64 << 10;

type StreamPoll = Poll<wasmtime::Result<StreamResult>>;

/// Where the end of a stream is told: a success, or why it failed.
pub(super) struct StreamEnd<E> {
    send: Option<Sender<Result<(), E>>>,
    error: fn(&wasmtime::Error) -> E,
}

impl<E> StreamEnd<E> {
    pub(super) fn new(send: Sender<Result<(), E>>, error: fn(&wasmtime::Error) -> E) -> Self {
        Self {
            send: Some(send),
            error,
        }
    }

    fn tell(&mut self, result: Result<(), E>) {
        if let Some(send) = self.send.take() {
            // A guest may have dropped the other end.
            let _ = send.send(result);
        }
    }

    /// A limit that was exceeded ends the call.
    fn of(&mut self, error: StreamError) -> StreamPoll {
        let result = match error {
            StreamError::Closed => Ok(()),
            StreamError::LastOperationFailed(error) => Err((self.error)(&error)),
            StreamError::Trap(error) => return Poll::Ready(Err(error)),
        };
        self.tell(result);
        Poll::Ready(Ok(StreamResult::Dropped))
    }
}

/// Without an end of its own, a stream ended well.
impl<E> Drop for StreamEnd<E> {
    fn drop(&mut self) {
        self.tell(Ok(()));
    }
}

pub(super) struct InputProducer<E> {
    stream: DynInputStream,
    end: StreamEnd<E>,
}

impl<E> InputProducer<E> {
    pub(super) fn new(stream: DynInputStream, end: StreamEnd<E>) -> Self {
        Self { stream, end }
    }
}

impl<E: Send + 'static> StreamProducer<StoreState> for InputProducer<E> {
    type Item = u8;
    type Buffer = BytesMut;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut store: StoreContextMut<'a, StoreState>,
        mut to: Destination<'a, u8, BytesMut>,
        finish: bool,
    ) -> StreamPoll {
        // Asks whether there is something to read. Reading says it, too.
        if to.remaining(&mut store) == Some(0) {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        loop {
            match self.stream.read(CHUNK_BYTES) {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => {
                    to.set_buffer(bytes.into());
                    return Poll::Ready(Ok(StreamResult::Completed));
                }
                Err(error) => return self.end.of(error),
            }
            if self.stream.ready().as_mut().poll(context).is_pending() {
                return unready(finish);
            }
        }
    }
}

pub(super) struct OutputConsumer<E> {
    stream: DynOutputStream,
    end: StreamEnd<E>,
    /// What was written last may still fail.
    is_writing: bool,
}

impl<E> OutputConsumer<E> {
    pub(super) fn new(stream: DynOutputStream, end: StreamEnd<E>) -> Self {
        Self {
            stream,
            end,
            is_writing: false,
        }
    }
}

impl<E: Send + 'static> StreamConsumer<StoreState> for OutputConsumer<E> {
    type Item = u8;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        store: StoreContextMut<'_, StoreState>,
        from: Source<'_, u8>,
        finish: bool,
    ) -> StreamPoll {
        let mut from = from.as_direct(store);
        loop {
            match self.stream.check_write() {
                Ok(0) => {}
                Ok(_) if std::mem::take(&mut self.is_writing) => {
                    return Poll::Ready(Ok(StreamResult::Completed));
                }
                Ok(room) => {
                    let bytes = from.remaining();
                    let length = bytes.len().min(room).min(CHUNK_BYTES);
                    let bytes = Bytes::copy_from_slice(bytes.get(..length).unwrap_or_default());
                    if bytes.is_empty() {
                        return Poll::Ready(Ok(StreamResult::Completed));
                    }
                    if let Err(error) = self.stream.write(bytes) {
                        return self.end.of(error);
                    }
                    from.mark_read(length);
                    self.is_writing = true;
                    continue;
                }
                Err(error) => return self.end.of(error),
            }
            if self.stream.ready().as_mut().poll(context).is_pending() {
                return unready(finish);
            }
        }
    }
}

fn unready(finish: bool) -> StreamPoll {
    if finish {
        Poll::Ready(Ok(StreamResult::Cancelled))
    } else {
        Poll::Pending
    }
}
