//! Narrows a call's capability to what its arguments name, which the specification does not define.

use std::path::{Path, PathBuf};

use toolcell_spec::{ErrorCode, Refusal};

use super::call_subjects::{NamedPath, STEPS_MAX, below, too_long};
use super::{Capability, Mount};

const PATHS_SHOWN: usize = 5;

pub(super) struct OutOfReach<'p> {
    pub(super) refusal: Refusal,
    pub(super) path: PathBuf,
    /// All paths in no granted folder, if that is the reason.
    pub(super) outside: Vec<&'p NamedPath>,
}

/// Keeps only folders in `paths`, and those of files in `paths`, with rights and guest paths unchanged.
pub(super) fn narrow<'p>(
    capability: &Capability,
    paths: &'p [NamedPath],
) -> Result<Capability, Box<OutOfReach<'p>>> {
    let mut narrowed = Capability {
        mounts: Vec::new(),
        ..capability.clone()
    };
    let mut steps = STEPS_MAX;
    let mut outside = Vec::new();
    for path in paths {
        let stopped = |refusal| {
            Box::new(OutOfReach {
                refusal,
                path: path.host.clone(),
                outside: Vec::new(),
            })
        };
        let refuse = |code, why: &str| stopped(Refusal::new(code, format!("{} {why}", path.typed)));
        let mount = path.mount.and_then(|at| capability.mounts.get(at));
        let Some(mount) = mount.filter(|mount| path.host.starts_with(&mount.host)) else {
            outside.push(path);
            continue;
        };
        if capability
            .denials
            .iter()
            .any(|denial| denial.read && path.touches(&denial.what))
        {
            return Err(refuse(ErrorCode::DeniedByRule, "is blocked by a deny rule"));
        }
        let folder = folder_of(path, mount, &mut steps);
        if steps == 0 {
            return Err(stopped(too_long()));
        }
        if let Some((host, guest)) = folder {
            let holds_it = Path::new(&path.guest).parent() == Some(&guest);
            if holds_it && !path.host.starts_with(&host) {
                let why = "is a link to a file in another folder; name the file itself";
                return Err(refuse(ErrorCode::PathLeadsElsewhere, why));
            }
            admit(&mut narrowed.mounts, capability, mount, host, guest);
        }
    }
    if let Some(first) = outside.first() {
        let names: Vec<&str> = outside
            .iter()
            .map(|path| path.typed.as_str())
            .take(PATHS_SHOWN)
            .collect();
        let (more, verb) = match outside.len() {
            1 => (String::new(), "leads"),
            count if count > names.len() => (format!(" and {} more", count - names.len()), "lead"),
            _ => (String::new(), "lead"),
        };
        let granted = capability.folders_in_words();
        let message = format!(
            "{}{more} {verb} outside of what was granted (granted: {granted})",
            names.join(", ")
        );
        let refusal = Refusal::new(ErrorCode::PathNotGranted, message);
        return Err(Box::new(OutOfReach {
            refusal,
            path: first.host.clone(),
            outside,
        }));
    }
    let denials = std::mem::take(&mut narrowed.denials);
    narrowed.keep_denials(&denials);
    // The only granted folder is the working directory of a caller elsewhere as long as all of it is there.
    if narrowed.cwd == narrowed.only && narrowed.cwd != narrowed.from && !narrowed.holds_cwd() {
        narrowed.cwd = None;
    }
    Ok(narrowed)
}

/// The folder to mount so that `path` can be opened or created: canonical, and as named. It takes components from
/// `steps`, because each of many missing paths below a deep folder is resolved from the mount on.
fn folder_of(path: &NamedPath, mount: &Mount, steps: &mut usize) -> Option<(PathBuf, PathBuf)> {
    let guest = Path::new(&path.guest);
    if path.host.is_dir() {
        return Some((path.host.clone(), guest.to_owned()));
    }
    let mut exists = |guest: &Path| {
        let rest = guest.strip_prefix(&mount.guest).ok()?;
        *steps = steps.saturating_sub(rest.components().count() + 1);
        if *steps == 0 {
            return None;
        }
        std::fs::canonicalize(mount.host.join(rest))
            .ok()
            .filter(|host| host.is_dir() && host.starts_with(&mount.host))
    };
    // A tool that may write can create the missing folders; one that only reads has nothing to open.
    let looked_at = if mount.writable { usize::MAX } else { 1 };
    let ancestors = guest.ancestors().skip(1);
    ancestors
        .take_while(|folder| folder.starts_with(&mount.guest))
        .take(looked_at)
        .find_map(|guest| Some((exists(guest)?, guest.to_owned())))
}

/// Mounts `host` under its own guest path and the arguments' path, both normalized and the latter also as written,
/// because guest libraries compare paths as text. Adds mounts below.
fn admit(mounts: &mut Vec<Mount>, wide: &Capability, mount: &Mount, host: PathBuf, guest: PathBuf) {
    let own = host
        .strip_prefix(&mount.host)
        .map(|rest| Path::new(&mount.guest).join(rest));
    let closed = |denial: &super::Denial| !denial.read && denial.what.covers(&host);
    let writable = mount.writable && !wide.denials.iter().any(closed);
    let typed = guest.to_str().map(str::to_owned);
    let names = own
        .iter()
        .chain([&guest])
        .filter_map(|name| name.to_str().map(tidy));
    for name in names.chain(typed) {
        let inner = wide
            .mounts
            .iter()
            .filter(|inner| below(&inner.guest, &name).is_some_and(|rest| rest != Path::new("")));
        let inner: Vec<Mount> = inner.cloned().collect();
        for added in [Mount {
            host: host.clone(),
            guest: name,
            writable,
        }]
        .into_iter()
        .chain(inner)
        {
            if !mounts.iter().any(|known| known.guest == added.guest) {
                mounts.push(added);
            }
        }
    }
}

/// Drops `.` and trailing slashes, because guest libraries compare paths as text.
fn tidy(name: &str) -> String {
    let tidy: PathBuf = Path::new(name).components().collect();
    tidy.to_string_lossy().into_owned()
}
