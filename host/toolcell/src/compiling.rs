//! The process that compiles a component: this program again, or another one that offers it.

use std::path::PathBuf;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use toolcell_sandbox::compile_worker;

pub(crate) const COMPILE_COMMAND: &str = "compile-component";
/// The process was started with other arguments than a host gives.
const USAGE: i32 = 64;

/// [`compile_if_asked`] ran in this process.
static OFFERED: AtomicBool = AtomicBool::new(false);

/// Call it first in `main`: the host compiles untrusted components in a child process, this program, with time and
/// memory limits and a system call filter. Compiles and exits in that child; otherwise returns at once.
///
/// ```
/// toolcell::compile_if_asked();
/// // .. the rest of `main`
/// ```
pub fn compile_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments
        .next()
        .is_some_and(|first| first == COMPILE_COMMAND)
    {
        let mut number = || arguments.next()?.to_str()?.parse::<u64>().ok();
        let cpu_seconds = number();
        let memory_bytes = number();
        let parent = number();
        let effort = arguments
            .next()
            .and_then(|word| word.to_str()?.parse().ok());
        let meter = arguments
            .next()
            .and_then(|word| word.to_str()?.parse().ok());
        let (Some(cpu_seconds), Some(memory_bytes), Some(parent), Some(effort), Some(meter)) =
            (cpu_seconds, memory_bytes, parent, effort, meter)
        else {
            exit(USAGE);
        };
        exit(compile_worker(
            cpu_seconds,
            memory_bytes,
            u32::try_from(parent).unwrap_or(0),
            effort,
            meter,
        ));
    }
    OFFERED.store(true, Ordering::Relaxed);
}

/// Fails if this program does not compile when asked.
pub(crate) fn own_program() -> anyhow::Result<PathBuf> {
    anyhow::ensure!(
        OFFERED.load(Ordering::Relaxed),
        "no program compiles components: begin `main` with toolcell::compile_if_asked(), or name a toolcell program \
         with HostBuilder::compiler"
    );
    // Not by its name, at which an update puts another program while this one runs: that one's code would not fit.
    if cfg!(target_os = "linux") {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    std::env::current_exe().context(
        "cannot find this program's own file, which compiles components; name a toolcell program with \
         HostBuilder::compiler",
    )
}
