//! Amplifier's tool contract, as on its page (`AmplifierMode::Seed`) and in `amplifier-core` 2.0
//! (`AmplifierMode::Upstream`), which differ in `output` and `error` (requirements 2.4).

mod content;
mod event;
mod exchange;
mod result;
mod tool;

pub use event::events;
pub use exchange::{answer, read, seed_answer};
pub use result::{AmplifierMode, ErrorType, error_type, result};
pub use tool::tool;
