//! Watches the files that a server depends on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolcell::{Grants, Home};
use toolcell_config::{ConfigLayer, ProjectFiles};
use toolcell_install::lock;
use toolcell_system::file_state::FileState;
use toolcell_system::pool::WATCHED;

use super::hooks;
use super::options::PolicyOptions;

/// A change counts once two polls see the same state, so that a file that is being written is not read.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A state is taken before its file is read: one that is taken later would hide a change between the two, and the
/// server would keep what it read.
pub(crate) struct WatchedFiles(BTreeMap<PathBuf, Stamp>);

/// `None` if the file does not exist.
pub(crate) type Stamp = Option<FileState>;

impl WatchedFiles {
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

    /// Includes the components of hooks.
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

    /// A secret that is set later makes tools available, and so does a folder that was missing when the grants were read.
    pub(crate) fn add_grants(&mut self, home: &Home, grants: &Grants) {
        if !grants.secrets.is_empty() {
            self.add(home.secrets());
        }
        for folder in &grants.missing {
            self.add_stamped(folder.host.clone(), None);
        }
    }

    /// Must come before the file is read. The others are not looked at, because there may be thousands.
    pub(crate) fn add(&mut self, file: PathBuf) {
        let state = stamp(&file);
        self.add_stamped(file, state);
    }

    /// `state` is from before the file was read. The first of several states counts.
    pub(crate) fn add_stamped(&mut self, file: PathBuf, state: Stamp) {
        self.0.entry(file).or_insert(state);
    }

    pub(crate) fn add_all(&mut self, others: Self) {
        others
            .0
            .into_iter()
            .for_each(|(file, state)| self.add_stamped(file, state));
    }

    /// Waits until the changed state is stable.
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

/// A thread of its own, because there may be thousands of files, and a disk that hangs must keep no worker from the
/// calls.
async fn look(files: &Arc<[PathBuf]>) -> Option<Vec<Stamp>> {
    let files = Arc::clone(files);
    WATCHED
        .run(move || files.iter().map(|file| stamp(file)).collect())
        .await
        .ok()
}

pub(crate) fn stamp(file: &Path) -> Stamp {
    Some(FileState::from(&std::fs::metadata(file).ok()?))
}

impl PolicyOptions {
    /// Includes missing and unread files: the locks beside them still name installed tools.
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
