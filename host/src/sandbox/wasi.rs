//! The WASI world of one call. All of WASI can be imported, because language runtimes import it even for pure code; what a
//! guest can do with it is decided here. Nothing: no folder, no variable, no argument, no network, no input.

use std::path::Path;

use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

use crate::policy::Capability;

use super::folder::OpenFolder;
use super::logs::{Captured, Logs, Stream};
use super::scratch::{self, Scratch};

/// Bytes of randomness that a guest may ask for at once.
const RANDOM_BYTES_MAX: u64 = 1 << 20;

/// The world of one call, and what has to live as long as it.
pub(super) struct World {
    pub(super) wasi: WasiCtx,
    pub(super) scratch: Option<Scratch>,
}

/// Builds the world that gives exactly `capability`; folders of its own are made in `scratch_dir`.
pub(super) fn world(capability: &Capability, scratch_dir: &Path, logs: &Logs) -> wasmtime::Result<World> {
    let mut builder = WasiCtxBuilder::new();
    builder
        .stdout(Captured { logs: logs.clone(), stream: Stream::Stdout })
        .stderr(Captured { logs: logs.clone(), stream: Stream::Stderr })
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .max_random_size(RANDOM_BYTES_MAX);
    for mount in &capability.mounts {
        let permissions = if mount.writable || !guard!("read_only") { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        let folder = OpenFolder::open(&mount.host)?;
        builder.preopened_dir(folder.path(), &mount.guest, permissions)?;
    }
    let scratch = match &capability.scratch {
        Some(guest) => {
            let scratch = Scratch::make(scratch_dir)?;
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
    if let Some(cwd) = &capability.cwd {
        if !capability.holds_cwd() {
            // Runtimes enter it before anything else; there it is, with nothing in it but what was mounted below.
            builder.preopened_dir(scratch::empty(scratch_dir)?, cwd, FsPerms::ReadOnly)?;
        }
        builder.initial_cwd(cwd);
    }
    Ok(World { wasi: builder.build(), scratch })
}

/// For the check of the tests: a world whose network, or whose output, is the host's own.
#[cfg(feature = "mutants")]
fn leave_out(builder: &mut WasiCtxBuilder) {
    if !guard!("no_network") {
        builder.inherit_network().allow_tcp(true).allow_udp(true).allow_ip_name_lookup(true);
    }
    if !guard!("captured_output") {
        builder.inherit_stdout().inherit_stderr();
    }
}
