//! The journal's database: an index of calls and events, which can be made again from the lines of the log, and calls
//! that wait for an approval or an answer.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use toolcell_system::private;

use crate::waiting::StoreError;

pub(super) const FILE_NAME: &str = "journal.db";
/// `user_version` of the file, also in the first line of each segment. Nothing is migrated before the first release.
pub(super) const VERSION: i64 = 6;
const APPLICATION: i64 = 0x746f_6f6c;
const PATIENCE: Duration = Duration::from_secs(10);

/// `lines` has a row for each line with new events: `last` is the number of the last one, and `first` the place of the
/// first one among its call's. `used` has the bytes of each caller by segment, and `evicted` the calls removed with
/// each.
const LOG_TABLES: &str = "
    CREATE TABLE segments (number INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, chain BLOB NOT NULL) STRICT;
    CREATE TABLE calls (
        id TEXT PRIMARY KEY, segment INTEGER NOT NULL, at INTEGER NOT NULL, length INTEGER NOT NULL,
        start_segment INTEGER, start_at INTEGER, start_length INTEGER,
        tool_id TEXT NOT NULL, status TEXT NOT NULL, error_class TEXT, error_code TEXT, caller TEXT,
        session TEXT, created_at INTEGER NOT NULL, ended_at INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX calls_by_time ON calls (created_at);
    CREATE INDEX calls_by_caller ON calls (caller, created_at, id) WHERE caller IS NOT NULL;
    CREATE INDEX calls_without_end ON calls (segment) WHERE ended_at IS NULL;
    CREATE TABLE lines (
        last INTEGER PRIMARY KEY, call TEXT NOT NULL, first INTEGER NOT NULL, events INTEGER NOT NULL,
        segment INTEGER NOT NULL, at INTEGER NOT NULL, length INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX lines_by_call ON lines (call) WHERE call <> '-';
    CREATE TABLE sequence (next INTEGER NOT NULL) STRICT;
    INSERT INTO sequence VALUES (1);
    CREATE TABLE used (
        segment INTEGER NOT NULL, caller TEXT NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (segment, caller)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE evicted (segment INTEGER PRIMARY KEY, calls INTEGER NOT NULL) STRICT;
";
const ID_CHARS: usize = 26;
const STORE_TABLES: &str = "
    CREATE TABLE invocations (
        id TEXT PRIMARY KEY, tool_id TEXT NOT NULL, status TEXT NOT NULL, actor TEXT,
        created_at INTEGER NOT NULL, record TEXT NOT NULL, history TEXT NOT NULL, result TEXT
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE approvals (
        invocation TEXT PRIMARY KEY REFERENCES invocations,
        state TEXT NOT NULL CHECK (state IN
            ('pending', 'approved', 'rejected', 'expired', 'canceled', 'running', 'finished')),
        binding TEXT NOT NULL, actor TEXT,
        asked_at INTEGER NOT NULL, expires_at INTEGER NOT NULL,
        record BLOB NOT NULL, answer BLOB,
        CHECK (state NOT IN ('approved', 'rejected', 'running', 'finished') OR answer IS NOT NULL)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX approvals_by_state ON approvals (state, expires_at);
    CREATE TABLE session_rules (
        reference TEXT PRIMARY KEY, session TEXT NOT NULL, made_by TEXT NOT NULL REFERENCES invocations,
        made_at INTEGER NOT NULL, record TEXT NOT NULL,
        -- Sealed, because a scope names the paths of a call.
        scope BLOB
    ) STRICT, WITHOUT ROWID;
    -- The record is sealed, because it has arguments, answers, and what a tool saved.
    CREATE TABLE suspended (
        invocation TEXT PRIMARY KEY REFERENCES invocations,
        state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'canceled')),
        expires_at INTEGER NOT NULL, record BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE steps (
        number INTEGER PRIMARY KEY, session TEXT NOT NULL, added_at INTEGER NOT NULL, step TEXT NOT NULL
    ) STRICT;
    CREATE INDEX steps_by_session ON steps (session);
";

#[derive(Clone, Copy, Debug)]
pub(super) enum Durability {
    /// A killed process loses nothing: for what can be made again.
    Normal,
    /// Survives a crash of the machine.
    Full,
}

/// Creates it, one process at a time.
pub(super) fn open(dir: &Path, durability: Durability) -> Result<Connection, StoreError> {
    let unusable =
        |error: io::Error| StoreError::Unavailable(format!("{}: {error}", dir.display()));
    private::close_dir(dir).map_err(unusable)?;
    let _turn = turn(&dir.join("opening")).map_err(unusable)?;
    // SQLite is told to follow no symbolic links, so those that lead to the folder are resolved here.
    let path = dir.canonicalize().map_err(unusable)?.join(FILE_NAME);
    // SQLite gives the files beside its own the same mode.
    private::create_missing(&path).map_err(unusable)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(&path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(StoreError::Unavailable(format!(
            "it cannot be kept in WAL mode, but in mode {mode}"
        )));
    }
    let synchronous = match durability {
        Durability::Normal => "NORMAL",
        Durability::Full => "FULL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    create_tables(&mut connection, &path)?;
    Ok(connection)
}

/// Held while a database opens, because the switch of a new one to WAL fails instead of waiting.
pub(super) fn turn(lock_file: &Path) -> io::Result<File> {
    let turn = private::open_or_create(lock_file)?;
    turn.lock()?;
    Ok(turn)
}

pub(super) fn copy_to(connection: &Connection, copy: &Path) -> Result<(), StoreError> {
    private::create_missing(copy)?;
    connection.execute("VACUUM INTO ?1", [copy.to_string_lossy()])?;
    Ok(())
}

/// Excludes changes by other processes.
pub(super) fn change(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Ids that end alike begin alike when reversed. SQLite has no function for it, and uses an index on an expression only
/// for the same expression.
pub(super) fn reversed_id() -> String {
    (1..=ID_CHARS)
        .rev()
        .map(|at| format!("substr(id, {at}, 1)"))
        .collect::<Vec<_>>()
        .join(" || ")
}

fn create_tables(connection: &mut Connection, file: &Path) -> Result<(), StoreError> {
    let transaction = change(connection)?;
    let pragma = |name| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    match (pragma("application_id")?, pragma("user_version")?) {
        (APPLICATION, VERSION) => return Ok(()),
        (0, 0) => {}
        (APPLICATION, found) if found > VERSION => {
            return Err(StoreError::Newer {
                found,
                known: VERSION,
            });
        }
        (APPLICATION, 1..) => {
            let file = file.display().to_string().replace('\'', r"'\''");
            return Err(StoreError::Older { file });
        }
        _ => {
            return Err(StoreError::Damaged(
                "the file is not a database of toolcell".to_owned(),
            ));
        }
    }
    put_log_tables(&transaction)?;
    transaction.execute_batch(STORE_TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(())
}

pub(super) fn put_log_tables(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(LOG_TABLES)?;
    let reversed = reversed_id();
    connection.execute_batch(&format!(
        "CREATE INDEX calls_by_ending ON calls ({reversed})"
    ))
}
