//! Denied paths in the mounts of a call, and other hard links to denied files.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use tokio::sync::OnceCell;
use toolcell_policy::{Denial, PathPattern};
use toolcell_system::pool::Pool;
use toolcell_system::resolved_path::ResolvedPath;

/// About a second's work for one call. If there are more names, no file with several hard links is opened.
const CLOSED_NAMES_MAX: usize = 100_000;

/// A folder on a slow disk blocks one of these threads, and nothing else.
static WALKS: LazyLock<io::Result<Pool>> =
    LazyLock::new(|| Pool::new("toolcell-walk", 4, 256, 512 << 10));

#[derive(Debug)]
pub(super) struct DeniedPaths {
    paths: Vec<Denial>,
    kernel: Vec<PathBuf>,
    /// Searched for at the first such file, because most calls never open one.
    twins: OnceCell<HardLinks>,
    /// A file was refused because its other names could not be determined.
    undecided: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DenialScope {
    ForWriting,
    Entirely,
}

impl DeniedPaths {
    pub(super) fn new(paths: Vec<Denial>, kernel: Vec<PathBuf>) -> Self {
        Self {
            paths,
            kernel,
            twins: OnceCell::new(),
            undecided: AtomicBool::new(false),
        }
    }

    /// Not all names of a file with several hard links could be searched for.
    pub(super) fn undecided(&self) -> Option<&str> {
        let twins = self
            .twins
            .get()
            .filter(|_| self.undecided.load(Ordering::Relaxed))?;
        twins.unknown.as_deref()
    }

    pub(super) fn is_empty(&self) -> bool {
        (self.paths.is_empty() || !guard!("denials")) && self.kernel.is_empty()
    }

    /// `write` also applies denials of writing.
    pub(super) fn cover(&self, host: &Path, write: bool) -> bool {
        self.paths
            .iter()
            .any(|denial| (denial.read || write) && denial.what.covers(host))
            || self.kernel.iter().any(|place| host.starts_with(place))
    }

    /// One file can be mounted in several places, under names that no denial has. The denied files are looked at each
    /// time, because others may have taken their places.
    pub(super) fn of_same_file(&self, identity: (u64, u64), write: bool) -> Option<DenialScope> {
        let is_same = |path: &Path| {
            let found = path.symlink_metadata().ok().filter(Metadata::is_file);
            found.is_some_and(|found| (found.dev(), found.ino()) == identity)
        };
        let matter = self
            .paths
            .iter()
            .filter(|denial| (denial.read || write) && guard!("same_files"));
        let same = matter.filter(|denial| denial.what.exact().is_some_and(is_same));
        same.map(|denial| {
            if denial.read {
                DenialScope::Entirely
            } else {
                DenialScope::ForWriting
            }
        })
        .max()
    }

    /// Covers also a link that is denied by its own name: a denial of `**/.env` covers a link `.env`, whatever its
    /// target.
    pub(super) fn close(&self, resolved: &ResolvedPath, write: bool) -> bool {
        let by_a_link = || resolved.links.iter().any(|link| self.cover(link, write));
        self.cover(&resolved.end, write) || (guard!("denied_names") && by_a_link())
    }

    pub(super) fn hold_in_place(&self, host: &Path) -> bool {
        self.cover(host, true)
            || self
                .paths
                .iter()
                .any(|denial| denial.what.prefix().starts_with(host))
            || self.kernel.iter().any(|place| place.starts_with(host))
    }

    pub(super) fn show(&self, host: &Path) -> bool {
        let is_seen = host
            .parent()
            .is_some_and(|parent| !self.cover(parent, false));
        is_seen && self.cover(host, true)
    }

    pub(super) fn opened_by_move(&self, from: &Path, to: &Path) -> bool {
        self.paths
            .iter()
            .any(|denial| !denial.what.survives_move(from, to))
    }

    /// How far an open file is denied because of its other names.
    pub(super) async fn of_other_names(&self, file: &Metadata) -> Option<DenialScope> {
        if !file.is_file() || file.nlink() < 2 || !guard!("hard_links") {
            return None;
        }
        let closed = self
            .twins
            .get_or_init(|| HardLinks::look_for(self.paths.clone()))
            .await;
        if closed.unknown.is_some() {
            self.undecided.store(true, Ordering::Relaxed);
        }
        closed.closed(file)
    }
}

#[derive(Debug, Default)]
struct HardLinks {
    entirely: HashSet<(u64, u64)>,
    for_writing: HashSet<(u64, u64)>,
    /// Why the search is incomplete, if it is.
    unknown: Option<String>,
}

/// Stops a walk when its call ends.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl HardLinks {
    async fn look_for(denials: Vec<Denial>) -> Self {
        let stop = StopOnDrop(Arc::default());
        let walk = DenialSearch {
            left: CLOSED_NAMES_MAX,
            stopped: Arc::clone(&stop.0),
        };
        let found = match &*WALKS {
            Ok(pool) => pool
                .run(move || walk.through(&denials))
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        found.unwrap_or_else(|why| Self {
            unknown: Some(why),
            ..Self::default()
        })
    }

    fn closed(&self, file: &Metadata) -> Option<DenialScope> {
        let id = (file.dev(), file.ino());
        if self.unknown.is_some() || self.entirely.contains(&id) {
            return Some(DenialScope::Entirely);
        }
        self.for_writing
            .contains(&id)
            .then_some(DenialScope::ForWriting)
    }
}

/// A guest cannot add denied paths meanwhile, because it cannot link to a denied file.
struct DenialSearch {
    left: usize,
    stopped: Arc<AtomicBool>,
}

impl DenialSearch {
    fn through(mut self, denials: &[Denial]) -> HardLinks {
        let mut found = HardLinks::default();
        for denial in denials
            .iter()
            .filter(|denial| denial.what.covers_anything())
        {
            let into = if denial.read {
                &mut found.entirely
            } else {
                &mut found.for_writing
            };
            if let Err(error) = self.collect(&denial.what, into) {
                found.unknown = Some(format!("the denial of {}: {error}", denial.what.text()));
                break;
            }
        }
        found
    }

    /// Does not follow symbolic links. Fails if something cannot be read, if `left` is used up, or if the call is over.
    fn collect(&mut self, closed: &PathPattern, into: &mut HashSet<(u64, u64)>) -> io::Result<()> {
        let too_many = || {
            io::Error::other(format!(
                "more than {CLOSED_NAMES_MAX} names would have to be looked at"
            ))
        };
        let mut waiting = vec![closed.prefix().to_owned()];
        while let Some(path) = waiting.pop() {
            self.left = self.left.checked_sub(1).ok_or_else(too_many)?;
            if self.stopped.load(Ordering::Relaxed) {
                return Err(ErrorKind::Interrupted.into());
            }
            let told = |error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            };
            let metadata = match path.symlink_metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                metadata => metadata.map_err(told)?,
            };
            if metadata.is_dir() {
                for entry in std::fs::read_dir(&path).map_err(told)? {
                    if waiting.len() >= self.left {
                        return Err(too_many());
                    }
                    waiting.push(entry.map_err(told)?.path());
                }
            } else if metadata.is_file() && metadata.nlink() > 1 && closed.covers(&path) {
                into.insert((metadata.dev(), metadata.ino()));
            }
        }
        Ok(())
    }
}

/// Asks the kernel. Fails on systems other than Linux, so that everything counts as denied there.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use toolcell_policy::{Grants, HookPermit};

    #[test]
    fn a_walk_ends_with_its_call() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("closed")).unwrap();
        let mut grants = Grants::default();
        grants.allow_read(root.to_str().unwrap()).unwrap();
        grants
            .deny_read(root.join("closed").to_str().unwrap())
            .unwrap();
        let permit = HookPermit::standing(&grants, &[], Duration::from_secs(1)).unwrap();
        let denials = &permit.capability().denials;
        assert_eq!(denials.len(), 1);
        let walk = |stopped| {
            DenialSearch {
                left: 1_000,
                stopped: Arc::new(AtomicBool::new(stopped)),
            }
            .through(denials)
        };
        assert_eq!(walk(false).unknown, None);
        assert!(walk(true).unknown.is_some());
    }
}
