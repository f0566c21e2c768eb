//! Opens mounts without following symbolic links, so that a swapped link cannot redirect them (a TOCTOU race).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use toolcell_system::pseudo_files;

#[derive(Debug)]
pub(super) struct OpenFolder {
    /// Kept open, because on Linux `path` leads through its descriptor.
    _folder: OwnedFd,
    path: PathBuf,
}

impl OpenFolder {
    /// Follows no symbolic link: a guest could have put one into the path after it was checked.
    pub(super) fn open(host: &Path) -> io::Result<Self> {
        let folder = no_links(host)?;
        pseudo_files::refuse(&folder)?;
        Ok(Self::held(folder, host))
    }

    /// `folder` was opened at `host`.
    pub(super) fn held(folder: OwnedFd, host: &Path) -> Self {
        let path = if cfg!(target_os = "linux") {
            PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
        } else {
            // Other systems have no path to an open folder: the path could change between here and its use.
            host.to_owned()
        };
        Self {
            _folder: folder,
            path,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(target_os = "linux")]
fn no_links(host: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::{CWD, ResolveFlags, openat2};
    match openat2(
        CWD,
        host,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    ) {
        // An old kernel, or a seccomp filter that rejects unknown system calls.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => step_by_step(host),
        opened => Ok(opened?),
    }
}

#[cfg(not(target_os = "linux"))]
fn no_links(host: &Path) -> io::Result<OwnedFd> {
    step_by_step(host)
}

/// Follows no symbolic links.
fn step_by_step(host: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut folder = rustix::fs::open("/", flags, Mode::empty())?;
    for component in host.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => {
                folder = rustix::fs::openat(&folder, name, flags, Mode::empty())?
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_anywhere_in_the_path_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir_all(root.join("real/inner")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        for open in [no_links, step_by_step] {
            assert!(open(&root.join("real/inner")).is_ok());
            assert!(open(&root.join("link")).is_err(), "the last name");
            assert!(open(&root.join("link/inner")).is_err(), "a name on the way");
            assert!(open(&root.join("missing")).is_err());
        }
    }
}
