//! EVIDENCE. The event trail of each call, the log of all calls, payloads that are too large for a result, and a store
//! of calls for approval.

#![cfg_attr(
    not(feature = "sqlite"),
    allow(
        dead_code,
        reason = "what goes into the log is taken, and kept nowhere"
    )
)]

#[macro_use(guard)]
extern crate toolcell_spec;

mod artifact;
#[cfg(feature = "sqlite")]
mod database;
mod drafts;
#[cfg(feature = "sqlite")]
mod log;
mod log_settings;
#[cfg(any(test, not(feature = "sqlite")))]
#[cfg_attr(
    feature = "sqlite",
    allow(dead_code, unreachable_pub, reason = "compiled for its tests")
)]
mod memory;
mod payload;
#[cfg(feature = "sqlite")]
mod payload_list;
mod payload_space;
#[cfg(feature = "sqlite")]
mod reference;
mod sparse;
mod start;
#[cfg(feature = "sqlite")]
mod store;
mod trail;
mod waiting;

pub use artifact::{ArtifactDraft, ArtifactError, Artifacts, KeptArtifact};
#[cfg(feature = "sqlite")]
pub use log::{
    CallLog, CallQuery, CallSummary, Damage, EventReader, FollowedEvent, LoggedEvent, VerifiedLog,
};
pub use log_settings::{Keep, LOG_AGE, LOG_BYTES, LogError, LogSettings};
#[cfg(not(feature = "sqlite"))]
pub use memory::{CallLog, Journal, RoleLock, Store};
pub use payload::{PayloadChanged, PayloadStore, StoredPayload};
pub use payload_space::{NoPayloadRoom, PAYLOAD_BYTES};
#[cfg(feature = "sqlite")]
pub use reference::{Reference, ReferenceInfo};
pub use start::Start;
#[cfg(feature = "sqlite")]
pub use store::{Journal, RoleLock, SESSION_STEPS_BYTES_MAX, Store, Summary};
pub use trail::FlushOnDrop;
pub use trail::{Listener, Outlet, Trail, TrailContents, WeakTrail, canceled_in_vain, of_no_call};
pub use waiting::{
    Allowance, AnswerOutcome, ApprovalRequest, ApprovalStanding, Claim, History, Role, StoreError,
    StoredApproval, SuspendRequest, SuspendedCall,
};
