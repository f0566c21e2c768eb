//! The place of the journal on disk in a host without the feature `sqlite`. Nothing here is on record: calls that wait
//! for an approver of this process are known while they wait, payloads stay as long as the host, and the log has nothing.

#[cfg(not(feature = "sqlite"))]
mod log;
mod payload_list;
mod store;

#[cfg(not(feature = "sqlite"))]
pub use log::CallLog;
#[cfg(not(feature = "sqlite"))]
pub(crate) use payload_list::PayloadList;
#[cfg(not(feature = "sqlite"))]
pub use store::{Journal, RoleLock, Store};
