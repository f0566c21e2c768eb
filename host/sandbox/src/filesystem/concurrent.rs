//! `wasi:filesystem/types` of WASI 0.3, with the checks, quotas and threads of WASI 0.2. Operations of one call run at the
//! same time, so that none of them can keep the table of the call: each has a table of its own, with copies of the
//! descriptors that it works on.

mod convert;
mod listing;

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use wasmtime::component::{
    Access, Accessor, FutureReader, HasData, Linker, Resource, ResourceTable, StreamReader,
};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtx, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::types::{Host as _, HostDescriptor as _};
use wasmtime_wasi::p2::{DynOutputStream, FsResult};
use wasmtime_wasi::p3::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p3::filesystem::{FilesystemError, FilesystemResult};

use self::listing::ListingProducer;
use super::pooled::PooledView;
use super::{Fd, FileRules, PolicyFsView};
use crate::limiter::MemoryMeter;
use crate::state::StoreState;
use crate::streams::{InputProducer, OutputConsumer, StreamEnd};

pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    types::add_to_linker::<StoreState, ConcurrentFs>(linker, |state| ConcurrentView {
        rules: Arc::clone(&state.file_rules),
        memory: state.limiter.meter(),
        table: &mut state.table,
    })
}

struct ConcurrentFs;

impl HasData for ConcurrentFs {
    type Data<'a> = ConcurrentView<'a>;
}

struct ConcurrentView<'a> {
    rules: Arc<FileRules>,
    memory: Arc<MemoryMeter>,
    table: &'a mut ResourceTable,
}

struct FileOperation {
    rules: Arc<FileRules>,
    memory: Arc<MemoryMeter>,
    table: ResourceTable,
    ctx: WasiFilesystemCtx,
    /// `None` for what only opens a stream, and needs no thread.
    _turn: Option<OwnedSemaphorePermit>,
}

impl FileOperation {
    /// With a copy of the descriptor.
    fn begin(view: &ConcurrentView<'_>, fd: &Resource<Descriptor>) -> wasmtime::Result<(Self, Fd)> {
        let mut operation = Self {
            rules: Arc::clone(&view.rules),
            memory: Arc::clone(&view.memory),
            table: ResourceTable::new(),
            ctx: WasiFilesystemCtx::default(),
            _turn: None,
        };
        let fd = operation.copy(view, fd)?;
        Ok((operation, fd))
    }

    fn copy(
        &mut self,
        view: &ConcurrentView<'_>,
        fd: &Resource<Descriptor>,
    ) -> wasmtime::Result<Fd> {
        let descriptor = view.table.get(fd)?.clone();
        Ok(self.table.push(descriptor)?)
    }

    fn view(&mut self) -> PooledView<'_> {
        PooledView(PolicyFsView {
            rules: Arc::clone(&self.rules),
            memory: Arc::clone(&self.memory),
            plain: WasiFilesystemCtxView {
                ctx: &mut self.ctx,
                table: &mut self.table,
            },
        })
    }

    fn end<T>(&mut self, done: FsResult<T>) -> FilesystemResult<T> {
        done.map_err(|error| match self.view().convert_error_code(error) {
            Ok(code) => convert::error_code(code).into(),
            Err(trap) => FilesystemError::trap(trap),
        })
    }
}

type Store = Accessor<StoreState, ConcurrentFs>;

async fn begin(store: &Store, fd: &Resource<Descriptor>) -> FilesystemResult<(FileOperation, Fd)> {
    let turn = turn(store).await;
    let begun = store.with(|mut store| FileOperation::begin(&store.get(), fd));
    let (mut operation, fd) = begun.map_err(FilesystemError::trap)?;
    operation._turn = turn;
    Ok((operation, fd))
}

/// A guest need not wait for one operation before it begins another, and all calls share the threads.
async fn turn(store: &Store) -> Option<OwnedSemaphorePermit> {
    let turns = store.with(|mut store| Arc::clone(&store.get().rules.turns));
    if !guard!("file_turns") {
        return None;
    }
    // Nobody closes it.
    turns.acquire_owned().await.ok()
}

/// An operation of two descriptors.
async fn begin_both(
    store: &Store,
    one: &Resource<Descriptor>,
    other: &Resource<Descriptor>,
) -> wasmtime::Result<(FileOperation, Fd, Fd)> {
    let turn = turn(store).await;
    store.with(|mut store| {
        let view = store.get();
        let (mut operation, one) = FileOperation::begin(&view, one)?;
        let other = operation.copy(&view, other)?;
        operation._turn = turn;
        Ok((operation, one, other))
    })
}

type StreamResultReader = FutureReader<Result<(), ErrorCode>>;

/// The end of a stream; a stream that was dropped has none of its own.
fn end_reader(
    store: &mut Access<'_, StoreState, ConcurrentFs>,
    end: oneshot::Receiver<Result<(), ErrorCode>>,
) -> wasmtime::Result<StreamResultReader> {
    FutureReader::new(store, async {
        wasmtime::error::Ok(end.await.unwrap_or(Ok(())))
    })
}

/// What a stream of WASI 0.2 says of an operation that failed.
fn stream_error(error: &wasmtime::Error) -> ErrorCode {
    match error.downcast_ref::<std::io::Error>() {
        Some(error) => error.into(),
        None => ErrorCode::Io,
    }
}

/// Writes what a stream holds to a file.
fn written(
    mut store: Access<'_, StoreState, ConcurrentFs>,
    fd: &Resource<Descriptor>,
    mut data: StreamReader<u8>,
    open: impl FnOnce(&mut PooledView<'_>, Fd) -> FsResult<Resource<DynOutputStream>>,
) -> wasmtime::Result<StreamResultReader> {
    let (send, receive) = oneshot::channel();
    let (mut operation, fd) = FileOperation::begin(&store.get(), fd)?;
    let opened = open(&mut operation.view(), fd);
    match operation.end(opened) {
        Ok(stream) => {
            let stream = operation.table.delete(stream)?;
            let end = StreamEnd::new(send, stream_error);
            data.pipe(&mut store, OutputConsumer::new(stream, end))?;
        }
        Err(error) => {
            data.close(&mut store)?;
            // The receiver is below.
            let _ = send.send(Err(error.downcast()?));
        }
    }
    end_reader(&mut store, receive)
}

/// Operations that take only values beside their descriptor.
macro_rules! operations {
    ($($name:ident($($argument:ident: $kind:ty = $converted:expr),*) -> $result:ty, $convert:expr;)*) => {
        $(async fn $name(
            store: &Store,
            fd: Resource<Descriptor>,
            $($argument: $kind),*
        ) -> FilesystemResult<$result> {
            let (mut operation, fd) = begin(store, &fd).await?;
            let done = operation.view().$name(fd, $($converted),*).await;
            operation.end(done).map($convert)
        })*
    };
}

impl types::HostDescriptorWithStore<StoreState> for ConcurrentFs {
    operations! {
        advise(offset: u64 = offset, length: u64 = length, advice: Advice = convert::advice(advice)) -> (), |()| ();
        sync_data() -> (), |()| ();
        sync() -> (), |()| ();
        get_flags() -> DescriptorFlags, convert::shown_flags;
        get_type() -> DescriptorType, convert::descriptor_type;
        set_size(size: u64 = size) -> (), |()| ();
        stat() -> DescriptorStat, convert::stat;
        stat_at(flags: PathFlags = convert::path_flags(flags), path: String = path) -> DescriptorStat, convert::stat;
        set_times(
            accessed: NewTimestamp = convert::timestamp(accessed)?,
            modified: NewTimestamp = convert::timestamp(modified)?
        ) -> (), |()| ();
        set_times_at(
            flags: PathFlags = convert::path_flags(flags),
            path: String = path,
            accessed: NewTimestamp = convert::timestamp(accessed)?,
            modified: NewTimestamp = convert::timestamp(modified)?
        ) -> (), |()| ();
        create_directory_at(path: String = path) -> (), |()| ();
        readlink_at(path: String = path) -> String, |path| path;
        remove_directory_at(path: String = path) -> (), |()| ();
        symlink_at(target: String = target, path: String = path) -> (), |()| ();
        unlink_file_at(path: String = path) -> (), |()| ();
        metadata_hash() -> MetadataHashValue, convert::hash;
        metadata_hash_at(flags: PathFlags = convert::path_flags(flags), path: String = path) -> MetadataHashValue, convert::hash;
    }

    async fn open_at(
        store: &Store,
        fd: Resource<Descriptor>,
        at: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FilesystemResult<Resource<Descriptor>> {
        let (mut operation, fd) = begin(store, &fd).await?;
        let at = convert::path_flags(at);
        let flags = convert::asked_flags(flags);
        let opened = (operation.view())
            .open_at(fd, at, path, convert::open_flags(open), flags)
            .await;
        let opened = operation.end(opened)?;
        let opened = operation.table.delete(opened)?;
        Ok(store.with(|mut store| store.get().table.push(opened))?)
    }

    async fn link_at(
        store: &Store,
        fd: Resource<Descriptor>,
        at: PathFlags,
        old: String,
        new_fd: Resource<Descriptor>,
        new: String,
    ) -> FilesystemResult<()> {
        let begun = begin_both(store, &fd, &new_fd)
            .await
            .map_err(FilesystemError::trap)?;
        let (mut operation, fd, new_fd) = begun;
        let at = convert::path_flags(at);
        let linked = operation.view().link_at(fd, at, old, new_fd, new).await;
        operation.end(linked)
    }

    async fn rename_at(
        store: &Store,
        fd: Resource<Descriptor>,
        old: String,
        new_fd: Resource<Descriptor>,
        new: String,
    ) -> FilesystemResult<()> {
        let begun = begin_both(store, &fd, &new_fd)
            .await
            .map_err(FilesystemError::trap)?;
        let (mut operation, fd, new_fd) = begun;
        let renamed = operation.view().rename_at(fd, old, new_fd, new).await;
        operation.end(renamed)
    }

    async fn is_same_object(
        store: &Store,
        fd: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        let (mut operation, fd, other) = begin_both(store, &fd, &other).await?;
        operation.view().is_same_object(fd, other).await
    }

    fn read_via_stream(
        mut store: Access<'_, StoreState, Self>,
        fd: Resource<Descriptor>,
        offset: u64,
    ) -> wasmtime::Result<(StreamReader<u8>, StreamResultReader)> {
        let (send, receive) = oneshot::channel();
        let (mut operation, fd) = FileOperation::begin(&store.get(), &fd)?;
        let opened = operation.view().read_via_stream(fd, offset);
        let stream = match operation.end(opened) {
            Ok(stream) => {
                let stream = operation.table.delete(stream)?;
                let end = StreamEnd::new(send, stream_error);
                StreamReader::new(&mut store, InputProducer::new(stream, end))?
            }
            Err(error) => {
                // The receiver is below.
                let _ = send.send(Err(error.downcast()?));
                StreamReader::new(&mut store, std::iter::empty())?
            }
        };
        Ok((stream, end_reader(&mut store, receive)?))
    }

    fn write_via_stream(
        store: Access<'_, StoreState, Self>,
        fd: Resource<Descriptor>,
        data: StreamReader<u8>,
        offset: u64,
    ) -> wasmtime::Result<StreamResultReader> {
        written(store, &fd, data, |view, fd| {
            view.write_via_stream(fd, offset)
        })
    }

    fn append_via_stream(
        store: Access<'_, StoreState, Self>,
        fd: Resource<Descriptor>,
        data: StreamReader<u8>,
    ) -> wasmtime::Result<StreamResultReader> {
        written(store, &fd, data, |view, fd| view.append_via_stream(fd))
    }

    fn read_directory(
        mut store: Access<'_, StoreState, Self>,
        fd: Resource<Descriptor>,
    ) -> wasmtime::Result<(StreamReader<DirectoryEntry>, StreamResultReader)> {
        let (send, receive) = oneshot::channel();
        let (operation, fd) = FileOperation::begin(&store.get(), &fd)?;
        let producer = ListingProducer::new(operation, fd, send);
        let stream = StreamReader::new(&mut store, producer)?;
        Ok((stream, end_reader(&mut store, receive)?))
    }
}

impl types::Host for ConcurrentView<'_> {
    fn convert_error_code(&mut self, error: FilesystemError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }
}

impl types::HostDescriptor for ConcurrentView<'_> {
    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        self.table.delete(fd)?;
        Ok(())
    }
}
