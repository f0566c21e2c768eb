//! Puts a tree in the place of another, and repairs what a killed process left.

use std::fs;
use std::io;
use std::path::Path;

use cap_std::fs::Dir;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use toolcell_system::private;

/// The files of the workspace.
pub(crate) const TREE: &str = "tree";
/// A complete copy of the tree from before a call that can be rolled back.
pub(crate) const BEFORE: &str = "before";
/// The old tree, on a file system that cannot exchange two folders.
const OLD: &str = "old";
/// Drafts, which nobody needs after their process.
pub(crate) const WORK: &str = "work";

/// Replaces the tree of `workspace` by its folder `with`, in one step where the file system can.
pub(crate) fn replace_tree(workspace: &Path, with: &Path) -> io::Result<()> {
    let tree = workspace.join(TREE);
    match renameat_with(CWD, with, CWD, &tree, RenameFlags::EXCHANGE) {
        Ok(()) => return remove_all(with),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        Err(error) => return Err(error.into()),
    }
    // Between these two, the tree has no name: `recover` gives the old one back.
    fs::rename(&tree, workspace.join(OLD))?;
    fs::rename(with, &tree)?;
    remove_all(&workspace.join(OLD))
}

/// Returns whether a writer was killed, so that readers must not use the tree as it is.
pub(crate) fn is_interrupted(workspace: &Path) -> bool {
    workspace.join(BEFORE).exists() || !workspace.join(TREE).exists()
}

/// By the only user of the workspace.
pub(crate) fn recover(workspace: &Path) -> io::Result<()> {
    let [tree, before, old, work] = [TREE, BEFORE, OLD, WORK].map(|name| workspace.join(name));
    if !tree.exists() && old.exists() {
        fs::rename(&old, &tree)?;
    }
    if before.exists() {
        replace_tree(workspace, &before)?;
    }
    for left in [&old, &work] {
        remove_all(left)?;
    }
    private::create_dir(&work)
}

/// Removes a folder with its content, if it is there. Links are removed, and not followed.
pub(crate) fn remove_all(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Opens a folder of the host's own, such as the tree.
pub(crate) fn open_dir(path: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(path, cap_std::ambient_authority())
}
