//! EVIDENCE. The event trail of each call, the payloads that are too large for a result, and a store of the calls for
//! which an approval was requested.

mod payload;
mod store;
mod trail;

pub use payload::PayloadStore;
pub use store::{Asking, Claim, Given, Held, History, Journal, Kept, Role, Standing, Store, StoreError, Summary};
pub use trail::{Listener, Trail, Trailed, declared};
