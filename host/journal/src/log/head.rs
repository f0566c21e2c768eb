//! The end of each segment and the next event's number, as indexed. The file is authenticated with the key of the log,
//! and beside it, outside of the log. So a tail that was cut shows itself, also after new lines took its place, and
//! although the index was removed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use blake3::Hash;
use serde::{Deserialize, Serialize};

use toolcell_system::private::{self, OnDisk};

use super::Key;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentEnd {
    pub(super) bytes: u64,
    pub(super) chain: Hash,
}

/// Ends of indexed segments, unless their removal is on record.
#[derive(Debug, Default)]
pub(super) struct LogHead {
    pub(super) next: u64,
    pub(super) ends: BTreeMap<u64, SegmentEnd>,
    /// `true` if another program wrote the file, which stays for `verify`.
    pub(super) is_changed: bool,
}

#[derive(Serialize, Deserialize)]
struct HeadFile {
    next: u64,
    ends: Vec<(u64, u64, String)>,
}

/// Several logs can have one key.
pub(super) fn path(key_file: &Path, dir: &Path) -> PathBuf {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let name = blake3::hash(dir.as_os_str().as_bytes()).to_hex();
    key_file.with_extension(format!("{name:.16}.head"))
}

fn hash(key: &Key, text: &str) -> Hash {
    blake3::keyed_hash(key, format!("head {text}").as_bytes())
}

impl LogHead {
    pub(super) fn read(file: &Path, key: &Key) -> io::Result<Self> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        Ok(Self::parse(&text, key).unwrap_or_else(|| Self {
            is_changed: true,
            ..Self::default()
        }))
    }

    fn parse(text: &str, key: &Key) -> Option<Self> {
        let (mac, text) = text.split_once(' ')?;
        if Hash::from_hex(mac).ok()? != hash(key, text) && guard!("log_head") {
            return None;
        }
        let HeadFile { next, ends } = serde_json::from_str(text).ok()?;
        let end = |(number, bytes, chain): (u64, u64, String)| {
            let chain = Hash::from_hex(chain).ok()?;
            Some((number, SegmentEnd { bytes, chain }))
        };
        Some(Self {
            next,
            ends: ends.into_iter().map(end).collect::<Option<_>>()?,
            is_changed: false,
        })
    }

    pub(super) fn write(&self, file: &Path, key: &Key) -> io::Result<()> {
        if self.is_changed {
            return Ok(());
        }
        let end = |(number, end): (&u64, &SegmentEnd)| {
            (*number, end.bytes, end.chain.to_hex().to_string())
        };
        let text = serde_json::to_string(&HeadFile {
            next: self.next,
            ends: self.ends.iter().map(end).collect(),
        })?;
        let mac = hash(key, &text).to_hex();
        let parts = [mac.as_bytes(), b" ", text.as_bytes()];
        match private::write_atomically(file, &parts, OnDisk::Later) {
            // Keys can be on a file system that this process cannot write, and calls are still to be found.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(()),
            written => written,
        }
    }
}
