//! Watches the files that a server depends on.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{self, Home};
use crate::host::Layer;

use super::hooks;
use super::options::PolicyOptions;

/// Polling interval. A change counts once two polls see the same state, so that a file that is being written is not
/// read.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The watched files, and their last state.
pub(super) struct Watched {
    files: BTreeSet<PathBuf>,
    seen: Vec<Stamp>,
}

/// The state of a file: device, inode, size, and times; `None` if the file does not exist.
type Stamp = Option<(u64, u64, u64, i64, i64, i64, i64)>;

impl Watched {
    /// Watches the configuration files, the paths where others could appear, the trusted list, and the hooks'
    /// components.
    pub(super) fn new(home: &Home, policy: &PolicyOptions, layers: &[Layer]) -> Self {
        let mut files: BTreeSet<PathBuf> = layers.iter().map(|layer| layer.file.path.clone()).collect();
        files.extend(policy.places(home));
        files.insert(home.trusted());
        for layer in layers {
            files.extend(layer.file.hooks.iter().map(|entry| hooks::path(layer, &entry.component)));
        }
        let mut watched = Self { files, seen: Vec::new() };
        watched.seen = watched.look();
        watched
    }

    pub(super) fn add(&mut self, file: PathBuf) {
        self.files.insert(file);
        self.seen = self.look();
    }

    /// Waits until a file has changed and its state is stable. The new state then counts as seen.
    pub(super) async fn changed(&mut self) {
        let mut before = self.look();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = self.look();
            if now == before && now != self.seen {
                self.seen = now;
                return;
            }
            before = now;
        }
    }

    fn look(&self) -> Vec<Stamp> {
        self.files.iter().map(|file| stamp(file)).collect()
    }
}

fn stamp(file: &Path) -> Stamp {
    let state = std::fs::metadata(file).ok()?;
    let (device, inode, size) = (state.dev(), state.ino(), state.size());
    Some((device, inode, size, state.mtime(), state.mtime_nsec(), state.ctime(), state.ctime_nsec()))
}

impl PolicyOptions {
    /// The paths of the configuration files, whether they exist or not.
    fn places(&self, home: &Home) -> Vec<PathBuf> {
        if self.reads_none() {
            return Vec::new();
        }
        let here = std::env::current_dir().ok();
        let project = here.map(|here| config::project_file(&here).unwrap_or_else(|| here.join(config::FILE_NAME)));
        let named = self.named().map(Path::to_owned);
        config::user_file(home).ok().into_iter().chain(named.or(project)).collect()
    }
}
