//! When a call runs, and how it is stopped: a bounded number at a time, in a bounded amount of memory, and one
//! cancellation for each.

mod cancellation;
mod memory;
mod queue;

pub use cancellation::Cancellation;
pub use memory::MemoryBudget;
pub use queue::{NoPlace, Place, Scheduler};
