//! SECRETS. Values that a tool's requests may carry and nothing else may show: their store, their type, and the
//! redaction of everything stored or shown.
//!
//! A value is in four places: sealed on disk, in a [`SecretValue`], in a request that the sandbox's egress sends to the
//! origin that was granted, and in the automaton of the [`Redactor`].

mod encodings;
pub mod private_file;
mod redactor;
mod reference;
mod scrubber;
mod seal;
mod seen;
mod store;
mod value;

pub use redactor::{REDACTED, RedactionTerm, RedactionTerms, Redactor, SpokenMeter};
pub use reference::ReferenceKey;
pub use scrubber::{ScrubStream, Scrubber};
pub use seal::SealingKey;
pub use seen::RedactionCause;
pub use store::{SecretEntry, SecretStore, VALUE_BYTES_MAX};
pub use value::{SecretValue, Secrets};
