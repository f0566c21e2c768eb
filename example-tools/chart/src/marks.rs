//! Lines, areas, bars and dots.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    Kind,
    plot::{Along, Plot, Point},
    scale::Scale,
    scene::{Scene, Shape, Spot, series_color, series_dash},
};

const LINE_WIDTH: f64 = 2.0;
/// Points of a line that also have dots.
const DOTTED_MAX: usize = 30;
/// Opacity of areas that may hide each other.
const SEE_THROUGH: f64 = 0.35;

pub(crate) fn draw(scene: &mut Scene, plot: &Plot, along: &Scale, up: &Scale) {
    match plot.kind {
        Kind::Bar | Kind::Histogram => bars(scene, plot, along, up),
        Kind::Scatter => dots(scene, plot, along, up),
        Kind::Area if plot.stacked => stacked_areas(scene, plot, along, up),
        _ => lines(scene, plot, along, up),
    }
}

fn lines(scene: &mut Scene, plot: &Plot, along: &Scale, up: &Scale) {
    let floor = up.place(if up.is_log {
        up.from
    } else {
        0.0_f64.clamp(up.from, up.to)
    });
    for (at, series) in plot.series.iter().enumerate() {
        let color = series_color(at);
        for run in runs(&series.points) {
            let all: Vec<Spot> = run
                .iter()
                .filter_map(|point| Some((along.place(point.x), up.place(point.y?))))
                .collect();
            let spots = thinned(&all);
            if plot.kind == Kind::Area
                && let (Some(first), Some(last)) = (spots.first(), spots.last())
            {
                let ends = [(last.0, floor), (first.0, floor)];
                scene.shapes.push(Shape::Area {
                    spots: spots.iter().copied().chain(ends).collect(),
                    color,
                    opacity: SEE_THROUGH,
                });
            }
            if all.len() == 1 || (plot.kind == Kind::Line && series.points.len() <= DOTTED_MAX) {
                scene.shapes.push(Shape::Dots {
                    spots: all,
                    radius: 3.0,
                    color,
                    opacity: 1.0,
                });
            }
            scene.shapes.push(Shape::Line {
                spots,
                color,
                width: LINE_WIDTH,
                dash: series_dash(at),
            });
        }
    }
}

/// The points between gaps.
fn runs(points: &[Point]) -> impl Iterator<Item = &[Point]> {
    points
        .split(|point| point.y.is_none())
        .filter(|run| !run.is_empty())
}

/// Leaves out what cannot be seen: of many spots in one column of pixels, only the ends and the extremes are drawn.
fn thinned(spots: &[Spot]) -> Vec<Spot> {
    let mut thin: Vec<Spot> = Vec::new();
    for column in spots.chunk_by(|one, two| one.0.floor() == two.0.floor()) {
        if column.len() <= 4 {
            thin.extend(column);
            continue;
        }
        let by_height = |one: &&Spot, two: &&Spot| one.1.total_cmp(&two.1);
        let kept = [
            column.first(),
            column.iter().min_by(by_height),
            column.iter().max_by(by_height),
            column.last(),
        ];
        thin.extend(kept.into_iter().flatten());
    }
    thin
}

/// Areas on top of each other. A series without a value at a place adds nothing there.
fn stacked_areas(scene: &mut Scene, plot: &Plot, along: &Scale, up: &Scale) {
    let points = plot.series.iter().flat_map(|series| &series.points);
    // The order of the bits of numbers is not theirs; the places are sorted below.
    let mut places: Vec<f64> = points.map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let mut floor: Vec<f64> = vec![0.0; places.len()];
    for (at, series) in plot.series.iter().enumerate() {
        let values: HashMap<u64, f64> = series
            .points
            .iter()
            .filter_map(|point| Some((point.x.to_bits(), point.y?)))
            .collect();
        let value = |x: &f64| values.get(&x.to_bits()).copied().unwrap_or(0.0);
        let top: Vec<f64> = places
            .iter()
            .zip(&floor)
            .map(|(x, low)| low + value(x))
            .collect();
        let edge = |heights: &[f64]| {
            let spots = places.iter().zip(heights);
            let spots: Vec<Spot> = spots
                .map(|(x, y)| (along.place(*x), up.place(*y)))
                .collect();
            thinned(&spots)
        };
        let upper = edge(&top);
        scene.shapes.push(Shape::Area {
            spots: upper
                .iter()
                .copied()
                .chain(edge(&floor).into_iter().rev())
                .collect(),
            color: series_color(at),
            opacity: 0.8,
        });
        scene.shapes.push(Shape::Line {
            spots: upper,
            color: series_color(at),
            width: 1.0,
            dash: None,
        });
        floor = top;
    }
}

fn bars(scene: &mut Scene, plot: &Plot, along: &Scale, up: &Scale) {
    let floor = if up.is_log { up.from } else { 0.0 };
    // Where the next part of a bar begins, downwards and upwards.
    let mut ends: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    let side_by_side = if plot.stacked {
        1
    } else {
        plot.series.len().max(1)
    };
    for (at, series) in plot.series.iter().enumerate() {
        for point in &series.points {
            let Some(value) = point.y.filter(|value| *value != 0.0) else {
                continue;
            };
            let (left, width) = span(plot, along, point.x);
            let width = width / side_by_side as f64;
            let left = if plot.stacked {
                left
            } else {
                left + width * at as f64
            };
            let (low, high) = if plot.stacked {
                let end = ends.entry(point.x.to_bits()).or_insert((floor, floor));
                let end = if value < 0.0 { &mut end.0 } else { &mut end.1 };
                let start = *end;
                *end += value;
                // On a logarithmic axis there is one part, and it ends at its value.
                if up.is_log {
                    (floor, value)
                } else {
                    (start, *end)
                }
            } else {
                (floor, value)
            };
            let one = up.place(low);
            let two = up.place(high);
            let gap = if side_by_side > 1 && width > 6.0 {
                1.0
            } else {
                0.0
            };
            scene.rect(
                (left, one.min(two)),
                (width - gap).max(0.3),
                (one - two).abs().max(0.3),
                series_color(at),
            );
        }
    }
}

/// The left side and the width of the bars at a place.
fn span(plot: &Plot, along: &Scale, x: f64) -> (f64, f64) {
    if let Along::Bins { start, width, .. } = plot.along {
        let left = along.place(start + width * x);
        let right = along.place(start + width * (x + 1.0));
        let gap = if right - left > 4.0 { 1.0 } else { 0.0 };
        return (left + gap / 2.0, right - left - gap);
    }
    let band = along.place(x + 0.5) - along.place(x - 0.5);
    // A single bar as wide as the picture is no bar.
    let width = (band * 0.78).min(120.0 * plot.series.len().max(1) as f64);
    (along.place(x) - width / 2.0, width)
}

fn dots(scene: &mut Scene, plot: &Plot, along: &Scale, up: &Scale) {
    let count: usize = plot.series.iter().map(|series| series.points.len()).sum();
    let (radius, opacity) = match count {
        0..=300 => (4.0, 0.75),
        301..=3000 => (3.0, 0.6),
        _ => (2.0, 0.5),
    };
    for (at, series) in plot.series.iter().enumerate() {
        let mut seen = HashSet::new();
        let spots = series
            .points
            .iter()
            .filter_map(|point| Some((along.place(point.x), up.place(point.y?))))
            // Dots at the same half of a pixel look like one.
            .filter(|(x, y)| seen.insert(((x * 2.0) as i64, (y * 2.0) as i64)))
            .collect();
        scene.shapes.push(Shape::Dots {
            spots,
            radius,
            color: series_color(at),
            opacity,
        });
    }
}
