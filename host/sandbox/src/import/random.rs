//! `wasi:random`, with many bytes made in pieces: a deadline or a cancellation is heeded between two of them.

use wasmtime::StoreContextMut;
use wasmtime::component::Linker;
use wasmtime_wasi::p2::bindings::random::{insecure, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomCtx};

use crate::state::State;
use crate::wasi::RANDOM_BYTES_MAX;

/// The interfaces, with the version that wasmtime-wasi implements.
const SECURE: &str = "wasi:random/random@0.2.12";
const INSECURE: &str = "wasi:random/insecure@0.2.12";
/// Bytes that are made at once.
const PIECE_BYTES: u64 = 16 << 10;

pub(crate) fn add_secure(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    random::add_to_linker::<_, WasiRandom>(linker, State::random)?;
    in_pieces(linker, (SECURE, "get-random-bytes"), random::Host::get_random_bytes)
}

pub(crate) fn add_insecure(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    insecure::add_to_linker::<_, WasiRandom>(linker, State::random)?;
    in_pieces(linker, (INSECURE, "get-insecure-random-bytes"), |random, bytes| {
        insecure::Host::get_insecure_random_bytes(random, bytes)
    })
}

/// Replaces a function by one that makes the same bytes in pieces.
fn in_pieces(
    linker: &mut Linker<State>,
    (interface, function): (&str, &str),
    make: fn(&mut WasiRandomCtx, u64) -> wasmtime::Result<Vec<u8>>,
) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let replaced = linker.instance(interface)?.func_wrap_async(
        function,
        move |mut store: StoreContextMut<'_, State>, (bytes,): (u64,)| {
            Box::new(async move {
                // The error for too many bytes is that of the interface.
                let piece = if bytes <= RANDOM_BYTES_MAX && guard!("random_pieces") { PIECE_BYTES } else { bytes };
                let mut made = make(store.data_mut().random(), bytes.min(piece))?;
                while let left @ 1.. = bytes.saturating_sub(made.len() as u64) {
                    tokio::task::yield_now().await;
                    made.extend(make(store.data_mut().random(), left.min(piece))?);
                }
                Ok((made,))
            })
        },
    );
    linker.allow_shadowing(false);
    replaced
}
