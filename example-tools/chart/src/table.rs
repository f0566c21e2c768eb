//! The columns of the data that a chart needs.

use toolcell_guest::{
    ToolError,
    serde_json::{Map, Value},
};

use crate::{Draw, read};

/// Maximum number of rows: what a chart of this size can show, and a call can hold.
pub(crate) const ROWS_MAX: usize = 100_000;
/// Names of columns that an error lists.
const NAMES_SHOWN: usize = 20;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Empty,
    Number(f64),
    Text(String),
}

/// Rows with the wanted columns alone, in their order.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Columns that were seen in the data, for errors.
    seen: Vec<String>,
    /// Which of `columns` the data has.
    found: Vec<bool>,
}

/// Reads the columns that the chart needs.
pub(crate) fn load(input: &Draw) -> Result<Table, ToolError> {
    let mut table = Table::new(input);
    match (&input.rows, &input.file) {
        (Some(rows), _) => {
            for row in rows {
                table.push_object(row)?;
            }
        }
        (None, Some(path)) => read::file(path, &mut table)?,
        (None, None) => {}
    }
    if table.rows.is_empty() {
        return Err(ToolError::invalid_arguments(
            "data_empty",
            "the data has no rows, so there is nothing to draw",
        ));
    }
    table.check_columns()?;
    Ok(table)
}

impl Table {
    fn new(input: &Draw) -> Self {
        let mut columns: Vec<String> = Vec::new();
        let values = input.y.iter().flat_map(|columns| columns.names());
        for name in input.x.iter().chain(values).chain(&input.group) {
            if !columns.contains(name) {
                columns.push(name.clone());
            }
        }
        Self {
            found: vec![false; columns.len()],
            columns,
            ..Self::default()
        }
    }

    /// The place of a column in each row.
    pub(crate) fn index(&self, name: &str) -> usize {
        self.columns
            .iter()
            .position(|column| column == name)
            .unwrap_or(usize::MAX)
    }

    pub(crate) fn push_object(&mut self, row: &Map<String, Value>) -> Result<(), ToolError> {
        for key in row.keys() {
            self.see(key);
        }
        let cells = self.columns.iter().zip(&mut self.found);
        let cells = cells
            .map(|(name, found)| {
                let value = row.get(name);
                *found |= value.is_some();
                value.map_or(Cell::Empty, cell)
            })
            .collect();
        self.push(cells)
    }

    /// Learns the columns of a CSV file. Returns the place of each wanted one in its records.
    pub(crate) fn header<'h>(
        &mut self,
        names: impl Iterator<Item = &'h str>,
    ) -> Vec<Option<usize>> {
        let names: Vec<&str> = names.map(str::trim).collect();
        for name in &names {
            self.see(name);
        }
        let places: Vec<Option<usize>> = self
            .columns
            .iter()
            .map(|column| names.iter().position(|name| name == column))
            .collect();
        self.found = places.iter().map(Option::is_some).collect();
        places
    }

    pub(crate) fn push(&mut self, cells: Vec<Cell>) -> Result<(), ToolError> {
        if self.rows.len() == ROWS_MAX {
            return Err(ToolError::result_too_large(
                "too_many_rows",
                format!("the data has more than {ROWS_MAX} rows: aggregate or filter it first"),
            ));
        }
        self.rows.push(cells);
        Ok(())
    }

    fn see(&mut self, name: &str) {
        if self.seen.len() < NAMES_SHOWN && !self.seen.iter().any(|seen| seen == name) {
            self.seen.push(name.chars().take(60).collect());
        }
    }

    pub(crate) fn check_columns(&self) -> Result<(), ToolError> {
        let missing = self
            .columns
            .iter()
            .zip(&self.found)
            .find(|(_, found)| !**found);
        match missing {
            Some((name, _)) => Err(ToolError::invalid_arguments(
                "column_unknown",
                format!(
                    "the data has no column {name:?}; it has {}",
                    self.seen.join(", ")
                ),
            )),
            None => Ok(()),
        }
    }
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Empty,
        Value::Number(number) => number.as_f64().map_or(Cell::Empty, Cell::Number),
        Value::String(text) if text.trim().is_empty() => Cell::Empty,
        Value::String(text) => Cell::Text(text.clone()),
        other => Cell::Text(other.to_string()),
    }
}

impl Cell {
    pub(crate) fn of_text(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            Self::Empty
        } else {
            Self::Text(text.to_owned())
        }
    }

    /// The finite number that the cell is, or is written as. `007` is a code and no number.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Empty => None,
            Self::Number(number) => Some(*number).filter(|number| number.is_finite()),
            Self::Text(text) => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                let padded = digits
                    .strip_prefix('0')
                    .is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()));
                let starts =
                    digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
                let number = text.parse().ok().filter(|number: &f64| number.is_finite());
                number.filter(|_| starts && !padded)
            }
        }
    }

    /// The cell as the name of a category or a series.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Empty => "(empty)".to_owned(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.chars().take(200).collect(),
        }
    }
}
