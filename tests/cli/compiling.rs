//! The process that compiles a component: its rights, its limits, what a terminal shows of it, and that it does not
//! outlive its host.
//!
//! Promise: Compilation is bounded.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::approvals::Place;
use super::approvals::terminal::Terminal;
use super::echo_in;
use super::interrupts::wait_until;
use crate::sandbox::compiling::bomb::{compile_bomb, slow_to_compile};
use crate::support::{Ran, Toolcell, scratch};

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
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut worker = None;
    wait_until("the compiler's start", || {
        let children = format!("/proc/{0}/task/{0}/children", host.id());
        worker = std::fs::read_to_string(children)
            .ok()
            .and_then(|text| text.split_whitespace().next()?.parse().ok());
        worker.is_some_and(|worker| status(worker, "Seccomp").as_deref() == Some("2"))
    });
    (host, worker.unwrap())
}

/// A field of `/proc/PID/status`; `None` if the process does not exist or is a zombie.
fn status(process: u32, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let of = |field: &str| {
        Some(
            text.lines()
                .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?
                .trim(),
        )
    };
    (!of("State")?.starts_with('Z')).then(|| of(field).map(str::to_owned))?
}

/// `compiling` waits until the field `Seccomp` is 2, a filter. The process also cannot gain privileges.
#[test]
fn the_compiler_runs_under_a_filter_of_system_calls() {
    let (_kept, folder) = scratch();
    let (mut host, worker) = compiling(&folder);
    assert_eq!(status(worker, "NoNewPrivs").as_deref(), Some("1"));
    assert_eq!(
        status(host.id(), "Seccomp_filters"),
        status(std::process::id(), "Seccomp_filters")
    );
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

#[test]
fn a_compiler_that_the_kernel_kills_is_no_limit_on_time() {
    let (_kept, folder) = scratch();
    let (host, worker) = compiling(&folder);
    kill_process(
        Pid::from_raw(i32::try_from(worker).unwrap()).unwrap(),
        Signal::KILL,
    )
    .unwrap();
    let refused = Ran::from(host.wait_with_output().unwrap()).exits(4);
    for said in [
        "compile_killed]",
        "out of memory",
        "lower `memory` under [compile]",
    ] {
        assert!(refused.stderr.contains(said), "{said}: {}", refused.stderr);
    }
    assert!(!refused.stderr.contains("CPU time"), "{}", refused.stderr);
}

#[test]
fn the_limits_of_a_compilation_are_those_of_the_users_own_file() {
    let (_kept, folder) = scratch();
    let home = folder.join("home");
    let bomb = folder.join("bomb.wasm");
    std::fs::write(&bomb, wat::parse_str(compile_bomb()).unwrap()).unwrap();
    std::fs::create_dir(&home).unwrap();
    let bomb = bomb.to_str().unwrap();
    for (limit, meant) in [
        ("time = \"1s\"", "more than 1 s"),
        ("memory = \"160MiB\"", "more than 167772160 bytes"),
        // Not even the component itself has room.
        ("memory = \"48MiB\"", "more than 50331648 bytes"),
    ] {
        std::fs::write(home.join("toolcell.toml"), format!("[compile]\n{limit}\n")).unwrap();
        for command in [&["describe", bomb][..], &["call", bomb, "{}"]] {
            let refused = Toolcell::at(&home, command).run().exits(4);
            let named =
                refused.stderr.contains(meant) && refused.stderr.contains("under [compile]");
            assert!(named, "{command:?}: {}", refused.stderr);
        }
    }
    // A project must not decide how long a hostile component keeps the machine busy.
    let project = folder.join("named.toml");
    std::fs::write(&project, "[compile]\ntime = \"10m\"\n").unwrap();
    let tool = echo_in(&folder);
    let refused = Toolcell::at(
        &home,
        ["call", &tool, "--config", project.to_str().unwrap()],
    )
    .run()
    .exits(3);
    let said = "[compile] is for your own toolcell.toml alone";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
}

#[test]
fn a_terminal_shows_a_compilation_and_how_long_it_took_and_a_file_neither() {
    let (_kept, folder) = scratch();
    let slow = folder.join("slow.wasm");
    std::fs::write(&slow, wat::parse_str(slow_to_compile(2_000)).unwrap()).unwrap();
    let place = Place::of(slow.to_str().unwrap());
    let describe = |home: &str, to: &str| {
        let variables = format!("stty cols 80 rows 24; export TERM=xterm TOOLCELL_HOME={home}");
        Terminal::run(
            &place,
            &format!("{variables}; exec $TOOLCELL describe '{}' {to}", place.tool),
        )
        .ends()
        .1
    };
    let home = folder.join("home").display().to_string();
    let seen = describe(&home, "");
    assert!(
        seen.contains(" KiB, once") && seen.contains("compiled in "),
        "{seen:?}"
    );
    // It is compiled once.
    assert!(!describe(&home, "").contains("compil"));
    let other = folder.join("other").display().to_string();
    assert!(!describe(&other, "2>said").contains("compil"));
    assert_eq!(
        std::fs::read_to_string(place.folder.join("said")).unwrap(),
        ""
    );
}
