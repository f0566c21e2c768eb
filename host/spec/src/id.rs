//! Identifiers that the host generates: ULIDs, with one type for each kind of object, so that they cannot be mixed up.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use ulid::{Generator, Ulid};

use super::Timestamp;

/// Sorts in the order of creation within a process, even within a millisecond.
fn next(now: Timestamp) -> Ulid {
    static GENERATOR: Mutex<Generator> = Mutex::new(Generator::new());
    let mut generator = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    generator
        .generate_from_datetime(now.into())
        .unwrap_or_else(|overflow| overflow.commit_overflow_random())
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
