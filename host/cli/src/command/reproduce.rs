//! Builds a source folder a second time, in another place, to see whether the same component comes out.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use toolcell::Home;
use toolcell_install::component::same_but_memory;
use toolcell_toolchain::{self as toolchain, BuildSettings};

use super::{show, target};

/// No sources.
const MADE: [&str; 7] = [
    ".git",
    ".venv",
    "venv",
    "__pycache__",
    "zig-out",
    ".zig-cache",
    ".toolcell",
];
/// Elsewhere a folder of this name has sources.
const OUTPUT: &str = "target";
const FILES_MAX: usize = 100_000;
const BYTES_MAX: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    Same,
    /// The code is the same, in a language whose toolchain takes a different snapshot of memory each time.
    SameCode,
    Another,
}

/// Their snapshot depends on the clock, random numbers and the numbers of files. componentize-py has no setting for
/// them.
const SNAPSHOTS_DIFFER: [&str; 1] = ["python"];

/// Fails if the copy does not build where it is, for example because it needs files outside of its folder.
pub(super) fn again(folder: &Path, home: &Home, built: &[u8]) -> anyhow::Result<Again> {
    let folder = folder
        .canonicalize()
        .with_context(|| format!("cannot find {}", folder.display()))?;
    let place = tempfile::tempdir().context("cannot create a folder for the second build")?;
    let place_path = place
        .path()
        .canonicalize()
        .context("cannot find the folder of the second build")?;
    let copy = place_path
        .join("copy")
        .join(folder.file_name().unwrap_or("tool".as_ref()));
    let mut files = 0;
    let mut bytes = 0;
    copy_folder(&folder, &copy, true, &mut files, &mut bytes)?;
    // Folders of its own, so that nothing is taken from the first build.
    let settings = BuildSettings {
        records: place_path.join("builds"),
        target_dir: Some(place_path.join("compiling")),
        ..target::build_settings(home)?
    };
    show::say("building a copy, to see whether the same component comes out");
    let again = toolchain::build(&copy, &settings, &mut show::say)?;
    let again =
        fs::read(&again.wasm).with_context(|| format!("cannot read {}", again.wasm.display()))?;
    if again == built {
        return Ok(Again::Same);
    }
    let differ = toolchain::Language::detect(&folder)
        .is_some_and(|lang| SNAPSHOTS_DIFFER.contains(&lang.name()));
    let is_same = differ && same_but_memory(&again, built).map_err(anyhow::Error::msg)?;
    Ok(if is_same {
        Again::SameCode
    } else {
        Again::Another
    })
}

fn copy_folder(
    from: &Path,
    to: &Path,
    top: bool,
    files: &mut usize,
    bytes: &mut u64,
) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    let unreadable = || format!("cannot copy {}", from.display());
    let has_output = top || from.join("Cargo.toml").is_file();
    for entry in fs::read_dir(from).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let name = entry.file_name();
        let kind = entry.file_type().with_context(unreadable)?;
        let source = entry.path();
        let copy = to.join(&name);
        if kind.is_dir() {
            let is_made = MADE.iter().any(|made| name == *made) || (has_output && name == OUTPUT);
            if !is_made {
                copy_folder(&source, &copy, false, files, bytes)?;
            }
            continue;
        }
        *files += 1;
        if kind.is_file() {
            *bytes += entry.metadata().with_context(unreadable)?.len();
        }
        // Before it is copied: one file could fill the disk.
        if *files > FILES_MAX || *bytes > BYTES_MAX {
            bail!(
                "the folder has more than {FILES_MAX} files or {BYTES_MAX} bytes, too many to build a copy"
            );
        }
        if kind.is_symlink() {
            let target = fs::read_link(&source).with_context(unreadable)?;
            std::os::unix::fs::symlink(target, copy).with_context(unreadable)?;
        } else if kind.is_file() {
            fs::copy(&source, copy).with_context(unreadable)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_copied_and_what_a_build_made_is_not() {
        let root = tempfile::tempdir().unwrap();
        let from = root.path().join("a");
        fs::create_dir_all(from.join("src/target")).unwrap();
        fs::create_dir_all(from.join("target/release")).unwrap();
        fs::write(from.join("Cargo.toml"), "").unwrap();
        fs::write(from.join("src/lib.rs"), "fn").unwrap();
        fs::write(from.join("src/target/mod.rs"), "fn").unwrap();
        fs::create_dir_all(from.join("vendor/other/target")).unwrap();
        fs::write(from.join("vendor/other/Cargo.toml"), "").unwrap();
        std::os::unix::fs::symlink("src/lib.rs", from.join("link")).unwrap();
        let to = root.path().join("b");
        copy_folder(&from, &to, true, &mut 0, &mut 0).unwrap();
        assert_eq!(fs::read_to_string(to.join("link")).unwrap(), "fn");
        assert!(!to.join("target").exists() && !to.join("vendor/other/target").exists());
        assert!(
            to.join("src/target/mod.rs").is_file(),
            "a module may have this name"
        );
        assert!(
            copy_folder(
                &from,
                &root.path().join("c"),
                true,
                &mut { FILES_MAX },
                &mut 0
            )
            .is_err()
        );
        // A file with a large hole is not copied before it is counted.
        fs::File::create(from.join("large"))
            .unwrap()
            .set_len(BYTES_MAX + 1)
            .unwrap();
        assert!(copy_folder(&from, &root.path().join("d"), true, &mut 0, &mut 0).is_err());
        assert!(!root.path().join("d/large").exists());
    }
}
