//! The files of a call: what kind each is, and the name that it gets in SQL.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{ErrorKind, Read},
    path::Path,
};

use toolcell_guest::ToolError;

use crate::{Source, error::out_of_memory};

/// Maximum size of a CSV or JSON file, in bytes, because its table is kept in memory. A SQLite file can be of any size.
pub(crate) const TEXT_BYTES_MAX: u64 = 64 << 20;

/// The first bytes of every SQLite file that is not empty.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Sqlite,
    Csv,
    Tsv,
    Json,
    /// JSON values, one on a line.
    Lines,
}

/// A file of the call.
#[derive(Debug)]
pub(crate) struct Named {
    /// As the caller named it.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    /// The table, or the schema of a SQLite file.
    pub(crate) name: String,
}

/// Opens each file to see its kind, and gives each a name of its own.
pub(crate) fn named(sources: &[Source]) -> Result<Vec<Named>, ToolError> {
    let mut taken = HashSet::from(["main".to_owned(), "temp".to_owned()]);
    let mut files = Vec::new();
    for source in sources {
        let kind = kind(Path::new(&source.path))?;
        let name = match &source.table {
            Some(name) => checked(name)?,
            None => default_name(&source.path),
        };
        // SQL compares names without regard to case.
        if !taken.insert(name.to_ascii_lowercase()) {
            return Err(ToolError::invalid_arguments(
                "name_taken",
                format!(
                    "{}: the name {name} is taken: give the file another one with `table`",
                    source.path
                ),
            ));
        }
        files.push(Named {
            path: source.path.clone(),
            kind,
            name,
        });
    }
    Ok(files)
}

/// The whole file, which may not be too large.
pub(crate) fn read(path: &str) -> Result<Vec<u8>, ToolError> {
    let failed = |error| ToolError::at_path(path, &error);
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut bytes = Vec::new();
    if size <= TEXT_BYTES_MAX {
        // At once, because a vector that grows takes twice as much for a while.
        let room = usize::try_from(size).unwrap_or(usize::MAX);
        bytes
            .try_reserve_exact(room.saturating_add(1))
            .map_err(|_| out_of_memory(path))?;
        file.take(TEXT_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
    }
    if size > TEXT_BYTES_MAX || bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(ToolError::result_too_large(
            "file_too_large",
            format!(
                "{path}: a CSV or JSON file may have {} MiB: put it into a SQLite file",
                TEXT_BYTES_MAX >> 20
            ),
        ));
    }
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        bytes.drain(..3);
    }
    Ok(bytes)
}

/// The size of the log of changes beside a SQLite file that its own file does not have yet.
pub(crate) fn pending_bytes(path: &str) -> u64 {
    fs::metadata(format!("{path}-wal")).map_or(0, |metadata| metadata.len())
}

fn kind(path: &Path) -> Result<Kind, ToolError> {
    let failed = |error| ToolError::at_path(path, &error);
    let mut file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(failed(ErrorKind::IsADirectory.into()));
    }
    let mut first = [0; MAGIC.len()];
    let magic = file.read_exact(&mut first).is_ok() && &first == MAGIC;
    let extension = path
        .extension()
        .map(|name| name.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default();
    match extension.as_str() {
        _ if magic => Ok(Kind::Sqlite),
        "csv" => Ok(Kind::Csv),
        "tsv" | "tab" => Ok(Kind::Tsv),
        "json" => Ok(Kind::Json),
        "ndjson" | "jsonl" => Ok(Kind::Lines),
        // An empty file is an empty database.
        "db" | "db3" | "sqlite" | "sqlite3" => Ok(Kind::Sqlite),
        _ => Err(ToolError::invalid_arguments(
            "format_unknown",
            format!(
                "{}: neither a SQLite file nor named .csv, .tsv, .tab, .json, .ndjson or .jsonl",
                path.display()
            ),
        )),
    }
}

fn checked(name: &str) -> Result<String, ToolError> {
    if name.to_ascii_lowercase().starts_with("sqlite_") || name.chars().any(char::is_control) {
        let message = format!(
            "{name:?} cannot name a table: `sqlite_` and control characters are not for names"
        );
        return Err(ToolError::invalid_arguments("name_invalid", message));
    }
    Ok(name.to_owned())
}

/// A name that needs no quotes.
fn default_name(path: &str) -> String {
    let stem = Path::new(path)
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    let mut name: String = stem
        .chars()
        .take(64)
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '_'
            }
        })
        .collect();
    if !name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        || name.to_ascii_lowercase().starts_with("sqlite_")
    {
        name.insert_str(0, "t_");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::default_name;

    #[test]
    fn a_name_of_a_file_becomes_one_of_sql() {
        for (path, name) in [
            ("/a/people.csv", "people"),
            ("2024-sales.csv", "t_2024_sales"),
            ("ü.json", "t__"),
            ("sqlite_x.db", "t_sqlite_x"),
            ("", "t_"),
        ] {
            assert_eq!(default_name(path), name);
        }
    }
}
