//! EVIDENCE. The event trail of each call, the log of all calls, the payloads
//! that are too large for a result, and a store of the calls for which an approval was requested.

#[macro_use(guard)]
extern crate toolcell_spec;

mod artifact;
mod database;
mod drafts;
mod log;
mod payload;
mod payload_space;
mod reference;
mod sparse;
mod store;
mod trail;

pub use artifact::{ArtifactDraft, ArtifactError, Artifacts, KeptArtifact};
pub use log::Start;
pub use log::{
    CallLog, CallQuery, CallSummary, Damage, EventReader, FollowedEvent, Keep, LOG_AGE, LOG_BYTES,
    LogError, LogSettings, LoggedEvent, VerifiedLog,
};
pub use payload::{PayloadChanged, PayloadStore};
pub use payload_space::{NoPayloadRoom, PAYLOAD_BYTES};
pub use reference::{Reference, ReferenceInfo, StoredPayload};
pub use store::{
    Allowance, AnswerOutcome, ApprovalRequest, Claim, History, Journal, Role, RoleLock,
    SESSION_STEPS_BYTES_MAX, Standing, Store, StoreError, StoredApproval, Summary, SuspendRequest,
    SuspendedCall,
};
pub use trail::FlushOnDrop;
pub use trail::{Listener, Outlet, Trail, TrailContents, WeakTrail, canceled_in_vain, of_no_call};
