//! Builds a source folder a second time, in another place, to see whether the same component comes out.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use toolcell::Home;
use toolcell_toolchain::{self as toolchain, BuildSettings, Preference, Search};

use super::show;

/// Folders that a build makes, and that are no sources.
const MADE: [&str; 8] = ["target", ".git", ".venv", "venv", "__pycache__", "zig-out", ".zig-cache", ".toolcell"];
/// Maximum number and size of the files that are copied.
const FILES_MAX: usize = 100_000;
const BYTES_MAX: u64 = 1 << 30;

/// Whether a build of a copy of `folder` gives the component `built`.
///
/// # Errors
///
/// A copy that does not build where it is, for example because it needs files outside of its folder.
pub(super) fn is_reproducible(folder: &Path, home: &Home, built: &[u8]) -> anyhow::Result<bool> {
    let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
    let place = tempfile::tempdir().context("cannot create a folder for the second build")?;
    let place_path = place.path().canonicalize().context("cannot find the folder of the second build")?;
    let copy = place_path.join("copy").join(folder.file_name().unwrap_or("tool".as_ref()));
    let (mut files, mut bytes) = (0, 0);
    copy_folder(&folder, &copy, &mut files, &mut bytes)?;
    let mut settings =
        BuildSettings::new(Search::new(Preference::from_env()?, home.cache()), place_path.join("builds"));
    // Of its own, so that nothing is taken from the first build.
    settings.target_dir = Some(place_path.join("compiling"));
    settings.sdk = Some(toolchain::write_sdk(home.folder())?);
    show::say("building a copy, to see whether the same component comes out");
    let again = toolchain::build(&copy, &settings, &mut show::say)?;
    let again = fs::read(&again.wasm).with_context(|| format!("cannot read {}", again.wasm.display()))?;
    Ok(again == built)
}

fn copy_folder(from: &Path, to: &Path, files: &mut usize, bytes: &mut u64) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    let unreadable = || format!("cannot copy {}", from.display());
    for entry in fs::read_dir(from).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let (name, kind) = (entry.file_name(), entry.file_type().with_context(unreadable)?);
        let (source, copy) = (entry.path(), to.join(&name));
        if kind.is_dir() {
            if !MADE.iter().any(|made| name == *made) {
                copy_folder(&source, &copy, files, bytes)?;
            }
            continue;
        }
        *files += 1;
        if kind.is_symlink() {
            let target = fs::read_link(&source).with_context(unreadable)?;
            std::os::unix::fs::symlink(target, copy).with_context(unreadable)?;
        } else if kind.is_file() {
            *bytes += fs::copy(&source, copy).with_context(unreadable)?;
        }
        if *files > FILES_MAX || *bytes > BYTES_MAX {
            bail!("the folder has more than {FILES_MAX} files or {BYTES_MAX} bytes, too many to build a copy");
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
        fs::write(from.join("src/lib.rs"), "fn").unwrap();
        std::os::unix::fs::symlink("src/lib.rs", from.join("link")).unwrap();
        let to = root.path().join("b");
        copy_folder(&from, &to, &mut 0, &mut 0).unwrap();
        assert_eq!(fs::read_to_string(to.join("link")).unwrap(), "fn");
        assert!(!to.join("target").exists());
        assert!(copy_folder(&from, &root.path().join("c"), &mut { FILES_MAX }, &mut 0).is_err());
    }
}
