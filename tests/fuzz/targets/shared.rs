//! What the targets share: a host to load components in, and an input that is two texts.

use std::path::PathBuf;
use std::sync::Arc;

use toolcell::{Home, Host, Keep, LogSettings, Request};

/// Splits an input at its first line feed; `None` if there is none, or the input is not UTF-8.
pub(crate) fn halves(data: &[u8]) -> Option<(&str, &str)> {
    std::str::from_utf8(data).ok()?.split_once('\n')
}

/// A host with its state in a new temporary folder, which is not removed.
///
/// # Panics
///
/// If there is no folder, no program to compile with (`TOOLCELL`), or no sandbox, because then nothing can be fuzzed.
pub(crate) fn host() -> Arc<Host> {
    let home = tempfile::tempdir().expect("make a folder").keep();
    let program = PathBuf::from(
        std::env::var_os("TOOLCELL").expect("TOOLCELL names the program that compiles"),
    );
    let settings = Host::builder()
        .home(Home::at(home))
        .compiler(program)
        .pooled(false)
        .cached(false)
        .journal(LogSettings {
            keep: Keep::None,
            ..LogSettings::default()
        });
    Arc::new(settings.build().expect("set up a host"))
}

/// A runtime on this thread.
///
/// # Panics
///
/// If the system has no resources for one.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("start a runtime")
}

/// A call of `tool` with `input`, without a grant.
pub(crate) fn request(tool: &str, input: &str) -> Request {
    Request::new(tool, input)
}
