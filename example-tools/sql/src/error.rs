use rusqlite::ErrorCode;
use toolcell_guest::{ToolError, cancellation};

/// The failure that an error of SQLite means. `what` is the file or the table that it is about; empty for the statement.
pub(crate) fn failure(what: &str, error: &rusqlite::Error) -> ToolError {
    if let rusqlite::Error::SqlInputError {
        error: inner,
        msg,
        sql,
        offset,
    } = error
    {
        return match usize::try_from(*offset) {
            Ok(offset) if what.is_empty() => {
                let (line, column) = place(sql, offset);
                ToolError::invalid_arguments(
                    "sql_invalid",
                    format!("line {line}, column {column}: {msg}"),
                )
            }
            _ => by_code(what, inner.code, msg),
        };
    }
    match error {
        rusqlite::Error::SqliteFailure(inner, said) => {
            let said = said.clone().unwrap_or_else(|| inner.to_string());
            by_code(what, inner.code, &said)
        }
        rusqlite::Error::MultipleStatement => ToolError::invalid_arguments(
            "sql_invalid",
            "more than one statement: send each in a call of its own",
        ),
        other => ToolError::invalid_arguments("sql_invalid", other.to_string()),
    }
}

fn by_code(what: &str, code: ErrorCode, said: &str) -> ToolError {
    let place = if what.is_empty() {
        String::new()
    } else {
        format!("{what}: ")
    };
    match code {
        ErrorCode::OperationInterrupted => canceled(),
        ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly => {
            ToolError::invalid_arguments(
                "not_allowed",
                format!("{place}this tool only reads: {said}"),
            )
        }
        ErrorCode::NotADatabase => ToolError::invalid_arguments(
            "not_a_database",
            format!("{place}it is not a SQLite file, or it is encrypted"),
        ),
        ErrorCode::DatabaseCorrupt => ToolError::execution_failed(
            "database_corrupt",
            format!("{place}the SQLite file is damaged: {said}"),
        ),
        ErrorCode::OutOfMemory => out_of_memory(if what.is_empty() {
            "the statement"
        } else {
            what
        }),
        ErrorCode::TooBig => {
            ToolError::result_too_large("value_too_large", format!("{place}{said}"))
        }
        ErrorCode::Unknown if what.is_empty() => {
            ToolError::invalid_arguments("sql_invalid", said.to_owned())
        }
        _ => ToolError::execution_failed("sql_failed", format!("{place}{said}")),
    }
}

/// The failure of a file, a table or a statement that takes more memory than the call has.
pub(crate) fn out_of_memory(what: &str) -> ToolError {
    let message = format!(
        "{what} does not fit into the memory of the call: take less data, or raise the limit"
    );
    ToolError::result_too_large("out_of_memory", message)
}

/// The failure of a call that was asked to stop. SQLite stops a statement for no other reason.
pub(crate) fn canceled() -> ToolError {
    cancellation::acknowledge();
    match cancellation::check() {
        Err(stop) => stop.into(),
        Ok(()) => ToolError::canceled("canceled", "the statement was stopped"),
    }
}

/// Line and column of a byte, both counted from 1, the column in characters.
fn place(sql: &str, offset: usize) -> (usize, usize) {
    let before: String =
        String::from_utf8_lossy(sql.as_bytes().get(..offset).unwrap_or(sql.as_bytes()))
            .into_owned();
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn a_place_is_counted_in_lines_and_characters() {
        assert_eq!(place("SELECT x", 7), (1, 8));
        assert_eq!(place("SELECT 'é',\n x", 14), (2, 2));
        assert_eq!(place("", 5), (1, 1));
    }
}
