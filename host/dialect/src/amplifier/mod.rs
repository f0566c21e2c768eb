//! Amplifier: the tool contract, in the format of its page (`Mode::Seed`) and of `amplifier-core` 2.0
//! (`Mode::Upstream`). They differ in the types of `output` and `error` (requirements 2.4).

mod content;
mod event;
mod exchange;
mod result;
mod tool;

pub use event::events;
pub use exchange::{answer, answers, read, seed_answer, seed_answers};
pub use result::{ErrorType, Mode, error_type, result};
pub use tool::tool;
