//! JSON and NDJSON: an object is a row. Rows are read one at a time, because a whole document takes a multiple of its size.

use std::{cell::RefCell, collections::HashMap, fmt};

use rusqlite::Connection;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use toolcell_guest::{
    ToolError,
    serde_json::{self, Value},
};

use crate::{
    files::{self, Named},
    table::{self, COLUMNS_MAX, Cell, Shape, Type},
};

/// The column of values that are no objects.
const VALUE: &str = "value";

/// The fields of an object, in its order; of any other value the one column [`VALUE`].
type Fields = Vec<(String, Value)>;
type Take<'a> = &'a mut dyn FnMut(Fields) -> Result<(), ToolError>;

/// Loads a file into a table of its name. `lines`: a value on each line.
pub(crate) fn load(connection: &Connection, file: &Named, lines: bool) -> Result<u64, ToolError> {
    let bytes = files::read(&file.path)?;
    let mut shape = Shape::default();
    let mut places = HashMap::new();
    each(&file.path, &bytes, lines, &mut |fields| {
        learn(&file.path, &mut shape, &mut places, fields)
    })?;
    if shape.names.is_empty() {
        // A table has to have a column.
        shape = Shape {
            names: vec![VALUE.to_owned()],
            types: vec![Type::Empty],
        };
        places.insert(VALUE.to_owned(), 0);
    }
    table::create(
        connection,
        &file.name,
        &file.path,
        &shape,
        &mut |insertion| {
            each(&file.path, &bytes, lines, &mut |fields| {
                let mut cells: Vec<Cell> = shape.names.iter().map(|_| Cell::Null).collect();
                for (name, value) in fields {
                    if let Some(cell) = places
                        .get(&name.to_ascii_lowercase())
                        .and_then(|at| cells.get_mut(*at))
                    {
                        *cell = self::cell(value);
                    }
                }
                insertion.row(&cells)
            })
        },
    )
}

/// Adds the columns of a row, in the order in which they appear. SQL compares names without regard to case, in ASCII.
fn learn(
    path: &str,
    shape: &mut Shape,
    places: &mut HashMap<String, usize>,
    fields: Fields,
) -> Result<(), ToolError> {
    for (name, value) in fields {
        let at = *places.entry(name.to_ascii_lowercase()).or_insert_with(|| {
            shape.names.push(name);
            shape.types.push(Type::Empty);
            shape.names.len() - 1
        });
        if shape.names.len() > COLUMNS_MAX {
            let message =
                format!("{path}: the objects have more than {COLUMNS_MAX} different keys");
            return Err(ToolError::result_too_large("too_many_columns", message));
        }
        if let Some(kind) = shape.types.get_mut(at) {
            *kind = kind.with(type_of(&value));
        }
    }
    Ok(())
}

fn type_of(value: &Value) -> Type {
    match value {
        Value::Null => Type::Empty,
        Value::Bool(_) => Type::Integer,
        Value::Number(number) if number.is_i64() => Type::Integer,
        Value::Number(_) => Type::Real,
        Value::String(_) | Value::Array(_) | Value::Object(_) => Type::Text,
    }
}

/// A value as SQLite has it: true is 1, and a nested value its JSON text.
pub(crate) fn cell(value: Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Bool(yes) => Cell::Integer(yes.into()),
        Value::Number(number) => number.as_i64().map_or_else(
            || number.as_f64().map_or(Cell::Null, Cell::Real),
            Cell::Integer,
        ),
        Value::String(text) => Cell::Text(text),
        nested => Cell::Text(nested.to_string()),
    }
}

/// Calls `take` with each row.
fn each(path: &str, bytes: &[u8], lines: bool, take: Take<'_>) -> Result<(), ToolError> {
    let stopped = RefCell::new(None);
    let mut row = 0;
    let mut take = |fields: Fields| {
        row += 1;
        table::look(row)
            .and_then(|()| take(fields))
            .map_err(|error| {
                *stopped.borrow_mut() = Some(error);
            })
    };
    let read = if lines {
        each_line(bytes, &mut take)
    } else {
        each_item(bytes, &mut take)
    };
    match (stopped.into_inner(), read) {
        (Some(error), _) => Err(error),
        (None, Err(what)) => Err(ToolError::invalid_arguments(
            "json_invalid",
            format!("{path}: {what}"),
        )),
        (None, Ok(())) => Ok(()),
    }
}

/// `Err(())` if the rows are not wanted any more.
type Feed<'a> = &'a mut dyn FnMut(Fields) -> Result<(), ()>;

fn each_item(bytes: &[u8], take: Feed<'_>) -> Result<(), String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Document(take)
        .deserialize(&mut reader)
        .and_then(|()| reader.end());
    read.map_err(|error| error.to_string())
}

fn each_line(bytes: &[u8], take: Feed<'_>) -> Result<(), String> {
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let mut reader = serde_json::Deserializer::from_slice(line);
        let read = Row
            .deserialize(&mut reader)
            .and_then(|fields| reader.end().map(|()| fields));
        let fields = read.map_err(|error| {
            let text = error.to_string();
            let what = text
                .rsplit_once(" at line ")
                .map_or(text.as_str(), |(what, _)| what);
            format!("{what} at line {number} column {}", error.column())
        })?;
        if take(fields).is_err() {
            break;
        }
    }
    Ok(())
}

/// A document: an array of rows, or one row.
struct Document<'a>(Feed<'a>);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array of objects, or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(fields) = items.next_element_seed(Row)? {
            if (self.0)(fields).is_err() {
                // The caller knows why.
                return Err(serde::de::Error::custom("stopped"));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        (self.0)(Row.visit_map(map)?).map_err(|()| serde::de::Error::custom("stopped"))
    }
}

/// One row.
struct Row;

impl<'de> DeserializeSeed<'de> for Row {
    type Value = Fields;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! plain {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E: serde::de::Error>(self, value: $type) -> Result<Fields, E> {
            Ok(vec![(VALUE.to_owned(), Value::from(value))])
        })*
    };
}

impl<'de> Visitor<'de> for Row {
    type Value = Fields;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Fields, A::Error> {
        let mut nested = Vec::new();
        while let Some(item) = items.next_element::<Value>()? {
            nested.push(item);
        }
        Ok(vec![(VALUE.to_owned(), Value::Array(nested))])
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Fields, E> {
        Ok(vec![(VALUE.to_owned(), Value::Null)])
    }

    plain!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);
}
