//! Paths as they are shown: canonical, as far as the guest can follow them (AT-INP-02).

use std::path::{Component, Path, PathBuf};

use toolcell_system::resolved_path::ResolvedPath;

use super::Mount;
use super::call_subjects::{PATH_BYTES_MAX, below, mount_of};

/// Follows the links of a mount, with lookups counted against `steps`. A path that leads out of its mount, or through a
/// missing folder with `..`, keeps its names below the mount: the guest does not get there.
pub(super) fn plain(guest: &str, mounts: &[Mount], steps: &mut usize) -> String {
    if guest.len() > PATH_BYTES_MAX {
        return guest.to_owned();
    }
    let mut plain = PathBuf::new();
    for name in Path::new(guest).components() {
        match name {
            Component::CurDir => {}
            Component::ParentDir if is_nowhere(&plain, mounts) => _ = plain.pop(),
            name => plain.push(name),
        }
    }
    let Some(plain) = plain.to_str() else {
        return guest.to_owned();
    };
    canonical(plain, mounts, steps).unwrap_or_else(|| plain.to_owned())
}

/// `true` for a name in no mount, where nothing exists for a guest.
fn is_nowhere(place: &Path, mounts: &[Mount]) -> bool {
    let named = place.to_str().filter(|_| place.file_name().is_some());
    named.is_some_and(|place| mount_of(place, mounts).is_none())
}

fn canonical(guest: &str, mounts: &[Mount], steps: &mut usize) -> Option<String> {
    let at = mount_of(guest, mounts)?;
    let mount = mounts.get(at)?;
    let host = mount.host.join(below(guest, &mount.guest)?);
    let end = ResolvedPath::within(&host, steps).ok()?.end;
    let rest = end.strip_prefix(&mount.host).ok()?;
    let place: PathBuf = Path::new(&mount.guest).join(rest).components().collect();
    let place = place.to_str()?;
    // A mount within this one hides what its folder has there.
    (mount_of(place, mounts) == Some(at)).then(|| place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_canonical_as_far_as_the_guest_can_follow_it() {
        let mount = |host: &str, guest: &str| Mount {
            host: host.into(),
            guest: guest.to_owned(),
            writable: false,
        };
        let mounts = [
            mount(env!("CARGO_MANIFEST_DIR"), "/w"),
            mount("/proc", "/p"),
            mount("/sys", "/w/src/place.rs"),
        ];
        for (path, expected) in [
            ("/w/./a//b/", "/w/a/b"),
            ("/w/src/../a", "/w/a"),
            ("/p/self/../a", "/p/a"),
            ("/p/self/root/a", "/p/self/root/a"),
            ("/w/src/../src/place.rs", "/w/src/../src/place.rs"),
            ("/w/none/../../a", "/w/none/../../a"),
            ("/x/../w/a", "/w/a"),
            ("/../w", "/../w"),
            ("a/./b", "a/b"),
        ] {
            assert_eq!(plain(path, &mounts, &mut 100), expected);
        }
        let long = format!("/w/{}x", "src/../".repeat(1_000));
        assert_eq!(plain(&long, &mounts, &mut 10_000), long);
        let unfollowed = plain("/w/src/../a", &mounts, &mut 1);
        assert_eq!(unfollowed, "/w/src/../a");
    }
}
