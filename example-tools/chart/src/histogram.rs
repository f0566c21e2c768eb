use toolcell_guest::ToolError;

use crate::{
    Draw, Kind,
    plot::{Along, Grouping, Plot, Point, value_of},
    scale::nice_step,
    table::Table,
};

/// Bars at most, whatever the step is that was found.
const BINS_MAX: usize = 400;

/// Counts the numbers of a column in intervals of the same width, with round edges.
pub(crate) fn of(table: &Table, input: &Draw) -> Result<Plot, ToolError> {
    let columns = input.y.as_ref().map_or(&[][..], |columns| columns.names());
    let name = input.x.as_ref().or_else(|| columns.first());
    let name = name.map_or("", String::as_str);
    let at = table.index(name);
    let group = input.group.as_ref().map(|name| table.index(name));
    let mut values: Vec<(f64, usize)> = Vec::new();
    for (row, cells) in table.rows.iter().enumerate() {
        if let Some(value) = value_of(cells.get(at), row + 1, name)? {
            values.push((value, row));
        }
    }
    let least = values
        .iter()
        .map(|(value, _)| *value)
        .min_by(f64::total_cmp);
    let most = values
        .iter()
        .map(|(value, _)| *value)
        .max_by(f64::total_cmp);
    let (Some(least), Some(most)) = (least, most) else {
        return Err(ToolError::invalid_arguments(
            "data_empty",
            format!("the column {name:?} has no numbers"),
        ));
    };
    // Sturges' rule, which is too coarse for much data, and twice as many.
    let wanted = input
        .bins
        .map_or_else(|| 2.0 * ((values.len() as f64).log2() + 1.0), f64::from)
        .clamp(1.0, 200.0);
    let (start, width, count) = bins(least, most, wanted)?;
    let mut all = Grouping::default();
    for (value, row) in values {
        let series = match group {
            Some(at) => table.rows.get(row).and_then(|cells| cells.get(at)),
            None => None,
        };
        let series = series.map_or_else(|| "count".to_owned(), |cell| cell.label());
        let points = all.series(series)?;
        if points.is_empty() {
            points.extend((0..count).map(|at| Point {
                x: at as f64,
                y: Some(0.0),
            }));
        }
        let bin = (((value - start) / width).floor().max(0.0) as usize).min(count - 1);
        if let Some(Point {
            y: Some(number), ..
        }) = points.get_mut(bin)
        {
            *number += 1.0;
        }
    }
    Ok(Plot {
        kind: Kind::Histogram,
        along: Along::Bins {
            start,
            width,
            count,
        },
        series: all.series,
        stacked: true,
    })
}

/// The first edge, the width and the number of the intervals.
fn bins(least: f64, most: f64, wanted: f64) -> Result<(f64, f64, usize), ToolError> {
    if least == most {
        let width = if least == 0.0 {
            1.0
        } else {
            nice_step(least.abs(), 10.0)
        };
        return Ok((least - width / 2.0, width, 1));
    }
    let width = nice_step(most - least, wanted);
    let start = (least / width).floor() * width;
    let count = ((most - start) / width).floor() + 1.0;
    let fits = start.is_finite() && start + width > start && count <= BINS_MAX as f64;
    if !fits {
        return Err(ToolError::invalid_arguments(
            "not_finite",
            format!("the numbers from {least} to {most} cannot be divided into intervals"),
        ));
    }
    // A largest value on the last edge does not need an interval of its own.
    let count = if count > 1.0 && most == start + (count - 1.0) * width {
        count - 1.0
    } else {
        count
    };
    Ok((start, width, count.max(1.0) as usize))
}
