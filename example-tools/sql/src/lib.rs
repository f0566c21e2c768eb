//! Queries CSV, JSON and SQLite files with SQLite, and changes none.

mod csv_file;
mod database;
mod error;
mod files;
mod json_file;
mod result;
mod rows;
mod table;
mod tables;

#[cfg(test)]
mod tests;

use toolcell_guest::{Output, ToolError, data, serde_json::Value, tool, toolkit};

use database::Database;
use result::Answer;
use tables::Schema;

#[data]
struct Source {
    /// The file: CSV, TSV, JSON, NDJSON or SQLite.
    path: String,
    /// The name of the table, or of the schema that a SQLite file becomes. Default: the name of the file, with `_` for
    /// characters that no SQL name has.
    #[serde(default)]
    #[schemars(length(min = 1, max = 64))]
    table: Option<String>,
}

#[data]
struct Query {
    /// One read-only SQLite statement, such as `SELECT city, count(*) FROM people GROUP BY city`.
    #[schemars(length(min = 1, max = 100_000))]
    sql: String,
    /// The files that the statement reads.
    #[schemars(length(max = 10))]
    files: Vec<Source>,
    /// Query parameters: an array for `?`, or an object for `:name`. Nested arrays and objects are passed as JSON text.
    #[serde(default)]
    parameters: Option<Value>,
    /// At most so many rows.
    #[serde(default = "rows_max")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: u32,
}

fn rows_max() -> u32 {
    1000
}

#[data]
struct Files {
    /// The files to look at.
    #[schemars(length(min = 1, max = 10))]
    files: Vec<Source>,
}

/// Runs one read-only SQL query on CSV, TSV, JSON, NDJSON or SQLite files and returns the rows.
///
/// A CSV or JSON file is a table. The first line of a CSV file names its columns, whose types are inferred; an empty field
/// is NULL. In JSON, an array of objects gives one row for each, and nested values are JSON text. A SQLite file is a schema
/// with its tables. Nothing can be changed.
#[tool(
    kind = "file_operation",
    search_hint = "SQL query CSV JSON SQLite table rows aggregate join",
    access = ["file_read"],
    paths = ["/files/*/path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
fn query(input: Query) -> Result<Output<Answer>, ToolError> {
    let database = Database::open(&input.files)?;
    let answer = rows::of(&database, &input)?;
    Ok(Output::new()
        .text(result::render(&answer))
        .structured(answer))
}

/// Lists the tables of CSV, TSV, JSON, NDJSON and SQLite files: columns, types and numbers of rows.
#[tool(
    kind = "file_operation",
    search_hint = "tables columns types of CSV JSON SQLite files",
    access = ["file_read"],
    paths = ["/files/*/path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
fn schema(input: Files) -> Result<Output<Schema>, ToolError> {
    let database = Database::open(&input.files)?;
    let schema = tables::of(&database)?;
    Ok(Output::new()
        .text(tables::render(&schema))
        .structured(schema))
}

toolkit! { namespace: "sql", tools: [query, schema] }
