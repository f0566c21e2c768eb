//! What a guest may call on the host beside WASI: one file for each interface of the contract.

mod cancellation;
mod interaction;
mod log;
mod progress;

use wasmtime::component::{HasSelf, Linker};

use super::bindings::tool::hotcell::tool as wit;
use super::state::State;

/// Adds the interfaces of the contract to `linker`.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    add_log_to_linker(linker)?;
    wit::progress::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    wit::cancellation::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    wit::interaction::add_to_linker::<_, HasSelf<State>>(linker, |state| state)
}

/// The one interface of the contract that a hook gets, too.
pub(super) fn add_log_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wit::log::add_to_linker::<_, HasSelf<State>>(linker, |state| state)
}
