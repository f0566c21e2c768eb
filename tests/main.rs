//! The product's tests: real components in a real sandbox, through the interfaces that users have.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]
#![allow(clippy::too_many_lines, reason = "stories, and tables of cases")]

mod acceptance;
mod cli;
mod hostile;
mod parity;
mod pipeline;
mod sandbox;
mod server;
mod structure;
mod support;

/// That of the program, because the attacks measure memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
