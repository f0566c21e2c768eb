//! EVIDENCE. What happened: the event trail of each call, and the payloads that are too large for a result.

mod payload;
mod trail;

pub use payload::PayloadStore;
pub use trail::{Listener, Trail, Trailed, declared};
