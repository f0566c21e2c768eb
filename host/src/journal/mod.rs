//! EVIDENCE. What happened: the event trail of each call, the payloads that are too large for a result, and a store
//! for the calls that somebody was asked about.

mod payload;
mod store;
mod trail;

pub use payload::PayloadStore;
pub use store::{Asking, Claim, Given, Held, History, Journal, Kept, Role, Standing, Store, StoreError, Summary};
pub use trail::{Listener, Trail, Trailed, declared};
