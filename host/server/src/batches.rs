//! How a batch of calls runs, and its news.

use tokio::sync::mpsc;
use toolcell::{BatchListener, BatchPolicy, CallRecord, InterruptBehavior, ToolEvent};
use toolcell_spec::ContextModifier;

use super::ServerTools;

pub(super) enum BatchNews {
    Ended(usize, Box<CallRecord>),
    Modified(usize, Vec<ContextModifier>),
}

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
    /// Calls run one by one if `is_serial`.
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
