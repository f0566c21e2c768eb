//! What the fuzz targets share: a host to load components in, and an input that is two texts.

use std::path::PathBuf;
use std::sync::Arc;

use toolcell::config::Home;
use toolcell::host::{Host, HostSettings, Limits, Request};
use toolcell::record::Input;

/// Splits an input at its first line feed; `None` if there is none, or the input is not UTF-8.
#[must_use]
pub fn halves(data: &[u8]) -> Option<(&str, &str)> {
    std::str::from_utf8(data).ok()?.split_once('\n')
}

/// A host with its state in a new temporary folder, which is not removed.
///
/// # Panics
///
/// If there is no folder, no program to compile with (`TOOLCELL`), or no sandbox, because then nothing can be fuzzed.
#[must_use]
pub fn host() -> Arc<Host> {
    let home = tempfile::tempdir().expect("make a folder").keep();
    let program = PathBuf::from(std::env::var_os("TOOLCELL").expect("TOOLCELL names the program that compiles"));
    let mut settings = HostSettings::new(Home::at(home), program);
    settings.pooled = false;
    settings.cached = false;
    Arc::new(Host::new(settings).expect("set up a host"))
}

/// A runtime on this thread.
///
/// # Panics
///
/// If the system has no resources for one.
#[must_use]
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("start a runtime")
}

/// A call of `tool` with `input`, without a grant.
#[must_use]
pub fn request(tool: &str, input: &str) -> Request {
    Request {
        tool: tool.to_owned(),
        input: Input::from_text(input),
        native_call_id: None,
        actor_ref: None,
        grants: Arc::default(),
        policy: Arc::default(),
        limits: Limits::default(),
        approval: Default::default(),
        cancellation: Default::default(),
        unavailable: None,
        listener: None,
        respondent: None,
        mapping: None,
    }
}
