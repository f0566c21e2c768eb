//! What a component was built from, kept beside it, so that a later call knows without cargo and without a toolchain
//! whether it is still the component of these sources.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

const FORMAT: u32 = 1;
const FILE: &str = "stamp.json";

/// A file as `stat` shows it; a file that is not there has neither. Cheap, and what make and cargo go by, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Nanoseconds since 1970.
    modified: Option<u64>,
    bytes: Option<u64>,
}

impl Mark {
    pub(super) fn of(file: &Path) -> Self {
        match std::fs::metadata(file) {
            Ok(meta) => Mark { modified: Some(meta.modified().map_or(0, nanos)), bytes: Some(meta.len()) },
            Err(_) => Mark { modified: None, bytes: None },
        }
    }

    /// Seen while it may still have changed: matches nothing that is there.
    fn uncertain() -> Self {
        Mark { modified: Some(0), bytes: None }
    }
}

pub(super) fn nanos(time: SystemTime) -> u64 {
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Debug, Serialize, Deserialize)]
struct Input {
    /// Relative to the tool's folder when it lies below it, so that a copied folder stays fresh.
    path: PathBuf,
    #[serde(flatten)]
    mark: Mark,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stamp {
    format: u32,
    /// The component's file name, beside the stamp.
    component: PathBuf,
    #[serde(flatten)]
    mark: Mark,
    /// The memory that this component needs at start: the next build begins with it.
    pub(super) initial_memory: u64,
    /// The copy of the SDK that stood in for the registry's.
    sdk: Option<PathBuf>,
    inputs: Vec<Input>,
}

/// Whether the last component still holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The component of these very sources.
    Fresh(PathBuf),
    /// Why it must be built.
    Stale(String),
}

/// Where a tool's component and its stamp lie. Ignored by git as `target` is, and by a file of its own.
pub(super) fn folder(dir: &Path) -> PathBuf {
    dir.join("target").join("toolcell")
}

/// Whether the tool in `dir` must be built before it can be called.
pub fn is_stale(dir: &Path, sdk: Option<&Path>) -> bool {
    matches!(freshness(dir, sdk), Freshness::Stale(_))
}

/// A read of one small file and a `stat` for each source: a fraction of a millisecond. `sdk` is the copy of the SDK
/// that a build would use now; with `None` it does not matter which one the last build used.
pub fn freshness(dir: &Path, sdk: Option<&Path>) -> Freshness {
    match check(dir, sdk) {
        Ok(component) => Freshness::Fresh(component),
        Err(why) => Freshness::Stale(why),
    }
}

fn check(dir: &Path, sdk: Option<&Path>) -> std::result::Result<PathBuf, String> {
    let stamp = read(dir).ok_or("it was never built")?;
    let component = folder(dir).join(&stamp.component);
    if Mark::of(&component) != stamp.mark {
        return Err("the component is not the one that was built".to_owned());
    }
    if let (Some(then), Some(now)) = (&stamp.sdk, sdk)
        && then != now
    {
        return Err("it was built with another SDK".to_owned());
    }
    // `join` leaves an absolute path as it is.
    match stamp.inputs.iter().find(|input| Mark::of(&dir.join(&input.path)) != input.mark) {
        Some(input) => Err(format!("{} has changed", input.path.display())),
        None => Ok(component),
    }
}

/// A stamp of another version of toolcell counts as none.
pub(super) fn read(dir: &Path) -> Option<Stamp> {
    let text = std::fs::read(folder(dir).join(FILE)).ok()?;
    let stamp: Stamp = serde_json::from_slice(&text).ok()?;
    (stamp.format == FORMAT).then_some(stamp)
}

/// Held by whoever builds the tool in `dir`.
pub(super) fn lock(dir: &Path) -> Result<fd_lock::RwLock<File>> {
    let folder = make_folder(dir)?;
    let file = File::create(folder.join("lock")).with_context(|| format!("write into {}", folder.display()))?;
    Ok(fd_lock::RwLock::new(file))
}

fn make_folder(dir: &Path) -> Result<PathBuf> {
    let folder = folder(dir);
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let ignore = folder.join(".gitignore");
    if !ignore.exists() {
        // In a workspace this folder is not the `target` that git was told to ignore.
        std::fs::write(&ignore, "*\n").with_context(|| format!("write {}", ignore.display()))?;
    }
    Ok(folder)
}

/// What `write` puts in place.
pub(super) struct Made<'a> {
    /// As cargo left it.
    pub(super) wasm: &'a Path,
    /// Its name in the tool's folder.
    pub(super) name: &'a str,
    pub(super) inputs: Vec<PathBuf>,
    pub(super) initial_memory: u64,
    pub(super) sdk: Option<&'a Path>,
    /// What changed after this moment may not be in the component.
    pub(super) started: SystemTime,
}

/// Copies the component to its stable place and stamps it; both appear whole or not at all.
pub(super) fn write(dir: &Path, made: &Made) -> Result<PathBuf> {
    let folder = make_folder(dir)?;
    let component = folder.join(format!("{}.wasm", made.name));
    let bytes = std::fs::read(made.wasm).with_context(|| format!("read {}", made.wasm.display()))?;
    // Unchanged bytes keep their time, so that what was derived from them stays valid.
    if std::fs::read(&component).ok().as_ref() != Some(&bytes) {
        replace(&component, &bytes)?;
    }
    let stamp = Stamp {
        format: FORMAT,
        component: PathBuf::from(format!("{}.wasm", made.name)),
        mark: Mark::of(&component),
        initial_memory: made.initial_memory,
        sdk: made.sdk.map(Path::to_owned),
        inputs: made.inputs.iter().map(|file| input(dir, file, made.started)).collect(),
    };
    replace(&folder.join(FILE), &serde_json::to_vec(&stamp).context("write the stamp")?)?;
    Ok(component)
}

fn input(dir: &Path, file: &Path, started: SystemTime) -> Input {
    let mark = Mark::of(file);
    // cargo writes the lock file itself, as part of the build.
    let is_lock = file.file_name().is_some_and(|name| name == "Cargo.lock");
    let changed_meanwhile = mark.modified.is_some_and(|modified| modified >= nanos(started));
    Input {
        path: file.strip_prefix(dir).unwrap_or(file).to_owned(),
        mark: if changed_meanwhile && !is_lock { Mark::uncertain() } else { mark },
    }
}

/// Writes beside `file`, then renames: a reader sees the old or the new, never a part.
pub(super) fn replace(file: &Path, bytes: &[u8]) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let temporary = tempfile::Builder::new().prefix(".new-").permissions(readable()).tempfile_in(folder)?;
        std::fs::write(temporary.path(), bytes)?;
        temporary.persist(file)?;
        Ok(())
    };
    write().with_context(|| format!("write {}", file.display()))
}

/// What an ordinary new file gets, less what the user's mask takes; a temporary file would be private.
fn readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    struct Tool {
        folder: tempfile::TempDir,
    }

    impl Tool {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let long_ago = SystemTime::now() - Duration::from_secs(3600);
            for (name, text) in [("lib.rs", "fn a() {}"), ("Cargo.toml", "[package]"), ("out.wasm", "\0asm")] {
                let file = std::fs::File::create(folder.path().join(name)).unwrap();
                std::fs::write(folder.path().join(name), text).unwrap();
                file.set_modified(long_ago).unwrap();
            }
            Tool { folder }
        }

        fn file(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn stamp(&self, sdk: Option<&Path>, started: SystemTime) -> PathBuf {
            let made = Made {
                wasm: &self.file("out.wasm"),
                name: "tool",
                inputs: ["lib.rs", "Cargo.toml", "absent.toml"].map(|name| self.file(name)).to_vec(),
                initial_memory: 2 << 20,
                sdk,
                started,
            };
            write(self.folder.path(), &made).unwrap()
        }

        fn why_stale(&self, sdk: Option<&Path>) -> String {
            match freshness(self.folder.path(), sdk) {
                Freshness::Stale(why) => why,
                Freshness::Fresh(component) => panic!("{} is fresh", component.display()),
            }
        }
    }

    #[test]
    fn a_tool_that_was_never_built_is_stale() {
        assert_eq!(Tool::new().why_stale(None), "it was never built");
        assert!(is_stale(Path::new("/nowhere/at/all"), None));
    }

    #[test]
    fn a_built_tool_is_fresh_until_a_source_changes_appears_or_goes() {
        let tool = Tool::new();
        let component = tool.stamp(None, SystemTime::now());
        assert_eq!(component, tool.file("target/toolcell/tool.wasm"));
        assert_eq!(std::fs::read(&component).unwrap(), b"\0asm");
        assert_eq!(freshness(tool.folder.path(), None), Freshness::Fresh(component));

        std::fs::write(tool.file("lib.rs"), "fn b() {}").unwrap();
        assert_eq!(tool.why_stale(None), "lib.rs has changed");

        let tool = Tool::new();
        tool.stamp(None, SystemTime::now());
        std::fs::remove_file(tool.file("Cargo.toml")).unwrap();
        assert_eq!(tool.why_stale(None), "Cargo.toml has changed");

        let tool = Tool::new();
        tool.stamp(None, SystemTime::now());
        std::fs::write(tool.file("absent.toml"), "").unwrap();
        assert_eq!(tool.why_stale(None), "absent.toml has changed");
    }

    #[test]
    fn a_source_that_changed_during_the_build_makes_it_stale() {
        let tool = Tool::new();
        let started = SystemTime::now() - Duration::from_secs(10);
        std::fs::write(tool.file("lib.rs"), "fn b() {}").unwrap();
        tool.stamp(None, started);
        assert_eq!(tool.why_stale(None), "lib.rs has changed");
    }

    #[test]
    fn a_replaced_component_another_sdk_and_a_broken_stamp_are_stale() {
        let tool = Tool::new();
        let component = tool.stamp(Some(Path::new("/sdk/1")), SystemTime::now());
        assert!(!is_stale(tool.folder.path(), Some(Path::new("/sdk/1"))));
        assert!(!is_stale(tool.folder.path(), None));
        assert_eq!(tool.why_stale(Some(Path::new("/sdk/2"))), "it was built with another SDK");
        std::fs::write(&component, "something else").unwrap();
        assert_eq!(tool.why_stale(None), "the component is not the one that was built");
        std::fs::write(tool.file("target/toolcell/stamp.json"), "{\"format\": 1").unwrap();
        assert_eq!(tool.why_stale(None), "it was never built");
    }

    #[test]
    fn a_tool_without_the_sdk_does_not_care_which_sdk_is_there() {
        let tool = Tool::new();
        tool.stamp(None, SystemTime::now());
        assert!(!is_stale(tool.folder.path(), Some(Path::new("/sdk/2"))));
    }

    #[test]
    fn the_folder_is_ignored_by_git_and_may_be_moved() {
        let tool = Tool::new();
        tool.stamp(None, SystemTime::now());
        assert_eq!(std::fs::read_to_string(tool.file("target/toolcell/.gitignore")).unwrap(), "*\n");
        let elsewhere = tempfile::tempdir().unwrap();
        let moved = elsewhere.path().join("moved");
        std::fs::rename(tool.folder.path(), &moved).unwrap();
        assert!(!is_stale(&moved, None));
    }

    #[test]
    fn the_same_bytes_keep_their_time() {
        let tool = Tool::new();
        let component = tool.stamp(None, SystemTime::now());
        let before = Mark::of(&component);
        assert_eq!(before, Mark::of(&tool.stamp(None, SystemTime::now())));
        std::fs::write(tool.file("out.wasm"), "\0asm2").unwrap();
        assert_ne!(before, Mark::of(&tool.stamp(None, SystemTime::now())));
    }
}
