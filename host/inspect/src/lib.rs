//! The commands for calls that are recorded, run or wait, and for schemas and error codes.

#[macro_use(guard)]
extern crate toolcell_spec;

mod approvals;
mod artifact;
mod backup;
mod calls;
mod eval;
mod events;
mod explain;
mod family;
mod log;
mod page;
mod replay;
mod schema;
mod trace;
mod waiting;

use toolcell_command::{
    ask, exit, hooks, interrupts, options, protected_sources, serving, show, surface, target,
    tool_configs,
};

pub use approvals::{Approvals, Approve, Deny};
pub use artifact::Artifact;
pub use backup::Backup;
pub use calls::{Calls, Show};
pub use eval::Eval;
pub use events::Events;
pub use explain::Explain;
pub use log::Log;
pub use replay::Replay;
pub use schema::Schema;
pub use trace::Trace;
