//! Watches the files that a server depends on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolcell::Home;
use toolcell_config::{ConfigLayer, ProjectFiles};
use toolcell_install::lock;
use toolcell_system::file_state::FileState;
use toolcell_system::pool::WATCHED;

use super::hooks;
use super::options::PolicyOptions;

/// Polling interval. A change counts once two polls see the same state, so that a file that is being written is not
/// read.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The watched files, and their last states. A state is taken before its file is read: one that is taken later would
/// hide a change between the two, and the server would keep what it read.
pub(crate) struct WatchedFiles(BTreeMap<PathBuf, Stamp>);

/// The state of a file; `None` if the file does not exist.
pub(crate) type Stamp = Option<FileState>;

impl WatchedFiles {
    /// Watches the paths of the configuration files, and the trusted list.
    pub(crate) fn new(home: &Home, policy: &PolicyOptions) -> Self {
        let mut watched = Self(BTreeMap::new());
        let here = std::env::current_dir().ok();
        let files = policy.places(home, here.as_deref());
        files
            .iter()
            .for_each(|file| watched.add(lock::beside(file)));
        if !policy.reads_none() {
            files.into_iter().for_each(|file| watched.add(file));
        }
        watched.add(home.trusted());
        watched
    }

    /// Watches the files of `layers`, and the components of their hooks.
    pub(crate) fn add_layers(&mut self, layers: &[ConfigLayer]) {
        for layer in layers {
            self.add(layer.file.path.clone());
            self.add(lock::beside(&layer.file.path));
            layer
                .file
                .hooks
                .iter()
                .for_each(|entry| self.add(hooks::path(layer, &entry.component)));
        }
    }

    /// Watches one more file, before it is read. The others are not looked at, because there may be thousands.
    pub(crate) fn add(&mut self, file: PathBuf) {
        let state = stamp(&file);
        self.add_stamped(file, state);
    }

    /// Watches a file that was in the state `state` before it was read. Of several states, the first one counts.
    pub(crate) fn add_stamped(&mut self, file: PathBuf, state: Stamp) {
        self.0.entry(file).or_insert(state);
    }

    /// Watches what `others` watches, too.
    pub(crate) fn add_all(&mut self, others: Self) {
        others
            .0
            .into_iter()
            .for_each(|(file, state)| self.add_stamped(file, state));
    }

    /// Waits until a file has changed and its state is stable. The new state then counts as seen. Returns what changed.
    pub(crate) async fn changed(&mut self) -> Vec<PathBuf> {
        let files: Arc<[PathBuf]> = self.0.keys().cloned().collect();
        let mut before = look(&files).await;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match look(&files).await {
                Some(now) if before.as_ref() == Some(&now) && !now.iter().eq(self.0.values()) => {
                    return self.saw(now);
                }
                now => before = now,
            }
        }
    }

    /// Takes the states of all files, in their order, for seen. Returns what changed.
    fn saw(&mut self, now: Vec<Stamp>) -> Vec<PathBuf> {
        let differ = self
            .0
            .iter_mut()
            .zip(now)
            .filter(|((_, seen), now)| **seen != *now);
        differ
            .map(|((file, seen), now)| {
                *seen = now;
                file.clone()
            })
            .collect()
    }
}

/// The states of `files` now, in their order; `None` if no thread is free for that. On a thread of its own,
/// because there may be thousands, and a disk that hangs must keep no worker from the calls.
async fn look(files: &Arc<[PathBuf]>) -> Option<Vec<Stamp>> {
    let files = Arc::clone(files);
    WATCHED
        .run(move || files.iter().map(|file| stamp(file)).collect())
        .await
        .ok()
}

/// The state of a file now.
pub(crate) fn stamp(file: &Path) -> Stamp {
    Some(FileState::from(&std::fs::metadata(file).ok()?))
}

impl PolicyOptions {
    /// The paths of the configuration files, whether they exist or not, and whether they are read or not: without them, the
    /// locks beside them still say what the names of installed tools stand for. `here` is the current folder.
    pub(crate) fn places(&self, home: &Home, here: Option<&Path>) -> Vec<PathBuf> {
        let user = home.user_file().ok();
        let others = match (self.named(), here) {
            (Some(named), _) => vec![named.to_owned()],
            (None, Some(here)) => {
                let files = ProjectFiles::find(here);
                let files = files.unwrap_or_else(|| ProjectFiles::in_folder(here));
                vec![files.shared, files.local]
            }
            (None, None) => Vec::new(),
        };
        user.into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_files_that_changed_are_named_and_the_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let [changed, same, made] =
            ["changed", "same", "made"].map(|name| folder.path().join(name));
        fs::write(&changed, "before").unwrap();
        fs::write(&same, "before").unwrap();
        let mut watched = WatchedFiles(BTreeMap::new());
        [&changed, &same, &made]
            .into_iter()
            .for_each(|file| watched.add(file.clone()));
        fs::write(&changed, "afterwards").unwrap();
        fs::write(&made, "new").unwrap();
        let named = timeout(Duration::from_secs(20), watched.changed())
            .await
            .unwrap();
        assert_eq!(named, [changed, made]);
    }

    #[tokio::test]
    async fn a_change_while_a_file_is_read_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool.wasm");
        fs::write(&file, "before").unwrap();
        let mut watched = WatchedFiles(BTreeMap::new());
        watched.add(file.clone());
        // It is read, and changes. Then it is named once more.
        fs::write(&file, "afterwards").unwrap();
        watched.add(file);
        timeout(Duration::from_secs(20), watched.changed())
            .await
            .unwrap();
        assert!(timeout(LOOK_EVERY * 5, watched.changed()).await.is_err());
    }
}
