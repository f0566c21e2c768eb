//! A result as a stream. All events are kept until its end, so their number and size are bounded: a stream costs the
//! guest nothing.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use wasmtime::component::{Source, StreamConsumer, StreamReader, StreamResult};
use wasmtime::{AsContextMut, Store, StoreContextMut};

use super::types::ToolEvent;
use crate::state::StoreState;
use crate::trap::{EVENTS_MAX, ExceededLimit};

const EVENTS_AT_ONCE: usize = 64;

pub(super) async fn collect(
    store: &mut Store<StoreState>,
    stream: StreamReader<ToolEvent>,
    seen: fn(&mut StoreState, &ToolEvent),
) -> wasmtime::Result<Vec<ToolEvent>> {
    let (send, mut receive) = unbounded_channel();
    // All events together may be as large as what the guest may hand over at once.
    let bytes_left = store.hostcall_fuel();
    stream.pipe(
        &mut *store,
        EventConsumer {
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

pub(super) fn bounded(events: Vec<ToolEvent>) -> wasmtime::Result<Vec<ToolEvent>> {
    if events.len() > EVENTS_MAX {
        Err(ExceededLimit::Events.into())
    } else {
        Ok(events)
    }
}

struct EventConsumer {
    send: UnboundedSender<wasmtime::Result<ToolEvent>>,
    seen: fn(&mut StoreState, &ToolEvent),
    events_left: usize,
    bytes_left: usize,
}

impl EventConsumer {
    fn count(&mut self, event: &ToolEvent) -> Result<(), ExceededLimit> {
        self.events_left = self
            .events_left
            .checked_sub(1)
            .ok_or(ExceededLimit::Events)?;
        self.bytes_left = self
            .bytes_left
            .checked_sub(event.size())
            .ok_or(ExceededLimit::Streamed)?;
        Ok(())
    }

    fn take(
        &mut self,
        mut store: StoreContextMut<'_, StoreState>,
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

impl StreamConsumer<StoreState> for EventConsumer {
    type Item = ToolEvent;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'_, StoreState>,
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
