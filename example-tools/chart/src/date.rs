//! Dates as seconds since 1970 in UTC, by the proleptic Gregorian calendar.

const DAY: i64 = 86_400;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A day and a time of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    /// Seconds since midnight.
    pub(crate) second: i64,
}

impl Moment {
    pub(crate) fn new(year: i64, month: i64, day: i64) -> Self {
        Self {
            year,
            month,
            day,
            second: 0,
        }
    }

    pub(crate) fn at(seconds: f64) -> Self {
        let seconds = seconds.floor() as i64;
        let days = seconds.div_euclid(DAY);
        let second = seconds.rem_euclid(DAY);
        // Years begin in March, so that the leap day is the last one; an era is 400 years.
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = if shifted < 10 {
            shifted + 3
        } else {
            shifted - 9
        };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted + 2) / 5 + 1,
            second,
        }
    }

    pub(crate) fn seconds(self) -> f64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let shifted = (self.month + 9) % 12;
        let day_of_year = (153 * shifted + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        (days * DAY + self.second) as f64
    }

    pub(crate) fn month_name(self) -> &'static str {
        usize::try_from(self.month - 1)
            .ok()
            .and_then(|at| MONTHS.get(at))
            .unwrap_or(&"")
    }

    pub(crate) fn clock(self, with_seconds: bool) -> String {
        let hour = self.second / 3600;
        let minute = self.second / 60 % 60;
        let second = self.second % 60;
        if with_seconds {
            format!("{hour:02}:{minute:02}:{second:02}")
        } else {
            format!("{hour:02}:{minute:02}")
        }
    }
}

/// Reads `2026-05-01`, `2026/05/01` or `2026-05`, and with a day also a time: `2026-05-01T18:30:00.5+02:00`.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let text = text.trim();
    let (date, time) = match text.find(['T', ' ', 't']) {
        Some(at) => (text.get(..at)?, Some(text.get(at + 1..)?)),
        None => (text, None),
    };
    let mut parts = date.split(if date.contains('/') { '/' } else { '-' });
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2)?;
    let day = match parts.next() {
        Some(day) => digits(day, 2)?,
        None if time.is_none() => 1,
        None => return None,
    };
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day);
    let moment = Moment::new(year, month, day);
    // The 30th of February would be another day.
    if parts.next().is_some() || !in_range || Moment::at(moment.seconds()) != moment {
        return None;
    }
    Some(moment.seconds() + time.map_or(Some(0.0), clock)?)
}

/// Seconds since midnight in UTC.
fn clock(text: &str) -> Option<f64> {
    let zone_at = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (time, zone) = text.split_at_checked(zone_at)?;
    let mut parts = time.split(':');
    let hour = digits(parts.next()?, 2)?;
    let minute = digits(parts.next()?, 2)?;
    let (whole, fraction) = match parts.next() {
        Some(second) => {
            let (whole, fraction) = second.split_once('.').unwrap_or((second, "0"));
            let is_number =
                !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
            let fraction = is_number.then(|| format!("0.{fraction}").parse().ok())??;
            (digits(whole, 2)?, fraction)
        }
        None => (0, 0.0),
    };
    if parts.next().is_some() || hour > 23 || minute > 59 || whole > 60 {
        return None;
    }
    let seconds: f64 = (hour * 3600 + minute * 60 + whole) as f64 + fraction;
    Some(seconds - offset(zone)?)
}

/// Seconds that a zone is ahead of UTC. No zone is taken as UTC.
fn offset(zone: &str) -> Option<f64> {
    let sign = match zone.chars().next() {
        None | Some('Z' | 'z') => return (zone.len() <= 1).then_some(0.0),
        Some('-') => -1,
        Some(_) => 1,
    };
    let number: String = zone
        .chars()
        .skip(1)
        .filter(|letter| *letter != ':')
        .collect();
    let (hours, minutes) = match number.len() {
        2 => (digits(&number, 2)?, 0),
        4 => {
            let (hours, minutes) = number.split_at_checked(2)?;
            (digits(hours, 2)?, digits(minutes, 2)?)
        }
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some((sign * (hours * 3600 + minutes * 60)) as f64)
}

fn digits(text: &str, length: usize) -> Option<i64> {
    let fits = text.len() == length || (length == 2 && text.len() == 1);
    let all = text.bytes().all(|byte| byte.is_ascii_digit());
    (fits && all).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_read_and_found_again() {
        for (text, seconds) in [
            ("1970-01-01", 0.0),
            ("2000-02-29", 951_782_400.0),
            ("1969-12-31T23:59:59Z", -1.0),
            ("2026-05-01 18:30", 1_777_660_200.0),
            ("2026-05-01T18:30:00.5+02:00", 1_777_653_000.5),
            ("2026/5/1", 1_777_593_600.0),
            ("2026-05", 1_777_593_600.0),
        ] {
            assert_eq!(parse(text), Some(seconds), "{text}");
        }
        assert_eq!(Moment::at(951_782_400.0), Moment::new(2000, 2, 29));
        for days in (-200_000..200_000).step_by(97) {
            let seconds = f64::from(days) * 86_400.0;
            assert_eq!(Moment::at(seconds).seconds(), seconds);
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "2026",
            "2026-13-01",
            "2026-02-30",
            "26-01-01",
            "2026-01-01T",
            "2026-01-01T25:00",
            "2026-01-01-01",
            "2026-1é-01",
            "2026-01-01T10:00+99:00",
            "1-2",
            "2026-05T10:00",
            "é",
            "2026-01-01T10:00:00.",
            "2026-01-01T10:00Zx",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
