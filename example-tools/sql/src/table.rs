//! A table in memory: its columns, and the type of each, which is found from all rows before the first is inserted.

use rusqlite::{
    Connection, Statement, ToSql,
    types::{Null, ToSqlOutput},
};
use toolcell_guest::{ToolError, cancellation};

use crate::{
    database::quoted,
    error::{canceled, failure},
};

/// Maximum number of columns, which is SQLite's.
pub(crate) const COLUMNS_MAX: usize = 2000;
/// Rows between two looks for a cancellation.
const ROWS_PER_LOOK: u64 = 1024;

/// What the values of a column have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Type {
    /// No value yet.
    #[default]
    Empty,
    Integer,
    Real,
    Text,
    /// Values of several types; each keeps its own.
    Mixed,
}

impl Type {
    /// The declared type, which SQLite converts values to.
    fn declared(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text | Self::Empty => "TEXT",
            Self::Mixed => "",
        }
    }

    /// The type of a column that has values of both.
    pub(crate) fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Empty, one) | (one, Self::Empty) => one,
            (one, same) if one == same => one,
            (Self::Integer, Self::Real) | (Self::Real, Self::Integer) => Self::Real,
            _ => Self::Mixed,
        }
    }
}

/// One value of a row.
#[derive(Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Null => Ok(ToSqlOutput::from(Null)),
            Self::Integer(whole) => Ok(ToSqlOutput::from(*whole)),
            Self::Real(real) => Ok(ToSqlOutput::from(*real)),
            Self::Text(text) => text.to_sql(),
        }
    }
}

/// The columns of a table.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    pub(crate) names: Vec<String>,
    pub(crate) types: Vec<Type>,
}

/// Creates `table` and fills it: `fill` calls the insertion once for each row, with as many cells as there are columns.
/// Returns the number of rows.
pub(crate) fn create(
    connection: &Connection,
    table: &str,
    path: &str,
    shape: &Shape,
    fill: &mut dyn FnMut(&mut Insertion<'_>) -> Result<(), ToolError>,
) -> Result<u64, ToolError> {
    let failed = |error: rusqlite::Error| failure(path, &error);
    let columns: Vec<String> = shape
        .names
        .iter()
        .zip(&shape.types)
        .map(|(name, kind)| format!("{} {}", quoted(name), kind.declared()))
        .collect();
    connection.execute_batch("BEGIN").map_err(failed)?;
    let create = format!("CREATE TABLE {} ({})", quoted(table), columns.join(", "));
    connection.execute_batch(&create).map_err(failed)?;
    let places = vec!["?"; shape.names.len()].join(", ");
    let insert = format!("INSERT INTO {} VALUES ({places})", quoted(table));
    let statement = connection.prepare(&insert).map_err(failed)?;
    let mut insertion = Insertion {
        statement,
        path,
        rows: 0,
    };
    fill(&mut insertion)?;
    let rows = insertion.rows;
    drop(insertion);
    connection.execute_batch("COMMIT").map_err(failed)?;
    Ok(rows)
}

/// Inserts rows into one table.
pub(crate) struct Insertion<'a> {
    statement: Statement<'a>,
    path: &'a str,
    rows: u64,
}

impl Insertion<'_> {
    pub(crate) fn row(&mut self, cells: &[Cell]) -> Result<(), ToolError> {
        self.rows += 1;
        look(self.rows)?;
        let inserted = self.statement.execute(rusqlite::params_from_iter(cells));
        inserted
            .map(|_| ())
            .map_err(|error| failure(self.path, &error))
    }
}

/// Fails if the call is canceled; looks at some rows alone.
pub(crate) fn look(row: u64) -> Result<(), ToolError> {
    if row.is_multiple_of(ROWS_PER_LOOK) && cancellation::requested().is_some() {
        Err(canceled())
    } else {
        Ok(())
    }
}
