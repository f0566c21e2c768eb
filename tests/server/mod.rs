//! The transports for other programs, driven by clients that speak the protocol frame by frame.

mod answers;
mod approvals;
mod arguments;
mod changes;
mod contracts;
mod crowd;
mod hostile;
mod http;
mod kills;
mod lifecycle;
mod memory;
mod notices;
mod parallel;
mod pools;
mod questions;
mod records;
mod stopping;
