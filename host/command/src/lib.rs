//! What the commands of `toolcell` share: the options of a call, what a path or a name on the command line stands for,
//! questions on the terminal, output and exit codes, and the start of servers.

#[macro_use(guard)]
extern crate toolcell_core;

mod agreed;
pub mod ask;
pub mod callable;
mod compiling;
pub mod exit;
pub mod exporting;
pub mod folder;
pub mod hooks;
pub mod interrupts;
pub mod kept;
pub mod options;
mod reload;
mod retrying;
pub mod runtime;
pub mod serving;
pub mod shipped;
pub mod show;
pub mod starting;
pub mod surface;
pub mod target;
pub mod terminal;
pub mod tool_configs;
mod watching;
