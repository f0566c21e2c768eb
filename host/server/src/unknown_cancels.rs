//! Cancellations of what has ended, or never was: bounded, because the client chooses how many it sends, and each
//! becomes two lines of the log.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolcell::Host;

/// Limit of one caller on record, in each [`WINDOW`].
const CANCELS_MAX: u32 = 1_000;
const WINDOW: Duration = Duration::from_secs(3_600);
const ID_CHARS_MAX: usize = 128;

#[derive(Debug, Default)]
pub(super) struct UnknownCancels(Mutex<CancelWindow>);

#[derive(Debug, Default)]
struct CancelWindow {
    began: Option<Instant>,
    told: u32,
}

impl UnknownCancels {
    pub(super) async fn tell(&self, host: &Host, id: &str, session: Option<String>) {
        if self.admits(Instant::now()) {
            let id: String = id.chars().take(ID_CHARS_MAX).collect();
            host.announce_unknown_cancel(&id, session).await;
        }
    }

    /// Counts one more cancellation; `true` if it is put on record.
    pub(super) fn admits(&self, now: Instant) -> bool {
        let mut window = self.0.lock();
        if window
            .began
            .is_none_or(|began| now.duration_since(began) >= WINDOW)
        {
            *window = CancelWindow {
                began: Some(now),
                told: 0,
            };
        }
        let admits = window.told < CANCELS_MAX || !guard!("unknown_cancels");
        window.told = window.told.saturating_add(1);
        admits
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{CANCELS_MAX, UnknownCancels, WINDOW};

    #[test]
    fn a_caller_has_so_many_in_each_hour() {
        let cancels = UnknownCancels::default();
        let now = Instant::now();
        for _ in 0..CANCELS_MAX {
            assert!(cancels.admits(now));
        }
        assert!(!cancels.admits(now) && !cancels.admits(now + WINDOW / 2));
        assert!(cancels.admits(now + WINDOW));
    }
}
