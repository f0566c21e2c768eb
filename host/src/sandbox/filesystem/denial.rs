//! Where a path leads on the host, and whether that is closed.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use tokio::sync::OnceCell;

use crate::policy::{Denial, PathPattern};

/// Links that lead from one to the next: no more than Linux itself follows.
const LINKS_MAX: u32 = 40;
/// Files in closed folders that are looked at for further names. Where there are more, no file that has several names is
/// opened at all.
const CLOSED_FILES_MAX: usize = 200_000;

/// What stays closed in the mounted folders of one call.
#[derive(Debug)]
pub(super) struct Denials {
    paths: Vec<Denial>,
    /// Made at the first file with several names: most calls never see one.
    twins: OnceCell<Twins>,
}

/// How far a file is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Closed {
    ForWriting,
    Entirely,
}

impl Denials {
    pub(super) fn new(paths: Vec<Denial>) -> Self {
        Self { paths, twins: OnceCell::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty() || !guard!("denials")
    }

    /// Whether `host` is closed; `write` also heeds what is closed for writing only.
    pub(super) fn cover(&self, host: &Path, write: bool) -> bool {
        self.paths.iter().any(|denial| (denial.read || write) && denial.what.covers(host))
    }

    /// Whether moving or replacing `host` would move or replace something closed.
    pub(super) fn hold_in_place(&self, host: &Path) -> bool {
        self.cover(host, true) || self.paths.iter().any(|denial| denial.what.prefix().starts_with(host))
    }

    /// Whether `host` is closed itself, but its name is to be seen in a folder that is open.
    pub(super) fn show(&self, host: &Path) -> bool {
        let is_seen = host.parent().is_some_and(|parent| !self.cover(parent, false));
        is_seen && self.cover(host, true)
    }

    /// Whether something that is closed at `from` would be open at `to`.
    pub(super) fn opened_by_move(&self, from: &Path, to: &Path) -> bool {
        self.paths.iter().any(|denial| !denial.what.survives_move(from, to))
    }

    /// How far an open file is closed because one of its other names is.
    pub(super) async fn of_other_names(&self, file: &Metadata) -> Option<Closed> {
        if !file.is_file() || file.nlink() < 2 || !guard!("hard_links") {
            return None;
        }
        let paths = self.paths.clone();
        let find = || async {
            tokio::task::spawn_blocking(move || Twins::find(&paths)).await.unwrap_or_else(|_| Twins::unknown())
        };
        self.twins.get_or_init(find).await.closed(file)
    }
}

/// The closed files that have a second name somewhere, by device and inode.
#[derive(Debug)]
struct Twins {
    entirely: HashSet<(u64, u64)>,
    for_writing: HashSet<(u64, u64)>,
    /// Not all of them could be looked at.
    unknown: bool,
}

impl Twins {
    fn unknown() -> Self {
        Self { entirely: HashSet::new(), for_writing: HashSet::new(), unknown: true }
    }

    /// Looks through everything that is closed. A guest cannot add to it: it makes no links to what is closed.
    fn find(denials: &[Denial]) -> Self {
        let mut found = Self { unknown: false, ..Self::unknown() };
        let mut left = CLOSED_FILES_MAX;
        for denial in denials {
            let into = if denial.read { &mut found.entirely } else { &mut found.for_writing };
            if collect(&denial.what, into, &mut left).is_err() {
                found.unknown = true;
            }
        }
        found
    }

    fn closed(&self, file: &Metadata) -> Option<Closed> {
        let id = (file.dev(), file.ino());
        if self.unknown || self.entirely.contains(&id) {
            return Some(Closed::Entirely);
        }
        self.for_writing.contains(&id).then_some(Closed::ForWriting)
    }
}

/// Adds the files with several names that `closed` covers, without following links. Fails when something cannot be read,
/// or `left` is used up.
fn collect(closed: &PathPattern, into: &mut HashSet<(u64, u64)>, left: &mut usize) -> io::Result<()> {
    let mut waiting = vec![closed.prefix().to_owned()];
    while let Some(path) = waiting.pop() {
        *left = left.checked_sub(1).ok_or(ErrorKind::QuotaExceeded)?;
        let metadata = match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        if metadata.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                if waiting.len() > *left {
                    return Err(ErrorKind::QuotaExceeded.into());
                }
                waiting.push(entry?.path());
            }
        } else if metadata.is_file() && metadata.nlink() > 1 && closed.covers(&path) {
            into.insert((metadata.dev(), metadata.ino()));
        }
    }
    Ok(())
}

/// The path of an open file, from the kernel. Elsewhere than on Linux nobody tells, and so everything is closed.
pub(super) fn real_path(file: &File) -> io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        Err(ErrorKind::Unsupported.into())
    }
}

/// Follows the links of `path`, the last one only if `follow`; what does not exist yet stays as it is named.
pub(super) fn resolve(path: &Path, follow: bool) -> io::Result<PathBuf> {
    let (mut path, last) = match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) if !follow => (parent.to_owned(), Some(name)),
        _ => (path.to_owned(), None),
    };
    for _ in 0..=LINKS_MAX {
        let (known, rest) = split(&path)?;
        let mut names = rest.components();
        let link = names.next().and_then(|name| std::fs::read_link(known.join(name)).ok());
        let Some(target) = link else { return Ok(known.iter().chain(rest).chain(last).collect()) };
        // A link to what is not there: a file that is made through it is made where it points.
        path = known.join(target).join(names.as_path());
    }
    Err(io::Error::other("too many links"))
}

/// The part of `path` that exists, with its links followed, and the rest.
fn split(path: &Path) -> io::Result<(PathBuf, &Path)> {
    let mut known = path;
    loop {
        match (std::fs::canonicalize(known), known.parent()) {
            (Ok(found), _) => return Ok((found, path.strip_prefix(known).unwrap_or(Path::new("")))),
            (Err(error), Some(parent)) if error.kind() == ErrorKind::NotFound && known.file_name().is_some() => {
                known = parent;
            }
            (Err(error), _) => return Err(error),
        }
    }
}
