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
// Weak: the listeners of a call learn that it has ended when its trail is dropped.
pub struct Background(Arc<OnceLock<WeakTrail>>);

impl Background {
    /// Records that the caller waits no more. Nothing is recorded before the call began and after it ended.
    pub fn enter(&self) {
        if let Some(trail) = self.0.get().and_then(WeakTrail::upgrade) {
            trail.reached(ProgressStatus::Backgrounded);
        }
    }

    /// Begins to record for the call with this trail.
    pub(super) fn begin(&self, trail: &Trail) {
        // A handle that two calls share tells of the first one.
        let _ = self.0.set(trail.downgrade());
    }
}
