//! One connection of SQLite for a call: its files as tables and schemas, and no way to change anything.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

use rusqlite::{
    Connection,
    config::DbConfig,
    functions::FunctionFlags,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
    types::ValueRef,
};
use toolcell_guest::{
    ToolError, cancellation,
    progress::{self, Update},
};

use crate::{
    Source, csv_file,
    error::failure,
    files::{self, Kind, Named},
    json_file,
};

/// Maximum size of one value, in bytes.
const VALUE_BYTES_MAX: i32 = 16 << 20;
/// Steps of SQLite's virtual machine between two looks for a cancellation: less than a millisecond.
const STEPS_PER_LOOK: i32 = 10_000;

/// PRAGMAs that show something, and change nothing as long as they have no value.
const SHOWN: [&str; 7] = [
    "application_id",
    "database_list",
    "encoding",
    "page_count",
    "page_size",
    "table_list",
    "user_version",
];
/// PRAGMAs whose value names a table or an index.
const SHOWN_OF: [&str; 6] = [
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_xinfo",
];

pub(crate) struct Database {
    pub(crate) connection: Connection,
    pub(crate) files: Vec<Named>,
    /// What the caller should know of the files.
    pub(crate) notes: Vec<String>,
}

impl Database {
    /// Loads CSV and JSON files into memory, and attaches SQLite files, which are read as they are needed.
    pub(crate) fn open(sources: &[Source]) -> Result<Self, ToolError> {
        let files = files::named(sources)?;
        let mut connection = connection().map_err(|error| failure("", &error))?;
        let mut notes = Vec::new();
        for file in &files {
            if cancellation::requested().is_some() {
                return Err(crate::error::canceled());
            }
            load(&mut connection, file, &mut notes)?;
        }
        close(&mut connection).map_err(|error| failure("", &error))?;
        Ok(Self {
            connection,
            files,
            notes,
        })
    }
}

/// An empty database in memory, in which files of others are not trusted.
fn connection() -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    for (option, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false),
        // A misspelt column in double quotes would be a text.
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
    ] {
        connection.set_db_config(option, value)?;
    }
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    // There is no folder for temporary files.
    connection.execute_batch(
        "PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON; PRAGMA journal_mode = OFF;",
    )?;
    randomize(&connection)?;
    connection.progress_handler(STEPS_PER_LOOK, Some(|| cancellation::requested().is_some()))?;
    Ok(connection)
}

/// Gives `random()` numbers of its own in each call. In a sandbox, SQLite's generator begins with the time in seconds.
fn randomize(connection: &Connection) -> rusqlite::Result<()> {
    let keys = RandomState::new();
    let next = AtomicU64::new(0);
    connection.create_scalar_function("random", 0, FunctionFlags::SQLITE_UTF8, move |_| {
        Ok(keys
            .hash_one(next.fetch_add(1, Ordering::Relaxed))
            .cast_signed())
    })
}

fn load(
    connection: &mut Connection,
    file: &Named,
    notes: &mut Vec<String>,
) -> Result<(), ToolError> {
    let table = match file.kind {
        Kind::Sqlite => return attach(connection, file, notes),
        Kind::Csv => csv_file::load(connection, file, None)?,
        Kind::Tsv => csv_file::load(connection, file, Some(b'\t'))?,
        Kind::Json => json_file::load(connection, file, false)?,
        Kind::Lines => json_file::load(connection, file, true)?,
    };
    progress::report(Update::new().message(format!("{}: {table} rows", file.path)));
    Ok(())
}

/// Attaches a SQLite file. Without a lock and without its log, because the folder cannot be written to.
fn attach(connection: &Connection, file: &Named, notes: &mut Vec<String>) -> Result<(), ToolError> {
    let failed = |error: rusqlite::Error| failure(&file.path, &error);
    let uri = format!("file:{}?mode=ro&immutable=1", escaped(&file.path));
    connection
        .execute(&format!("ATTACH ?1 AS {}", quoted(&file.name)), [uri])
        .map_err(failed)?;
    // Reads the header and the schema, so that the error names the file.
    if !names_are_text(connection, &file.name).map_err(failed)? {
        let message = format!("{}: a name in it is not UTF-8 text", file.path);
        return Err(ToolError::execution_failed("database_corrupt", message));
    }
    let pending = files::pending_bytes(&file.path);
    if pending > 0 {
        notes.push(format!(
            "{}: {pending} bytes of changes are in its -wal file, and not seen: close the program that has it open",
            file.path
        ));
    }
    Ok(())
}

/// Whether all names in a schema are UTF-8. SQLite does not check them, and a panic over one would be a crash.
fn names_are_text(connection: &Connection, schema: &str) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT type, name, tbl_name, sql FROM {}.sqlite_schema",
        quoted(schema)
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for at in 0..4 {
            if matches!(row.get_ref(at)?, ValueRef::Text(bytes) if std::str::from_utf8(bytes).is_err())
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// From here on, statements can only read.
fn close(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA query_only = ON;")?;
    connection.authorizer(Some(|context: AuthContext<'_>| {
        if is_reading(&context.action) {
            Authorization::Allow
        } else {
            Authorization::Deny
        }
    }))
}

fn is_reading(action: &AuthAction<'_>) -> bool {
    let one_of =
        |names: &[&str], name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => {
            !one_of(&["load_extension", "fts3_tokenizer"], function_name)
        }
        AuthAction::Pragma {
            pragma_name,
            pragma_value: None,
        } => one_of(&SHOWN, pragma_name) || one_of(&SHOWN_OF, pragma_name),
        AuthAction::Pragma { pragma_name, .. } => one_of(&SHOWN_OF, pragma_name),
        _ => false,
    }
}

/// A name in double quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A path in a URI.
fn escaped(path: &str) -> String {
    path.replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23")
}
