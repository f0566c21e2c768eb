//! Where the paths of a call lead.

use std::path::{Component, Path, PathBuf};

use toolcell_system::resolved_path::ResolvedPath;

use super::super::{Capability, Mount};
use super::{NamedPath, PATH_BYTES_MAX};

/// Relative paths start in the caller's folder, or, if that leads into no mount, in the only granted one. `..` and
/// links in a mount are left to the guest.
pub(super) fn guest_path(typed: &str, capability: &Capability) -> String {
    if typed.starts_with('/') {
        return settled("", typed, &capability.mounts).unwrap_or_else(|| typed.to_owned());
    }
    // A narrowed capability may start in a folder that the path names.
    let starts = [capability.from.as_deref(), capability.only.as_deref()];
    let found = starts
        .into_iter()
        .flatten()
        .find_map(|start| settled(start, typed, &capability.mounts));
    found.unwrap_or_else(|| joined(capability.cwd.as_deref().unwrap_or_default(), typed))
}

pub(super) fn joined(folder: &str, typed: &str) -> String {
    match typed {
        "." | "./" if !folder.is_empty() => folder.to_owned(),
        typed if typed.starts_with('/') => typed.to_owned(),
        typed => format!("{}/{typed}", folder.trim_end_matches('/')),
    }
}

/// `None` if the path leads into no mount. `..` removes a name only where no link can be: in `start`, and outside of
/// all mounts, where nothing exists for a guest.
pub(super) fn settled(start: &str, typed: &str, mounts: &[Mount]) -> Option<String> {
    let whole = joined(start, typed);
    if whole.len() > PATH_BYTES_MAX {
        return None;
    }
    let names: Vec<Component<'_>> = Path::new(&whole).components().collect();
    let mut plain = Path::new(start).components().count();
    let mut place = PathBuf::new();
    let mut depth = 0_usize;
    for (at, name) in names.iter().enumerate() {
        match name {
            Component::ParentDir => {
                let is_plain = depth <= plain || mount_of(place.to_str()?, mounts).is_none();
                if !is_plain {
                    return None;
                }
                place.pop();
                depth = place.components().count();
                plain = plain.min(depth);
            }
            name => {
                place.push(name);
                depth += 1;
            }
        }
        let mount = mount_of(place.to_str()?, mounts).and_then(|at| mounts.get(at));
        let rest = names.get(at + 1..).unwrap_or_default();
        if let Some(mount) = mount
            && stays(
                depth.saturating_sub(Path::new(&mount.guest).components().count()),
                rest,
            )
        {
            let is_as_typed = place.components().eq(names.iter().take(at + 1).copied());
            return if is_as_typed {
                Some(whole)
            } else {
                place
                    .join(rest.iter().collect::<PathBuf>())
                    .to_str()
                    .map(str::to_owned)
            };
        }
    }
    None
}

/// `true` if `rest` never leaves the folder that is `depth` names up.
pub(super) fn stays(mut depth: usize, rest: &[Component<'_>]) -> bool {
    rest.iter().all(|name| {
        let is_up = *name == Component::ParentDir;
        let stays = !is_up || depth > 0;
        depth = if is_up {
            depth.saturating_sub(1)
        } else {
            depth + 1
        };
        stays
    })
}

/// Chooses the mount as the guest would, and follows links on the host below it. An unresolvable path counts as out of
/// reach, so that the caller cannot tell which it is.
pub(super) fn locate(typed: &str, capability: &Capability, steps: &mut usize) -> NamedPath {
    let guest = guest_path(typed, capability);
    let mount = mount_of(&guest, &capability.mounts);
    let full = match mount.and_then(|at| capability.mounts.get(at)) {
        Some(mount) => below(&guest, &mount.guest)
            .map(|rest| mount.host.join(rest))
            .unwrap_or_default(),
        None => PathBuf::from(&guest),
    };
    match ResolvedPath::within(&full, steps) {
        Ok(ResolvedPath {
            end: host, links, ..
        }) => NamedPath {
            typed: typed.to_owned(),
            host,
            links,
            guest,
            mount,
        },
        Err(_) => NamedPath {
            typed: typed.to_owned(),
            host: full,
            links: Vec::new(),
            guest,
            mount: None,
        },
    }
}

/// The longest mount wins, by whole components.
pub(crate) fn mount_of(guest: &str, mounts: &[Mount]) -> Option<usize> {
    let names = mounts.iter().enumerate().filter_map(|(at, mount)| {
        below(guest, &mount.guest).map(|_| (Path::new(&mount.guest).components().count(), at))
    });
    names.max_by_key(|(length, _)| *length).map(|(_, at)| at)
}

/// Compares whole components; `..` is not resolved.
pub(crate) fn below<'p>(guest: &'p str, folder: &str) -> Option<&'p Path> {
    Path::new(guest).strip_prefix(folder).ok()
}
