//! Host paths as written.

use std::path::{Component, Path, PathBuf};

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

/// The path as its author knows it: below the folder in which the shell says that it is. `None` if that is no plain
/// text.
pub(super) fn named(text: &str, base: &Path) -> anyhow::Result<Option<String>> {
    let base = match shell_folder() {
        Some(folder) if base == Path::new("") => folder,
        _ => base.to_owned(),
    };
    let full = rooted(text, &base)?;
    let is_plain = !full.components().any(|name| name == Component::ParentDir);
    let plain: PathBuf = full.components().collect();
    Ok(plain.to_str().filter(|_| is_plain).map(str::to_owned))
}

/// `PWD`, which keeps the links that led here, if it is true.
fn shell_folder() -> Option<PathBuf> {
    let said = PathBuf::from(std::env::var_os("PWD")?);
    let is_here = said.is_absolute()
        && matches!((said.canonicalize(), std::env::current_dir()), (Ok(said), Ok(here)) if said == here);
    is_here.then_some(said)
}
