use std::cmp::Ordering;
use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment, written as RFC 3339 in UTC. It is formatted only for a record, because a call takes many and shows few.
///
/// ```
/// use std::time::Duration;
///
/// use toolcell_spec::Timestamp;
///
/// let began = Timestamp::now();
/// assert_eq!(began.plus(Duration::from_secs(2)).millis_since(began), 2_000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    at: SystemTime,
    /// The same moment on a clock that nobody sets; `None` if the system's clock was not read for it.
    steady: Option<Instant>,
}

impl Timestamp {
    pub fn now() -> Self {
        Self {
            at: SystemTime::now(),
            steady: Some(Instant::now()),
        }
    }

    /// Returns the current time, and at least 1 ns after `earlier`. If this process read the clock for `earlier`, the time since
    /// then has passed also if the clock was set meanwhile: what a call took does not depend on it.
    pub fn after(earlier: Self) -> Self {
        let mut now = Self::now();
        if let (Some(then), Some(steady)) = (earlier.steady, now.steady) {
            let passed = steady.saturating_duration_since(then);
            now.at = earlier.at.checked_add(passed).unwrap_or(now.at);
        }
        now.at = now.at.max(earlier.at + Duration::from_nanos(1));
        now
    }

    /// Unchanged if the sum is out of range.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        self.at.checked_add(duration).map_or(self, Self::from)
    }

    /// Unchanged if the difference is out of range.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        self.at.checked_sub(duration).map_or(self, Self::from)
    }

    /// The beginning of 1970 for a negative number.
    pub fn of_unix_millis(millis: i64) -> Self {
        Self::from(
            SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0)),
        )
    }

    /// 0 before 1970.
    pub fn unix_millis(self) -> i64 {
        let since = self
            .at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// 0 if the clock went back.
    pub fn since(self, earlier: Self) -> Duration {
        self.at.duration_since(earlier.at).unwrap_or_default()
    }

    /// As [`Self::since`], in whole milliseconds.
    pub fn millis_since(self, earlier: Self) -> u64 {
        u64::try_from(self.since(earlier).as_millis()).unwrap_or(u64::MAX)
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(at: SystemTime) -> Self {
        Self { at, steady: None }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(timestamp: Timestamp) -> Self {
        timestamp.at
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::try_from(self.at) {
            Ok(stamp) => stamp.fmt(f),
            Err(_) => jiff::Timestamp::UNIX_EPOCH.fmt(f),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let stamp: jiff::Timestamp = text.parse().map_err(de::Error::custom)?;
        Ok(SystemTime::from(stamp).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_took_does_not_depend_on_a_clock_that_is_set() {
        let hour = Duration::from_secs(60 * 60);
        for at in [SystemTime::now() - hour, SystemTime::now() + hour] {
            // As if the clock had been set since.
            let began = Timestamp {
                at,
                steady: Some(Instant::now()),
            };
            let ended = Timestamp::after(began);
            assert!(ended > began && ended.millis_since(began) < 60_000);
        }
        let of_another_process = Timestamp::from(SystemTime::now() - hour);
        let ended = Timestamp::after(of_another_process);
        assert!(ended.millis_since(of_another_process) >= 3_600_000);
    }
}
