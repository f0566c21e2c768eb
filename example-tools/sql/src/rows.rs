//! One statement: its parameters, and its rows within the limits.

use rusqlite::{Statement, types::ValueRef};
use toolcell_guest::{
    ToolError,
    serde_json::{Map, Number, Value, json},
};

use crate::{Query, database::Database, error::failure, json_file, result::Answer};

/// Maximum size of all rows, in bytes of JSON. More would not fit into a conversation.
const BYTES_MAX: usize = 1 << 20;
/// Maximum number of bytes that are shown of a BLOB.
const BLOB_BYTES_SHOWN: usize = 64;

pub(crate) fn of(database: &Database, query: &Query) -> Result<Answer, ToolError> {
    let failed = |error: rusqlite::Error| failure("", &error);
    let mut statement = database.connection.prepare(&query.sql).map_err(failed)?;
    if statement.column_count() == 0 {
        let message = "the statement returns no rows: send one that reads, such as SELECT";
        return Err(ToolError::invalid_arguments("sql_invalid", message));
    }
    bind(&mut statement, query.parameters.as_ref())?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut answer = Answer {
        columns,
        rows: Vec::new(),
        truncated: false,
        notes: database.notes.clone(),
    };
    let mut bytes = 0;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(failed)? {
        if answer.rows.len() == query.limit as usize {
            answer.truncated = true;
            break;
        }
        let cells = (0..answer.columns.len()).map(|at| row.get_ref(at).map(json_of));
        let cells: Vec<Value> = cells.collect::<Result<_, _>>().map_err(failed)?;
        bytes += cells
            .iter()
            .map(|cell| cell.to_string().len() + 1)
            .sum::<usize>()
            + 2;
        if bytes > BYTES_MAX {
            if answer.rows.is_empty() {
                let message = format!(
                    "the first row has more than {BYTES_MAX} bytes of JSON: select fewer columns, or use substr()"
                );
                return Err(ToolError::result_too_large("row_too_large", message));
            }
            answer.truncated = true;
            break;
        }
        answer.rows.push(cells);
    }
    Ok(answer)
}

/// Binds a list by position, and an object by name.
fn bind(statement: &mut Statement<'_>, parameters: Option<&Value>) -> Result<(), ToolError> {
    let wanted = statement.parameter_count();
    match parameters {
        None | Some(Value::Null) if wanted == 0 => Ok(()),
        Some(Value::Array(values)) if values.len() == wanted => values
            .iter()
            .enumerate()
            .try_for_each(|(at, value)| bind_one(statement, at + 1, value)),
        Some(Value::Object(values)) => bind_named(statement, values),
        given => {
            let given = given.and_then(Value::as_array).map_or(0, Vec::len);
            let message = format!(
                "the statement has {wanted} parameters, and `parameters` is a list of {given}"
            );
            Err(ToolError::invalid_arguments("parameters_unequal", message))
        }
    }
}

fn bind_named(statement: &mut Statement<'_>, values: &Map<String, Value>) -> Result<(), ToolError> {
    let unequal = |message: String| ToolError::invalid_arguments("parameters_unequal", message);
    let mut used = 0;
    for at in 1..=statement.parameter_count() {
        let Some(name) = statement.parameter_name(at).map(str::to_owned) else {
            return Err(unequal(
                "the statement has a `?`, and `parameters` is an object: name it `:name`"
                    .to_owned(),
            ));
        };
        // A name is written with its sign, such as `:name`, or without.
        let value = values
            .get(&name)
            .or_else(|| values.get(name.get(1..).unwrap_or_default()));
        let Some(value) = value else {
            return Err(unequal(format!(
                "the statement names {name}, and `parameters` does not have it"
            )));
        };
        used += 1;
        bind_one(statement, at, value)?;
    }
    if used == values.len() {
        Ok(())
    } else {
        Err(unequal(format!(
            "the statement names {used} parameters, and `parameters` has {}",
            values.len()
        )))
    }
}

fn bind_one(statement: &mut Statement<'_>, at: usize, value: &Value) -> Result<(), ToolError> {
    statement
        .raw_bind_parameter(at, json_file::cell(value.clone()))
        .map_err(|error| failure("", &error))
}

/// A value as JSON. What JSON does not have is a text, or an object for a BLOB.
fn json_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(whole) => whole.into(),
        ValueRef::Real(real) => {
            Number::from_f64(real).map_or_else(|| real.to_string().into(), Value::Number)
        }
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into(),
        ValueRef::Blob(bytes) => {
            let shown = bytes
                .iter()
                .take(BLOB_BYTES_SHOWN)
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>();
            json!({ "bytes": bytes.len(), "hex": shown })
        }
    }
}
