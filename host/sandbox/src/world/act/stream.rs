//! A result that comes as a stream. The host keeps all events until the stream ends, so their number and their size are
//! bounded: a stream costs the guest nothing.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use wasmtime::component::{Source, StreamConsumer, StreamReader, StreamResult};
use wasmtime::{AsContextMut, Store, StoreContextMut};

use super::types::ToolEvent;
use crate::state::State;
use crate::trap::Exceeded;

/// Maximum number of events of one result.
pub(crate) const EVENTS_MAX: usize = 10_000;
/// Maximum number of events that are taken from the guest at once.
const EVENTS_AT_ONCE: usize = 64;

/// Reads a stream to its end. `seen` is told of each event as it comes.
pub(super) async fn collect(
    store: &mut Store<State>,
    stream: StreamReader<ToolEvent>,
    seen: fn(&mut State, &ToolEvent),
) -> wasmtime::Result<Vec<ToolEvent>> {
    let (send, mut receive) = unbounded_channel();
    // All events together may be as large as what the guest may hand over at once.
    let bytes_left = store.hostcall_fuel();
    stream.pipe(
        &mut *store,
        Consumer {
            send,
            seen,
            events_left: EVENTS_MAX,
            bytes_left,
        },
    )?;
    store
        .run_concurrent(async move |_| {
            let mut events = Vec::new();
            while let Some(event) = receive.recv().await {
                events.push(event?);
            }
            wasmtime::Result::Ok(events)
        })
        .await?
}

/// Refuses a result with more events than one may have.
pub(super) fn bounded(events: Vec<ToolEvent>) -> wasmtime::Result<Vec<ToolEvent>> {
    if events.len() > EVENTS_MAX && guard!("stream_events") {
        Err(Exceeded::Events.into())
    } else {
        Ok(events)
    }
}

/// Takes events from the guest while there is room for them. The end of the stream drops it, and so closes `send`.
struct Consumer {
    send: UnboundedSender<wasmtime::Result<ToolEvent>>,
    seen: fn(&mut State, &ToolEvent),
    events_left: usize,
    bytes_left: usize,
}

impl Consumer {
    /// Counts an event.
    fn count(&mut self, event: &ToolEvent) -> Result<(), Exceeded> {
        if !guard!("stream_events") {
            return Ok(());
        }
        self.events_left = self.events_left.checked_sub(1).ok_or(Exceeded::Events)?;
        self.bytes_left = self
            .bytes_left
            .checked_sub(event.size())
            .ok_or(Exceeded::Streamed)?;
        Ok(())
    }

    /// Takes what the guest offers now.
    fn take(
        &mut self,
        mut store: StoreContextMut<'_, State>,
        mut source: Source<'_, ToolEvent>,
    ) -> wasmtime::Result<usize> {
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        source.read(store.as_context_mut(), &mut events)?;
        let taken = events.len();
        for event in events {
            self.count(&event)?;
            (self.seen)(store.data_mut(), &event);
            // The receiver is dropped only with the call.
            let _ = self.send.send(Ok(event));
        }
        Ok(taken)
    }
}

impl StreamConsumer<State> for Consumer {
    type Item = ToolEvent;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'_, State>,
        source: Source<'_, ToolEvent>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        Poll::Ready(Ok(match self.take(store, source) {
            Ok(0) if finish => StreamResult::Cancelled,
            Ok(_) => StreamResult::Completed,
            Err(error) => {
                // Returned here, the error would reach the call as a trap of the guest.
                let _ = self.send.send(Err(error));
                StreamResult::Dropped
            }
        }))
    }
}
