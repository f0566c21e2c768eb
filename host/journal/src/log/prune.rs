//! Removes segments that are too old or too much. The removal is written down first: a process killed in between must
//! not leave a gap that looks like a forgery.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};

use super::line::{Kind, NO_CALL};
use super::segment::{self, Segment, Surplus};
use super::{Inner, Key, share, verify};

/// Removed segments, and those whose removal they recorded.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct PrunedSegments {
    pub(super) removed_segments: Vec<u64>,
    /// Calls that are nowhere else, by segment.
    #[serde(default)]
    pub(super) evicted_calls: BTreeMap<u64, u64>,
}

pub(super) fn note(current: &mut Segment, key: &Key, removed: &str) -> io::Result<File> {
    current.append(key, Kind::Pruned, NO_CALL, removed)?;
    current.file()
}

impl Inner {
    pub(super) fn prune_beside(&self) -> io::Result<()> {
        let key = self.key().map_err(io::Error::other)?;
        self.prune(&key, |removed| {
            let mut writer = self.writer();
            let writer = writer.as_mut().ok_or(io::ErrorKind::NotFound)?;
            note(&mut writer.current, &writer.key, removed)
        })
    }

    pub(super) fn prune(
        &self,
        key: &Key,
        mut note: impl FnMut(&str) -> io::Result<File>,
    ) -> io::Result<()> {
        let (surplus, is_clock_sure) = segment::surplus(&self.dir, &self.settings)?;
        if surplus.is_empty() {
            return Ok(());
        }
        let numbers: Vec<u64> = surplus.iter().map(|segment| segment.number).collect();
        let mut pruned = verify::with_earlier(&self.dir, key, &numbers)?;
        pruned
            .evicted_calls
            .append(&mut share::carry(self, key, &surplus, is_clock_sure)?);
        let removed = serde_json::to_string(&pruned)?;
        // A removal that survives a power failure without its line would count as damage.
        let noted = note(&removed).and_then(|file| file.sync_data());
        surplus.into_iter().try_for_each(Surplus::remove)?;
        // A full disk has room for the line once they are gone.
        noted.or_else(|_| note(&removed).map(drop))
    }
}
