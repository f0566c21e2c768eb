//! EVIDENCE. The event trail of each call, the bus that numbers events for followers, the log of all calls, the payloads
//! that are too large for a result, and a store of the calls for which an approval was requested.

mod artifact;
mod bus;
mod drafts;
mod log;
mod payload;
mod payload_space;
mod reference;
mod sparse;
mod store;
mod trail;

pub use artifact::{ArtifactDraft, ArtifactError, Artifacts, KeptArtifact};
pub use bus::{EventBus, Followed, Follower};
pub(crate) use log::Start;
pub use log::{
    CallLog, CallQuery, CallSummary, Damage, EventReader, FollowedEvent, Keep, LOG_AGE, LOG_BYTES,
    LogError, LogSettings, LoggedEvent, Verified,
};
pub use payload::{PayloadChanged, PayloadStore};
pub use payload_space::{NoPayloadRoom, PAYLOAD_BYTES};
pub use reference::{Known, Reference, StoredPayload};
pub use store::{
    Allowance, Asking, Claim, Given, Held, History, Journal, Kept, Role, Standing, Store,
    StoreError, Summary, Suspended, Suspending,
};
pub(crate) use trail::Leaving;
pub use trail::{Listener, Outlet, Trail, Trailed, WeakTrail, canceled_in_vain, of_no_call};
