use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use toolcell_journal::{Trail, WeakTrail};
use toolcell_spec::ProgressStatus;

/// Tells that a call goes on although its caller waits no more (AT-PSTAT-06). Clones belong to the same call.
///
/// ```
/// use toolcell_engine::pipeline::{Background, Request};
///
/// let background = Background::default();
/// let mut request = Request::new("jq.jq", "{}");
/// request.background = Some(background.clone());
/// // Later, when the caller got a first answer and the call continues.
/// background.enter();
/// ```
#[derive(Clone, Default)]
pub struct Background(Arc<BackgroundState>);

#[derive(Default)]
struct BackgroundState {
    // Weak: the listeners of a call learn that it has ended when its trail is dropped.
    trail: OnceLock<WeakTrail>,
    can_be_left: AtomicBool,
    /// `true` once its caller can return in a later process.
    returns: watch::Sender<bool>,
    rounds: AtomicUsize,
}

impl Background {
    /// Records that the caller waits no more; nothing before the call begins or after it ends.
    pub fn enter(&self) {
        if let Some(trail) = self.0.trail.get().and_then(WeakTrail::upgrade) {
            trail.reached(ProgressStatus::Backgrounded);
        }
    }

    /// For a caller that came back in this process after `rounds` rounds of questions.
    pub fn returned(rounds: usize) -> Self {
        let background = Self(Arc::new(BackgroundState {
            rounds: AtomicUsize::new(rounds),
            ..BackgroundState::default()
        }));
        background.set_returns();
        background
    }

    /// Counts a round shown to the caller, from 1 on. An answer name with this number is for that round alone, also in
    /// a later process.
    pub fn begin_round(&self) -> usize {
        self.0.rounds.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn rounds(&self) -> usize {
        self.0.rounds.load(Ordering::Relaxed)
    }

    /// Tells that the caller can come back in a later process: the call is stored while its tool's question waits.
    pub fn set_returns(&self) {
        self.0.returns.send_replace(true);
    }

    pub(super) async fn returns(&self) {
        // The sender lives as long as this handle.
        let _ = self
            .0
            .returns
            .subscribe()
            .wait_for(|returns| *returns)
            .await;
    }

    /// Returns whether dropping the call's future loses nothing: an unused approval or open question is on disk, for
    /// another process. Holds until the future is polled again.
    pub fn can_be_left(&self) -> bool {
        self.0.can_be_left.load(Ordering::Acquire)
    }

    pub(super) fn begin(&self, trail: &Trail) {
        // A handle that two calls share tells of the first one.
        let _ = self.0.trail.set(trail.downgrade());
    }

    pub(super) fn set_can_be_left(&self, can: bool) {
        self.0.can_be_left.store(can, Ordering::Release);
    }
}
