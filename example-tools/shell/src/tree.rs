//! The root folder of a script: the granted folders under their own paths, and memory around them.

use std::{path::Path, sync::Arc};

use bashkit::{FileSystem, InMemoryFs, MountableFs};
use toolcell_guest::{Context, ToolError};

use crate::{folder::Folder, limits};

const TEMPORARY: &str = "/tmp";
const HOME: &str = "/home/user";

pub(crate) struct Tree {
    pub(crate) files: Arc<dyn FileSystem>,
    /// Where relative paths start.
    pub(crate) cwd: String,
    pub(crate) home: String,
}

/// `folders`: the guest paths of the granted folders, the scratch folder among them.
pub(crate) fn tree(folders: &[String], context: &Context) -> Result<Tree, ToolError> {
    let memory = InMemoryFs::with_limits(limits::files());
    for folder in [TEMPORARY, HOME] {
        memory.add_dir(folder, 0o755);
    }
    for folder in folders {
        for above in Path::new(folder).ancestors().skip(1) {
            memory.add_dir(above, 0o755);
        }
    }
    let files = MountableFs::new(Arc::new(memory));
    let mount = |at: &str, folder: &str| {
        files
            .mount(at, Arc::new(Folder::new(folder)))
            .map_err(|error| {
                let message = format!("the folder {folder} cannot be shown to the script");
                ToolError::setup_required("folder_not_mounted", message).detail(error.to_string())
            })
    };
    for folder in folders {
        mount(folder, folder)?;
    }
    // A granted folder below /tmp would be hidden from a listing of it.
    let covers = |folder: &String| Path::new(folder).starts_with(TEMPORARY);
    if let Some(scratch) = &context.scratch
        && !folders.iter().any(covers)
    {
        mount(TEMPORARY, scratch)?;
    }
    let cwd = context.cwd.clone();
    Ok(Tree {
        files: Arc::new(files),
        home: cwd.clone().unwrap_or_else(|| HOME.to_owned()),
        cwd: cwd.unwrap_or_else(|| TEMPORARY.to_owned()),
    })
}

/// The guest paths of the folders that the host opened for this call.
#[cfg(target_arch = "wasm32")]
pub(crate) fn folders() -> Vec<String> {
    let opened = wasip2::filesystem::preopens::get_directories();
    let mut paths: Vec<String> = opened
        .into_iter()
        .map(|(_, path)| path)
        .filter(|path| path.starts_with('/'))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// In a test, the folders are those that its context names.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn folders() -> Vec<String> {
    let context = toolcell_guest::context();
    context.cwd.into_iter().chain(context.scratch).collect()
}
