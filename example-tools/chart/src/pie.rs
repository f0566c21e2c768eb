use std::f64::consts::{FRAC_PI_2, TAU};

use crate::{
    frame::{Entry, Space},
    plot::{Along, Plot},
    scene::{Anchor, Color, Scene, Shape, TEXT, WHITE, series_color},
};

/// Slices that have a color of their own; the rest is one.
const SLICES_MAX: usize = 10;
/// A slice below this part has no text inside.
const TEXT_PART_MIN: f64 = 0.045;
const REST: Color = Color(0xb5, 0xb5, 0xb5);

pub(crate) struct Slice {
    name: String,
    part: f64,
    color: Color,
}

/// The slices by size, and the rest.
pub(crate) fn slices(plot: &Plot) -> Vec<Slice> {
    let Along::Categories(names) = &plot.along else {
        return Vec::new();
    };
    let points = plot.series.iter().flat_map(|series| &series.points);
    let mut values: Vec<(f64, &str)> = points
        .filter_map(|point| Some((point.y?, names.get(point.x as usize)?.as_str())))
        .filter(|(value, _)| *value > 0.0)
        .collect();
    values.sort_by(|one, two| two.0.total_cmp(&one.0));
    let sum: f64 = values.iter().map(|(value, _)| value).sum();
    let own = if values.len() > SLICES_MAX {
        SLICES_MAX - 1
    } else {
        values.len()
    };
    let mut slices: Vec<Slice> = values
        .iter()
        .take(own)
        .enumerate()
        .map(|(at, (value, name))| Slice {
            name: (*name).to_owned(),
            part: value / sum,
            color: series_color(at),
        })
        .collect();
    if own < values.len() {
        let rest: f64 = values.iter().skip(own).map(|(value, _)| value / sum).sum();
        slices.push(Slice {
            name: format!("{} others", values.len() - own),
            part: rest,
            color: REST,
        });
    }
    slices
}

pub(crate) fn entries(slices: &[Slice]) -> Vec<Entry> {
    slices
        .iter()
        .map(|slice| Entry {
            color: slice.color,
            line: None,
            name: format!("{:.1}% {}", slice.part * 100.0, slice.name),
        })
        .collect()
}

pub(crate) fn draw(scene: &mut Scene, slices: &[Slice], space: Space) {
    let center = (
        (space.left + space.right) / 2.0,
        (space.top + space.bottom) / 2.0,
    );
    let radius = (space.right - space.left).min(space.bottom - space.top) / 2.0;
    let spot = |angle: f64, radius: f64| {
        let angle = angle - FRAC_PI_2;
        (
            center.0 + radius * angle.cos(),
            center.1 + radius * angle.sin(),
        )
    };
    let mut from = 0.0;
    let mut borders = Vec::new();
    for slice in slices {
        let to = from + slice.part * TAU;
        // Corners are less than a fifth of a pixel from the circle.
        let steps = ((to - from) / 0.02).ceil().max(1.0) as u32;
        let arc = (0..=steps).map(|step| {
            spot(
                from + (to - from) * f64::from(step) / f64::from(steps),
                radius,
            )
        });
        scene.shapes.push(Shape::Area {
            spots: std::iter::once(center).chain(arc).collect(),
            color: slice.color,
            opacity: 1.0,
        });
        borders.push(spot(from, radius));
        from = to;
    }
    if slices.len() > 1 {
        for border in borders {
            scene.shapes.push(Shape::Line {
                spots: vec![center, border],
                color: WHITE,
                width: 1.5,
                dash: None,
            });
        }
    }
    let mut from = 0.0;
    for slice in slices {
        let to = from + slice.part * TAU;
        if slice.part >= TEXT_PART_MIN && radius > 60.0 {
            let (x, y) = spot((from + to) / 2.0, radius * 0.72);
            let color = if slice.color.is_dark() { WHITE } else { TEXT };
            let text = format!("{:.0}%", slice.part * 100.0);
            scene.text((x, y + 4.5), text, 13.0, color, Anchor::Middle);
        }
        from = to;
    }
}
