//! Folders of the component's own. What is denied is the user's; these are the component's, although they lie in toolcell's
//! own folder, which is closed.

use std::sync::Arc;

use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::FsResult;

use super::denial::real_path;
use super::{Fd, FileRules, PolicyFsView};
use crate::own_files::OpenFolders;

impl FileRules {
    pub(crate) fn owns(&mut self, folders: &OpenFolders) {
        self.own = Arc::clone(folders);
    }
}

impl PolicyFsView<'_> {
    /// Nothing is denied there: neither in this call, nor in a folder of the component's own. Such a folder is read-only,
    /// has no links, and was opened as one: no path through a granted folder leads to it.
    pub(super) fn is_free(&self, fd: &Fd) -> FsResult<bool> {
        Ok(self.denials().is_empty() || self.is_own(fd)?)
    }

    pub(super) fn is_own(&self, fd: &Fd) -> FsResult<bool> {
        if self.rules.own.is_empty() {
            return Ok(false);
        }
        let is_read_only = match self.plain.table.get(fd)? {
            Descriptor::File(file) => file.perms.write_not_permitted(),
            Descriptor::Dir(dir) => dir.perms.write_not_permitted(),
        };
        let place = real_path(self.handle(fd)?);
        Ok(is_read_only
            && place.is_ok_and(|place| {
                let mut own = self.rules.own.iter();
                own.any(|folder| place.starts_with(folder.host()))
            }))
    }
}
