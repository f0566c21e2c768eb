//! CSV and TSV: the first line names the columns; the types are those that all values of a column have.

use std::collections::HashSet;

use csv::{ReaderBuilder, StringRecord};
use rusqlite::Connection;
use toolcell_guest::ToolError;

use crate::{
    files::{self, Named},
    table::{self, COLUMNS_MAX, Cell, Shape, Type},
};

/// Maximum size of one field, in bytes. A quote that is never closed makes a field of the rest of the file.
const FIELD_BYTES_MAX: usize = 1 << 20;
/// Delimiters that are looked for in the first line.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Loads a file into a table of its name. `delimiter`: `None` to take the one that the first line has most of.
pub(crate) fn load(
    connection: &Connection,
    file: &Named,
    delimiter: Option<u8>,
) -> Result<u64, ToolError> {
    let bytes = files::read(&file.path)?;
    let delimiter = delimiter.unwrap_or_else(|| most(&bytes));
    let names = header(&file.path, &bytes, delimiter)?;
    let mut shape = Shape {
        types: vec![Type::Empty; names.len()],
        names,
    };
    each(&file.path, &bytes, delimiter, &mut |record| {
        for (field, kind) in record.iter().zip(&mut shape.types) {
            // A column that is not only numbers is text, so that 007 keeps its zeros.
            *kind = match kind.with(type_of(field)) {
                Type::Mixed => Type::Text,
                kind => kind,
            };
        }
        Ok(())
    })?;
    let types = shape.types.clone();
    table::create(
        connection,
        &file.name,
        &file.path,
        &shape,
        &mut |insertion| {
            let mut cells = Vec::with_capacity(types.len());
            each(&file.path, &bytes, delimiter, &mut |record| {
                cells.clear();
                cells.extend(
                    record
                        .iter()
                        .zip(&types)
                        .map(|(field, kind)| cell(field, *kind)),
                );
                insertion.row(&cells)
            })
        },
    )
}

fn header(path: &str, bytes: &[u8], delimiter: u8) -> Result<Vec<String>, ToolError> {
    let mut record = StringRecord::new();
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .from_reader(bytes);
    if !reader
        .read_record(&mut record)
        .map_err(|error| unreadable(path, &error))?
    {
        return Err(ToolError::invalid_arguments(
            "csv_invalid",
            format!("{path}: the file is empty: it has no header"),
        ));
    }
    check(path, &record)?;
    if record.len() > COLUMNS_MAX {
        let message = format!(
            "{path}: {} columns, and a table has at most {COLUMNS_MAX}",
            record.len()
        );
        return Err(ToolError::result_too_large("too_many_columns", message));
    }
    let mut taken = HashSet::new();
    let names = record.iter().enumerate().map(|(at, name)| {
        let name = if name.trim().is_empty() {
            format!("column_{}", at + 1)
        } else {
            name.trim().to_owned()
        };
        let mut unique = name.clone();
        let mut number = 2;
        while !taken.insert(unique.to_ascii_lowercase()) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        unique
    });
    Ok(names.collect())
}

/// Calls `take` with each record after the header.
fn each(
    path: &str,
    bytes: &[u8],
    delimiter: u8,
    take: &mut dyn FnMut(&StringRecord) -> Result<(), ToolError>,
) -> Result<(), ToolError> {
    // The header is a record like others, because an error in a record after a hidden one has the place of that one.
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .from_reader(bytes);
    let mut record = StringRecord::new();
    reader
        .read_record(&mut record)
        .map_err(|error| unreadable(path, &error))?;
    let mut row = 0;
    while reader
        .read_record(&mut record)
        .map_err(|error| unreadable(path, &error))?
    {
        check(path, &record)?;
        row += 1;
        table::look(row)?;
        take(&record)?;
    }
    Ok(())
}

fn check(path: &str, record: &StringRecord) -> Result<(), ToolError> {
    if record.iter().all(|field| field.len() <= FIELD_BYTES_MAX) {
        return Ok(());
    }
    let line = record.position().map_or(1, csv::Position::line);
    Err(ToolError::invalid_arguments(
        "csv_invalid",
        format!(
            "{path}: line {line}: a field has more than {FIELD_BYTES_MAX} bytes: is a quote never closed?"
        ),
    ))
}

fn unreadable(path: &str, error: &csv::Error) -> ToolError {
    let line = |position: &Option<csv::Position>| position.as_ref().map_or(1, csv::Position::line);
    let what = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            pos,
            expected_len,
            len,
        } => {
            format!(
                "line {}: {len} fields where the header has {expected_len}",
                line(pos)
            )
        }
        csv::ErrorKind::Utf8 { pos, .. } => format!("line {}: it is not UTF-8 text", line(pos)),
        _ => error.to_string(),
    };
    ToolError::invalid_arguments("csv_invalid", format!("{path}: {what}"))
}

/// The delimiter that the first line has most of, outside of quotes.
fn most(bytes: &[u8]) -> u8 {
    let mut counts = [0_usize; DELIMITERS.len()];
    let mut quoted = false;
    for byte in bytes.iter().take_while(|byte| **byte != b'\n') {
        quoted ^= *byte == b'"';
        for (count, delimiter) in counts.iter_mut().zip(DELIMITERS) {
            *count += usize::from(!quoted && *byte == delimiter);
        }
    }
    // The first of several with the same count.
    let best = counts
        .iter()
        .zip(DELIMITERS)
        .rev()
        .max_by_key(|(count, _)| **count);
    best.map_or(b',', |(_, delimiter)| delimiter)
}

fn type_of(field: &str) -> Type {
    if field.is_empty() {
        Type::Empty
    } else if is_plain(field) && field.parse::<i64>().is_ok() {
        Type::Integer
    } else if is_plain(field) && field.parse::<f64>().is_ok_and(f64::is_finite) {
        Type::Real
    } else {
        Type::Text
    }
}

/// Whether a text is written as numbers are: `007` and `+49` are codes, and `inf` is a word.
fn is_plain(field: &str) -> bool {
    let digits = field.strip_prefix('-').unwrap_or(field);
    let mut letters = digits.chars();
    let first = letters.next();
    let second = letters.next();
    let padded = first == Some('0') && second.is_some_and(|letter| letter.is_ascii_digit());
    !padded
        && first.is_some_and(|letter| letter.is_ascii_digit())
        && digits
            .chars()
            .all(|letter| letter.is_ascii_digit() || matches!(letter, '.' | 'e' | 'E' | '+' | '-'))
}

fn cell(field: &str, kind: Type) -> Cell {
    let text = || Cell::Text(field.to_owned());
    match kind {
        _ if field.is_empty() => Cell::Null,
        Type::Integer => field.parse().map_or_else(|_| text(), Cell::Integer),
        Type::Real => field.parse().map_or_else(|_| text(), Cell::Real),
        _ => text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_written_as_a_number_is_one() {
        for field in ["0", "-1", "9223372036854775807"] {
            assert_eq!(type_of(field), Type::Integer, "{field}");
        }
        for field in ["0.5", "-1e3", "9223372036854775808", "1."] {
            assert_eq!(type_of(field), Type::Real, "{field}");
        }
        for field in [
            "007",
            "+49",
            "inf",
            "NaN",
            "1,5",
            "1e999",
            "-",
            "2024-01-01",
            " 1",
            "0x1",
        ] {
            assert_eq!(type_of(field), Type::Text, "{field}");
        }
    }

    #[test]
    fn the_delimiter_is_the_one_that_the_first_line_has_most_of() {
        assert_eq!(most(b"a;b;\"c,d,e,f\"\n1,2,3,4,5"), b';');
        assert_eq!(most(b"a\tb"), b'\t');
        assert_eq!(most(b"alone"), b',');
        assert_eq!(most(b""), b',');
    }
}
