//! Identifiers that the host mints: ULIDs, one type for each object, so that one cannot stand in for another.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use ulid::{Generator, Ulid};

/// Ids of one process sort in the order in which they were made, also within a millisecond.
fn next() -> Ulid {
    static GENERATOR: Mutex<Generator> = Mutex::new(Generator::new());
    let mut generator = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    generator.generate().unwrap_or_else(|overflow| overflow.commit_overflow_random())
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
                Self(next())
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
    /// `invocation_id`: the host's own, never the caller's (AT-INV-02).
    InvocationId,
    ResultId,
    DecisionId,
    EventId,
    ProgressId,
    PersistenceId,
    MutationId,
}
