//! The entries of a folder, as a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot::Sender;
use toolcell_system::BoxFuture;
use wasmtime::StoreContextMut;
use wasmtime::component::{Destination, StreamProducer, StreamResult};
use wasmtime_wasi::p2::bindings::filesystem::types::HostDescriptor as _;
use wasmtime_wasi::p3::bindings::filesystem::types::{DirectoryEntry, ErrorCode};
use wasmtime_wasi::p3::filesystem::FilesystemResult;

use super::{FileOperation, convert};
use crate::filesystem::listing::{self, FolderListing};
use crate::filesystem::{Fd, FileRules};
use crate::state::StoreState;

/// Its place among the listings of the call.
struct ListingPlace(Arc<FileRules>);

impl Drop for ListingPlace {
    fn drop(&mut self) {
        self.0.quota.listed();
    }
}

struct OpenListing {
    operation: FileOperation,
    listing: FolderListing,
    _place: ListingPlace,
}

type NextEntry = FilesystemResult<Option<(OpenListing, DirectoryEntry)>>;

pub(super) struct ListingProducer {
    /// `None` at the end.
    next: Option<BoxFuture<'static, NextEntry>>,
    end: Option<Sender<Result<(), ErrorCode>>>,
}

impl ListingProducer {
    pub(super) fn new(
        operation: FileOperation,
        fd: Fd,
        end: Sender<Result<(), ErrorCode>>,
    ) -> Self {
        Self {
            next: Some(Box::pin(first(operation, fd))),
            end: Some(end),
        }
    }

    fn close(&mut self, result: Result<(), ErrorCode>) -> Poll<wasmtime::Result<StreamResult>> {
        self.next = None;
        if let Some(end) = self.end.take() {
            // A guest may have dropped the other end.
            let _ = end.send(result);
        }
        Poll::Ready(Ok(StreamResult::Dropped))
    }
}

async fn first(mut operation: FileOperation, fd: Fd) -> NextEntry {
    let opened = operation.view().read_directory(fd).await;
    let opened = operation.end(opened)?;
    let place = ListingPlace(Arc::clone(&operation.rules));
    let listing = operation.table.delete(listing::meant(&opened))?;
    let open = OpenListing {
        operation,
        listing,
        _place: place,
    };
    step(open).await
}

async fn step(mut open: OpenListing) -> NextEntry {
    let entry = open.listing.next().await;
    let entry = open.operation.end(entry)?;
    Ok(entry.map(|entry| (open, convert::entry(entry))))
}

impl StreamProducer<StoreState> for ListingProducer {
    type Item = DirectoryEntry;
    type Buffer = Option<DirectoryEntry>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut store: StoreContextMut<'a, StoreState>,
        mut to: Destination<'a, Self::Item, Self::Buffer>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        if to.remaining(&mut store) == Some(0) {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        let Some(next) = &mut self.next else {
            return Poll::Ready(Ok(StreamResult::Dropped));
        };
        let polled = next.as_mut().poll(context);
        if polled.is_pending() && finish {
            return Poll::Ready(Ok(StreamResult::Cancelled));
        }
        match ready!(polled) {
            Ok(Some((open, entry))) => {
                self.next = Some(Box::pin(step(open)));
                to.set_buffer(Some(entry));
                Poll::Ready(Ok(StreamResult::Completed))
            }
            Ok(None) => self.close(Ok(())),
            Err(error) => match error.downcast() {
                Ok(code) => self.close(Err(code)),
                Err(trap) => Poll::Ready(Err(trap)),
            },
        }
    }
}
