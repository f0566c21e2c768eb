use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::private;

use super::StoreError;

/// The file of the store in the journal's folder.
pub(super) const FILE_NAME: &str = "journal.db";
/// `user_version` of the file. Nothing is migrated before the first release.
const VERSION: i64 = 4;
/// `application_id` of the file: "tool".
const APPLICATION: i64 = 0x746f_6f6c;
/// How long to wait while another process locks the file.
const PATIENCE: Duration = Duration::from_secs(10);

const TABLES: &str = "
    CREATE TABLE invocations (
        id TEXT PRIMARY KEY, tool_id TEXT NOT NULL, status TEXT NOT NULL, actor TEXT,
        created_at INTEGER NOT NULL, record TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE decisions (
        invocation TEXT NOT NULL REFERENCES invocations, ordinal INTEGER NOT NULL,
        behavior TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (invocation, ordinal)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE mutations (
        invocation TEXT NOT NULL REFERENCES invocations, ordinal INTEGER NOT NULL,
        record TEXT NOT NULL, PRIMARY KEY (invocation, ordinal)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE hook_runs (
        invocation TEXT NOT NULL REFERENCES invocations, ordinal INTEGER NOT NULL,
        hook_id TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (invocation, ordinal)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE events (
        invocation TEXT NOT NULL REFERENCES invocations, ordinal INTEGER NOT NULL,
        event_type TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (invocation, ordinal)
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
    CREATE TABLE results (
        invocation TEXT PRIMARY KEY REFERENCES invocations, status TEXT NOT NULL, record TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
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
";

/// Opens the store in `dir`; creates it, one process at a time.
pub(super) fn open(dir: &Path) -> Result<Connection, StoreError> {
    let unusable =
        |error: io::Error| StoreError::Unavailable(format!("{}: {error}", dir.display()));
    private::close_dir(dir).map_err(unusable)?;
    let turn = private::open_or_create(&dir.join("opening")).map_err(unusable)?;
    turn.lock().map_err(unusable)?;
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
    // Acknowledged writes survive a crash of the machine too.
    connection.pragma_update(None, "synchronous", "FULL")?;
    create_tables(&mut connection, &path)?;
    Ok(connection)
}

fn create_tables(connection: &mut Connection, file: &Path) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
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
                "the file is not an approval store of toolcell".to_owned(),
            ));
        }
    }
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(())
}
