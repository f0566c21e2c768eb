//! Which project files the user trusts. A project comes from anywhere, and its file can grant: it counts for nothing until
//! the user has said that these very bytes may.

use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The files that are trusted: one entry for each pair of a path and its bytes.
#[derive(Clone, Debug)]
pub struct Trust {
    dir: PathBuf,
}

impl Trust {
    /// Kept in `dir`, which is made when something is trusted.
    pub fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Whether `file` was trusted when it had these `bytes`.
    pub fn has(&self, file: &Path, bytes: &[u8]) -> bool {
        self.entry(file, bytes).is_file()
    }

    /// Trusts `file` as long as it has these `bytes`.
    pub fn add(&self, file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).context("make the folder of trusted files")?;
        let mut entry = tempfile::NamedTempFile::new_in(&self.dir).context("write that a file is trusted")?;
        // For whoever looks: the name alone says everything.
        entry.write_all(file.as_os_str().as_bytes()).context("write that a file is trusted")?;
        entry.persist(self.entry(file, bytes)).context("keep that a file is trusted")?;
        Ok(())
    }

    fn entry(&self, file: &Path, bytes: &[u8]) -> PathBuf {
        let path = file.as_os_str().as_bytes();
        let mut hasher = blake3::Hasher::new();
        // The length keeps a path and a file apart that are cut elsewhere.
        hasher.update(&(path.len() as u64).to_le_bytes()).update(path).update(bytes);
        self.dir.join(hasher.finalize().to_hex().as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Trust;
    use std::path::Path;

    #[test]
    fn trust_is_for_one_path_with_one_content() {
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::at(dir.path().join("trusted"));
        let file = Path::new("/project/hotcell.toml");
        assert!(!trust.has(file, b"a"));
        trust.add(file, b"a").unwrap();
        trust.add(file, b"a").unwrap();
        assert!(trust.has(file, b"a"));
        assert!(!trust.has(file, b"b") && !trust.has(Path::new("/other/hotcell.toml"), b"a"));
        assert!(!trust.has(Path::new("/project/hotcell.tom"), b"la"));
    }
}
