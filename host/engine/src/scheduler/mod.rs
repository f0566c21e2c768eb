//! Bounds the calls at once and their memory, with a share for each caller. [`batch`] plans calls that belong together;
//! [`ResourceLocks`] keeps apart those that could disturb each other.

pub mod batch;
mod chains;
mod locks;
mod memory;
mod processors;
mod queue;
mod quotas;
mod shares;

pub use chains::{CHILD_DEPTH_MAX, CallChains};
pub use locks::{ChangeLine, NetworkUse, QueueTurn, ResourceClaim, ResourceLocks};
pub use memory::MemoryBudget;
pub use processors::{CallerTurns, in_turn};
pub use queue::{NoPlace, RunPlace, Scheduler, SchedulerUsage};
pub use quotas::{CallerQuotas, Quota, QuotaPlace, QuotaUsage, Quotas};
pub use shares::{CallerShares, SharedPlace, SharedPlaces};
