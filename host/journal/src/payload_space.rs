//! Room for payloads: all of them together have a maximum size, and each caller has a share of it. A new payload without
//! room replaces the oldest ones of its caller, never a payload of another caller.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(not(feature = "sqlite"))]
use crate::memory::PayloadList;
#[cfg(feature = "sqlite")]
use crate::payload_list::PayloadList;
use toolcell_system::pool::share;

/// Default, for all payloads.
pub const PAYLOAD_BYTES: u64 = 4 << 30;
const UNNAMED: &str = "-";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPayloadRoom {
    /// It is larger than what its caller may have.
    #[error(
        "it has {bytes} bytes, and all payloads of one caller may have {share}; `payloads` under [log] in your own \
         toolcell.toml raises it"
    )]
    Share { bytes: u64, share: u64 },
    /// Payloads of other callers take all the room.
    #[error(
        "payloads of other callers take all of the {total} bytes that payloads may have; `payloads` under [log] in your own \
         toolcell.toml raises it, and `age` there removes them earlier"
    )]
    Total { total: u64 },
}

/// A payload that is about to be stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewPayload<'a> {
    pub(super) owner: &'a str,
    pub(super) name: &'a str,
    pub(super) bytes: u64,
    /// How long it stays; `None` for as long as any.
    pub(super) lasts: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct PayloadSpace {
    total: u64,
    share: u64,
    pub(super) list: PayloadList,
    drafts: Mutex<HashMap<Box<str>, u64>>,
}

impl PayloadSpace {
    pub(super) fn new(list: PayloadList, total: u64, callers: usize) -> Self {
        let size = usize::try_from(total).unwrap_or(usize::MAX);
        let share = if guard!("payload_share") {
            share(size, callers) as u64
        } else {
            total
        };
        Self {
            total,
            share,
            list,
            drafts: Mutex::default(),
        }
    }

    /// Makes room for a payload of `owner`. May block.
    pub(super) fn admit(
        &self,
        owner: Option<&str>,
        name: &str,
        bytes: u64,
        lasts: Option<Duration>,
    ) -> anyhow::Result<()> {
        let share = self.share;
        if bytes > share && guard!("payload_bytes") {
            return Err(NoPayloadRoom::Share { bytes, share }.into());
        }
        let new = NewPayload {
            owner: owner.unwrap_or(UNNAMED),
            name,
            bytes,
            lasts,
        };
        self.list.admit(&new, share, self.total)
    }

    /// Undoes the note of a payload that could not be written.
    pub(super) fn forget(&self, owner: Option<&str>, name: &str) {
        self.list.forget(owner.unwrap_or(UNNAMED), name);
    }

    pub(super) fn draft(&self, owner: Option<&str>, bytes: u64) -> Result<(), NoPayloadRoom> {
        let mut drafts = self.drafts();
        let total: u64 = drafts.values().sum();
        let of_owner = drafts.entry(owner.unwrap_or(UNNAMED).into()).or_default();
        let after = of_owner.saturating_add(bytes);
        if after > self.share && guard!("payload_drafts") {
            return Err(NoPayloadRoom::Share {
                bytes: after,
                share: self.share,
            });
        }
        if total.saturating_add(bytes) > self.total && guard!("payload_drafts") {
            return Err(NoPayloadRoom::Total { total: self.total });
        }
        *of_owner = after;
        Ok(())
    }

    /// Reverses [`Self::draft`].
    pub(super) fn undraft(&self, owner: Option<&str>, bytes: u64) {
        let owner = owner.unwrap_or(UNNAMED);
        let mut drafts = self.drafts();
        let left = drafts
            .get(owner)
            .copied()
            .unwrap_or_default()
            .saturating_sub(bytes);
        match left {
            0 => drop(drafts.remove(owner)),
            left => drop(drafts.insert(owner.into(), left)),
        }
    }

    fn drafts(&self) -> MutexGuard<'_, HashMap<Box<str>, u64>> {
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "sqlite")]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use rusqlite::Connection;

    use super::*;
    use crate::database::change;
    use crate::payload_list::PATIENCE;

    fn name(number: u8) -> String {
        format!("{number:064x}")
    }

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn folder(&self) -> PathBuf {
            self.0.path().join("payloads")
        }

        fn space(&self, total: u64, callers: usize) -> PayloadSpace {
            PayloadSpace::new(PayloadList::new(self.folder()), total, callers)
        }

        fn put(
            &self,
            space: &PayloadSpace,
            owner: &str,
            number: u8,
            bytes: u64,
        ) -> Result<(), NoPayloadRoom> {
            let admitted = space.admit(Some(owner), &name(number), bytes, None);
            let admitted = admitted.map_err(|error| error.downcast::<NoPayloadRoom>().unwrap());
            if admitted.is_ok() {
                fs::write(self.folder().join(name(number)), "x").unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
            admitted
        }

        fn are_there<const N: usize>(&self, numbers: [u8; N]) -> [bool; N] {
            numbers.map(|number| self.folder().join(name(number)).exists())
        }
    }

    #[test]
    fn a_caller_that_has_no_room_loses_its_oldest_payloads_and_nobody_elses() {
        let place = Place::new();
        let space = place.space(800, 2);
        for number in 1..=4 {
            place.put(&space, "anna", number, 100).unwrap();
        }
        // One that both have stays for the other.
        for number in [1, 5] {
            place.put(&space, "bert", number, 200).unwrap();
        }
        place.put(&space, "anna", 2, 100).unwrap();
        place.put(&space, "anna", 6, 200).unwrap();
        assert_eq!(
            place.are_there([1, 2, 3, 4, 5, 6]),
            [true, true, false, true, true, true]
        );
        assert_eq!(
            place.put(&space, "anna", 7, 401),
            Err(NoPayloadRoom::Share {
                bytes: 401,
                share: 400
            })
        );
        place.put(&space, "bert", 8, 400).unwrap();
        assert_eq!(place.are_there([1, 2, 5, 8]), [false, true, false, true]);
        // Another process knows the same.
        let other = place.space(800, 2);
        place.put(&other, "anna", 9, 400).unwrap();
        assert_eq!(
            place.are_there([2, 4, 6, 8, 9]),
            [false, false, false, true, true]
        );
        assert_eq!(
            place.put(&place.space(500, 1), "carl", 10, 200),
            Err(NoPayloadRoom::Total { total: 500 })
        );
        assert_eq!(place.are_there([8, 9, 10]), [true, true, false]);
    }

    #[test]
    fn payloads_of_nobody_go_first_and_a_damaged_list_is_made_again() {
        let place = Place::new();
        fs::create_dir(place.folder()).unwrap();
        fs::write(place.folder().join(name(1)), vec![0; 300]).unwrap();
        fs::write(place.folder().join("other"), vec![0; 300]).unwrap();
        let space = place.space(400, 1);
        place.put(&space, "anna", 2, 100).unwrap();
        assert_eq!(place.are_there([1, 2]), [true, true]);
        place.put(&space, "anna", 3, 100).unwrap();
        assert_eq!(place.are_there([1, 2, 3]), [false, true, true]);
        drop(space);
        fs::write(place.0.path().join("payloads.owners"), vec![b'x'; 8_192]).unwrap();
        let space = place.space(400, 1);
        place.put(&space, "anna", 4, 400).unwrap();
        assert_eq!(place.are_there([2, 3, 4]), [false, false, true]);
        assert!(place.folder().join("other").exists());
        space.list.forget_older(Duration::ZERO);
        space.forget(Some("anna"), &name(4));
        place.put(&space, "bert", 5, 400).unwrap();
        assert!(place.are_there([4])[0], "what is on no list is not removed");
    }

    fn has_end(place: &Place, number: u8) -> bool {
        let list = Connection::open(place.0.path().join("payloads.owners")).unwrap();
        let found = "SELECT EXISTS (SELECT 1 FROM ends WHERE digest = ?1)";
        list.query_row(found, [name(number)], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn a_payload_that_is_about_to_be_stored_for_as_long_as_any_gets_no_end() {
        let place = Place::new();
        let space = place.space(400, 2);
        let hour = Some(Duration::from_secs(60 * 60));
        let admit = |owner, number, lasts| space.admit(Some(owner), &name(number), 1, lasts);
        // The file is not there yet.
        admit("anna", 1, None).unwrap();
        admit("bert", 1, hour).unwrap();
        admit("bert", 2, hour).unwrap();
        assert!(!has_end(&place, 1) && has_end(&place, 2));
    }

    #[test]
    fn who_reads_a_payload_waits_for_no_other_process() {
        let place = Place::new();
        let space = place.space(400, 1);
        place.put(&space, "anna", 1, 1).unwrap();
        let mut other = Connection::open(place.0.path().join("payloads.owners")).unwrap();
        let _changing = change(&mut other).unwrap();
        let began = std::time::Instant::now();
        space.list.end(Some(&name(1)));
        assert!(began.elapsed() < PATIENCE / 2);
    }

    #[test]
    fn all_who_open_a_new_list_at_once_have_it() {
        for _ in 0..30 {
            let place = Place::new();
            let opened = std::sync::Barrier::new(6);
            let open = |number| {
                let space = place.space(4_000, 1);
                opened.wait();
                space.admit(None, &name(number), 1, None).unwrap();
            };
            std::thread::scope(|scope| {
                for number in 0..6 {
                    let open = &open;
                    scope.spawn(move || open(number));
                }
            });
        }
    }

    #[test]
    fn what_is_being_written_has_a_share_too() {
        let place = Place::new();
        let space = place.space(800, 4);
        assert_eq!(
            space.draft(Some("anna"), 201),
            Err(NoPayloadRoom::Share {
                bytes: 201,
                share: 200
            })
        );
        for owner in ["anna", "bert", "carl", "dora"] {
            space.draft(Some(owner), 200).unwrap();
        }
        assert!(space.draft(Some("anna"), 1).is_err());
        assert_eq!(
            space.draft(None, 1),
            Err(NoPayloadRoom::Total { total: 800 })
        );
        space.undraft(Some("anna"), 200);
        space.draft(None, 200).unwrap();
    }
}
