use std::time::Duration;

use toolcell_spec::ErrorClass;

/// Repetition of failed attempts. An attempt is repeated only if that does no harm (`retry.safe` of its error): its
/// guest could change nothing that lasts.
///
/// ```
/// use std::time::Duration;
///
/// use toolcell_policy::RetryPolicy;
///
/// let policy = RetryPolicy { attempts: 3, backoff: Duration::from_millis(100), ..RetryPolicy::default() };
/// assert_eq!(policy.longest_wait(2), Duration::from_millis(200));
/// assert_eq!(RetryPolicy::default().attempts, 1, "nothing is repeated unless it is wanted");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// 1 to [`ATTEMPTS_MAX`], the first included. Default: 1.
    pub attempts: u32,
    /// Longest wait after the first attempt, doubled by each further one, up to [`BACKOFF_MAX`]. Default: 200 ms.
    pub backoff: Duration,
    /// Repeated classes, among [`RETRY_CLASSES`].
    pub classes: Vec<ErrorClass>,
}

/// Each attempt appears in the call's record.
pub const ATTEMPTS_MAX: u32 = 10;
/// Does not limit waits that a tool asks for.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Transient failures. A limit of the host is none, because it counts for all attempts together.
pub const RETRY_CLASSES: [ErrorClass; 4] = [
    ErrorClass::RateLimited,
    ErrorClass::DependencyUnavailable,
    ErrorClass::Timeout,
    ErrorClass::ExecutionFailed,
];

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 1,
            backoff: Duration::from_millis(200),
            classes: vec![
                ErrorClass::RateLimited,
                ErrorClass::DependencyUnavailable,
                ErrorClass::Timeout,
            ],
        }
    }
}

impl RetryPolicy {
    pub fn repeats(&self, class: ErrorClass, attempt: u32) -> bool {
        attempt < self.attempts.min(ATTEMPTS_MAX) && self.classes.contains(&class)
    }

    pub fn longest_wait(&self, attempt: u32) -> Duration {
        let doubled = 1_u32
            .checked_shl(attempt.saturating_sub(1))
            .unwrap_or(u32::MAX);
        self.backoff.saturating_mul(doubled).min(BACKOFF_MAX)
    }

    /// Between half of the longest wait and all of it, so that calls that failed together do not come back together.
    /// `random`: any number. A tool's `retry_after`, in seconds, is never shortened.
    pub fn wait(&self, attempt: u32, retry_after: Option<f64>, random: u64) -> Duration {
        let half = self.longest_wait(attempt) / 2;
        let millis = u64::try_from(half.as_millis())
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        let backoff = half + Duration::from_millis(random % millis);
        let wanted = retry_after.filter(|seconds| *seconds > 0.0);
        // A tool can ask for more time than a clock has.
        let wanted =
            wanted.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        wanted.map_or(backoff, |wanted| wanted.max(backoff))
    }

    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        Self {
            attempts: self.attempts.min(other.attempts),
            backoff: self.backoff.max(other.backoff),
            classes: self
                .classes
                .into_iter()
                .filter(|class| other.classes.contains(class))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit_and_keep_what_the_tool_asked_for() {
        let policy = RetryPolicy {
            attempts: 9,
            backoff: Duration::from_secs(1),
            ..RetryPolicy::default()
        };
        let longest: Vec<u64> = (1..8)
            .map(|attempt| policy.longest_wait(attempt).as_secs())
            .collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 30, 30]);
        for random in [0, 1, 500, u64::MAX] {
            let wait = policy.wait(3, None, random);
            assert!(
                (Duration::from_secs(2)..=Duration::from_secs(4)).contains(&wait),
                "{wait:?}"
            );
            assert!(policy.wait(1, Some(7.5), random) == Duration::from_secs_f64(7.5));
        }
        assert_ne!(policy.wait(3, None, 0), policy.wait(3, None, 500));
        for (asked, expected) in [
            (1e300, Duration::MAX),
            (f64::NAN, Duration::from_millis(500)),
            (-1.0, Duration::from_millis(500)),
        ] {
            assert_eq!(policy.wait(1, Some(asked), 0), expected);
        }
        assert_eq!(policy.longest_wait(u32::MAX), BACKOFF_MAX);
    }

    #[test]
    fn only_wanted_classes_are_repeated_and_only_so_often() {
        let policy = RetryPolicy {
            attempts: 2,
            ..RetryPolicy::default()
        };
        assert!(
            policy.repeats(ErrorClass::RateLimited, 1)
                && !policy.repeats(ErrorClass::RateLimited, 2)
        );
        assert!(
            !policy.repeats(ErrorClass::ExecutionFailed, 1)
                && !policy.repeats(ErrorClass::Canceled, 1)
        );
        let endless = RetryPolicy {
            attempts: u32::MAX,
            ..RetryPolicy::default()
        };
        assert!(!endless.repeats(ErrorClass::Timeout, ATTEMPTS_MAX));
        let both = policy.stricter(RetryPolicy {
            attempts: 5,
            classes: vec![ErrorClass::Timeout],
            ..endless
        });
        assert_eq!(
            (both.attempts, both.classes),
            (2, vec![ErrorClass::Timeout])
        );
    }
}
