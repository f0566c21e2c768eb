//! The WASI world of one call. All of WASI is linked, because language runtimes import it even for pure code; what a
//! guest can do with it is decided here. Nothing: no folder, no variable, no argument, no network, no input.

use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

use crate::policy::Capability;

use super::logs::{Captured, Logs, Stream};

/// Bytes of randomness that a guest may ask for at once.
const RANDOM_BYTES_MAX: u64 = 1 << 20;

/// Builds the context that gives exactly `capability`.
pub(super) fn context(capability: &Capability, logs: &Logs) -> wasmtime::Result<WasiCtx> {
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
        builder.preopened_dir(&mount.host, &mount.guest, permissions)?;
    }
    for (name, value) in &capability.environment {
        builder.env(name, value);
    }
    #[cfg(feature = "mutants")]
    leave_out(&mut builder);
    if let Some(cwd) = &capability.cwd {
        builder.initial_cwd(cwd);
    }
    Ok(builder.build())
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
