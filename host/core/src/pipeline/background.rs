use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::journal::{Trail, WeakTrail};
use crate::record::ProgressStatus;

/// Tells that a call goes on although its caller waits no more (AT-PSTAT-06). Clones belong to the same call.
///
/// ```
/// use toolcell_core::pipeline::{Background, Request};
///
/// let background = Background::default();
/// let mut request = Request::new("jq.jq", "{}");
/// request.background = Some(background.clone());
/// // Later, when the caller got a first answer and the call continues.
/// background.enter();
/// ```
#[derive(Clone, Default)]
pub struct Background(Arc<Inner>);

#[derive(Default)]
struct Inner {
    // Weak: the listeners of a call learn that it has ended when its trail is dropped.
    trail: OnceLock<WeakTrail>,
    can_be_left: AtomicBool,
}

impl Background {
    /// Records that the caller waits no more. Nothing is recorded before the call began and after it ended.
    pub fn enter(&self) {
        if let Some(trail) = self.0.trail.get().and_then(WeakTrail::upgrade) {
            trail.reached(ProgressStatus::Backgrounded);
        }
    }

    /// Whether the future of the call can be dropped without losing the call: its approval is open, or given and not
    /// used, and both are on disk, so that another process can go on with it. Holds until the future is polled again.
    pub fn can_be_left(&self) -> bool {
        self.0.can_be_left.load(Ordering::Acquire)
    }

    /// Begins to record for the call with this trail.
    pub(super) fn begin(&self, trail: &Trail) {
        // A handle that two calls share tells of the first one.
        let _ = self.0.trail.set(trail.downgrade());
    }

    pub(super) fn set_can_be_left(&self, can: bool) {
        self.0.can_be_left.store(can, Ordering::Release);
    }
}
