//! Records which files a guest reads, writes and removes, by the paths that it sees.

use std::path::{Component, Path, PathBuf};

use toolcell_spec::{Touch, TouchList};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorFlags, OpenFlags};

use super::denial::real_path;
use super::{Fd, FileRules, PolicyFsView};
use crate::locked;

impl FileRules {
    pub(crate) fn knows(&mut self, host: &Path, guest: &str) {
        self.places.push((host.to_owned(), guest.to_owned()));
    }

    pub(crate) fn touched(&self) -> TouchList {
        locked(&self.touched).clone()
    }

    fn shown(&self, host: &Path) -> Option<PathBuf> {
        let below = |(folder, guest): &(PathBuf, String)| {
            Some((guest.clone(), host.strip_prefix(folder).ok()?))
        };
        // The shortest rest is in the innermost folder.
        let (guest, rest) = self
            .places
            .iter()
            .rev()
            .filter_map(below)
            .min_by_key(|(_, rest)| rest.as_os_str().len())?;
        Some(Path::new(&guest).join(rest))
    }
}

impl PolicyFsView<'_> {
    pub(super) fn touched(&self, how: Touch, fd: &Fd, path: &str) {
        let Ok(folder) = self.handle(fd) else { return };
        *locked(&self.rules.failed) = None;
        // They are no one's but the component's.
        if self.is_own(fd).unwrap_or(false) {
            return;
        }
        let base = real_path(folder)
            .ok()
            .and_then(|host| self.rules.shown(&host));
        let what = plain(&base.unwrap_or_default(), path);
        locked(&self.rules.touched).note(how, what);
    }

    /// Opening a folder does nothing to it.
    pub(super) fn opened(
        &self,
        opened: &Fd,
        fd: &Fd,
        path: &str,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) {
        let Ok(Descriptor::File(file)) = self.plain.table.get(opened) else {
            return;
        };
        let writes = flags.contains(DescriptorFlags::WRITE)
            || open.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE);
        if flags.contains(DescriptorFlags::READ) || !writes {
            self.touched(Touch::Read, fd, path);
        }
        // A file that is closed for writing is opened for reading all the same.
        if writes && !file.perms.write_not_permitted() {
            self.touched(Touch::Written, fd, path);
        }
    }
}

/// Drops `.` and `..` as far as that is possible without following links.
fn plain(base: &Path, path: &str) -> String {
    let mut whole = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if whole.file_name().is_some() => _ = whole.pop(),
            part => whole.push(part),
        }
    }
    whole.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::plain;

    #[test]
    fn a_path_is_the_one_that_the_guest_sees() {
        for (base, path, whole) in [
            ("/data", "a/./b", "/data/a/b"),
            ("/data", "a/../b/", "/data/b"),
            ("", "../a", "../a"),
            ("/data", ".", "/data"),
        ] {
            assert_eq!(plain(Path::new(base), path), whole);
        }
    }
}
