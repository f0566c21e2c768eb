//! The `toolcell` program: [`command`] is the command-line interface.

#[macro_use(guard)]
extern crate toolcell_core;

pub mod command;
