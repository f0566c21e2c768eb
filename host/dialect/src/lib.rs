//! TRANSLATION. One folder for each format of others: pure functions between its JSON or types and records.

#[macro_use(guard)]
extern crate toolcell_spec;

pub mod agentool;
pub mod amplifier;
pub mod anthropic;
mod block;
#[cfg(feature = "evaluation")]
pub mod evaluation;
mod hint;
pub mod http;
mod kind;
mod listed;
pub mod mcp;
mod model_call;
mod model_request;
mod name;
mod names;
pub mod openai;
pub mod otc;
mod parts;
#[cfg(test)]
mod tests;
mod visible;
mod whole;

pub use hint::hint;
pub(crate) use hint::hint_without_loading;
pub use kind::{Dialect, MessageExchange};
pub use listed::ListedTool;
pub use model_call::{CallTerms, MessageError, ModelCall};
pub use model_request::model_request;
pub use name::{NAME_CHARS_MAX, exported};
pub use names::{DialectNames, NameRule};
pub use parts::{FinishedCall, ResultPart, parts};
pub use visible::visible;
pub use whole::whole;
