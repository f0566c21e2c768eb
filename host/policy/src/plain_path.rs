//! Paths as they are shown: without `.` and `..` (AT-INP-02).

use std::path::{Component, Path, PathBuf};

use super::Mount;
use super::call_subjects::{PATH_BYTES_MAX, below, mount_of};

/// `..` removes a folder of a mount, and what is in no mount, where nothing exists for a guest. After a link, or a name that
/// is no folder, it stays: only the guest's own call says where it leads.
pub(super) fn plain(guest: &str, mounts: &[Mount]) -> String {
    if guest.len() > PATH_BYTES_MAX {
        return guest.to_owned();
    }
    let mut plain = PathBuf::new();
    for name in Path::new(guest).components() {
        match name {
            Component::CurDir => {}
            Component::ParentDir if is_left(&plain, mounts) => _ = plain.pop(),
            name => plain.push(name),
        }
    }
    plain.to_str().unwrap_or(guest).to_owned()
}

fn is_left(place: &Path, mounts: &[Mount]) -> bool {
    let Some(guest) = place.to_str().filter(|_| place.file_name().is_some()) else {
        return false;
    };
    let Some(mount) = mount_of(guest, mounts).and_then(|at| mounts.get(at)) else {
        return true;
    };
    let host = below(guest, &mount.guest).map(|rest| mount.host.join(rest));
    host.is_some_and(|host| std::fs::symlink_metadata(host).is_ok_and(|found| found.is_dir()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leads_where_it_seems_to_is_left_out() {
        let mount = |host: &str, guest: &str| Mount {
            host: host.into(),
            guest: guest.to_owned(),
            writable: false,
        };
        let mounts = [
            mount(env!("CARGO_MANIFEST_DIR"), "/w"),
            mount("/proc", "/p"),
        ];
        for (path, expected) in [
            ("/w/./a//b/", "/w/a/b"),
            ("/w/src/../a", "/w/a"),
            ("/p/self/../a", "/p/self/../a"),
            ("/w/none/../../a", "/w/none/../../a"),
            ("/x/../w/a", "/w/a"),
            ("/../w", "/../w"),
            ("a/./b", "a/b"),
        ] {
            assert_eq!(plain(path, &mounts), expected);
        }
        let long = format!("/w/{}x", "src/../".repeat(1_000));
        assert_eq!(plain(&long, &mounts), long);
    }
}
