//! Streams and futures that functions return, read to their end. What they hold counts as what a guest hands over at once.

use std::pin::Pin;
use std::task::{Context, Poll};

use data_encoding::BASE64;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use toolcell_spec::JSON_VALUES_MAX;
use wasmtime::component::{
    ComponentType, FutureConsumer, Lift, Source, StreamConsumer, StreamResult, Val,
};
use wasmtime::{AsContextMut, Store, StoreContextMut};

use super::shape::{IntegerType, JsonShape};
use crate::state::StoreState;
use crate::trap::ExceededLimit;

const ITEMS_AT_ONCE: usize = 64;
const BYTES_AT_ONCE: usize = 64 << 10;

pub(super) enum StreamItems {
    Items(Vec<Val>),
    /// Of a stream of bytes, in base64.
    Bytes(String),
}

/// Reads items of a type that [`is_simple`].
pub(super) async fn collect(
    store: &mut Store<StoreState>,
    value: Val,
    item: &JsonShape,
) -> wasmtime::Result<StreamItems> {
    macro_rules! items {
        ($kind:ty, $val:expr) => {{
            let items = read::<$kind>(store, value).await?;
            StreamItems::Items(items.into_iter().map($val).collect())
        }};
    }
    let bytes = |bytes: Vec<u8>| Val::List(bytes.into_iter().map(Val::U8).collect());
    Ok(match item {
        JsonShape::Int(IntegerType::U8) if matches!(value, Val::Stream(_)) => {
            StreamItems::Bytes(BASE64.encode(&read::<u8>(store, value).await?))
        }
        JsonShape::Bool => items!(bool, Val::Bool),
        JsonShape::Int(IntegerType::U8) => items!(u8, Val::U8),
        JsonShape::Int(IntegerType::U16) => items!(u16, Val::U16),
        JsonShape::Int(IntegerType::U32) => items!(u32, Val::U32),
        JsonShape::Int(IntegerType::U64) => items!(u64, Val::U64),
        JsonShape::Int(IntegerType::S8) => items!(i8, Val::S8),
        JsonShape::Int(IntegerType::S16) => items!(i16, Val::S16),
        JsonShape::Int(IntegerType::S32) => items!(i32, Val::S32),
        JsonShape::Int(IntegerType::S64) => items!(i64, Val::S64),
        JsonShape::Float32 => items!(f32, Val::Float32),
        JsonShape::Float64 => items!(f64, Val::Float64),
        JsonShape::Char => items!(char, Val::Char),
        JsonShape::String => items!(String, Val::String),
        JsonShape::Bytes => items!(Vec<u8>, bytes),
        _ => {
            return Err(wasmtime::Error::msg(
                "the items of the stream are not simple",
            ));
        }
    })
}

/// The items can be read: other types have no Rust type here.
pub(super) fn is_simple(item: &JsonShape) -> bool {
    use JsonShape::{Bool, Bytes, Char, Float32, Float64, Int, String};
    matches!(
        item,
        Bool | Int(_) | Float32 | Float64 | Char | String | Bytes
    )
}

/// Bytes beside the value itself.
trait Item: ComponentType + Lift + Send + Sync + 'static {
    fn held(&self) -> usize {
        0
    }
}

macro_rules! plain_items {
    ($($kind:ty)*) => { $(impl Item for $kind {})* };
}

plain_items! { bool u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 char }

impl Item for String {
    fn held(&self) -> usize {
        self.len()
    }
}

impl Item for Vec<u8> {
    fn held(&self) -> usize {
        self.len()
    }
}

async fn read<T: Item>(store: &mut Store<StoreState>, value: Val) -> wasmtime::Result<Vec<T>> {
    let (send, mut receive) = unbounded_channel();
    let consumer = ItemConsumer {
        send,
        bytes_left: store.hostcall_fuel(),
        items_left: if size_of::<T>() == 1 {
            usize::MAX
        } else {
            JSON_VALUES_MAX + 1
        },
    };
    match value {
        Val::Stream(stream) => stream
            .try_into_stream_reader::<T>()?
            .pipe(&mut *store, consumer)?,
        Val::Future(future) => future
            .try_into_future_reader::<T>()?
            .pipe(&mut *store, consumer)?,
        _ => return Err(wasmtime::Error::msg("the function returned no stream")),
    }
    let whole = async move |_: &wasmtime::component::Accessor<StoreState>| {
        let mut items = Vec::new();
        while let Some(part) = receive.recv().await {
            items.append(&mut part?);
        }
        wasmtime::error::Ok(items)
    };
    store.run_concurrent(whole).await?
}

struct ItemConsumer<T> {
    send: UnboundedSender<wasmtime::Result<Vec<T>>>,
    bytes_left: usize,
    /// More of them than a result may have are not read.
    items_left: usize,
}

impl<T: Item> ItemConsumer<T> {
    fn take(
        &mut self,
        mut store: StoreContextMut<'_, StoreState>,
        mut source: Source<'_, T>,
    ) -> Result<usize, wasmtime::Error> {
        let room = if size_of::<T>() == 1 {
            BYTES_AT_ONCE
        } else {
            ITEMS_AT_ONCE
        };
        let mut items = Vec::with_capacity(room.min(self.items_left));
        source.read(store.as_context_mut(), &mut items)?;
        let bytes = items.iter().map(|item| item.held() + size_of::<T>()).sum();
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.ok_or(ExceededLimit::Streamed)?;
        self.items_left = self.items_left.saturating_sub(items.len());
        let taken = items.len();
        // The receiver is dropped only with the call.
        let _ = self.send.send(Ok(items));
        Ok(taken)
    }
}

impl<T: Item> StreamConsumer<StoreState> for ItemConsumer<T> {
    type Item = T;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'_, StoreState>,
        source: Source<'_, T>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        Poll::Ready(Ok(match self.take(store, source) {
            Ok(_) if self.items_left == 0 => StreamResult::Dropped,
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

impl<T: Item> FutureConsumer<StoreState> for ItemConsumer<T> {
    type Item = T;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'_, StoreState>,
        source: Source<'_, T>,
        _: bool,
    ) -> Poll<wasmtime::Result<()>> {
        if let Err(error) = self.take(store, source) {
            let _ = self.send.send(Err(error));
        }
        Poll::Ready(Ok(()))
    }
}
