//! When a call runs, and how it is stopped: a bounded number at a time, in a bounded amount of memory, with a share for
//! each caller, and one cancellation for each call.

mod cancellation;
mod memory;
mod queue;
mod shares;

pub use cancellation::Cancellation;
pub use memory::MemoryBudget;
pub use queue::{NoPlace, Place, Scheduler};
pub use shares::{Shares, share};
