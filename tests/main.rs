//! The product's tests: real components in a real sandbox, met where a user meets them.

mod cli;
mod pipeline;
mod sandbox;
mod structure;
mod support;
