use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Changes listed in one result; the rest are counted.
const LISTED_MAX: usize = 100;
/// Bytes of the listed paths together.
const PATHS_BYTES_MAX: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Changed,
    Removed,
}

/// One file that a call added, changed or removed.
///
/// ```
/// use toolcell_workspace::{ChangeKind, FileChange};
///
/// let removed = FileChange { path: "a.csv".to_owned(), change: ChangeKind::Removed, size: None, digest: None };
/// assert_eq!(serde_json::to_value(&removed)?, serde_json::json!({"path": "a.csv", "change": "removed"}));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Within the workspace, without a leading slash.
    pub path: String,
    pub change: ChangeKind,
    /// Bytes; `None` for a removed file and a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// `sha256:<hex>` of the content; `None` for a removed file and a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What changed, sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeList {
    /// The first 100.
    pub files: Vec<FileChange>,
    /// Number of changed files that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
}

impl ChangeList {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.more == 0
    }

    /// Keeps only the number, where names must not be kept.
    pub fn hide(&mut self) {
        let hidden = std::mem::take(&mut self.files).len() as u64;
        self.more = self.more.saturating_add(hidden);
    }

    /// Adds what changed afterwards.
    pub fn append(&mut self, later: Self) {
        let mut all: BTreeMap<String, FileChange> = std::mem::take(&mut self.files)
            .into_iter()
            .map(|change| (change.path.clone(), change))
            .collect();
        for mut change in later.files {
            let before = all.remove(&change.path).map(|before| before.change);
            change.change = match (before, change.change) {
                (Some(ChangeKind::Added), ChangeKind::Removed) => continue,
                (Some(ChangeKind::Added), _) => ChangeKind::Added,
                (Some(ChangeKind::Removed), ChangeKind::Added) => ChangeKind::Changed,
                (_, kind) => kind,
            };
            all.insert(change.path.clone(), change);
        }
        let more = self.more.saturating_add(later.more);
        *self = Self::from_changes(all.into_values());
        self.more = self.more.saturating_add(more);
    }

    pub(crate) fn from_changes(changes: impl IntoIterator<Item = FileChange>) -> Self {
        let mut list = Self::default();
        let mut bytes = 0_usize;
        for change in changes {
            bytes = bytes.saturating_add(change.path.len());
            if list.files.len() < LISTED_MAX && bytes <= PATHS_BYTES_MAX {
                list.files.push(change);
            } else {
                list.more += 1;
            }
        }
        list
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_twice_is_listed_once() {
        use ChangeKind::{Added, Changed, Removed};
        let list = |changes: &[(&str, ChangeKind)]| {
            ChangeList::from_changes(changes.iter().map(|(path, change)| FileChange {
                path: (*path).to_owned(),
                change: *change,
                size: None,
                digest: None,
            }))
        };
        let mut first = list(&[("a", Added), ("b", Added), ("c", Removed), ("d", Changed)]);
        first.append(list(&[
            ("a", Removed),
            ("b", Changed),
            ("c", Added),
            ("e", Removed),
        ]));
        let expected = list(&[("b", Added), ("c", Changed), ("d", Changed), ("e", Removed)]);
        assert_eq!(first, expected);
    }

    #[test]
    fn a_list_is_bounded_by_files_and_by_the_bytes_of_their_names() {
        let many = |count: usize, length: usize| {
            ChangeList::from_changes((0..count).map(|n| FileChange {
                path: format!("{n:0length$}"),
                change: ChangeKind::Added,
                size: Some(0),
                digest: None,
            }))
        };
        let plain = many(250, 5);
        assert_eq!((plain.files.len(), plain.more), (100, 150));
        let long = many(50, 1 << 10);
        assert_eq!((long.files.len(), long.more), (16, 34));
        assert!(many(0, 1).is_empty());
    }
}
