//! The shared parts of `toolcell` commands: the options of a call, the resolution of paths and names on the command
//! line, questions on the terminal, output and exit codes, and the start of servers.

#[macro_use(guard)]
extern crate toolcell_spec;

mod agreed;
pub mod ask;
pub mod bundled;
pub mod callable;
mod compiling;
pub mod exit;
pub mod exporting;
pub mod folder;
pub mod hooks;
pub mod interrupts;
pub mod options;
pub mod protected_sources;
mod reload;
mod retrying;
pub mod runtime;
pub mod serving;
pub mod show;
pub mod starting;
pub mod surface;
pub mod target;
pub mod terminal;
pub mod tool_configs;
mod watching;
