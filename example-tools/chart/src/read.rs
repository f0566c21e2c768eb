//! CSV, TSV, JSON and NDJSON files. Rows are read one at a time, because a whole document takes a multiple of its size.

use std::{
    cell::RefCell,
    fmt,
    fs::File,
    io::{ErrorKind, Read},
    path::Path,
};

use csv::{ByteRecord, ReaderBuilder};
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use toolcell_guest::{
    ToolError,
    serde_json::{self, Map, Value},
};

use crate::table::{Cell, Table};

/// Maximum size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// Delimiters that are looked for in the first line.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

pub(crate) fn file(path: &str, table: &mut Table) -> Result<(), ToolError> {
    let bytes = bytes(path)?;
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes);
    let extension = Path::new(path)
        .extension()
        .map(|name| name.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default();
    match extension.as_str() {
        "csv" => csv(path, bytes, most(bytes), table),
        "tsv" | "tab" => csv(path, bytes, b'\t', table),
        "json" => json(path, bytes, table),
        "ndjson" | "jsonl" => lines(path, bytes, table),
        _ => Err(ToolError::invalid_arguments(
            "format_unknown",
            format!("{path}: the name must end with .csv, .tsv, .json, .ndjson or .jsonl"),
        )),
    }
}

fn bytes(path: &str) -> Result<Vec<u8>, ToolError> {
    let failed = |error| ToolError::at_path(path, &error);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(failed(ErrorKind::IsADirectory.into()));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ToolError::result_too_large(
            "file_too_large",
            format!(
                "{path}: a file may have {} MiB: aggregate or filter it first",
                FILE_BYTES_MAX >> 20
            ),
        ));
    }
    Ok(bytes)
}

fn csv(path: &str, bytes: &[u8], delimiter: u8, table: &mut Table) -> Result<(), ToolError> {
    let failed =
        |error: csv::Error| ToolError::invalid_arguments("csv_invalid", format!("{path}: {error}"));
    let mut reader = ReaderBuilder::new().delimiter(delimiter).from_reader(bytes);
    let places = table.header(reader.headers().map_err(failed)?.iter());
    table.check_columns()?;
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(failed)? {
        let cells = places
            .iter()
            .map(|place| {
                let field = place
                    .and_then(|place| record.get(place))
                    .unwrap_or_default();
                Cell::of_text(&String::from_utf8_lossy(field))
            })
            .collect();
        table.push(cells)?;
    }
    Ok(())
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
    let best = counts
        .iter()
        .zip(DELIMITERS)
        .rev()
        .max_by_key(|(count, _)| **count);
    best.map_or(b',', |(_, delimiter)| delimiter)
}

fn lines(path: &str, bytes: &[u8], table: &mut Table) -> Result<(), ToolError> {
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let row: Map<String, Value> = serde_json::from_slice(line)
            .map_err(|error| json_invalid(&format!("{path}, line {number}"), &error))?;
        table.push_object(&row)?;
    }
    Ok(())
}

fn json(path: &str, bytes: &[u8], table: &mut Table) -> Result<(), ToolError> {
    let stopped = RefCell::new(None);
    let mut push = |row: &Map<String, Value>| {
        table.push_object(row).map_err(|error| {
            *stopped.borrow_mut() = Some(error);
        })
    };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Rows(&mut push)
        .deserialize(&mut reader)
        .and_then(|()| reader.end());
    match (stopped.into_inner(), read) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(json_invalid(path, &error)),
        (None, Ok(())) => Ok(()),
    }
}

fn json_invalid(place: &str, error: &serde_json::Error) -> ToolError {
    ToolError::invalid_arguments("json_invalid", format!("{place}: {error}"))
}

/// `Err(())` if the rows are not wanted any more.
type Push<'a> = &'a mut dyn FnMut(&Map<String, Value>) -> Result<(), ()>;

/// An array of objects.
struct Rows<'a>(Push<'a>);

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(row) = items.next_element::<Map<String, Value>>()? {
            if (self.0)(&row).is_err() {
                return Err(serde::de::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}
