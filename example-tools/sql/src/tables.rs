//! What is in the files.

use std::fmt::Write;

use toolcell_guest::{ToolError, data};

use crate::{
    database::{Database, quoted},
    error::failure,
    files::{Kind, Named},
};

/// Maximum number of tables that are described.
const TABLES_MAX: usize = 200;

#[data]
pub(crate) struct Schema {
    tables: Vec<Table>,
    /// Whether there are more tables.
    truncated: bool,
    /// What one should know of the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[data]
struct Table {
    /// The file, as it was named.
    file: String,
    /// The table, as a statement names it.
    table: String,
    kind: TableKind,
    columns: Vec<Column>,
    /// The number of rows; absent for a view, whose rows would have to be computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
}

#[data]
#[derive(Clone, Copy, Debug, PartialEq)]
#[serde(rename_all = "snake_case")]
enum TableKind {
    Table,
    View,
}

#[data]
struct Column {
    name: String,
    /// The declared or inferred type; empty if values have several.
    #[serde(rename = "type")]
    kind: String,
}

pub(crate) fn of(database: &Database) -> Result<Schema, ToolError> {
    let mut schema = Schema {
        tables: Vec::new(),
        truncated: false,
        notes: database.notes.clone(),
    };
    for file in &database.files {
        if file.kind != Kind::Sqlite {
            schema
                .tables
                .push(table(database, file, "main", &file.name, TableKind::Table)?);
            continue;
        }
        for (name, kind) in tables(database, file)? {
            if schema.tables.len() == TABLES_MAX {
                schema.truncated = true;
                break;
            }
            schema
                .tables
                .push(table(database, file, &file.name, &name, kind)?);
        }
    }
    Ok(schema)
}

/// The tables and views of an attached file, without SQLite's own.
fn tables(database: &Database, file: &Named) -> Result<Vec<(String, TableKind)>, ToolError> {
    let failed = |error: rusqlite::Error| failure(&file.path, &error);
    let sql = format!(
        "SELECT name, type FROM {}.sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
         ORDER BY name LIMIT {}",
        quoted(&file.name),
        TABLES_MAX + 1
    );
    let mut statement = database.connection.prepare(&sql).map_err(failed)?;
    let rows = statement.query_map([], |row| {
        let kind = if row.get::<_, String>(1)? == "view" {
            TableKind::View
        } else {
            TableKind::Table
        };
        Ok((row.get(0)?, kind))
    });
    rows.map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)
}

fn table(
    database: &Database,
    file: &Named,
    schema: &str,
    name: &str,
    kind: TableKind,
) -> Result<Table, ToolError> {
    let about = if schema == "main" {
        file.path.clone()
    } else {
        format!("{}: {name}", file.path)
    };
    let failed = |error: rusqlite::Error| failure(&about, &error);
    let sql = "SELECT name, type FROM pragma_table_xinfo(?1, ?2) WHERE hidden <> 1";
    let mut statement = database.connection.prepare(sql).map_err(failed)?;
    let columns = statement.query_map([name, schema], |row| {
        Ok(Column {
            name: row.get(0)?,
            kind: row.get(1)?,
        })
    });
    let columns = columns
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    let place = if schema == "main" {
        plain(name)
    } else {
        format!("{}.{}", plain(schema), plain(name))
    };
    let rows = match kind {
        TableKind::View => None,
        TableKind::Table => {
            let count = format!("SELECT count(*) FROM {}.{}", quoted(schema), quoted(name));
            let rows = database
                .connection
                .query_row(&count, [], |row| row.get::<_, i64>(0))
                .map_err(failed)?;
            u64::try_from(rows).ok()
        }
    };
    Ok(Table {
        file: file.path.clone(),
        table: place,
        kind,
        columns,
        rows,
    })
}

/// A name in quotes if it needs them.
fn plain(name: &str) -> String {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let needs_none =
        name.starts_with(|letter: char| letter.is_ascii_alphabetic()) && name.chars().all(letters);
    if needs_none {
        name.to_owned()
    } else {
        quoted(name)
    }
}

pub(crate) fn render(schema: &Schema) -> String {
    let mut text = String::new();
    for table in &schema.tables {
        let columns: Vec<String> = table
            .columns
            .iter()
            .map(|column| {
                format!("{} {}", plain(&column.name), column.kind)
                    .trim_end()
                    .to_owned()
            })
            .collect();
        let rows = match table.rows {
            None => "a view".to_owned(),
            Some(1) => "1 row".to_owned(),
            Some(rows) => format!("{rows} rows"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{} ({}), {rows}: {}",
            table.table,
            columns.join(", "),
            table.file
        );
    }
    if schema.tables.is_empty() {
        text.push_str("no tables\n");
    }
    if schema.truncated {
        let _ = writeln!(text, "(cut after {TABLES_MAX} tables; there are more)");
    }
    for note in &schema.notes {
        let _ = writeln!(text, "({note})");
    }
    text
}
