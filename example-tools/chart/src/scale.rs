//! From values to pixels, and the ticks between.

use crate::date::Moment;

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
/// Steps of a time axis below a month, in seconds.
const TIME_STEPS: [f64; 16] = [
    1.0,
    5.0,
    15.0,
    30.0,
    MINUTE,
    5.0 * MINUTE,
    15.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    3.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
    DAY,
    2.0 * DAY,
    7.0 * DAY,
    14.0 * DAY,
];
/// Steps of a time axis from a month on, in months.
const MONTH_STEPS: [i64; 10] = [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200];

/// Maps an interval of values to one of pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) is_log: bool,
}

impl Scale {
    pub(crate) fn place(&self, value: f64) -> f64 {
        let turn = |value: f64| if self.is_log { value.log10() } else { value };
        let from = turn(self.from);
        let to = turn(self.to);
        // Halves, because the difference of two finite numbers can be infinite.
        let part = (turn(value) / 2.0 - from / 2.0) / (to / 2.0 - from / 2.0);
        // The half of the least number is 0.
        let part = if part.is_finite() { part } else { 0.5 };
        self.start + part.clamp(0.0, 1.0) * (self.end - self.start)
    }
}

/// A place on an axis, and its text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// The distance of ticks: 1, 2 or 5 times a power of ten.
pub(crate) fn nice_step(span: f64, count: f64) -> f64 {
    let rough = (span / count.max(1.0)).clamp(f64::MIN_POSITIVE, f64::MAX);
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| rough <= factor * power * 1.000_001);
    (factor.unwrap_or(10.0) * power).clamp(f64::MIN_POSITIVE, f64::MAX)
}

/// Widens an interval so that it has a length and its ends are ticks.
pub(crate) fn nice_domain(from: f64, to: f64, count: f64) -> (f64, f64) {
    let (from, to) = if from == to {
        let room = if from == 0.0 { 1.0 } else { from.abs() * 0.1 };
        (from - room, to + room)
    } else {
        (from, to)
    };
    let step = nice_step(to / 2.0 - from / 2.0, count / 2.0);
    let low = (from / step).floor() * step;
    let high = (to / step).ceil() * step;
    if low.is_finite() && high.is_finite() && low < high {
        (low, high)
    } else {
        (from, to)
    }
}

/// The powers of ten around an interval of positive numbers.
pub(crate) fn log_domain(from: f64, to: f64) -> (f64, f64) {
    let low = 10_f64.powf(from.log10().floor());
    let high = 10_f64.powf(to.log10().ceil());
    match (low > 0.0, high.is_finite()) {
        (true, true) if low < high => (low, high),
        (true, true) => (low, low * 10.0),
        _ => (from, to),
    }
}

pub(crate) fn number_ticks(from: f64, to: f64, count: f64) -> Vec<Tick> {
    let step = nice_step(to / 2.0 - from / 2.0, count / 2.0);
    let first = (from / step - 1e-9).ceil();
    let last = (to / step + 1e-9).floor();
    let largest = from.abs().max(to.abs());
    // Whole numbers that are too large to be counted one by one have no ticks between them.
    let many = if (last - first).is_finite() {
        (last - first).clamp(0.0, 100.0) as u32
    } else {
        0
    };
    (0..=many)
        .map(|at| (first + f64::from(at)) * step)
        .filter(|value| value.is_finite())
        .map(|value| Tick {
            value,
            label: number(value, step, largest),
        })
        .collect()
}

pub(crate) fn log_ticks(from: f64, to: f64, count: f64) -> Vec<Tick> {
    let decades = (to.log10() - from.log10()).max(1e-9);
    let stride = (decades / count.max(1.0)).ceil().max(1.0) as i32;
    let factors: &[f64] = if decades <= 2.0 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let first = from.log10().floor() as i32;
    let last = to.log10().ceil() as i32;
    (first..=last)
        .step_by(stride.unsigned_abs() as usize)
        .flat_map(|power| {
            factors
                .iter()
                .map(move |factor| factor * 10_f64.powi(power))
        })
        .filter(|value| *value >= from * 0.999_999 && *value <= to * 1.000_001)
        .map(|value| Tick {
            value,
            label: number(value, value / 10.0, value),
        })
        .collect()
}

pub(crate) fn time_ticks(from: f64, to: f64, count: f64) -> Vec<Tick> {
    let rough = (to - from) / count.max(1.0);
    if let Some(step) = TIME_STEPS.into_iter().find(|step| *step >= rough) {
        // Weeks begin on Mondays; 1970 began on a Thursday.
        let shift = if step >= 7.0 * DAY { 4.0 * DAY } else { 0.0 };
        let first = ((from - shift) / step).ceil() as i64;
        let last = ((to - shift) / step).floor() as i64;
        return (first..=last.min(first + 100))
            .map(|at| at as f64 * step + shift)
            .map(|value| Tick {
                value,
                label: time(value, step, from, to),
            })
            .collect();
    }
    let months = MONTH_STEPS
        .into_iter()
        .find(|months| *months as f64 * 30.4 * DAY >= rough)
        .unwrap_or(12 * nice_step(rough / (365.25 * DAY), 1.0).max(1.0) as i64);
    let start = Moment::at(from);
    let first = (start.year * 12 + start.month - 1).div_euclid(months) * months;
    (0..100)
        .map(|at| first + at * months)
        .map(|month| Moment::new(month.div_euclid(12), month.rem_euclid(12) + 1, 1))
        .map(|moment| (moment.seconds(), moment))
        .filter(|(value, _)| *value >= from)
        .take_while(|(value, _)| *value <= to)
        .map(|(value, moment)| Tick {
            value,
            label: if months >= 12 {
                moment.year.to_string()
            } else {
                format!("{} {}", moment.month_name(), moment.year)
            },
        })
        .collect()
}

/// A moment, as exactly as `step` needs it.
fn time(value: f64, step: f64, from: f64, to: f64) -> String {
    let moment = Moment::at(value);
    let day = format!("{} {}", moment.month_name(), moment.day);
    if step >= DAY {
        return if Moment::at(from).year == Moment::at(to).year {
            day
        } else {
            format!("{day} {}", moment.year)
        };
    }
    let clock = moment.clock(step < MINUTE);
    if Moment::at(from).day == Moment::at(to).day && to - from < DAY {
        clock
    } else if moment.second == 0 {
        day
    } else {
        format!("{day} {clock}")
    }
}

/// A number that is a multiple of `step`, on an axis that goes up to `largest`.
pub(crate) fn number(value: f64, step: f64, largest: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if largest >= 1e15 || step < 1e-7 {
        return format!("{value:.2e}")
            .replace(".00e", "e")
            .replace("0e", "e");
    }
    let (unit, suffix) = match largest {
        _ if largest >= 1e12 => (1e12, "T"),
        _ if largest >= 1e9 => (1e9, "B"),
        _ if largest >= 1e6 => (1e6, "M"),
        _ => (1.0, ""),
    };
    let places = (-(step / unit).log10() - 1e-6).ceil().clamp(0.0, 9.0) as usize;
    let text = format!("{:.places$}", value / unit);
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!(
        "{}{suffix}",
        if unit == 1.0 {
            grouped(text)
        } else {
            text.to_owned()
        }
    )
}

/// Commas between thousands, from five digits on: years have four.
fn grouped(text: &str) -> String {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = match whole.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", whole),
    };
    if digits.len() < 5 {
        return text.to_owned();
    }
    let mut out = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: Vec<Tick>) -> Vec<String> {
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_of_numbers_are_round() {
        assert_eq!(
            labels(number_ticks(0.0, 10.0, 5.0)),
            ["0", "2", "4", "6", "8", "10"]
        );
        assert_eq!(
            labels(number_ticks(-0.1, 0.2, 3.0)),
            ["-0.1", "0", "0.1", "0.2"]
        );
        assert_eq!(
            labels(number_ticks(2019.0, 2022.0, 4.0)),
            ["2019", "2020", "2021", "2022"]
        );
        assert_eq!(
            labels(number_ticks(0.0, 40_000.0, 2.0)),
            ["0", "20,000", "40,000"]
        );
        assert_eq!(labels(number_ticks(0.0, 3e6, 3.0)), ["0", "1M", "2M", "3M"]);
        assert_eq!(
            labels(number_ticks(0.0, 1.5e6, 3.0)),
            ["0", "0.5M", "1M", "1.5M"]
        );
    }

    #[test]
    fn the_largest_and_the_smallest_numbers_have_ticks_and_places() {
        for (from, to) in [
            (-f64::MAX, f64::MAX),
            (0.0, f64::MIN_POSITIVE),
            (1e300, 1.000_000_000_000_001e300),
            (5.0, 5.0),
            (0.0, 0.0),
            (-1e-320, 1e-320),
        ] {
            let (low, high) = nice_domain(from, to, 5.0);
            assert!(low <= from && high >= to, "{from} {to}: {low} {high}");
            assert!(number_ticks(low, high, 5.0).len() < 30);
            let scale = Scale {
                from: low,
                to: high,
                start: 0.0,
                end: 100.0,
                is_log: false,
            };
            assert!((0.0..=100.0).contains(&scale.place(from)), "{from} {to}");
        }
    }

    #[test]
    fn ticks_of_a_logarithmic_axis_are_powers() {
        assert_eq!(log_domain(3.0, 4000.0), (1.0, 10_000.0));
        assert_eq!(
            labels(log_ticks(1.0, 1000.0, 6.0)),
            ["1", "10", "100", "1000"]
        );
        assert_eq!(labels(log_ticks(0.1, 1.0, 6.0)), ["0.1", "0.2", "0.5", "1"]);
        assert!(log_ticks(f64::MIN_POSITIVE, f64::MAX, 6.0).len() < 20);
    }

    #[test]
    fn ticks_of_time_are_days_months_and_years() {
        let at = |text| crate::date::parse(text).unwrap();
        let ticks = |from, to| labels(time_ticks(at(from), at(to), 6.0));
        assert_eq!(
            ticks("2026-01-01", "2026-01-04"),
            [
                "Jan 1",
                "Jan 1 12:00",
                "Jan 2",
                "Jan 2 12:00",
                "Jan 3",
                "Jan 3 12:00",
                "Jan 4"
            ]
        );
        assert_eq!(ticks("2026-01-01", "2026-06-01")[1], "Feb 2026");
        assert_eq!(
            ticks("2016-01-01", "2026-01-01"),
            ["2016", "2018", "2020", "2022", "2024", "2026"]
        );
        assert_eq!(ticks("2026-01-01T10:00", "2026-01-01T11:00")[1], "10:15");
        assert!(time_ticks(at("0001-01-01"), at("9999-01-01"), 6.0).len() < 12);
    }
}
