//! The hooks of `hotcell.toml`, loaded before a call.

use std::path::Path;

use anyhow::Context;

use crate::config::{ConfigFile, FILE_NAME, Home};
use crate::host::Host;

use super::exit::BadRequest;
use super::show;
use super::target::Target;

/// The configuration files that count, each if it is there: the user's own, and the one that was named.
pub(super) fn files(home: &Home, named: Option<&Path>) -> Result<Vec<ConfigFile>, BadRequest> {
    let read = |path: &Path| ConfigFile::read(path).map_err(|error| BadRequest(format!("{error:#}")));
    let mut files: Vec<ConfigFile> = read(&home.folder().join(FILE_NAME))?.into_iter().collect();
    if let Some(path) = named {
        files.push(read(path)?.ok_or_else(|| BadRequest(format!("there is no file {}", path.display())))?);
    }
    Ok(files)
}

/// Adds the hooks of `files` to `host`. One that cannot be loaded is said on standard error, and blocks what it guards.
pub(super) async fn add(host: &mut Host, home: &Home, files: &[ConfigFile]) -> Result<(), BadRequest> {
    for file in files {
        for entry in &file.hooks {
            let component = locate(&file.folder.join(&entry.component), home);
            if let Some(why) = host.add_hook(entry, component, &file.folder).await.map_err(BadRequest)? {
                show::say(&format!("warning: {why}"));
            }
        }
    }
    Ok(())
}

/// The component of a hook; a source folder is built first if something in it changed.
fn locate(path: &Path, home: &Home) -> anyhow::Result<std::path::PathBuf> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Target::parse(text).locate(home).map_err(|refusal| anyhow::anyhow!(refusal.message))
}
