//! Resolves a path name by name and records each link, so that callers can judge who may change it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};

pub const LINKS_MAX: usize = 40;
/// Names looked up per path, including link targets; each costs a system call.
const STEPS_MAX: usize = 4_096;

/// A path continues with `..` from a folder that does not exist. The kernel does not open such a path.
#[derive(Debug, thiserror::Error)]
#[error("{}: the path may not lead through a missing folder with `..`", .0.display())]
pub struct ThroughMissing(PathBuf);

/// A path's end and the places that determine it: a process that can change one of them can redirect the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedPath {
    /// Absolute and without links as far as it exists. Open it without following links: another process may put one
    /// there at any moment.
    pub end: PathBuf,
    pub links: Vec<PathBuf>,
    /// Folders left again through `..`.
    pub left: Vec<PathBuf>,
}

enum PathStep {
    Root,
    Up,
    Name(OsString),
}

impl ResolvedPath {
    /// Follows the absolute path `full`, which need not exist.
    ///
    /// # Errors
    ///
    /// A folder that may not be entered (an [`std::io::Error`]), `..` after a missing folder ([`ThroughMissing`]), a
    /// loop of links, and more than 4,096 names.
    pub fn resolve(full: &Path) -> anyhow::Result<Self> {
        let mut steps = STEPS_MAX;
        Self::within(full, &mut steps)
    }

    /// As [`Self::resolve`], with lookups counted against `steps`, which paths share. Fails also for more names than
    /// `steps`, which is 0 then.
    pub fn within(full: &Path, steps: &mut usize) -> anyhow::Result<Self> {
        let mut resolved = Self::default();
        resolved.walk(full, steps)?;
        resolved.end = spelled(resolved.end);
        Ok(resolved)
    }

    /// Where [`Self::resolve`] fails, `end` is the impassable place.
    pub fn so_far(full: &Path) -> Self {
        let mut resolved = Self::default();
        let mut steps = STEPS_MAX;
        // The error is ignored, because it only says why the path ends where it ends.
        let _ = resolved.walk(full, &mut steps);
        resolved.end = spelled(resolved.end);
        resolved
    }

    fn walk(&mut self, full: &Path, budget: &mut usize) -> anyhow::Result<()> {
        let mut ahead = steps(full);
        let mut exists = true;
        // A set, because a list would be searched once for each `..`.
        let mut left = HashSet::new();
        for _ in 0..STEPS_MAX.min(*budget) {
            *budget = budget.saturating_sub(1);
            // 40 links of 4 KiB each would put 80,000 names here.
            if ahead.len() > STEPS_MAX {
                break;
            }
            match ahead.pop() {
                None => return Ok(()),
                Some(PathStep::Root) => self.end = PathBuf::from("/"),
                Some(PathStep::Up) if !exists => return Err(ThroughMissing(full.to_owned()).into()),
                Some(PathStep::Up) => {
                    let folder = self.end.clone();
                    if self.end.pop() && left.insert(folder.clone()) {
                        self.left.push(folder);
                    }
                }
                Some(PathStep::Name(name)) => {
                    self.end.push(name);
                    exists = exists
                        && self
                            .follow(&mut ahead)
                            .with_context(|| format!("cannot find {}", full.display()))?;
                }
            }
        }
        bail!(
            "{}: too many names, those in links included",
            full.display()
        )
    }

    fn follow(&mut self, ahead: &mut Vec<PathStep>) -> anyhow::Result<bool> {
        match std::fs::read_link(&self.end) {
            Ok(target) => {
                if self.links.len() == LINKS_MAX {
                    bail!("too many links");
                }
                let link = std::mem::take(&mut self.end);
                self.end = link.parent().unwrap_or(Path::new("/")).to_owned();
                self.links.push(spelled(link));
                ahead.extend(steps(&target));
                Ok(true)
            }
            // Not a link.
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(true),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(false)
            }
            Err(error) => {
                Err(error).with_context(|| format!("cannot inspect {}", self.end.display()))
            }
        }
    }
}

/// The last part comes first, at most [`STEPS_MAX`] + 1, which is more than can be followed.
fn steps(path: &Path) -> Vec<PathStep> {
    let steps = path.components().rev().filter_map(|part| match part {
        Component::RootDir => Some(PathStep::Root),
        Component::ParentDir => Some(PathStep::Up),
        Component::Normal(name) => Some(PathStep::Name(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    });
    steps.take(STEPS_MAX + 1).collect()
}

/// As the file system spells it: beside Linux, upper and lower case can name the same file.
fn spelled(path: PathBuf) -> PathBuf {
    if cfg!(target_os = "linux") {
        return path;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if path.is_symlink() => parent
            .canonicalize()
            .map(|parent| parent.join(name))
            .unwrap_or(path),
        _ => path.canonicalize().unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::{ResolvedPath, STEPS_MAX, ThroughMissing, steps};
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    #[test]
    fn every_link_on_the_way_has_a_name_and_so_has_every_folder_that_is_left() {
        let root = std::env::temp_dir()
            .canonicalize()
            .unwrap()
            .join(format!("toolcell-resolved-path-{}", std::process::id()));
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        std::fs::write(root.join("real/deep/file"), "").unwrap();
        symlink("real", root.join("one")).unwrap();
        symlink(root.join("one/deep"), root.join("two")).unwrap();
        symlink("../deep/file", root.join("real/deep/three")).unwrap();
        symlink("missing/x", root.join("nowhere")).unwrap();
        let names = |paths: &[PathBuf]| {
            paths
                .iter()
                .map(|path| path.strip_prefix(&root).unwrap().display().to_string())
                .collect::<Vec<_>>()
        };
        let found = |path: &str| {
            let resolved = ResolvedPath::resolve(&root.join(path)).unwrap();
            (
                names(&[resolved.end]).remove(0),
                names(&resolved.links),
                names(&resolved.left),
            )
        };
        let no: Vec<String> = Vec::new();
        assert_eq!(
            found("real/deep/file"),
            ("real/deep/file".into(), no.clone(), no.clone())
        );
        let (end, links, left) = found("two/three");
        assert_eq!(
            (end.as_str(), left),
            ("real/deep/file", vec!["real/deep".to_owned()])
        );
        assert_eq!(links, ["two", "one", "real/deep/three"]);
        assert_eq!(
            found("one/not/there"),
            ("real/not/there".into(), vec!["one".into()], no.clone())
        );
        assert_eq!(
            found("nowhere"),
            ("missing/x".into(), vec!["nowhere".into()], no)
        );
        assert_eq!(
            found("one/../real/deep"),
            ("real/deep".into(), vec!["one".into()], vec!["real".into()])
        );
        assert!(
            ResolvedPath::resolve(&root.join("missing/../real"))
                .unwrap_err()
                .is::<ThroughMissing>()
        );
        symlink("round", root.join("round")).unwrap();
        assert!(ResolvedPath::resolve(&root.join("round")).is_err());
        let long = "deep/../".repeat(5_000);
        assert!(ResolvedPath::resolve(&root.join("real").join(long)).is_err());
        // A loop of links ends at one of them, with the names of all.
        symlink("there", root.join("back")).unwrap();
        symlink("back", root.join("there")).unwrap();
        let resolved = ResolvedPath::so_far(&root.join("there/x"));
        assert!(
            resolved.links.contains(&root.join("back"))
                && resolved.links.contains(&root.join("there"))
        );
        assert!([root.join("back"), root.join("there")].contains(&resolved.end));
        let depth = root.components().count();
        let mut steps = 2 * depth + 5;
        assert!(
            ResolvedPath::within(&root.join("real"), &mut steps).is_ok()
                && ResolvedPath::within(&root, &mut steps).is_ok()
        );
        assert!(ResolvedPath::within(&root, &mut steps).is_err());
        assert_eq!(steps, 0);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn of_a_path_with_too_many_names_no_more_are_kept_than_are_looked_at() {
        let names = |count: usize| "n/".repeat(count);
        assert_eq!(steps(Path::new(&names(STEPS_MAX))).len(), STEPS_MAX);
        assert_eq!(steps(Path::new(&names(1 << 20))).len(), STEPS_MAX + 1);
        assert!(ResolvedPath::resolve(Path::new(&format!("/{}", names(1 << 20)))).is_err());
    }
}
