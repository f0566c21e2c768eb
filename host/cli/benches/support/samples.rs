use std::time::{Duration, Instant};

/// Returns `full` under `cargo bench`, else at most two: the check runs each bench only so that none rots, and measures
/// nothing.
pub(crate) fn repeated(full: usize) -> usize {
    if std::env::args().any(|argument| argument == "--bench") {
        full
    } else {
        full.min(2)
    }
}

/// The durations of repeated runs of one operation.
#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    #[allow(dead_code, reason = "not every bench measures from a start")]
    /// Adds the time since `start`.
    pub(crate) fn since(&mut self, start: Instant) {
        self.push(start.elapsed());
    }

    /// The given quantile, in microseconds; 0.5 is the median.
    pub(crate) fn us(&self, quantile: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let at = ((sorted.len() as f64 * quantile) as usize).min(sorted.len().saturating_sub(1));
        sorted
            .get(at)
            .map_or(f64::NAN, |sample| sample.as_secs_f64() * 1e6)
    }

    pub(crate) fn median_us(&self) -> f64 {
        self.us(0.5)
    }

    pub(crate) fn median_ms(&self) -> f64 {
        self.median_us() / 1e3
    }
}
