//! What a guest may call on the host beside WASI: one file for each interface of the contract.

mod cancellation;
mod interaction;
mod log;
mod progress;

use super::bindings::tool::toolcell::tool as wit;
