//! The WASI world of one call. All of WASI can be imported, because language runtimes import it even for pure code; but
//! there are no sockets, only granted folders and variables, and no arguments and input, unless a command's caller
//! gives some.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use toolcell_executor::WorkspaceRoom;
use toolcell_policy::{Capability, Mount, WORKSPACE};
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

use super::folder::OpenFolder;
use super::logs::{CapturedStream, GuestLogs, StandardStream};
use super::nondeterminism::{NondeterminismSources, ReplayRecorder};
use super::own_files::OpenFolders;
use super::scratch::{self, ScratchFolder};

/// Limit of one request.
pub(super) const RANDOM_BYTES_MAX: u64 = 1 << 20;

pub(super) struct WasiInputs<'a> {
    pub(super) capability: &'a Capability,
    /// Of the component.
    pub(super) own_files: &'a OpenFolders,
    pub(super) scratch_dir: &'a Path,
    pub(super) sources: &'a NondeterminismSources,
    /// Of a call that changes a workspace.
    pub(super) room: Option<Arc<WorkspaceRoom>>,
    /// `None` for a guest that is no command.
    pub(super) process: Option<Box<CommandInput>>,
}

/// The caller's input is data, and no capability.
pub(super) struct CommandInput {
    pub(super) args: Vec<String>,
    pub(super) stdin: Bytes,
    pub(super) env: Vec<(String, String)>,
    pub(super) files: Vec<(String, Bytes)>,
}

pub(super) struct WasiWorld {
    pub(super) wasi: WasiCtx,
    pub(super) scratch: Option<ScratchFolder>,
    pub(super) recorder: Option<ReplayRecorder>,
}

pub(super) fn world(setup: &WasiInputs<'_>, logs: &GuestLogs) -> wasmtime::Result<WasiWorld> {
    let WasiInputs {
        capability,
        sources,
        process,
        ..
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
    for (name, value) in &capability.environment {
        builder.env(name, value);
    }
    #[cfg(feature = "mutants")]
    leave_out(&mut builder);
    if let Some(process) = process {
        give(&mut builder, process);
    }
    let scratch = open_folders(&mut builder, setup)?;
    let recorder = sources.install(&mut builder)?;
    Ok(WasiWorld {
        wasi: builder.build(),
        scratch,
        recorder,
    })
}

/// A command's working directory comes first, where programs in Go and Zig expect it.
fn open_folders(
    builder: &mut WasiCtxBuilder,
    setup: &WasiInputs<'_>,
) -> wasmtime::Result<Option<ScratchFolder>> {
    let WasiInputs {
        capability,
        own_files,
        scratch_dir,
        process,
        ..
    } = setup;
    let is_given_files = process
        .as_ref()
        .is_some_and(|given| !given.files.is_empty());
    let workspace = capability
        .mounts
        .iter()
        .find(|mount| mount.guest == WORKSPACE)
        .filter(|_| !is_given_files);
    let (before, after): (Vec<&Mount>, Vec<&Mount>) = capability
        .mounts
        .iter()
        .partition(|mount| process.is_none() || workspace == Some(*mount));
    for mount in before {
        open_mount(builder, mount, &mount.guest)?;
    }
    let scratch = match &capability.scratch {
        Some(guest) => {
            let scratch = ScratchFolder::make(scratch_dir)?;
            builder.preopened_dir(scratch.path(), guest, FsPerms::ReadWrite)?;
            Some(scratch)
        }
        None => None,
    };
    for mount in after {
        open_mount(builder, mount, &mount.guest)?;
    }
    // Programs without a working directory of their own resolve a relative path against a folder named `.`.
    if let Some(mount) = workspace {
        open_mount(builder, mount, ".")?;
        builder.initial_cwd(&mount.guest);
    } else if let (Some(_), Some(scratch), Some(guest)) = (process, &scratch, &capability.scratch) {
        builder.preopened_dir(scratch.path(), ".", FsPerms::ReadWrite)?;
        builder.initial_cwd(guest);
    } else if let Some(cwd) = &capability.cwd {
        let is_own = own_files.iter().any(|folder| folder.guest() == cwd);
        if !capability.holds_cwd() && !is_own {
            // Runtimes enter it before anything else, so it must exist, with nothing in it but the mounts below it.
            builder.preopened_dir(scratch::empty(scratch_dir)?, cwd, FsPerms::ReadOnly)?;
        }
        builder.initial_cwd(cwd);
    }
    for folder in own_files.iter() {
        builder.preopened_dir(folder.path(), folder.guest(), own_permissions())?;
    }
    Ok(scratch)
}

fn open_mount(builder: &mut WasiCtxBuilder, mount: &Mount, guest: &str) -> wasmtime::Result<()> {
    let folder = OpenFolder::open(&mount.host)?;
    builder.preopened_dir(folder.path(), guest, permissions(mount))?;
    Ok(())
}

fn permissions(mount: &Mount) -> FsPerms {
    if mount.writable || !guard!("read_only") {
        FsPerms::ReadWrite
    } else {
        FsPerms::ReadOnly
    }
}

fn own_permissions() -> FsPerms {
    if guard!("own_files_read_only") {
        FsPerms::ReadOnly
    } else {
        FsPerms::ReadWrite
    }
}

fn give(builder: &mut WasiCtxBuilder, process: &CommandInput) {
    builder
        .args(&process.args)
        .envs(&process.env)
        .stdin(MemoryInputPipe::new(process.stdin.clone()));
}

/// Mutation tests give the guest the host's network or output.
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
