//! The WASI world of one call. All of WASI can be imported, because language runtimes import it even for pure code.
//! This module limits the imports: no sockets, only the folders and variables that were granted, and no arguments and
//! no input, unless the guest is a command and its caller gives some.

use std::path::Path;

use bytes::Bytes;
use toolcell_policy::Capability;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

use super::folder::OpenFolder;
use super::logs::{CapturedStream, GuestLogs, StandardStream};
use super::nondeterminism::{NondeterminismSources, ReplayRecorder};
use super::scratch::{self, ScratchFolder};

/// Maximum number of random bytes that a guest may request at once.
pub(super) const RANDOM_BYTES_MAX: u64 = 1 << 20;

/// Inputs of one call's world.
pub(super) struct WasiInputs<'a> {
    pub(super) capability: &'a Capability,
    /// The folder in which scratch folders are created.
    pub(super) scratch_dir: &'a Path,
    /// Where the random numbers and the clocks come from.
    pub(super) sources: &'a NondeterminismSources,
    /// A command's input; `None` for any other guest.
    pub(super) process: Option<Box<CommandInput>>,
}

/// A command's input from its caller: data, and no capability.
pub(super) struct CommandInput {
    /// The command's name, and its arguments.
    pub(super) args: Vec<String>,
    pub(super) stdin: Bytes,
    pub(super) env: Vec<(String, String)>,
    /// Files of the scratch folder, by their relative paths.
    pub(super) files: Vec<(String, Bytes)>,
}

/// The world of one call, and what must live as long as it.
pub(super) struct WasiWorld {
    pub(super) wasi: WasiCtx,
    pub(super) scratch: Option<ScratchFolder>,
    pub(super) recorder: Option<ReplayRecorder>,
}

/// Builds the world that gives exactly the capability of `setup`.
pub(super) fn world(setup: &WasiInputs<'_>, logs: &GuestLogs) -> wasmtime::Result<WasiWorld> {
    let WasiInputs {
        capability,
        scratch_dir,
        sources,
        process,
    } = setup;
    let mut builder = WasiCtxBuilder::new();
    builder
        .stdout(CapturedStream {
            logs: logs.clone(),
            stream: StandardStream::Stdout,
        })
        .stderr(CapturedStream {
            logs: logs.clone(),
            stream: StandardStream::Stderr,
        })
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .max_random_size(RANDOM_BYTES_MAX);
    for mount in &capability.mounts {
        let permissions = if mount.writable || !guard!("read_only") {
            FsPerms::ReadWrite
        } else {
            FsPerms::ReadOnly
        };
        let folder = OpenFolder::open(&mount.host)?;
        builder.preopened_dir(folder.path(), &mount.guest, permissions)?;
    }
    let scratch = match &capability.scratch {
        Some(guest) => {
            let scratch = ScratchFolder::make(scratch_dir)?;
            builder.preopened_dir(scratch.path(), guest, FsPerms::ReadWrite)?;
            Some(scratch)
        }
        None => None,
    };
    for (name, value) in &capability.environment {
        builder.env(name, value);
    }
    #[cfg(feature = "mutants")]
    leave_out(&mut builder);
    if let Some(process) = process {
        give(&mut builder, process);
    }
    if let (Some(_), Some(scratch), Some(guest)) = (process, &scratch, &capability.scratch) {
        // Programs without a working directory of their own resolve a relative path against a folder of this name.
        builder.preopened_dir(scratch.path(), ".", FsPerms::ReadWrite)?;
        builder.initial_cwd(guest);
    } else if let Some(cwd) = &capability.cwd {
        if !capability.holds_cwd() {
            // Runtimes enter it before anything else, so it must exist, with nothing in it but the mounts below it.
            builder.preopened_dir(scratch::empty(scratch_dir)?, cwd, FsPerms::ReadOnly)?;
        }
        builder.initial_cwd(cwd);
    }
    let recorder = sources.install(&mut builder)?;
    Ok(WasiWorld {
        wasi: builder.build(),
        scratch,
        recorder,
    })
}

/// Gives a command what its caller passes to it.
fn give(builder: &mut WasiCtxBuilder, process: &CommandInput) {
    builder
        .args(&process.args)
        .envs(&process.env)
        .stdin(MemoryInputPipe::new(process.stdin.clone()));
}

/// Gives the guest the host's network or output, for mutation tests.
#[cfg(feature = "mutants")]
fn leave_out(builder: &mut WasiCtxBuilder) {
    if !guard!("no_network") {
        builder
            .inherit_network()
            .allow_tcp(true)
            .allow_udp(true)
            .allow_ip_name_lookup(true);
    }
    if !guard!("captured_output") {
        builder.inherit_stdout().inherit_stderr();
    }
}
