//! Paths of the host as they are written: where they start, and where they really lead.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// `text` from `base`, unless it starts at the root or, with `~/`, in the user's own folder.
pub(super) fn rooted(text: &str, base: &Path) -> anyhow::Result<PathBuf> {
    if text == "~" || text.starts_with("~/") {
        let home = std::env::home_dir().context("find your own folder, for `~`; write the whole path")?;
        return Ok(home.join(text.trim_start_matches('~').trim_start_matches('/')));
    }
    let full = base.join(text);
    std::path::absolute(&full).with_context(|| format!("find the path {text}"))
}

/// The canonical form of a path that need not exist: links are followed as far as it does.
pub(super) fn canonical(full: &Path) -> anyhow::Result<PathBuf> {
    let mut rest = Vec::new();
    let mut known = full;
    loop {
        match std::fs::canonicalize(known) {
            Ok(canonical) => return Ok(rest.iter().rev().fold(canonical, |path, part| path.join(part))),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error).with_context(|| format!("find the path {}", full.display())),
        }
        match (known.parent(), known.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name);
                known = parent;
            }
            _ => bail!("{}: the path may not lead through a missing folder with `..`", full.display()),
        }
    }
}
