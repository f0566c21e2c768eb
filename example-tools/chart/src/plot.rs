//! The series of a chart: numbers at places along the x-axis.

use std::collections::HashMap;

use toolcell_guest::{ToolError, cancellation};

use crate::{
    Aggregate, Draw, Kind, date, histogram,
    scale::number,
    table::{Cell, Table},
};

/// Maximum number of series.
const SERIES_MAX: usize = 200;
/// Maximum number of bars or of places that have a text.
const CATEGORIES_MAX: usize = 2000;

/// The kind of the x-axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Along {
    Numbers,
    /// Seconds since 1970.
    Time,
    /// Texts, whose places are their indices.
    Categories(Vec<String>),
    /// A histogram: the first edge and the width of its bars, whose places are their indices.
    Bins {
        start: f64,
        width: f64,
        count: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    /// `None` is a gap.
    pub(crate) y: Option<f64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
}

#[derive(Debug)]
pub(crate) struct Plot {
    pub(crate) kind: Kind,
    pub(crate) along: Along,
    pub(crate) series: Vec<Series>,
    /// Bars and areas are on top of each other.
    pub(crate) stacked: bool,
}

pub(crate) fn of(table: &Table, input: &Draw) -> Result<Plot, ToolError> {
    let kind = input.kind.unwrap_or_default();
    if kind == Kind::Histogram {
        let plot = histogram::of(table, input)?;
        return checked(plot, input);
    }
    let (along, places) = places(table, input, kind)?;
    let mut series = series(table, input, &places)?;
    let by_default = matches!(kind, Kind::Bar | Kind::Area | Kind::Pie).then_some(Aggregate::Sum);
    for series in &mut series {
        if let Some(aggregate) = input.aggregate.or(by_default) {
            series.points = aggregated(&series.points, aggregate);
        }
        if kind != Kind::Scatter {
            series.points.sort_by(|one, two| one.x.total_cmp(&two.x));
        }
        cancellation::check()?;
    }
    let plot = Plot {
        kind,
        along,
        series,
        stacked: input.stacked && matches!(kind, Kind::Bar | Kind::Area),
    };
    checked(plot, input)
}

/// The place of each row along the axis; `None` if the row has none.
fn places(table: &Table, input: &Draw, kind: Kind) -> Result<(Along, Vec<Option<f64>>), ToolError> {
    let is_named = matches!(kind, Kind::Bar | Kind::Pie);
    let Some(name) = &input.x else {
        let numbers = (1..=table.rows.len()).map(|row| Some(row as f64));
        if !is_named {
            return Ok((Along::Numbers, numbers.collect()));
        }
        let rows: Vec<Cell> = (1..=table.rows.len())
            .map(|row| Cell::Number(row as f64))
            .collect();
        return categories(&rows.iter().collect::<Vec<_>>(), true);
    };
    let at = table.index(name);
    let cells: Vec<&Cell> = table.rows.iter().filter_map(|row| row.get(at)).collect();
    let filled = || cells.iter().filter(|cell| ***cell != Cell::Empty);
    if filled().next().is_none() {
        return Err(ToolError::invalid_arguments(
            "data_empty",
            format!("the column {name:?} is empty in all rows"),
        ));
    }
    let is_number = filled().all(|cell| cell.number().is_some());
    let time = |cell: &Cell| match cell {
        Cell::Text(text) => date::parse(text),
        _ => None,
    };
    let is_time = !is_number && filled().all(|cell| time(cell).is_some());
    if is_named {
        return categories(&cells, kind == Kind::Bar && (is_number || is_time));
    }
    if is_number {
        return Ok((
            Along::Numbers,
            cells.iter().map(|cell| cell.number()).collect(),
        ));
    }
    if is_time {
        return Ok((Along::Time, cells.iter().map(|cell| time(cell)).collect()));
    }
    if input.log_x {
        return Err(ToolError::invalid_arguments(
            "not_numbers",
            format!("a logarithmic axis needs numbers, and the column {name:?} has texts"),
        ));
    }
    categories(&cells, false)
}

/// Texts in the order in which they appear, or sorted if they are numbers or dates.
fn categories(cells: &[&Cell], sorted: bool) -> Result<(Along, Vec<Option<f64>>), ToolError> {
    let mut names: Vec<String> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut keys: Vec<f64> = Vec::new();
    let mut indices = Vec::with_capacity(cells.len());
    for cell in cells {
        let name = cell.label();
        let index = *known.entry(name).or_insert_with_key(|name| {
            let text = |cell: &Cell| date::parse(&cell.label());
            keys.push(
                cell.number()
                    .or_else(|| text(cell))
                    .unwrap_or(f64::INFINITY),
            );
            names.push(name.clone());
            names.len() - 1
        });
        indices.push(index);
    }
    if names.len() > CATEGORIES_MAX {
        return Err(ToolError::result_too_large(
            "too_many_categories",
            format!(
                "the x-axis would have {} different texts, and {CATEGORIES_MAX} are possible: group the rows first",
                names.len()
            ),
        ));
    }
    let mut order: Vec<usize> = (0..names.len()).collect();
    if sorted {
        let key = |at: &usize| keys.get(*at).copied().unwrap_or(f64::INFINITY);
        order.sort_by(|one, two| key(one).total_cmp(&key(two)));
    }
    let mut ranks = vec![0.0; names.len()];
    for (rank, at) in order.iter().enumerate() {
        if let Some(place) = ranks.get_mut(*at) {
            *place = rank as f64;
        }
    }
    let names = order
        .iter()
        .filter_map(|at| names.get(*at).cloned())
        .collect();
    let places = indices
        .iter()
        .map(|index| ranks.get(*index).copied())
        .collect();
    Ok((Along::Categories(names), places))
}

fn series(table: &Table, input: &Draw, places: &[Option<f64>]) -> Result<Vec<Series>, ToolError> {
    let counts = input.aggregate == Some(Aggregate::Count);
    let names = input.y.as_ref().map_or(&[][..], |columns| columns.names());
    let values: Vec<Option<(&String, usize)>> = if names.is_empty() {
        vec![None]
    } else {
        names
            .iter()
            .map(|name| Some((name, table.index(name))))
            .collect()
    };
    let group = input.group.as_ref().map(|name| table.index(name));
    let mut all = Grouping::default();
    for ((row, cells), x) in (1..).zip(&table.rows).zip(places) {
        let Some(x) = *x else { continue };
        for value in &values {
            let y = match value {
                None => Some(1.0),
                Some((_, at)) if counts => cells
                    .get(*at)
                    .filter(|cell| **cell != Cell::Empty)
                    .map(|_| 1.0),
                Some((name, at)) => value_of(cells.get(*at), row, name)?,
            };
            let name = match (group, value) {
                (Some(at), _) => cells.get(at).map_or_else(String::new, Cell::label),
                (None, Some((name, _))) => (*name).clone(),
                (None, None) => "count".to_owned(),
            };
            all.series(name)?.push(Point { x, y });
        }
    }
    Ok(all.series)
}

/// The number in a cell; `None` if it is empty.
pub(crate) fn value_of(
    cell: Option<&Cell>,
    row: usize,
    name: &str,
) -> Result<Option<f64>, ToolError> {
    match cell {
        None | Some(Cell::Empty) => Ok(None),
        Some(cell) => cell.number().map(Some).ok_or_else(|| {
            let text: String = cell.label().chars().take(60).collect();
            ToolError::invalid_arguments(
                "not_a_number",
                format!(
                    "row {row}: the column {name:?} has {text:?}, which is not a finite number"
                ),
            )
        }),
    }
}

/// Series by their names, in the order in which they appear.
#[derive(Default)]
pub(crate) struct Grouping {
    known: HashMap<String, usize>,
    pub(crate) series: Vec<Series>,
}

impl Grouping {
    pub(crate) fn series(&mut self, name: String) -> Result<&mut Vec<Point>, ToolError> {
        let too_many = || {
            ToolError::result_too_large(
                "too_many_series",
                format!("the chart would have more than {SERIES_MAX} series: choose another group"),
            )
        };
        let at = match self.known.get(&name) {
            Some(at) => *at,
            None if self.series.len() == SERIES_MAX => return Err(too_many()),
            None => {
                self.known.insert(name.clone(), self.series.len());
                self.series.push(Series {
                    name,
                    points: Vec::new(),
                });
                self.series.len() - 1
            }
        };
        self.series
            .get_mut(at)
            .map(|series| &mut series.points)
            .ok_or_else(too_many)
    }
}

/// One point for each place.
fn aggregated(points: &[Point], aggregate: Aggregate) -> Vec<Point> {
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut groups: Vec<(f64, Vec<f64>)> = Vec::new();
    for point in points {
        let at = *places.entry(point.x.to_bits()).or_insert_with(|| {
            groups.push((point.x, Vec::new()));
            groups.len() - 1
        });
        if let (Some((_, values)), Some(y)) = (groups.get_mut(at), point.y) {
            values.push(y);
        }
    }
    groups
        .into_iter()
        .map(|(x, values)| Point {
            x,
            y: combined(values, aggregate),
        })
        .collect()
}

fn combined(mut values: Vec<f64>, aggregate: Aggregate) -> Option<f64> {
    if aggregate == Aggregate::Count {
        return Some(values.len() as f64);
    }
    if values.is_empty() {
        return None;
    }
    let count = values.len();
    match aggregate {
        Aggregate::Sum | Aggregate::Count => Some(values.iter().sum()),
        Aggregate::Mean => Some(values.iter().map(|value| value / count as f64).sum()),
        Aggregate::Min => values.into_iter().min_by(f64::total_cmp),
        Aggregate::Max => values.into_iter().max_by(f64::total_cmp),
        Aggregate::Median => {
            values.sort_by(f64::total_cmp);
            let upper = values.get(count / 2)?;
            let lower = values.get((count - 1) / 2)?;
            Some(lower / 2.0 + upper / 2.0)
        }
    }
}

/// Refuses values that a chart of this kind cannot show.
fn checked(plot: Plot, input: &Draw) -> Result<Plot, ToolError> {
    let refuse = |code: &str, message: String| Err(ToolError::invalid_arguments(code, message));
    let points = || plot.series.iter().flat_map(|series| &series.points);
    let values = || points().filter_map(|point| point.y);
    if values().next().is_none() {
        let message = "no row has a value, so there is nothing to draw".to_owned();
        return refuse("data_empty", message);
    }
    let sum: f64 = values().map(f64::abs).sum();
    if !sum.is_finite() {
        let message = "the values are so large that their sum is not finite".to_owned();
        return refuse("not_finite", message);
    }
    let shown = |value: f64| number(value, value.abs() / 100.0, value.abs());
    if input.log_y
        && let Some(value) = values().find(|value| *value <= 0.0)
        && plot.kind != Kind::Histogram
    {
        let message = format!("a logarithmic y-axis cannot show {}", shown(value));
        return refuse("log_not_positive", message);
    }
    if input.log_x
        && let Some(point) = points().find(|point| point.x <= 0.0 || plot.along == Along::Time)
    {
        let message = match plot.along {
            Along::Time => "a time axis cannot be logarithmic".to_owned(),
            _ => format!("a logarithmic x-axis cannot show {}", shown(point.x)),
        };
        return refuse("log_not_positive", message);
    }
    let is_part = plot.kind == Kind::Pie || (plot.kind == Kind::Area && plot.stacked);
    if is_part && let Some(value) = values().find(|value| *value < 0.0) {
        let message = format!("parts of a whole cannot be negative: {}", shown(value));
        return refuse("negative_part", message);
    }
    if plot.kind == Kind::Pie && sum == 0.0 {
        return refuse("data_empty", "the values of the pie are all 0".to_owned());
    }
    Ok(plot)
}
