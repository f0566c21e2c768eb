//! The transports for other programs, driven by clients that speak the protocol frame by frame.

mod answers;
mod approvals;
mod arguments;
mod artifacts;
mod changes;
mod children;
mod contracts;
mod crowd;
mod deferred;
mod hostile;
mod http;
mod kills;
mod lifecycle;
mod locks;
mod memory;
mod notices;
mod parallel;
mod place;
mod pools;
mod questions;
mod reading;
mod records;
mod stopping;
mod surface;
mod tasks;
mod telemetry;
