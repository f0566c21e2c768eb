//! Watches the files that a server depends on.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toolcell::Home;

use crate::config;
use crate::config::Layer;

use super::hooks;
use super::options::PolicyOptions;

/// Polling interval. A change counts once two polls see the same state, so that a file that is being written is not
/// read.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The watched files, and their last states.
pub(super) struct Watched(BTreeMap<PathBuf, Stamp>);

/// The state of a file: device, inode, size, and times; `None` if the file does not exist.
type Stamp = Option<(u64, u64, u64, i64, i64, i64, i64)>;

impl Watched {
    /// Watches the configuration files, the paths where others could appear, the trusted list, and the hooks'
    /// components.
    pub(super) fn new(home: &Home, policy: &PolicyOptions, layers: &[Layer]) -> Self {
        let mut watched = Self(BTreeMap::new());
        layers.iter().for_each(|layer| watched.add(layer.file.path.clone()));
        policy.places(home).into_iter().for_each(|file| watched.add(file));
        watched.add(home.trusted());
        for layer in layers {
            layer.file.hooks.iter().for_each(|entry| watched.add(hooks::path(layer, &entry.component)));
        }
        watched
    }

    /// Watches one more file. The others are not looked at, because there may be thousands.
    pub(super) fn add(&mut self, file: PathBuf) {
        let state = stamp(&file);
        self.0.insert(file, state);
    }

    /// Waits until a file has changed and its state is stable. The new state then counts as seen.
    pub(super) async fn changed(&mut self) {
        let mut before = self.look();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = self.look();
            if now == before && !now.iter().eq(self.0.values()) {
                self.0.values_mut().zip(now).for_each(|(seen, now)| *seen = now);
                return;
            }
            before = now;
        }
    }

    /// The states of all files now, in their order.
    fn look(&self) -> Vec<Stamp> {
        self.0.keys().map(|file| stamp(file)).collect()
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
        let project = here.map(|here| config::project_file(&here).unwrap_or_else(|| here.join(toolcell::FILE_NAME)));
        let named = self.named().map(Path::to_owned);
        home.user_file().ok().into_iter().chain(named.or(project)).collect()
    }
}
