//! The `toolcell` program: [`command`] is the command-line interface, [`server`] serves tools to other programs.

#[macro_use(guard)]
extern crate toolcell_core;

pub mod command;
pub mod config;
pub mod dialect;
pub mod server;
pub mod telemetry;
pub mod toolchain;
