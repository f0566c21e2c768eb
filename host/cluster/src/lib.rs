//! Calls over many machines. A gateway accepts a call and asks; a worker decides with its own policy, and runs it; the
//! queue and the store between them, NATS JetStream, deliver at least once and compare revisions. One value for each call,
//! the [`Claim`], makes one result of that.
//!
//! The protocol is in `claim` (the states, as pure functions), `hold`, `worker`, `gateway` and `sweeper` (who changes
//! them, over the trait [`ClaimStore`]); `nats` connects it to servers. `simulation` drives that code through failures that a seed chooses.

#[macro_use]
extern crate toolcell_spec;

/// A guard of the protocol. The simulation leaves each out in turn, and must find a schedule that shows it.
#[cfg(not(test))]
macro_rules! fence {
    ($name:literal) => {
        guard!($name)
    };
}
#[cfg(test)]
macro_rules! fence {
    ($name:literal) => {
        (guard!($name) && crate::simulation::stands($name))
    };
}

mod claim;
mod gateway;
mod hold;
mod nats;
mod question;
mod store;
mod sweeper;
mod worker;

#[cfg(test)]
mod simulation;

pub use claim::{CallEnd, Claim, Holder, LeaseTerms, NotPossible, Stage, UnixMillis};
pub use gateway::{SubmitError, cancel, follow, submit};
pub use hold::Hold;
pub use nats::{
    ApproverAnswer, Ask, AskError, CallAnswer, CallRun, Cluster, ClusterError, ClusterSettings,
    ClusterState, Counts, JetStreamReport, Login, OpenApproval, OpenCall, PROTOCOL, Runner,
    SealedAnswer, ServerReport, StartRequest, StreamReport, WarnFn, WorkerCall, WorkerState,
    WorkerTool, new_key, public_key, report,
};
pub use question::{Question, QuestionError, Seal, Spec, WorkspaceRef, digest, digest_of};
pub use store::{
    ClaimEntry, ClaimStore, Delivery, PublishError, Revision, Unavailable, WriteError,
};
pub use sweeper::{Sweeper, sweep};
pub use worker::{Run, RunOutcome, WorkOutcome, work};
