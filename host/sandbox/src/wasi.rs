//! The WASI world of one call. All of WASI can be imported, because language runtimes import it even for pure code.
//! What an import gives is decided here: no arguments, no input, no sockets, and only the folders and variables that
//! were granted.

use std::path::Path;

use toolcell_core::policy::Capability;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

use super::folder::OpenFolder;
use super::logs::{Captured, Logs, Stream};
use super::nondeterminism::{Recorder, Sources};
use super::scratch::{self, Scratch};

/// Maximum number of random bytes that a guest may request at once.
const RANDOM_BYTES_MAX: u64 = 1 << 20;

/// The world of one call, and what must live as long as it.
pub(super) struct World {
    pub(super) wasi: WasiCtx,
    pub(super) scratch: Option<Scratch>,
    pub(super) recorder: Option<Recorder>,
}

/// Builds the world that gives exactly `capability`; scratch folders are created in `scratch_dir`. `sources` says where
/// its random numbers and clocks come from.
pub(super) fn world(
    capability: &Capability,
    scratch_dir: &Path,
    logs: &Logs,
    sources: &Sources,
) -> wasmtime::Result<World> {
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
            // Runtimes enter it before anything else, so it must exist, with nothing in it but the mounts below it.
            builder.preopened_dir(scratch::empty(scratch_dir)?, cwd, FsPerms::ReadOnly)?;
        }
        builder.initial_cwd(cwd);
    }
    let recorder = sources.install(&mut builder)?;
    Ok(World { wasi: builder.build(), scratch, recorder })
}

/// Gives the guest the host's network or output, for mutation tests.
#[cfg(feature = "mutants")]
fn leave_out(builder: &mut WasiCtxBuilder) {
    if !guard!("no_network") {
        builder.inherit_network().allow_tcp(true).allow_udp(true).allow_ip_name_lookup(true);
    }
    if !guard!("captured_output") {
        builder.inherit_stdout().inherit_stderr();
    }
}
