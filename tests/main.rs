//! The product's tests: real components in a real sandbox, met where a user meets them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that cannot go on has failed")]

mod cli;
mod hostile;
mod pipeline;
mod sandbox;
mod server;
mod structure;
mod support;
