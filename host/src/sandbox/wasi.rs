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
        let permissions = if mount.writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        builder.preopened_dir(&mount.host, &mount.guest, permissions)?;
    }
    for (name, value) in &capability.environment {
        builder.env(name, value);
    }
    if let Some(cwd) = &capability.cwd {
        builder.initial_cwd(cwd);
    }
    Ok(builder.build())
}
