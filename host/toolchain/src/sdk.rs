//! The guest SDK, embedded in this binary: a tool depends on it by version, and gets this copy.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::language::{EmbeddedFile, LANGUAGES};

macro_rules! files {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $path)))),*] };
}

pub(super) use files;

/// Each SDK reads it from `../../wit`, so the layout is the repository's.
pub(super) const CONTRACT: &[EmbeddedFile] = files![
    "wit/deps/io/poll.wit",
    "wit/hook.wit",
    "wit/judge.wit",
    "wit/tool.wit"
];

fn carried() -> impl Iterator<Item = &'static EmbeddedFile> {
    LANGUAGES
        .iter()
        .flat_map(|language| language.sdk)
        .chain(CONTRACT)
}

/// The folder's name is a hash of its contents, so that versions of toolcell coexist and an existing folder never
/// changes.
pub fn write_sdk(data_dir: &Path) -> Result<PathBuf> {
    // Absolute, because tools in other folders refer to it.
    let parent = std::path::absolute(data_dir)
        .context("cannot find the data folder")?
        .join("sdk");
    let place = parent.join(content_hash());
    if place.is_dir() {
        return Ok(place);
    }
    let write = || -> Result<()> {
        std::fs::create_dir_all(&parent)?;
        let temporary = tempfile::Builder::new()
            .prefix(".new-")
            .tempdir_in(&parent)?;
        let folder = temporary.path().join("sdk");
        for (path, text) in carried() {
            let file = folder.join(path);
            file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(&file, text)?;
        }
        match std::fs::rename(&folder, &place) {
            // Another process wrote the same files first.
            Err(_) if place.is_dir() => Ok(()),
            other => Ok(other?),
        }
    };
    write().with_context(|| format!("cannot write the SDK into {}", parent.display()))?;
    Ok(place)
}

fn content_hash() -> String {
    let mut hasher = blake3::Hasher::new();
    for part in carried().flat_map(|(path, text)| [path, text]) {
        hasher.update(&part.len().to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().chars().take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(folder: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            // Never part of a tool that depends on the SDK.
            if [
                "target",
                "tests",
                "test",
                "examples",
                "benches",
                "Cargo.lock",
                "node_modules",
                "__pycache__",
            ]
            .contains(&name.as_str())
                || name.starts_with('.')
            {
                continue;
            }
            if entry.path().is_dir() {
                list(&entry.path(), root, found);
            } else {
                found.push(
                    entry
                        .path()
                        .strip_prefix(root)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned(),
                );
            }
        }
    }

    #[test]
    fn every_source_of_the_sdk_and_the_contract_is_carried() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut found = Vec::new();
        for folder in ["guest-sdk", "wit"] {
            list(&root.join(folder), &root, &mut found);
        }
        found.sort();
        let mut listed: Vec<&str> = carried().map(|(path, _)| *path).collect();
        listed.sort_unstable();
        // Languages may share a file.
        listed.dedup();
        assert_eq!(
            found, listed,
            "add to the list of the language what is new on disk"
        );
    }

    #[test]
    fn the_sdk_is_written_once_and_whole() {
        let data = tempfile::tempdir().unwrap();
        let folder = write_sdk(data.path()).unwrap();
        for (path, text) in carried() {
            assert_eq!(std::fs::read_to_string(folder.join(path)).unwrap(), *text);
        }
        assert_eq!(write_sdk(data.path()).unwrap(), folder);
        let left: Vec<_> = std::fs::read_dir(data.path().join("sdk"))
            .unwrap()
            .collect();
        assert_eq!(left.len(), 1);
    }
}
