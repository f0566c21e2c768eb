//! Streams from and into files, counted and charged; the work runs on the threads for guests' files.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use toolcell_system::pool::GUEST_FILES;
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, InputStream, OutputStream, Pollable, StreamError, StreamResult,
};

use crate::limiter::MemoryCharge;

use super::FileRules;

pub(super) const STREAM_BYTES: usize = 64 << 10;

pub(super) struct FileSource {
    pub(super) inner: DynInputStream,
    pub(super) _charge: MemoryCharge,
}

#[wasmtime_wasi::async_trait]
impl InputStream for FileSource {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let _entered = GUEST_FILES.enter();
        self.inner.read(size)
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        GUEST_FILES.within(self.inner.blocking_read(size)).await
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for FileSource {
    async fn ready(&mut self) {
        GUEST_FILES.within(self.inner.ready()).await;
    }
}

pub(super) struct MeteredOutput {
    pub(super) inner: DynOutputStream,
    pub(super) file: Arc<File>,
    /// `None` if the stream appends.
    pub(super) position: Option<u64>,
    pub(super) rules: Arc<FileRules>,
    pub(super) _charge: MemoryCharge,
}

impl MeteredOutput {
    fn count(&mut self, bytes: &Bytes) -> StreamResult<()> {
        let length = bytes.len() as u64;
        let counted = match &mut self.position {
            Some(position) => {
                let offset = std::mem::replace(position, position.saturating_add(length));
                self.rules.quota.write(&self.file, offset, length)
            }
            None => self.rules.quota.append(length),
        };
        counted.map_err(|exceeded| StreamError::Trap(exceeded.into()))
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for MeteredOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.count(&bytes)?;
        let _entered = GUEST_FILES.enter();
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.inner.check_write()
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.count(&bytes)?;
        GUEST_FILES
            .within(self.inner.blocking_write_and_flush(bytes))
            .await
    }

    async fn write_ready(&mut self) -> StreamResult<usize> {
        self.inner.write_ready().await
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for MeteredOutput {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}
