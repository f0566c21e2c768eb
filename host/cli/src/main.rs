//! The `toolcell` program.

use std::process::ExitCode;

/// A call makes hundreds of small allocations, on any thread, and mimalloc needs much less time for them than glibc's
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    toolcell::compile_if_asked();
    toolcell_cli::command::run()
}
