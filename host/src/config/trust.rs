//! Which project files the user trusts. A project comes from anywhere, and its file can grant: it counts for nothing until
//! the user has said that these very bytes may.

use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// How a digest begins.
const DIGEST: &str = "sha256:";

/// The files that are trusted: one entry for each pair of a path and its bytes, which holds the digests of the hook
/// components that the file names.
#[derive(Clone, Debug)]
pub struct Trust {
    dir: PathBuf,
}

impl Trust {
    /// Kept in `dir`, which is made when something is trusted.
    pub fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The digests of the hook components that `file` was trusted with when it had these `bytes`, in their order. Nothing
    /// where it was not trusted.
    pub fn of(&self, file: &Path, bytes: &[u8]) -> Option<Vec<String>> {
        let entry = super::bytes(&self.entry(file, bytes)).ok()??;
        let lines = entry.split(|byte| *byte == b'\n').map_while(|line| str::from_utf8(line).ok());
        Some(lines.take_while(|line| line.starts_with(DIGEST)).map(str::to_owned).collect())
    }

    /// Trusts `file` as long as it has these `bytes`, with `components` as the digests of its hook components.
    pub fn add(&self, file: &Path, bytes: &[u8], components: &[String]) -> anyhow::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).context("make the folder of trusted files")?;
        let mut entry = tempfile::NamedTempFile::new_in(&self.dir).context("write that a file is trusted")?;
        let lines: String = components.iter().map(|digest| format!("{digest}\n")).collect();
        // The path is for whoever looks: the name of the entry says it already. It begins with a slash, and so is none of
        // the digests before it.
        let text = [lines.as_bytes(), file.as_os_str().as_bytes()].concat();
        entry.write_all(&text).context("write that a file is trusted")?;
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
        let file = Path::new("/project/toolcell.toml");
        let has = |file: &str, bytes| trust.of(Path::new(file), bytes).is_some();
        assert!(!has("/project/toolcell.toml", b"a"));
        trust.add(file, b"a", &[]).unwrap();
        trust.add(file, b"a", &[]).unwrap();
        assert!(has("/project/toolcell.toml", b"a"));
        assert!(!has("/project/toolcell.toml", b"b") && !has("/other/toolcell.toml", b"a"));
        assert!(!has("/project/toolcell.tom", b"la"));
    }

    #[test]
    fn trust_remembers_the_components_and_takes_no_path_for_one() {
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::at(dir.path().join("trusted"));
        let file = Path::new("/project\nsha256:c/toolcell.toml");
        let components = ["sha256:a".to_owned(), "sha256:b".to_owned()];
        trust.add(file, b"x", &components).unwrap();
        assert_eq!(trust.of(file, b"x").unwrap(), components);
        trust.add(file, b"x", &components[..1]).unwrap();
        assert_eq!(trust.of(file, b"x").unwrap(), components[..1]);
    }
}
