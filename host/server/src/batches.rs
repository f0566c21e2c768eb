//! The lines of a batch of calls while it runs, and how its calls run.

use tokio::sync::mpsc;
use toolcell::{BatchListener, BatchPolicy, CallRecord, InterruptBehavior, ToolEvent};
use toolcell_spec::ContextModifier;

use super::ServerTools;

/// News of the call at a place of a batch.
pub(super) enum BatchNews {
    Ended(usize, Box<CallRecord>),
    Modified(usize, Vec<ContextModifier>),
}

/// Passes news on. There are at most a few of each call, so the queue is bounded.
pub(super) struct BatchForwarder(pub(super) mpsc::UnboundedSender<BatchNews>);

impl BatchListener for BatchForwarder {
    fn event(&self, _: usize, _: &ToolEvent) {}

    fn ended(&self, at: usize, record: CallRecord) {
        // Sending fails if the request has gone.
        let _ = self.0.send(BatchNews::Ended(at, Box::new(record)));
    }

    fn modified(&self, at: usize, modifiers: Vec<ContextModifier>) {
        let _ = self.0.send(BatchNews::Modified(at, modifiers));
    }
}

impl ServerTools {
    /// How the calls of one message or batch run: one by one if it `is_serial`.
    pub(super) fn batch_policy(&self, is_serial: bool) -> BatchPolicy {
        let default = BatchPolicy::default();
        let selection = self.offers.surface().selection();
        let max_parallel = if is_serial {
            1
        } else {
            selection.at_once(default.max_parallel)
        };
        BatchPolicy {
            interrupt: InterruptBehavior::Cancel,
            max_parallel,
            ..default
        }
    }
}
