use std::fmt::Write;

use toolcell_guest::{data, serde_json::Value};

/// Characters that a cell of the text for the model has at most; the structured answer has them all.
const CELL_CHARS_MAX: usize = 500;

#[data]
pub(crate) struct Answer {
    /// The names of the columns.
    pub(crate) columns: Vec<String>,
    /// The rows: a list of values each, in the order of the columns. A BLOB is an object with its size and the beginning
    /// of its bytes.
    pub(crate) rows: Vec<Vec<Value>>,
    /// Whether there are more rows.
    pub(crate) truncated: bool,
    /// What one should know of the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// A line for each row, its values between bars.
pub(crate) fn render(answer: &Answer) -> String {
    let mut text = answer
        .columns
        .iter()
        .map(|name| shown(name))
        .collect::<Vec<_>>()
        .join(" | ");
    for row in &answer.rows {
        let cells: Vec<String> = row.iter().map(cell).collect();
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{}", cells.join(" | "));
    }
    if answer.rows.is_empty() {
        text.push_str("\n(no rows)");
    }
    if answer.truncated {
        let _ = write!(
            text,
            "\n(cut after {} rows; there are more)",
            answer.rows.len()
        );
    }
    for note in &answer.notes {
        let _ = write!(text, "\n({note})");
    }
    text.push('\n');
    text
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => shown(text),
        other => other.to_string(),
    }
}

/// A text on one line.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(CELL_CHARS_MAX).collect();
    let more = if cut.len() < text.len() { ".." } else { "" };
    format!(
        "{}{more}",
        cut.replace('\\', "\\\\")
            .replace('\n', "\\n")
            .replace('\r', "\\r")
            .replace('|', "\\|")
    )
}
