//! The list of the payloads of one host, in memory.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use toolcell_spec::Timestamp;

use crate::drafts::Folder;
use crate::payload_space::{NewPayload, NoPayloadRoom};

/// The owners of payloads, and when these end. Payloads in the folder that this process did not store are on no list.
#[derive(Debug)]
pub(crate) struct PayloadList {
    folder: PathBuf,
    kept: Mutex<KeptPayloads>,
    /// Removed with the list; `None` for a folder of the caller's.
    _own: Option<Folder>,
}

#[derive(Debug, Default)]
struct KeptPayloads {
    /// The oldest first.
    entries: Vec<PayloadEntry>,
    ends: HashMap<Box<str>, Timestamp>,
}

#[derive(Debug)]
struct PayloadEntry {
    owner: Box<str>,
    name: Box<str>,
    bytes: u64,
    at: Timestamp,
}

impl PayloadList {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            kept: Mutex::default(),
            _own: None,
        }
    }

    /// Adds `new`, and removes older payloads of its owner until that has at most `share` bytes, and all together have at most
    /// `total`.
    pub(crate) fn admit(&self, new: &NewPayload<'_>, share: u64, total: u64) -> anyhow::Result<()> {
        let mut kept = self.kept();
        self.set_end(&mut kept, new);
        let before = kept.entries.len();
        kept.entries.retain(|entry| !entry.is(new.owner, new.name));
        let is_renewed = kept.entries.len() < before;
        kept.entries.push(PayloadEntry {
            owner: new.owner.into(),
            name: new.name.into(),
            bytes: new.bytes,
            at: Timestamp::now(),
        });
        while kept.used(Some(new.owner)) > share {
            if !self.remove_oldest(&mut kept, new) {
                break;
            }
        }
        while kept.used(None) > total {
            if !self.remove_oldest(&mut kept, new) {
                if !is_renewed {
                    kept.entries.retain(|entry| !entry.is(new.owner, new.name));
                }
                return Err(NoPayloadRoom::Total { total }.into());
            }
        }
        Ok(())
    }

    /// Notes when a payload ends: at the latest time that any call wants, and never if one wants it for as long as any. One
    /// that is listed, and has no end, is of such a call.
    fn set_end(&self, kept: &mut KeptPayloads, new: &NewPayload<'_>) {
        let Some(lasts) = new.lasts else {
            kept.ends.remove(new.name);
            return;
        };
        let end = Timestamp::now().plus(lasts);
        let is_there = kept.is_listed(new.name) || self.folder.join(new.name).exists();
        match kept.ends.get_mut(new.name) {
            Some(known) => *known = end.max(*known),
            None if is_there => {}
            None => drop(kept.ends.insert(new.name.into(), end)),
        }
    }

    /// Removes the payload `name`, or all payloads, if their time is over.
    pub(crate) fn end(&self, name: Option<&str>) {
        let now = Timestamp::now();
        let mut kept = self.kept();
        let is_over =
            |ended: &str, at: &Timestamp| *at <= now && name.is_none_or(|name| name == ended);
        let over: Vec<Box<str>> = kept
            .ends
            .extract_if(|ended, at| is_over(ended, at))
            .map(|(ended, _)| ended)
            .collect();
        for ended in over {
            let _ = fs::remove_file(self.folder.join(&*ended));
            kept.entries.retain(|entry| entry.name != ended);
        }
    }

    /// Notes that `owner` does not have the payload after all, because it could not be written.
    pub(crate) fn forget(&self, owner: &str, name: &str) {
        self.kept().entries.retain(|entry| !entry.is(owner, name));
    }

    /// Notes that the payloads that no call has had for `age_max` are gone.
    pub(crate) fn forget_older(&self, age_max: Duration) {
        let before = Timestamp::now().minus(age_max);
        self.kept().entries.retain(|entry| entry.at >= before);
    }

    /// Removes the oldest payload of the owner of `new` but that one; `false` if there is none.
    fn remove_oldest(&self, kept: &mut KeptPayloads, new: &NewPayload<'_>) -> bool {
        let is_other =
            |entry: &PayloadEntry| *entry.owner == *new.owner && *entry.name != *new.name;
        let Some(at) = kept.entries.iter().position(is_other) else {
            return false;
        };
        let removed = kept.entries.remove(at);
        if !kept.is_listed(&removed.name) {
            // A reader that has it open keeps it.
            let _ = fs::remove_file(self.folder.join(&*removed.name));
        }
        true
    }

    fn kept(&self) -> MutexGuard<'_, KeptPayloads> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptPayloads {
    /// `true` if anybody has the payload `name`.
    fn is_listed(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| *entry.name == *name)
    }

    /// The bytes of all payloads of `owner`, or of everybody.
    fn used(&self, owner: Option<&str>) -> u64 {
        let of_owner = |entry: &&PayloadEntry| owner.is_none_or(|owner| *entry.owner == *owner);
        self.entries
            .iter()
            .filter(of_owner)
            .map(|entry| entry.bytes)
            .sum()
    }
}

impl PayloadEntry {
    fn is(&self, owner: &str, name: &str) -> bool {
        *self.owner == *owner && *self.name == *name
    }
}

/// Payloads that stay as long as their host.
#[cfg(not(feature = "sqlite"))]
mod passing {
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    use super::PayloadList;
    use crate::PayloadStore;
    use crate::drafts::{self, Folder};
    use crate::payload_space::PayloadSpace;

    impl PayloadStore {
        /// A store in a folder of its own in `dir`, removed with the last clone of the store. If its process is killed, the next
        /// such store removes it. Bounds are those of [`Self::bounded`].
        ///
        /// # Errors
        ///
        /// The folder cannot be made.
        pub fn passing(dir: &Path, bytes_max: u64, callers: usize) -> io::Result<Self> {
            drafts::sweep(dir);
            let folder = Folder::make(dir)?;
            let dir = folder.path().to_owned();
            let list = PayloadList {
                _own: Some(folder),
                ..PayloadList::new(dir.clone())
            };
            let space = Arc::new(PayloadSpace::new(list, bytes_max, callers));
            Ok(Self {
                dir,
                space,
                owner: None,
                lasts: None,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Option<Duration> = Some(Duration::from_secs(3_600));

    struct Place(tempfile::TempDir, PayloadList);

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let list = PayloadList::new(folder.path().to_owned());
            Self(folder, list)
        }

        /// Stores a payload where an owner may have 400 bytes, and all may have 800.
        fn put(&self, owner: &str, name: &str, bytes: u64, lasts: Option<Duration>) -> bool {
            let new = NewPayload {
                owner,
                name,
                bytes,
                lasts,
            };
            let admitted = self.1.admit(&new, 400, 800).is_ok();
            if admitted {
                fs::write(self.0.path().join(name), "x").unwrap();
            }
            admitted
        }

        fn are_there<const N: usize>(&self, names: [&str; N]) -> [bool; N] {
            names.map(|name| self.0.path().join(name).exists())
        }
    }

    #[test]
    fn a_caller_that_has_no_room_loses_its_oldest_payloads_and_nobody_elses() {
        let place = Place::new();
        for name in ["a", "b", "c", "d"] {
            assert!(place.put("anna", name, 100, None));
        }
        // One that both have stays for the other, and one that is stored again is young again.
        assert!(place.put("bert", "a", 200, None) && place.put("bert", "e", 200, None));
        assert!(place.put("anna", "b", 100, None) && place.put("anna", "f", 200, None));
        assert_eq!(
            place.are_there(["a", "b", "c", "d", "e", "f"]),
            [true, true, false, true, true, true]
        );
        assert!(!place.put("carl", "g", 100, None), "others have all of it");
        place.1.forget("anna", "f");
        assert!(place.put("carl", "g", 100, None));
        place.1.forget_older(Duration::from_secs(60));
        assert_eq!(place.1.kept().used(None), 700);
    }

    #[test]
    fn a_payload_ends_at_the_latest_time_that_a_call_wants() {
        let place = Place::new();
        place.put("anna", "a", 1, Some(Duration::ZERO));
        place.put("anna", "b", 1, Some(Duration::ZERO));
        place.put("bert", "b", 1, HOUR);
        place.put("anna", "c", 1, None);
        place.put("bert", "c", 1, Some(Duration::ZERO));
        place.1.end(Some("b"));
        assert_eq!(place.are_there(["a", "b", "c"]), [true; 3]);
        place.1.end(None);
        assert_eq!(place.are_there(["a", "b", "c"]), [false, true, true]);
    }
}
