//! `toolcell build --watch`: waits for a change of a project's sources.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::language;
use super::record;
use super::sources::{SourceListing, SourceScope};

/// A change counts once two polls see the same sources, so that half an edit is not built.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub struct SourceWatch {
    scope: SourceScope,
    seen: SourceListing,
}

impl SourceWatch {
    pub fn now(dir: &Path, records: &Path) -> Result<Self> {
        let dir = std::fs::canonicalize(dir)
            .with_context(|| format!("cannot find the folder {}", dir.display()))?;
        let earlier = record::read(records, &dir);
        let known = earlier.map(|record| record.sources).unwrap_or_default();
        // After a build that failed, a file that none has read yet can be the missing one.
        let scope = language::scope(&dir);
        let seen = SourceListing::read(&scope, &known)?;
        Ok(Self { scope, seen })
    }

    /// A build may write some sources itself, such as a lock file, and they must not be the reason of another build.
    pub fn built(dir: &Path, records: &Path) -> Option<Self> {
        let record = record::read(records, &std::fs::canonicalize(dir).ok()?)?;
        Some(Self {
            scope: record.scope,
            seen: record.sources,
        })
    }

    /// Waits until the sources differ, and are not being written. Says what happened.
    pub fn wait(&mut self) -> (PathBuf, &'static str) {
        let mut before: Option<SourceListing> = None;
        loop {
            // Fails while files come and go: then the next look tells.
            let now = SourceListing::read(&self.scope, before.as_ref().unwrap_or(&self.seen)).ok();
            if let Some(now) = now.as_ref().filter(|now| {
                before
                    .as_ref()
                    .is_some_and(|before| now.changes(before).is_empty())
            }) && let Some(change) = now.changes(&self.seen).into_iter().next()
            {
                self.seen = now.clone();
                return change;
            }
            before = now.or(before);
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_named_once_and_what_a_build_writes_is_none() {
        let project = tempfile::tempdir().unwrap();
        let records = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = project.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write("Cargo.toml", "[package]");
        write("src/lib.rs", "before");
        assert!(SourceWatch::built(project.path(), records.path()).is_none());
        let mut watch = SourceWatch::now(project.path(), records.path()).unwrap();
        write("target/toolcell/made.wasm", "made");
        write("src/lib.rs", "afterwards");
        let (path, what) = watch.wait();
        assert!(
            path.ends_with("src/lib.rs") && what == "has changed",
            "{path:?} {what}"
        );
        std::fs::remove_file(project.path().join("src/lib.rs")).unwrap();
        assert_eq!(watch.wait().1, "was removed");
    }
}
