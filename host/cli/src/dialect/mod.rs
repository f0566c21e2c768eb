//! TRANSLATION. One folder for each format of others: pure functions between its JSON, or its types, and records.

pub mod agentool;
pub mod amplifier;
pub mod evaluation;
mod hint;
mod listed;
pub mod mcp;
mod name;
pub mod otc;
mod visible;

pub use hint::hint;
pub use listed::{Effects, Listed};
pub use name::exported;
pub use visible::visible;
