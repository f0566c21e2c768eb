//! Host functions for guests beside WASI: one file for each interface of the contract, and `near.rs`.

pub(crate) mod artifacts;
mod cancellation;
pub(super) mod context_modifiers;
mod interaction;
mod log;
#[cfg(feature = "foreign-worlds")]
pub(super) mod near;
mod progress;
pub(super) mod tools;

use super::bindings::tool::toolcell::tool as wit;
