use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use toolcell::Listener;
use toolcell_core::record::{InvocationId, ToolEvent};

/// The id of one call, once it is known, and whether the call became a task.
#[derive(Clone, Default)]
pub(crate) struct CallIdentity(Arc<IdentityState>);

#[derive(Default)]
struct IdentityState {
    id: OnceLock<InvocationId>,
    is_task: AtomicBool,
}

impl CallIdentity {
    /// The id; `None` before the first event.
    pub(crate) fn id(&self) -> Option<InvocationId> {
        self.0.id.get().copied()
    }

    pub(crate) fn become_task(&self) {
        self.0.is_task.store(true, Ordering::Release);
    }

    /// Returns whether the client polls the call: no request waits.
    pub(crate) fn is_task(&self) -> bool {
        self.0.is_task.load(Ordering::Acquire)
    }

    /// A listener that learns the id from the first event, and passes every event on to `next`.
    pub(crate) fn before(&self, next: Option<Arc<dyn Listener>>) -> Arc<dyn Listener> {
        Arc::new(IdListener {
            identified: self.clone(),
            next,
        })
    }
}

/// Only the call owns it: dropping it tells `next` that the call has ended.
struct IdListener {
    identified: CallIdentity,
    next: Option<Arc<dyn Listener>>,
}

impl Listener for IdListener {
    fn event(&self, event: &ToolEvent) {
        if let Some(id) = event.invocation_id {
            let _ = self.identified.0.id.set(id);
        }
        if let Some(next) = &self.next {
            next.event(event);
        }
    }
}
