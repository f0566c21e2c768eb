//! The list of payloads: a database beside their folder, because processes share the folder, and because equal payloads
//! of several callers are one file. It also says when payloads end. It is updated before a payload is written, while others
//! wait: a removed payload has no owner. Without it, no payload has an owner, and all go first.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, params};

use crate::PayloadStore;
use crate::database::{self, change};
use crate::payload_space::{NewPayload, NoPayloadRoom};
use toolcell_spec::Timestamp;
use toolcell_system::private;

/// How long to wait while another process changes who has what.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How the name of the list ends.
const LIST: &str = "owners";
/// The owner of payloads whose owner is unknown.
const UNKNOWN_OWNER: &str = "";
/// The owners of payloads, how much each has, and when those payloads end that have an end.
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

/// The list of the payloads in one folder.
#[derive(Debug)]
pub(super) struct PayloadList {
    folder: PathBuf,
    known: Mutex<Option<Connection>>,
}

impl PayloadStore {
    /// The files beside the folder that list whose payloads there are, and when they end. Others change them at any time.
    pub fn list_files(&self) -> [PathBuf; 3] {
        self.space.list.files()
    }

    /// Copies the list for the copy `dir` of the folder. Others may change it meanwhile.
    ///
    /// # Errors
    ///
    /// The list cannot be read, or the copy cannot be written.
    pub fn copy_list(&self, dir: &Path) -> anyhow::Result<()> {
        self.space.list.copy_to(dir)
    }
}

impl PayloadList {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            known: Mutex::default(),
        }
    }

    /// Adds `new`, and removes older payloads of its owner until that has at most `share` bytes, and all together have at most
    /// `total`. May block.
    pub(super) fn admit(&self, new: &NewPayload<'_>, share: u64, total: u64) -> anyhow::Result<()> {
        let NewPayload {
            owner,
            name,
            bytes,
            lasts,
        } = *new;
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
    pub(super) fn forget(&self, owner: &str, name: &str) {
        let _ = self.with(|transaction| {
            let removed = "DELETE FROM kept WHERE digest = ?1 AND owner = ?2";
            transaction.execute(removed, [name, owner])?;
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

    /// Beside the folder, which has payloads only.
    fn file(&self) -> PathBuf {
        self.folder.with_extension(LIST)
    }

    /// The list, with the files that SQLite has beside it; the list is the last one.
    fn files(&self) -> [PathBuf; 3] {
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
    fn copy_to(&self, folder: &Path) -> anyhow::Result<()> {
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
