use std::time::Duration;

/// Maximum time, in days: added to any clock, it does not overflow.
const DAYS_MAX: u64 = 365;

/// Parses a time with its unit, such as `500ms`, `5s`, `2m`: more than zero, and at most 365 days.
pub fn duration(text: &str) -> Result<Duration, String> {
    let duration = match split(text) {
        Some((number, "ms")) => Some(Duration::from_millis(number)),
        Some((number, "s")) => Some(Duration::from_secs(number)),
        Some((number, "m")) => Some(Duration::from_secs(number.saturating_mul(60))),
        _ => None,
    };
    match duration.filter(|duration| !duration.is_zero()) {
        Some(duration) if duration > Duration::from_secs(DAYS_MAX * 24 * 60 * 60) => {
            Err(format!("a time is {DAYS_MAX} days at the most"))
        }
        Some(duration) => Ok(duration),
        None => Err("give a number with a unit: 500ms, 5s, 2m".to_owned()),
    }
}

/// Parses a number of bytes, plain or with a unit, such as `64MiB`: more than zero.
pub fn size(text: &str) -> Result<u64, String> {
    let size = match split(text) {
        Some((number, "" | "B")) => Some(number),
        Some((number, "KiB" | "K" | "k")) => number.checked_mul(1 << 10),
        Some((number, "MiB" | "M")) => number.checked_mul(1 << 20),
        Some((number, "GiB" | "G")) => number.checked_mul(1 << 30),
        _ => None,
    };
    size.filter(|size| *size > 0)
        .ok_or_else(|| "give a number of bytes, or one with a unit: 64KiB, 64MiB, 1GiB".to_owned())
}

/// A parser of one of the words `known`.
pub(super) fn one_of<S: AsRef<str>, T: Copy>(
    known: &[(S, T)],
) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let found = known.iter().find(|(word, _)| word.as_ref() == text);
        let words: Vec<&str> = known.iter().map(|(word, _)| word.as_ref()).collect();
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| format!("it is not one of: {}", words.join(", ")))
    }
}

fn split(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::{duration, size};
    use std::time::Duration;

    #[test]
    fn times_and_sizes_need_their_units_right() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(duration("5").is_err() && duration("0s").is_err() && duration("s").is_err());
        assert!(duration("99999999999999999999s").is_err());
        assert_eq!(
            duration("525600m"),
            Ok(Duration::from_secs(365 * 24 * 60 * 60))
        );
        for long in [
            "525601m",
            "18446744073709551615s",
            "18446744073709551615m",
            "18446744073709551615ms",
        ] {
            assert!(duration(long).unwrap_err().contains("365 days"), "{long}");
        }
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("1000"), Ok(1_000));
        assert!(size("0").is_err() && size("1TB").is_err() && size("99999999999GiB").is_err());
    }
}
