use std::fmt;
use std::time::{Duration, SystemTime};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(SystemTime);

impl Timestamp {
    /// The current time of the system's clock.
    pub fn now() -> Self {
        Self(SystemTime::now())
    }

    /// Returns the current time, or 1 ns after `earlier` if the clock has not moved on.
    pub fn after(earlier: Self) -> Self {
        Self::now().max(Self(earlier.0 + Duration::from_nanos(1)))
    }

    /// Returns this moment plus `duration`; the moment itself if the sum is out of range.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        self.0.checked_add(duration).map_or(self, Self)
    }

    /// Returns this moment minus `duration`; the moment itself if the difference is out of range.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        self.0.checked_sub(duration).map_or(self, Self)
    }

    /// The moment so many milliseconds after the beginning of 1970; that beginning for a negative number.
    pub fn of_unix_millis(millis: i64) -> Self {
        Self(SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
    }

    /// Milliseconds since 1970; 0 for an earlier moment.
    pub fn unix_millis(self) -> i64 {
        let since = self
            .0
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// Milliseconds from `earlier` to this moment; 0 if the clock went back.
    pub fn millis_since(self, earlier: Self) -> u64 {
        let elapsed = self.0.duration_since(earlier.0).unwrap_or_default();
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }
}

impl From<Timestamp> for SystemTime {
    fn from(timestamp: Timestamp) -> Self {
        timestamp.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::try_from(self.0) {
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
        Ok(Self(stamp.into()))
    }
}
