use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use serde::Serialize;
use toolcell_spec::{ErrorCode, Refusal};

use super::lease::Lease;
use super::swap::{self, WORK};
use super::tree::{PATH_BYTES_MAX, hashed};
use super::{GUEST_PATH, Workspace};

/// A file of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileInfo {
    /// Within the workspace, without a leading slash.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// `sha256:<hex>` of the content.
    pub digest: String,
}

impl Workspace {
    /// Checks a path before there is a workspace for it.
    ///
    /// # Errors
    ///
    /// `workspace_path_invalid`.
    pub fn check_path(path: &str) -> Result<(), Refusal> {
        plain_path(path).map(|_| ())
    }

    /// All files, sorted by path; links and folders are not listed.
    ///
    /// # Errors
    ///
    /// Failures of the file system.
    pub fn files(&self, lease: &Lease) -> Result<Vec<FileInfo>, Refusal> {
        let index = self.index(lease)?;
        let files = index.files().map(|(path, file)| FileInfo {
            path: path.clone(),
            size: file.size,
            digest: file.digest.clone(),
        });
        Ok(files.collect())
    }

    /// Opens a file for reading, with its size. Links are followed within the workspace.
    ///
    /// # Errors
    ///
    /// `workspace_path_invalid`, `unknown_workspace_file`, and failures of the file system.
    pub fn open_file(&self, _lease: &Lease, path: &str) -> Result<(fs::File, u64), Refusal> {
        let path = plain_path(path)?;
        let opened = swap::open_dir(&self.tree()).and_then(|tree| {
            // A pipe would block the reader.
            if !tree.metadata(&path)?.is_file() {
                return Err(io::ErrorKind::NotFound.into());
            }
            let file = tree.open(&path)?.into_std();
            let size = file.metadata()?.len();
            Ok((file, size))
        });
        opened.map_err(|error| self.file_failed(&path, &error))
    }

    /// Writes a file from `content`, in one step, with the folders that hold it.
    ///
    /// # Errors
    ///
    /// `workspace_path_invalid`, `workspace_full`, failures of `content` and of the file system: the file is as it was.
    pub fn put(
        &self,
        lease: &Lease,
        path: &str,
        content: &mut dyn Read,
    ) -> Result<FileInfo, Refusal> {
        let path = plain_path(path)?;
        let index = self.plain_index(lease)?;
        let mut room = self.room(index.usage)?;
        let replaced = index.file(&path).map(|file| file.size);
        room.bytes = room.bytes.saturating_add(replaced.unwrap_or(0));
        let folders = path.matches('/').count() as u64;
        if replaced.is_none() && room.files <= folders {
            return Err(self.full());
        }
        let draft = self.folder().join(WORK).join("put");
        let mut file = fs::File::create(&draft).map_err(|error| self.failed(&error))?;
        let mut limited = content.take(room.bytes.saturating_add(1));
        let (size, digest) = hashed(&mut limited, |piece| file.write_all(piece))
            .map_err(|error| self.failed(&error))?;
        if size > room.bytes {
            let _ = fs::remove_file(&draft);
            return Err(self.full());
        }
        file.sync_all().map_err(|error| self.failed(&error))?;
        self.move_in(&draft, &path)
            .map_err(|error| self.file_failed(&path, &error))?;
        Ok(FileInfo { path, size, digest })
    }

    fn move_in(&self, draft: &Path, path: &str) -> io::Result<()> {
        let tree = swap::open_dir(&self.tree())?;
        let (folder, name) = match path.rsplit_once('/') {
            Some((folder, name)) => {
                tree.create_dir_all(folder)?;
                (tree.open_dir(folder)?, name)
            }
            None => (tree, path),
        };
        let drafts = swap::open_dir(draft.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
        let from = draft.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        drafts.rename(from, &folder, name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::fsync(openat(&folder, c".", flags, Mode::empty())?)?;
        Ok(())
    }

    /// Removes a file, a link, or a folder with its content.
    ///
    /// # Errors
    ///
    /// `workspace_path_invalid`, `unknown_workspace_file`, and failures of the file system.
    pub fn remove_path(&self, _lease: &Lease, path: &str) -> Result<(), Refusal> {
        let path = plain_path(path)?;
        let removed = swap::open_dir(&self.tree()).and_then(|tree| {
            if tree.symlink_metadata(&path)?.is_dir() {
                tree.remove_dir_all(&path)
            } else {
                tree.remove_file(&path)
            }
        });
        removed.map_err(|error| self.file_failed(&path, &error))
    }

    fn file_failed(&self, path: &str, error: &io::Error) -> Refusal {
        let is_there = self.folder().exists();
        let code = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if is_there => {
                ErrorCode::UnknownWorkspaceFile
            }
            io::ErrorKind::IsADirectory
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::InvalidFilename => ErrorCode::WorkspacePathInvalid,
            _ => return self.failed(error),
        };
        let message = match code {
            ErrorCode::UnknownWorkspaceFile => {
                format!("the workspace {} has no file {path}", self.name())
            }
            _ => format!(
                "{path} cannot be used in the workspace {}: {error}",
                self.name()
            ),
        };
        Refusal::new(code, message)
    }
}

/// The path of a file within the workspace; the guest's name of it is understood, too.
pub(crate) fn plain_path(path: &str) -> Result<String, Refusal> {
    let inner = path
        .strip_prefix(GUEST_PATH)
        .and_then(|rest| rest.strip_prefix('/'))
        .unwrap_or(path);
    let parts: Vec<&str> = inner
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    let is_inside = !inner.starts_with('/') && parts.iter().all(|part| *part != "..");
    let is_plain = !parts.is_empty() && inner.len() <= PATH_BYTES_MAX && !inner.contains('\0');
    if is_inside && is_plain && !inner.ends_with('/') {
        return Ok(parts.join("/"));
    }
    let shown: String = path.chars().take(200).collect();
    let message = format!(
        "{shown:?} is no path of a file in a workspace: it begins at its top, without a leading slash or `..`, and has \
         at most {PATH_BYTES_MAX} bytes"
    );
    Err(Refusal::new(ErrorCode::WorkspacePathInvalid, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_in_its_workspace() {
        for (path, plain) in [
            ("a.csv", "a.csv"),
            ("./a//b.csv", "a/b.csv"),
            ("/workspace/a/b", "a/b"),
            ("...", "..."),
        ] {
            assert_eq!(plain_path(path).unwrap(), plain);
        }
        let long = "a".repeat(PATH_BYTES_MAX + 1);
        for path in [
            "",
            ".",
            "/",
            "/etc/passwd",
            "..",
            "a/../../b",
            "a/..",
            "a/",
            "/workspace",
            "a\0b",
            "/workspaces/a",
            "/workspace/../a",
            &long,
        ] {
            let refused = plain_path(path).unwrap_err();
            assert_eq!(refused.code, ErrorCode::WorkspacePathInvalid, "{path:?}");
        }
    }
}
