//! When a call runs, and how it is stopped: a bounded number at a time, and one cancellation for each.

mod cancellation;
mod queue;

pub use cancellation::Cancellation;
pub use queue::{Place, Scheduler};
