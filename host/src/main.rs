//! The `toolcell` program.

use std::process::ExitCode;

/// A call is hundreds of small allocations, on whichever thread: this one needs a good deal less time for them than glibc's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    toolcell::cli::run()
}
