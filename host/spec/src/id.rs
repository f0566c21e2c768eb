//! Identifiers that the host generates: ULIDs, with one type for each kind of object, so that they cannot be mixed up.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use super::Timestamp;

/// The bits below a nanosecond.
const RANDOM_BITS: u32 = 60;

/// Sorts in the order of creation within a process, even within a millisecond: after the millisecond comes the rest of
/// the time. A plain increment would tell a caller how many ids others got between two of its own.
fn next(now: Timestamp) -> Ulid {
    static LATEST: Mutex<Ulid> = Mutex::new(Ulid::nil());
    let now = SystemTime::from(now);
    let nanoseconds = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos() % 1_000_000);
    let mut fresh = Ulid::from_datetime(now);
    let random = fresh.random() & ((1 << RANDOM_BITS) - 1);
    let rest = (u128::from(nanoseconds) << RANDOM_BITS) | random;
    fresh = Ulid::from_parts(fresh.timestamp_ms(), rest);
    let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    if fresh <= *latest {
        // A carry is the next nanosecond.
        let step = 1 + (random >> (RANDOM_BITS / 2));
        fresh = Ulid::from(u128::from(*latest).saturating_add(step));
    }
    *latest = fresh;
    fresh
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Ulid);

        impl $name {
            #[allow(clippy::new_without_default, reason = "a default that differs each time would surprise")]
            pub fn new() -> Self {
                Self::at(Timestamp::now())
            }

            pub fn at(now: Timestamp) -> Self {
                Self(next(now))
            }

            #[allow(dead_code, reason = "not every kind of id is compared with another")]
            pub(crate) fn bits(self) -> u128 {
                self.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ulid::DecodeError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Ulid::from_string(text).map(Self)
            }
        }
    )*};
}

ids! {
    /// An id of the host, never of the caller (AT-INV-02).
    ///
    /// ```
    /// use toolcell_spec::InvocationId;
    ///
    /// let (first, second) = (InvocationId::new(), InvocationId::new());
    /// assert!(first < second);
    /// assert_eq!(first.to_string().parse::<InvocationId>(), Ok(first));
    /// ```
    InvocationId,
    /// `result_id` (AT-RES-02).
    ResultId,
    /// `decision_id` (AT-DEC-01).
    DecisionId,
    EventId,
    ProgressId,
    /// `decision_id` of a storage decision (AT-PERS-01..12).
    PersistenceId,
    /// `mutation_id` (AT-MUT-01..10).
    MutationId,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{EventId, RANDOM_BITS, Timestamp};

    #[test]
    fn ids_are_in_order_and_tell_nothing_of_those_between() {
        // Later than ids of other tests.
        let mut now = Timestamp::now().plus(Duration::from_secs(60));
        for others in [0, 1, 1_000] {
            let first = EventId::at(now);
            let between: Vec<EventId> = (0..others).map(|_| EventId::at(now)).collect();
            now = now.plus(Duration::from_nanos(1_000));
            let second = EventId::at(now);
            let all: Vec<EventId> = [vec![first], between, vec![second]].concat();
            assert!(
                all.is_sorted_by(|earlier, later| earlier < later),
                "{all:?}"
            );
            let passed = (second.bits() >> RANDOM_BITS) - (first.bits() >> RANDOM_BITS);
            // A millisecond has 2^20 steps of a nanosecond, of which a million are used.
            assert!(
                [1_000, 1_000 + (1 << 20) - 1_000_000].contains(&passed),
                "{passed}"
            );
        }
    }
}
