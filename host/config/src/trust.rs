//! The project files that the user trusts. A project comes from anywhere, and its file can grant: it has no effect
//! until the user has trusted exactly these bytes.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use toolcell_system::private::{self, OnDisk};

/// Prefixes of the lines of an entry, for digests of the file, its hook components and its folders.
const KINDS: [&str; 3] = ["file ", "hook ", "folder "];

/// Digests of what a file used when it was trusted; each is a word without spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedDigests {
    /// Digests of its hook components, in their order.
    pub components: Vec<String>,
    /// Digests of the folders that its grants led to, in their order.
    pub folders: Vec<String>,
}

/// The trusted files: one entry for each path, with the digests of when it was last trusted. Trusting a file again ends
/// the trust in its earlier content.
#[derive(Clone, Debug)]
pub struct TrustStore {
    dir: PathBuf,
}

impl TrustStore {
    /// A store in `dir`, which is created when a file is first trusted.
    pub fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Returns what `file` was trusted with, if it had these `bytes` then; `None` if it is not trusted as it is.
    ///
    /// # Errors
    ///
    /// An entry that cannot be read, or that another user could have written.
    pub fn find(&self, file: &Path, bytes: &[u8]) -> anyhow::Result<Option<TrustedDigests>> {
        let Some(entry) = super::bytes(&self.entry(file))? else {
            return Ok(None);
        };
        let mut kinds: [Vec<String>; 3] = Default::default();
        for line in entry
            .split(|byte| *byte == b'\n')
            .map_while(|line| str::from_utf8(line).ok())
        {
            // The path comes last and begins with a slash, so that no prefix matches it.
            let Some((kind, digest)) = KINDS
                .iter()
                .zip(&mut kinds)
                .find_map(|(kind, of)| Some((of, line.strip_prefix(kind)?)))
            else {
                break;
            };
            kind.push(digest.to_owned());
        }
        let [files, components, folders] = kinds;
        Ok(files.contains(&digest(bytes)).then_some(TrustedDigests {
            components,
            folders,
        }))
    }

    /// Trusts `file` with exactly these `bytes` and digests.
    pub fn add(&self, file: &Path, bytes: &[u8], trusted: &TrustedDigests) -> anyhow::Result<()> {
        self.write(file, &[bytes], trusted)
    }

    /// Trusts `file` with the second of `bytes` instead of the first, which `write` replaces: a file that the user trusts, and
    /// that toolcell itself changes. A process that is killed leaves it trusted, with either content.
    ///
    /// # Errors
    ///
    /// Those of `write`, and an entry that cannot be written.
    pub fn renew(
        &self,
        file: &Path,
        (before, after): (&[u8], &[u8]),
        trusted: &TrustedDigests,
        write: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.write(file, &[after, before], trusted)?;
        let written = write();
        self.write(
            file,
            &[if written.is_ok() { after } else { before }],
            trusted,
        )?;
        written
    }

    /// Writes the entry of `file`, and a copy of the first of `contents`.
    fn write(
        &self,
        file: &Path,
        contents: &[&[u8]],
        trusted: &TrustedDigests,
    ) -> anyhow::Result<()> {
        private::create_dir(&self.dir).context("cannot create the folder of trusted files")?;
        let files: Vec<String> = contents.iter().map(|bytes| digest(bytes)).collect();
        let digests = [&files[..], &trusted.components, &trusted.folders];
        let lines = KINDS.iter().zip(digests).flat_map(|(kind, digests)| {
            digests
                .iter()
                .map(move |digest| format!("{kind}{digest}\n"))
        });
        // The path is for people: the name of the entry is a digest of it already.
        let lines: String = lines.collect();
        let parts = [lines.as_bytes(), file.as_os_str().as_bytes()];
        private::write_atomically(&self.entry(file), &parts, OnDisk::Later)
            .context("cannot write that a file is trusted")?;
        let latest = contents.first().copied().unwrap_or_default();
        private::write_atomically(&self.copy(file), &[latest], OnDisk::Later)
            .context("cannot copy a trusted file")
    }

    /// `true` if `file` was ever trusted, with any content.
    pub fn knows(&self, file: &Path) -> bool {
        self.entry(file).symlink_metadata().is_ok()
    }

    /// Returns the content that `file` was last trusted with, to compare it; `None` if it is not trusted.
    ///
    /// # Errors
    ///
    /// A copy that cannot be read, or that another user could have written.
    pub fn content(&self, file: &Path) -> anyhow::Result<Option<Vec<u8>>> {
        super::bytes(&self.copy(file))
    }

    /// Ends the trust in `file`. Returns whether it was trusted, with whatever content.
    pub fn remove(&self, file: &Path) -> anyhow::Result<bool> {
        let remove = |path: PathBuf| match std::fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).context("cannot remove the trust in a file"),
        };
        let was = remove(self.entry(file))?;
        remove(self.copy(file))?;
        Ok(was)
    }

    fn copy(&self, file: &Path) -> PathBuf {
        self.entry(file).with_extension("toml")
    }

    fn entry(&self, file: &Path) -> PathBuf {
        self.dir
            .join(blake3::hash(file.as_os_str().as_bytes()).to_hex().as_str())
    }
}

fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::{TrustStore, TrustedDigests};
    use std::path::Path;

    #[test]
    fn trust_is_for_one_path_with_its_latest_content() {
        let dir = tempfile::tempdir().unwrap();
        let trust = TrustStore::at(dir.path().join("trusted"));
        let file = Path::new("/project/toolcell.toml");
        let has = |file: &str, bytes| trust.find(Path::new(file), bytes).unwrap().is_some();
        assert!(!has("/project/toolcell.toml", b"a"));
        trust.add(file, b"a", &TrustedDigests::default()).unwrap();
        assert!(has("/project/toolcell.toml", b"a"));
        assert!(!has("/project/toolcell.toml", b"b") && !has("/other/toolcell.toml", b"a"));
        assert!(trust.knows(file) && !trust.knows(Path::new("/other/toolcell.toml")));
        trust.add(file, b"b", &TrustedDigests::default()).unwrap();
        assert!(has("/project/toolcell.toml", b"b") && !has("/project/toolcell.toml", b"a"));
        assert_eq!(trust.content(file).unwrap().as_deref(), Some(&b"b"[..]));
        let renewed = trust.renew(file, (b"b", b"c"), &TrustedDigests::default(), || {
            assert!(
                has("/project/toolcell.toml", b"b") && has("/project/toolcell.toml", b"c"),
                "either may be on the disk"
            );
            Ok(())
        });
        assert!(
            renewed.is_ok()
                && has("/project/toolcell.toml", b"c")
                && !has("/project/toolcell.toml", b"b")
        );
        let failed = trust.renew(file, (b"c", b"d"), &TrustedDigests::default(), || {
            anyhow::bail!("full")
        });
        assert!(
            failed.is_err()
                && has("/project/toolcell.toml", b"c")
                && !has("/project/toolcell.toml", b"d")
        );
        trust.add(file, b"b", &TrustedDigests::default()).unwrap();
        assert!(trust.remove(file).unwrap() && !has("/project/toolcell.toml", b"b"));
        assert!(!trust.remove(file).unwrap() && trust.content(file).unwrap().is_none());
    }

    #[test]
    fn trust_remembers_components_and_folders_and_takes_no_path_for_one() {
        let dir = tempfile::tempdir().unwrap();
        let trust = TrustStore::at(dir.path().join("trusted"));
        let file = Path::new("/project\nhook c\nfolder d/toolcell.toml");
        let of = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        let trusted = TrustedDigests {
            components: of(&["a", "b"]),
            folders: of(&["x"]),
        };
        trust.add(file, b"x", &trusted).unwrap();
        assert_eq!(trust.find(file, b"x").unwrap(), Some(trusted));
        trust.add(file, b"x", &TrustedDigests::default()).unwrap();
        assert_eq!(
            trust.find(file, b"x").unwrap(),
            Some(TrustedDigests::default())
        );
    }
}
