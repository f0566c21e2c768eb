//! Calls that are made together: which of them may start, what the end of one means for the others, and in which order
//! their results are handed out. Nothing here runs a call.

mod outlet;
mod plan;
mod state;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::IntoStaticStr;

pub use toolcell_spec::InterruptBehavior;
use toolcell_spec::{ContextModifierPolicy, ResourceLock, SchemaVersion, short_id};

pub use outlet::{BatchOutlet, OutletItem};
pub use plan::{BatchPlan, CALLS_MAX, ID_BYTES_MAX, PlanError};
pub use state::{BatchState, BatchStep, SkipCause};

/// Default for the calls of a batch that run at once.
const PARALLEL: usize = 8;
/// Maximum number of calls of a batch that are in progress at once.
pub const PARALLEL_MAX: usize = 64;

/// In which order the calls of a batch take effect (AT-SCHED-03).
///
/// ```
/// use toolcell_engine::scheduler::batch::OrderingPolicy;
///
/// assert_eq!(OrderingPolicy::default().as_str(), "preserve_terminal_order");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OrderingPolicy {
    /// Calls run together where they cannot disturb each other; those that change something keep their order.
    #[default]
    PreserveTerminalOrder,
    /// Calls run together where they cannot disturb each other, in any order.
    AllowUnordered,
    /// One call at a time.
    Serial,
}

impl OrderingPolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [
        Self::PreserveTerminalOrder,
        Self::AllowUnordered,
        Self::Serial,
    ];

    /// Returns the specification's word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// When the progress and the results of a batch are handed out (AT-SCHED-04).
///
/// ```
/// use toolcell_engine::scheduler::batch::YieldPolicy;
///
/// assert_eq!(YieldPolicy::default().as_str(), "progress_immediate_results_ordered");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum YieldPolicy {
    /// Progress as it happens, results in the order of the calls.
    #[default]
    ProgressImmediateResultsOrdered,
    /// All that belongs to a call after all that belongs to the calls before it.
    AllOrdered,
    /// Each result as soon as there is one.
    UnorderedStreaming,
}

impl YieldPolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [
        Self::ProgressImmediateResultsOrdered,
        Self::AllOrdered,
        Self::UnorderedStreaming,
    ];

    /// Returns the specification's word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Effect of a call's failure on the other calls of its batch (AT-SCHED-06).
///
/// ```
/// use toolcell_engine::scheduler::batch::SiblingFailurePolicy;
///
/// assert_eq!(SiblingFailurePolicy::default().as_str(), "cancel_dependent");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SiblingFailurePolicy {
    /// Nothing: a dependency says only which call runs first.
    Ignore,
    /// Every other call that has not ended is canceled.
    CancelSiblings,
    /// The calls that depend on it, also through others, do not start.
    #[default]
    CancelDependent,
}

impl SiblingFailurePolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Ignore, Self::CancelSiblings, Self::CancelDependent];

    /// Returns the specification's word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How the calls of a batch are run (`tool_scheduler_policy`).
///
/// ```
/// use toolcell_engine::scheduler::batch::{BatchPolicy, OrderingPolicy};
///
/// let policy = BatchPolicy { max_parallel: 2, ordering: OrderingPolicy::AllowUnordered, ..BatchPolicy::default() };
/// assert_eq!(policy.at_once(), 2);
/// assert_eq!(BatchPolicy { ordering: OrderingPolicy::Serial, ..policy }.at_once(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPolicy {
    /// Maximum of calls at once, 1 to [`PARALLEL_MAX`]; calls that wait for an approval or for another call count.
    pub max_parallel: usize,
    pub ordering: OrderingPolicy,
    pub yields: YieldPolicy,
    /// Effect of an interruption by the user on running calls (AT-SCHED-05). Those that have not started never do.
    pub interrupt: InterruptBehavior,
    pub siblings: SiblingFailurePolicy,
    /// The policy of a tool's own interface applies too.
    pub context_modifiers: ContextModifierPolicy,
}

impl Default for BatchPolicy {
    fn default() -> Self {
        Self {
            max_parallel: PARALLEL,
            ordering: OrderingPolicy::default(),
            yields: YieldPolicy::default(),
            interrupt: InterruptBehavior::default(),
            siblings: SiblingFailurePolicy::default(),
            context_modifiers: ContextModifierPolicy::default(),
        }
    }
}

impl BatchPolicy {
    /// The `tool_scheduler_policy` (AT-OBJ-12), with what it says beside its fields (AT-N-17). Its id is the same for the same
    /// policy.
    ///
    /// `locks` are those that the tools of its calls declare.
    pub fn record(&self, locks: &[ResourceLock]) -> Value {
        let mut record = json!({
            "schema_version": SchemaVersion::CURRENT,
            "scheduler_policy_id": "",
            "scope": "batch",
            "max_parallel": self.at_once(),
            "ordering_policy": self.ordering,
            "yield_policy": self.yields,
            "interrupt_behavior": self.interrupt,
            "sibling_failure_policy": self.siblings,
            "context_modifier_policy": self.context_modifiers,
            "resource_locks": locks,
            "concurrency_safety": "as the tool states it for the input; otherwise the call runs alone",
            "parallel": {
                "read_only": "beside each other",
                "write": "apart where they reach one folder, in their order",
                "destructive": "alone if it cannot be undone, otherwise as writes",
                "open_world": "beside each other, apart if one changes something elsewhere",
            },
            "synthetic_results": {
                "user_interruption": "canceled",
                "sibling_error": "sibling_canceled",
                "fallback": "streaming_fallback_discarded",
                "timeout": "timeout",
                "discarded_execution": "streaming_fallback_discarded",
            },
        });
        let id = short_id("scheduler-policy", &record.to_string(), 16);
        if let Some(field) = record.get_mut("scheduler_policy_id") {
            *field = id.into();
        }
        record
    }

    /// How many calls are in progress at once.
    pub fn at_once(&self) -> usize {
        if self.ordering == OrderingPolicy::Serial {
            1
        } else {
            self.max_parallel.clamp(1, PARALLEL_MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_read_by_its_word() {
        fn read<T: serde::de::DeserializeOwned>(
            words: impl IntoIterator<Item = &'static str>,
        ) -> Vec<T> {
            words
                .into_iter()
                .map(|word| serde_json::from_value(word.into()).unwrap())
                .collect()
        }
        assert_eq!(
            read::<OrderingPolicy>(OrderingPolicy::ALL.map(OrderingPolicy::as_str)),
            OrderingPolicy::ALL
        );
        assert_eq!(
            read::<YieldPolicy>(YieldPolicy::ALL.map(YieldPolicy::as_str)),
            YieldPolicy::ALL
        );
        assert_eq!(
            read::<InterruptBehavior>(InterruptBehavior::ALL.map(InterruptBehavior::as_str)),
            InterruptBehavior::ALL
        );
        let siblings = SiblingFailurePolicy::ALL;
        assert_eq!(
            read::<SiblingFailurePolicy>(siblings.map(SiblingFailurePolicy::as_str)),
            siblings
        );
        let modifiers = ContextModifierPolicy::ALL;
        assert_eq!(
            read::<ContextModifierPolicy>(modifiers.map(ContextModifierPolicy::as_str)),
            modifiers
        );
    }
}
