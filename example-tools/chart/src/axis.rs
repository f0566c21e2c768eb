//! The axes: intervals of values, ticks, and texts that do not overlap.

use std::collections::BTreeMap;

use crate::{
    Draw, Kind,
    font::Font,
    plot::{Along, Plot},
    scale::{Scale, Tick, log_domain, log_ticks, nice_domain, number_ticks, time_ticks},
};

/// The size of the texts at ticks.
pub(crate) const TICK_SIZE: f64 = 12.0;
/// Texts of categories are turned by 45 degrees if they do not fit: pixels that one takes along the axis then.
const TURNED_STEP: f64 = 17.0;
/// Maximum length of a turned text.
const TURNED_MAX: f64 = 150.0;
/// The sine of 45 degrees.
pub(crate) const SLANT: f64 = std::f64::consts::FRAC_1_SQRT_2;
const DAY: f64 = 86_400.0;

/// The y-axis: its interval and ticks.
pub(crate) struct Upward {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) ticks: Vec<Tick>,
}

pub(crate) fn upward(plot: &Plot, input: &Draw) -> Upward {
    let count = (f64::from(input.height.unwrap_or(500)) / 55.0).clamp(2.0, 12.0);
    let (least, most) = extent(plot);
    if input.log_y {
        let (from, to) = match plot.kind {
            // Half of the least number that can be counted, so that one has a height.
            Kind::Histogram => (0.5, log_domain(1.0, most).1),
            _ => log_domain(least, most),
        };
        let ticks = log_ticks(from, to, count);
        return Upward { from, to, ticks };
    }
    let (mut from, mut to) = (least, most);
    let from_zero = match plot.kind {
        Kind::Scatter => false,
        // The shape of a line that stays far from 0 would be lost.
        Kind::Line => from.abs().min(to.abs()) < 0.4 * from.abs().max(to.abs()),
        _ => true,
    };
    if from_zero {
        from = from.min(0.0);
        to = to.max(0.0);
    }
    if from == 0.0 && to == 0.0 {
        to = 1.0;
    }
    let (from, to) = nice_domain(from, to, count);
    let mut ticks = number_ticks(from, to, count);
    if plot.kind == Kind::Histogram || input.aggregate == Some(crate::Aggregate::Count) {
        ticks.retain(|tick| tick.value.fract() == 0.0);
    }
    Upward { from, to, ticks }
}

/// The least and the largest value that is shown.
fn extent(plot: &Plot) -> (f64, f64) {
    let mut values: Vec<f64> = Vec::new();
    if plot.stacked {
        // Positive and negative parts of a bar go up and down.
        let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for point in plot.series.iter().flat_map(|series| &series.points) {
            let sum = sums.entry(point.x.to_bits()).or_default();
            match point.y {
                Some(y) if y < 0.0 => sum.0 += y,
                Some(y) => sum.1 += y,
                None => {}
            }
        }
        values.extend(sums.into_values().flat_map(|(below, above)| [below, above]));
    } else {
        let points = plot.series.iter().flat_map(|series| &series.points);
        values.extend(points.filter_map(|point| point.y));
    }
    bounds(values.into_iter()).unwrap_or((0.0, 1.0))
}

pub(crate) fn bounds(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let least = values.clone().min_by(f64::total_cmp)?;
    let most = values.max_by(f64::total_cmp)?;
    Some((least, most))
}

/// The x-axis between two places.
pub(crate) fn along(plot: &Plot, input: &Draw, start: f64, end: f64) -> Scale {
    let points = plot.series.iter().flat_map(|series| &series.points);
    let (least, most) = bounds(points.map(|point| point.x)).unwrap_or((0.0, 1.0));
    let (from, to) = match &plot.along {
        Along::Categories(names) => (-0.5, names.len() as f64 - 0.5),
        Along::Bins {
            start,
            width,
            count,
        } => (*start, start + width * *count as f64),
        Along::Numbers if input.log_x => log_domain(least, most),
        Along::Numbers if plot.kind == Kind::Scatter || least == most => {
            nice_domain(least, most, 8.0)
        }
        Along::Time if least == most => (least - DAY, most + DAY),
        Along::Numbers | Along::Time => (least, most),
    };
    Scale {
        from,
        to,
        start,
        end,
        is_log: input.log_x,
    }
}

/// The texts below the x-axis, at places that are pixels.
pub(crate) struct Below {
    pub(crate) ticks: Vec<(f64, String)>,
    pub(crate) is_turned: bool,
    /// Pixels that the texts take.
    pub(crate) height: f64,
}

pub(crate) fn below(plot: &Plot, scale: &Scale, font: &Font, height: f64) -> Below {
    let flat = |ticks| Below {
        ticks,
        is_turned: false,
        height: TICK_SIZE + 4.0,
    };
    if let Along::Categories(names) = &plot.along {
        return categories(names, scale, font, height);
    }
    let mut count = ((scale.end - scale.start) / 70.0).clamp(1.0, 14.0);
    loop {
        let ticks: Vec<(f64, String)> = match plot.along {
            Along::Time => time_ticks(scale.from, scale.to, count),
            _ if scale.is_log => log_ticks(scale.from, scale.to, count),
            _ => number_ticks(scale.from, scale.to, count),
        }
        .into_iter()
        .map(|tick| (scale.place(tick.value), tick.label))
        .collect();
        if count <= 1.0 || !overlap(&ticks, font) {
            return flat(ticks);
        }
        count -= 1.0;
    }
}

fn categories(names: &[String], scale: &Scale, font: &Font, height: f64) -> Below {
    let band = (scale.end - scale.start) / names.len().max(1) as f64;
    let placed = |at: usize| scale.place(at as f64);
    let flat: Vec<(f64, String)> = names
        .iter()
        .enumerate()
        .map(|(at, name)| (placed(at), font.fit(name, TICK_SIZE, TURNED_MAX)))
        .collect();
    let widest = |ticks: &[(f64, String)]| {
        let widths = ticks.iter().map(|(_, text)| font.width(text, TICK_SIZE));
        widths.fold(0.0, f64::max)
    };
    // Short texts, such as years, are left out rather than turned.
    let stride = match widest(&flat) {
        width if width <= 36.0 && names.len() > 12 => ((width + 10.0) / band).ceil().max(1.0),
        _ => 1.0,
    } as usize;
    let flat: Vec<(f64, String)> = flat.into_iter().step_by(stride).collect();
    if !overlap(&flat, font) {
        return Below {
            ticks: flat,
            is_turned: false,
            height: TICK_SIZE + 4.0,
        };
    }
    let stride = (TURNED_STEP / band).ceil().max(1.0) as usize;
    let longest = TURNED_MAX.min(height * 0.35 / SLANT);
    let ticks: Vec<(f64, String)> = names
        .iter()
        .enumerate()
        .step_by(stride)
        .map(|(at, name)| {
            // A text that begins left of the picture would be cut.
            let room = longest.min((placed(at) - 6.0) / SLANT);
            (placed(at), font.fit(name, TICK_SIZE, room))
        })
        .collect();
    Below {
        height: widest(&ticks) * SLANT + TICK_SIZE,
        ticks,
        is_turned: true,
    }
}

/// `true` if two texts that follow each other come too close.
fn overlap(ticks: &[(f64, String)], font: &Font) -> bool {
    ticks.windows(2).any(|pair| match pair {
        [(left, one), (right, two)] => {
            let halves = (font.width(one, TICK_SIZE) + font.width(two, TICK_SIZE)) / 2.0;
            right - left < halves + 8.0
        }
        _ => false,
    })
}
