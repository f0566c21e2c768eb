//! Finds or sets up what builds a guest, builds it, and starts new projects.
//!
//! ```text
//! find     the first of: the user's own rustc, `rustup target add`, the system's packages
//! packages   what the last of these takes from apt      sysroot  what it makes of it
//! build    cargo, then the component copied to `<tool>/target/toolcell/`
//! sources  what cargo reads, and a digest of each file of it
//! record   which sources were built with the user's consent, and the component that came of them
//! sdk      the SDK's sources, carried inside this binary      project  `toolcell new`
//! survey   the same questions as `find`, asked without changing anything
//! ```
//!
//! Everything here blocks: call it off the async runtime. What takes long is said through `say` while it happens.

mod build;
mod find;
mod packages;
mod process;
mod project;
mod record;
mod sdk;
mod sources;
mod survey;
mod sysroot;

#[cfg(test)]
mod standin;

pub use build::{BuildSettings, Built, build};
pub use find::{PREFERENCE_VARIABLE, Preference, Search, Toolchain, Way, find};
pub use project::{Language, new_project};
pub use record::{Standing, source_places, standing};
pub use sdk::write_sdk;
pub use survey::{Finding, State, survey};

/// The one target that guests are built for.
pub const TARGET: &str = "wasm32-wasip2";

/// Where progress goes: one sentence or one line of a tool's own progress at a time, without a line feed.
pub type Say<'a> = &'a mut dyn FnMut(&str);
