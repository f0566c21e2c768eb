//! Calls made together: starts, effects of ends, and output order. Nothing here runs a call.

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

/// Default for calls in progress at once.
const PARALLEL: usize = 8;
/// Calls of a batch in progress at once.
pub const PARALLEL_MAX: usize = 64;

/// Order in which calls of a batch take effect (AT-SCHED-03).
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
    /// Undisturbed calls run together; changes keep their order.
    #[default]
    PreserveTerminalOrder,
    /// Undisturbed calls run together, in any order.
    AllowUnordered,
    Serial,
}

impl OrderingPolicy {
    pub const ALL: [Self; 3] = [
        Self::PreserveTerminalOrder,
        Self::AllowUnordered,
        Self::Serial,
    ];

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Timing of a batch's progress and results (AT-SCHED-04).
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
    /// Everything in the order of the calls.
    AllOrdered,
    /// Each result as soon as there is one.
    UnorderedStreaming,
}

impl YieldPolicy {
    pub const ALL: [Self; 3] = [
        Self::ProgressImmediateResultsOrdered,
        Self::AllOrdered,
        Self::UnorderedStreaming,
    ];

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Effect of a call's failure on others in its batch (AT-SCHED-06).
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
    /// No effect: a dependency is only an order.
    Ignore,
    CancelSiblings,
    /// Direct and indirect dependents do not start.
    #[default]
    CancelDependent,
}

impl SiblingFailurePolicy {
    pub const ALL: [Self; 3] = [Self::Ignore, Self::CancelSiblings, Self::CancelDependent];

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Rules for running a batch (`tool_scheduler_policy`).
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
    /// 1 to [`PARALLEL_MAX`]; calls that wait for an approval or another call count.
    pub max_parallel: usize,
    pub ordering: OrderingPolicy,
    pub yields: YieldPolicy,
    /// Effect of an interruption by the user on running calls (AT-SCHED-05). Those that have not started never do.
    pub interrupt: InterruptBehavior,
    pub siblings: SiblingFailurePolicy,
    /// A tool's own policy applies too.
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
    /// The `tool_scheduler_policy` (AT-OBJ-12) with details beside its fields (AT-N-17); same id for same policy.
    /// `locks` are the ones that its tools declare.
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

    /// Calls in progress at once.
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
