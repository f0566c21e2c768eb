//! When a call runs, and how it is stopped: a bounded number at a time, in a bounded amount of memory, with a share for
//! each caller, and one cancellation for each call. [`batch`] plans calls that belong together, [`ResourceLocks`] keeps
//! apart those that could disturb each other, and [`RetryPolicy`] says which failed calls run again.

pub mod batch;
mod cancellation;
mod chains;
mod locks;
mod memory;
mod queue;
mod retry;
mod shares;
mod waiting;

pub use cancellation::Cancellation;
pub use chains::{CHILD_DEPTH_MAX, CallChain, CallChains};
pub use locks::{ChangeLine, NetworkUse, QueueTurn, ResourceClaim, ResourceLocks};
pub use memory::MemoryBudget;
pub use queue::{CallerPlace, NoPlace, RunPlace, Scheduler};
pub use retry::{ATTEMPTS_MAX, BACKOFF_MAX, RETRY_CLASSES, RetryPolicy};
pub use shares::{CallerShares, share};
pub use waiting::WaitTicket;
