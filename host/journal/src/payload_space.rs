//! Room for payloads: all of them together have a maximum size, and each caller has a share of it. A new payload without
//! room replaces the oldest ones of its caller, never a payload of another caller.
//!
//! A database beside the folder lists the owners of payloads, because processes share the folder, and because equal payloads
//! of several callers are one file, and when payloads end. It is updated before a payload is written, while others wait: a
//! removed payload has no owner. Without it, no payload has an owner, and all go first.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, params};

use crate::database::{self, change};
use toolcell_spec::Timestamp;
use toolcell_system::pool::share;
use toolcell_system::private;

/// Maximum size of all payloads, in bytes, unless it is set.
pub const PAYLOAD_BYTES: u64 = 4 << 30;
/// How long to wait while another process changes who has what.
const PATIENCE: Duration = Duration::from_secs(10);
/// How the name of the list ends.
const LIST: &str = "owners";
/// The owner of payloads whose owner is unknown.
const UNKNOWN_OWNER: &str = "";
/// The caller of calls without one.
const UNNAMED: &str = "-";
/// Whose payloads there are, how much each has, and when the payloads end that do.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS kept (
        digest TEXT NOT NULL, owner TEXT NOT NULL, bytes INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (digest, owner)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS kept_by_age ON kept (owner, at);
    CREATE TABLE IF NOT EXISTS used (owner TEXT PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TRIGGER IF NOT EXISTS kept_added AFTER INSERT ON kept BEGIN
        INSERT INTO used VALUES (new.owner, new.bytes) ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
    END;
    CREATE TRIGGER IF NOT EXISTS kept_removed AFTER DELETE ON kept BEGIN
        UPDATE used SET bytes = bytes - old.bytes WHERE owner = old.owner;
    END;
    CREATE TABLE IF NOT EXISTS ends (digest TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;";

/// Why there is no room for a payload.
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

/// The room for the payloads in one folder.
#[derive(Debug)]
pub(super) struct PayloadSpace {
    folder: PathBuf,
    total: u64,
    share: u64,
    known: Mutex<Option<Connection>>,
    /// Bytes of the artifacts that are being written, by caller.
    drafts: Mutex<HashMap<Box<str>, u64>>,
}

impl PayloadSpace {
    pub(super) fn new(folder: PathBuf, total: u64, callers: usize) -> Self {
        let size = usize::try_from(total).unwrap_or(usize::MAX);
        let share = if guard!("payload_share") {
            share(size, callers) as u64
        } else {
            total
        };
        Self {
            folder,
            total,
            share,
            known: Mutex::default(),
            drafts: Mutex::default(),
        }
    }

    /// Notes that `owner` has the payload `name` of `bytes` for the time `lasts`, and makes room for it. May block.
    pub(super) fn admit(
        &self,
        owner: Option<&str>,
        name: &str,
        bytes: u64,
        lasts: Option<Duration>,
    ) -> anyhow::Result<()> {
        let owner = owner.unwrap_or(UNNAMED);
        let share = self.share;
        let total = self.total;
        if bytes > share && guard!("payload_bytes") {
            return Err(NoPayloadRoom::Share { bytes, share }.into());
        }
        self.with(|transaction| {
            self.set_end(transaction, name, lasts)?;
            let now = Timestamp::now().unix_millis();
            let renewed = "UPDATE kept SET at = ?3 WHERE digest = ?1 AND owner = ?2";
            if transaction.execute(renewed, params![name, owner, now])? == 0 {
                let added = "INSERT INTO kept (digest, owner, bytes, at) VALUES (?1, ?2, ?3, ?4)";
                transaction.execute(added, params![name, owner, bytes, now])?;
            }
            while used(transaction, Some(owner))? > share && guard!("payload_bytes") {
                if !self.remove_oldest(transaction, owner, name)? {
                    break;
                }
            }
            while used(transaction, None)? > total && guard!("payload_bytes") {
                let removed = self.remove_oldest(transaction, UNKNOWN_OWNER, name)?;
                if !removed && !self.remove_oldest(transaction, owner, name)? {
                    return Err(NoPayloadRoom::Total { total }.into());
                }
            }
            Ok(())
        })
    }

    /// Notes when the payload `name` ends, which is about to be stored: at the latest time that any call wants, and never if one
    /// wants it for as long as any. One that is listed or there, and has no end, is of such a call.
    fn set_end(
        &self,
        transaction: &Transaction<'_>,
        name: &str,
        lasts: Option<Duration>,
    ) -> rusqlite::Result<()> {
        let Some(lasts) = lasts else {
            let never = "DELETE FROM ends WHERE digest = ?1";
            return transaction.execute(never, [name]).map(drop);
        };
        let end = Timestamp::now().plus(lasts).unix_millis();
        let later = "UPDATE ends SET at = max(at, ?2) WHERE digest = ?1";
        if transaction.execute(later, params![name, end])? == 0
            && !is_listed(transaction, name)?
            && !self.folder.join(name).exists()
        {
            transaction.execute("INSERT INTO ends VALUES (?1, ?2)", params![name, end])?;
        }
        Ok(())
    }

    /// Removes the payload `name`, or all payloads, if their time is over.
    pub(super) fn end(&self, name: Option<&str>) {
        if !self.file().exists() {
            return;
        }
        let _ = self.with_connection(|connection| {
            // Readers of payloads that do not end wait for nobody.
            if ended(connection, name)?.is_empty() {
                return Ok(());
            }
            let transaction = change(connection)?;
            for name in ended(&transaction, name)? {
                if guard!("retention") {
                    let _ = fs::remove_file(self.folder.join(&name));
                    transaction.execute("DELETE FROM ends WHERE digest = ?1", [&name])?;
                    transaction.execute("DELETE FROM kept WHERE digest = ?1", [&name])?;
                }
            }
            Ok(transaction.commit()?)
        });
    }

    /// Notes that `owner` does not have the payload after all, because it could not be written.
    pub(super) fn forget(&self, owner: Option<&str>, name: &str) {
        let _ = self.with(|transaction| {
            let removed = "DELETE FROM kept WHERE digest = ?1 AND owner = ?2";
            transaction.execute(removed, [name, owner.unwrap_or(UNNAMED)])?;
            Ok(())
        });
    }

    /// Notes that the payloads that no call has had for `age_max` are gone.
    pub(super) fn forget_older(&self, age_max: Duration) {
        if !self.file().exists() {
            return;
        }
        let before = Timestamp::now().minus(age_max).unix_millis();
        let _ = self.with(|transaction| {
            transaction.execute("DELETE FROM kept WHERE at < ?1", [before])?;
            Ok(())
        });
    }

    /// Counts `bytes` of an artifact that `owner` writes.
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

    /// Gives back what [`Self::draft`] counted.
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

    /// Beside the folder, which has payloads only.
    fn file(&self) -> PathBuf {
        self.folder.with_extension(LIST)
    }

    /// The list, with the files that SQLite has beside it; the list is the last one.
    pub(super) fn files(&self) -> [PathBuf; 3] {
        ["-wal", "-shm", ""].map(|suffix| self.folder.with_extension(format!("{LIST}{suffix}")))
    }

    /// Removes the oldest payload of `owner` but `name`; `false` if there is none.
    fn remove_oldest(
        &self,
        transaction: &Transaction<'_>,
        owner: &str,
        name: &str,
    ) -> rusqlite::Result<bool> {
        let oldest =
            "SELECT digest FROM kept WHERE owner = ?1 AND digest <> ?2 ORDER BY at LIMIT 1";
        let oldest: Option<String> = transaction
            .query_row(oldest, [owner, name], |row| row.get(0))
            .optional()?;
        let Some(digest) = oldest else {
            return Ok(false);
        };
        transaction.execute(
            "DELETE FROM kept WHERE digest = ?1 AND owner = ?2",
            [&digest, owner],
        )?;
        if !is_listed(transaction, &digest)? {
            // A reader that has it open keeps it.
            let _ = fs::remove_file(self.folder.join(&digest));
        }
        Ok(true)
    }

    /// Runs `work` while no other process changes who has what.
    fn with(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.with_connection(|connection| {
            let transaction = change(connection)?;
            work(&transaction)?;
            Ok(transaction.commit()?)
        })
    }

    fn with_connection(
        &self,
        work: impl FnOnce(&mut Connection) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match known.take() {
            Some(connection) => known.insert(connection),
            None => known.insert(self.open()?),
        };
        match work(connection) {
            Err(error) if !error.is::<NoPayloadRoom>() => {
                // What is wrong with it may be over when it is opened again.
                *known = None;
                Err(error).context("cannot note whose payload it is")
            }
            done => done,
        }
    }

    /// Copies the list into the new file beside `folder`, while others change it.
    pub(super) fn copy_to(&self, folder: &Path) -> anyhow::Result<()> {
        if !self.file().exists() {
            return Ok(());
        }
        let copy = folder.with_extension(LIST);
        self.with_connection(|connection| Ok(database::copy_to(connection, &copy)?))
    }

    /// Opens the list; creates it, one process at a time.
    fn open(&self) -> anyhow::Result<Connection> {
        private::create_dir(&self.folder)?;
        let _turn = database::turn(&self.folder.with_extension("opening"))?;
        let is_damaged = |error: &anyhow::Error| {
            let error = error.downcast_ref::<rusqlite::Error>();
            matches!(
                error.and_then(rusqlite::Error::sqlite_error_code),
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
            )
        };
        let opened = match self.opened() {
            // Only the order in which payloads go is lost, and when some end.
            Err(error) if is_damaged(&error) => {
                for file in self.files() {
                    let _ = fs::remove_file(file);
                }
                self.opened()
            }
            opened => opened,
        };
        opened.context("cannot open the list of payloads")
    }

    fn opened(&self) -> anyhow::Result<Connection> {
        // SQLite would make a file that others can read.
        private::create_missing(&self.file())?;
        let mut connection = Connection::open(self.file())?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let transaction = change(&mut connection)?;
        let is_new = !transaction.table_exists(None, "ends")?;
        if is_new {
            transaction.execute_batch(TABLES)?;
            self.adopt(&transaction)?;
        }
        transaction.commit()?;
        Ok(connection)
    }

    /// Lists the payloads that are there as nobody's.
    fn adopt(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let added = "INSERT INTO kept (digest, owner, bytes, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file);
            if let Some(metadata) = metadata.filter(|_| super::payload::is_name(&name)) {
                let at = metadata.mtime().saturating_mul(1_000);
                transaction.execute(added, params![name, UNKNOWN_OWNER, metadata.len(), at])?;
            }
        }
        Ok(())
    }
}

/// `true` if anybody has the payload `name`.
fn is_listed(transaction: &Transaction<'_>, name: &str) -> rusqlite::Result<bool> {
    let listed = "SELECT EXISTS (SELECT 1 FROM kept WHERE digest = ?1)";
    transaction.query_row(listed, [name], |row| row.get(0))
}

/// The payload `name`, or all payloads, if their time is over.
fn ended(connection: &Connection, name: Option<&str>) -> rusqlite::Result<Vec<String>> {
    let ended = "SELECT digest FROM ends WHERE at <= ?1 AND (?2 IS NULL OR digest = ?2)";
    let mut ended = connection.prepare(ended)?;
    let now = Timestamp::now().unix_millis();
    let names = ended.query_map(params![now, name], |row| row.get(0))?;
    names.collect()
}

/// The bytes of all payloads of `owner`, or of everybody.
fn used(transaction: &Transaction<'_>, owner: Option<&str>) -> rusqlite::Result<u64> {
    let used = "SELECT coalesce(sum(bytes), 0) FROM used WHERE ?1 IS NULL OR owner = ?1";
    transaction.query_row(used, [owner], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            PayloadSpace::new(self.folder(), total, callers)
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
        space.forget_older(Duration::ZERO);
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
        space.end(Some(&name(1)));
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
