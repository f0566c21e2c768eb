//! The `toolcell` program. `command` has a file for each subcommand; what several of them share is beside it.

#[macro_use(guard)]
extern crate toolcell_spec;

mod agreed;
mod ask;
mod bar;
mod bundled;
mod callable;
#[cfg_attr(not(feature = "cluster"), path = "cluster_left_out.rs")]
mod cluster;
mod command;
mod compiling;
mod diagnostics;
mod exit;
mod exporting;
mod folder;
mod hooks;
mod hosts;
mod interrupts;
mod managed;
mod options;
mod principals;
mod protected_sources;
mod reload;
mod retrying;
mod runtime;
mod serving;
mod show;
mod sign_in;
mod starting;
mod surface;
mod target;
mod terminal;
mod tool_configs;
mod watching;

use std::process::ExitCode;

/// A call makes hundreds of small allocations, on any thread: mimalloc needs much less time for them than glibc's
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    hide_memory();
    return_memory_at_once();
    toolcell::compile_if_asked();
    command::run()
}

/// The memory, variables and open files hold secrets and tokens: no other program of the user shall read them, and no
/// core dump hold them. Programs that this one starts are not covered.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    if guard!("not_dumpable") {
        // Only a filter of system calls can forbid it, and then nothing else can be done about it.
        let _ =
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    }
}

/// Otherwise an idle server keeps what its last call needed, about 100 MiB after large outputs, because mimalloc
/// returns memory later, and only while more is allocated.
#[allow(unsafe_code, reason = "mimalloc's options are those of a C library")]
fn return_memory_at_once() {
    /// `mi_option_purge_delay`, in milliseconds; the bindings do not name it.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    // SAFETY: The option exists in all versions from 2.0 on, and mimalloc reads it atomically.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) };
}
