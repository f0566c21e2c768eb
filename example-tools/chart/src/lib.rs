//! Draws charts of rows, CSV and JSON files as SVG and PNG.

mod axis;
mod date;
mod font;
mod frame;
mod histogram;
mod marks;
mod output;
mod pie;
mod plot;
mod png;
mod read;
mod scale;
mod scene;
mod svg;
mod table;
mod vega_lite;

#[cfg(test)]
mod tests;

use toolcell_guest::{
    Output, ToolError, cancellation, data,
    serde_json::{Map, Value},
    tool, toolkit,
};

use output::Drawn;

#[data]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Line,
    Bar,
    Area,
    Scatter,
    Histogram,
    Pie,
}

#[data]
#[derive(Clone, Copy, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Aggregate {
    Sum,
    Mean,
    Median,
    Min,
    Max,
    Count,
}

#[data]
#[derive(Clone, Debug, PartialEq)]
#[serde(untagged)]
enum Columns {
    One(String),
    Several(Vec<String>),
}

impl Columns {
    fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

#[data]
#[derive(Default)]
struct Draw {
    /// The kind of chart. Required unless `vega_lite` is given.
    #[serde(default)]
    kind: Option<Kind>,
    /// The data: an object for each row.
    #[serde(default)]
    #[schemars(length(max = 100_000))]
    rows: Option<Vec<Map<String, Value>>>,
    /// The data: a CSV, TSV, JSON or NDJSON file, instead of `rows`.
    #[serde(default)]
    file: Option<String>,
    /// The column along the x-axis: numbers, dates or texts. In a pie its values name the slices, and a histogram counts
    /// its numbers. Default: the number of the row.
    #[serde(default)]
    x: Option<String>,
    /// The column of numbers, or several, one for each series.
    #[serde(default)]
    y: Option<Columns>,
    /// The column whose values divide the rows into series.
    #[serde(default)]
    group: Option<String>,
    /// How rows with the same `x` become one value. Default: `sum` for bars, areas and pies; others show each row.
    /// `count` needs no `y`.
    #[serde(default)]
    aggregate: Option<Aggregate>,
    /// Put series on top of each other, in bars and areas.
    #[serde(default)]
    stacked: bool,
    /// About how many bars a histogram has.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    bins: Option<u32>,
    #[serde(default)]
    title: Option<String>,
    /// The title of the x-axis. Default: the name of the column.
    #[serde(default)]
    x_title: Option<String>,
    /// The title of the y-axis. Default: the name of the column, if there is one.
    #[serde(default)]
    y_title: Option<String>,
    /// A logarithmic x-axis, for lines, areas and scatter charts.
    #[serde(default)]
    log_x: bool,
    /// A logarithmic y-axis.
    #[serde(default)]
    log_y: bool,
    /// Pixels. Default: 800.
    #[serde(default)]
    #[schemars(range(min = 160, max = 4000))]
    width: Option<u32>,
    /// Pixels. Default: 500.
    #[serde(default)]
    #[schemars(range(min = 120, max = 4000))]
    height: Option<u32>,
    /// Enlarges a PNG file, with its text and lines. Default: 1.
    #[serde(default)]
    #[schemars(range(min = 1, max = 4))]
    scale: Option<u32>,
    /// Instead of all above but `file`: a chart as Vega-Lite has it, with `mark`, `encoding` (x, y, color, theta: field,
    /// type, aggregate, bin, stack, scale.type, title), `data` (values or url), `title`, `width` and `height`.
    #[serde(default)]
    vega_lite: Option<Map<String, Value>>,
    /// The new file, whose name ends with `.svg` or `.png`.
    #[serde(default)]
    save_to: Option<String>,
    /// Replace `save_to` if it exists.
    #[serde(default)]
    overwrite: bool,
    /// Return the chart as an image to look at. Default: if there is no `save_to`.
    #[serde(default)]
    show: Option<bool>,
}

/// Draws a chart of rows, or of a CSV or JSON file: line, bar, area, scatter, histogram or pie.
///
/// Writes it to `save_to` as SVG or PNG, or returns it as an image, or both. Dates such as `2026-05-01` make a time axis.
/// Values must be numbers; empty ones are left out. At most 100,000 rows and 200 series.
#[tool(
    kind = "file_operation",
    search_hint = "draw chart plot graph line bar pie histogram Vega-Lite",
    access = ["file_read", "file_write"],
    write_effects = ["local_persistent"],
    paths = ["file", "/vega_lite/data/url", "save_to"],
    content = ["text", "image"],
    read_only = false,
    destructive,
    validate = is_consistent
)]
fn draw(input: Draw) -> Result<Output<Drawn>, ToolError> {
    let (input, notes) = vega_lite::plain(input)?;
    output::check(&input)?;
    let table = table::load(&input)?;
    cancellation::check()?;
    let font = font::Font::new()?;
    let plot = plot::of(&table, &input)?;
    let scene = frame::draw(&plot, &input, &font)?;
    let drawn = output::about(table.rows.len(), &plot, &scene, notes);
    output::finish(&input, drawn, &scene, &font)
}

/// Checks, before an approver is asked, that the arguments do not contradict each other.
fn is_consistent(input: &Draw) -> Result<(), ToolError> {
    let refuse = |code: &str, message: &str| Err(ToolError::invalid_arguments(code, message));
    if let Some(path) = &input.save_to {
        output::format_of(path)?;
    }
    if input.rows.is_some() && input.file.is_some() {
        return refuse("data_twice", "give rows or file, not both");
    }
    if input.vega_lite.is_some() {
        return if input.kind.is_some() || input.x.is_some() || input.y.is_some() {
            refuse("kind_twice", "vega_lite takes the place of kind, x and y")
        } else {
            Ok(())
        };
    }
    let Some(kind) = input.kind else {
        return refuse("kind_missing", "give kind, such as line or bar");
    };
    if input.rows.is_none() && input.file.is_none() {
        return refuse("data_missing", "give the data: rows, or the path of a file");
    }
    check(input, kind)
}

/// Fields that a kind of chart needs, and those that it cannot have.
fn check(input: &Draw, kind: Kind) -> Result<(), ToolError> {
    let refuse = |code: &str, message: &str| Err(ToolError::invalid_arguments(code, message));
    let columns = input.y.as_ref().map_or(0, |columns| columns.names().len());
    let counts = input.aggregate == Some(Aggregate::Count);
    match kind {
        Kind::Histogram if input.x.is_none() && columns != 1 => {
            return refuse(
                "column_missing",
                "x: the column whose numbers the histogram counts",
            );
        }
        Kind::Histogram if input.x.is_some() && columns > 0 => {
            return refuse(
                "column_not_used",
                "a histogram has one column: give x and no y",
            );
        }
        Kind::Pie if input.x.is_none() => {
            return refuse("column_missing", "x: the column that names the slices");
        }
        Kind::Pie if input.group.is_some() || columns > 1 => {
            return refuse("too_many_columns", "a pie has one y, and no group");
        }
        Kind::Pie if input.log_x || input.log_y => {
            return refuse("log_not_for_kind", "a pie has no axes");
        }
        Kind::Bar | Kind::Histogram if input.log_x => {
            return refuse(
                "log_not_for_kind",
                "the x-axis of bars cannot be logarithmic",
            );
        }
        Kind::Histogram => {}
        _ if columns == 0 && !counts => {
            return refuse(
                "column_missing",
                "y: the column of numbers, or aggregate count",
            );
        }
        _ => {}
    }
    if input.group.is_some() && columns > 1 {
        return refuse(
            "too_many_columns",
            "give several columns as y, or a group, not both",
        );
    }
    if input.log_y && (input.stacked || kind == Kind::Histogram && input.group.is_some()) {
        return refuse(
            "log_not_stacked",
            "a logarithmic axis cannot show stacked values",
        );
    }
    Ok(())
}

toolkit! { namespace: "chart", tools: [draw] }
