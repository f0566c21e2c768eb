//! Host paths as written.

use std::path::{Path, PathBuf};

use anyhow::Context;

use toolcell_system::resolved_path::ResolvedPath;

/// `~` and `~/` mean the user's home directory.
pub(super) fn rooted(text: &str, base: &Path) -> anyhow::Result<PathBuf> {
    if text == "~" || text.starts_with("~/") {
        let home = std::env::home_dir()
            .context("cannot find your own folder, for `~`; write the whole path")?;
        let full = home.join(text.trim_start_matches('~').trim_start_matches('/'));
        return std::path::absolute(&full).with_context(|| format!("cannot find the path {text}"));
    }
    let full = base.join(text);
    std::path::absolute(&full).with_context(|| format!("cannot find the path {text}"))
}

pub(super) fn resolve(text: &str, base: &Path) -> anyhow::Result<ResolvedPath> {
    ResolvedPath::resolve(&rooted(text, base)?)
}
