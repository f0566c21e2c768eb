//! The process that compiles a component: its rights, and that it does not outlive its host.

use std::process::{Child, Command, Stdio};

use super::interrupts::wait_until;
use crate::sandbox::compiling::bomb::compile_bomb;
use crate::support::scratch;

/// A `toolcell` that compiles until it is stopped, and the PID of its compiler process.
fn compiling(folder: &std::path::Path) -> (Child, u32) {
    let bomb = folder.join("bomb.wasm");
    std::fs::write(&bomb, wat::parse_str(compile_bomb()).unwrap()).unwrap();
    let host = Command::new(env!("CARGO_BIN_EXE_toolcell"))
        .env("TOOLCELL_HOME", folder.join("home"))
        .arg("describe")
        .arg(&bomb)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut worker = None;
    wait_until("the compiler's start", || {
        let children = format!("/proc/{0}/task/{0}/children", host.id());
        worker = std::fs::read_to_string(children).ok().and_then(|text| text.split_whitespace().next()?.parse().ok());
        worker.is_some_and(|worker| status(worker, "Seccomp").as_deref() == Some("2"))
    });
    (host, worker.unwrap())
}

/// A field of `/proc/PID/status`; `None` if the process does not exist or is a zombie.
fn status(process: u32, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let of = |field: &str| Some(text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?.trim());
    (!of("State")?.starts_with('Z')).then(|| of(field).map(str::to_owned))?
}

/// `compiling` waits until the field `Seccomp` is 2, a filter. The process also cannot gain privileges.
#[test]
fn the_compiler_runs_under_a_filter_of_system_calls() {
    let (_kept, folder) = scratch();
    let (mut host, worker) = compiling(&folder);
    assert_eq!(status(worker, "NoNewPrivs").as_deref(), Some("1"));
    assert_eq!(status(host.id(), "Seccomp_filters"), status(std::process::id(), "Seccomp_filters"));
    host.kill().unwrap();
    host.wait().unwrap();
}

#[test]
fn the_compiler_ends_with_a_host_that_is_killed() {
    let (_kept, folder) = scratch();
    let (mut host, worker) = compiling(&folder);
    host.kill().unwrap();
    host.wait().unwrap();
    wait_until("the compiler's end", || status(worker, "State").is_none());
}
