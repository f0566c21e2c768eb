//! Finds or sets up what builds a guest, builds it, and starts new projects.
//!
//! ```text
//! find     the first of: the user's own rustc, `rustup target add`, the system's packages
//! packages   what the last of these takes from apt      sysroot  what it makes of it
//! build    cargo, then the component copied to `<tool>/target/toolcell/`
//! stamp    what that component was made from, so that a later call knows in a few stat calls if it still holds
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
mod sdk;
mod stamp;
mod survey;
mod sysroot;

#[cfg(test)]
mod standin;

pub use build::{BuildSettings, Built, build};
pub use find::{PREFERENCE_VARIABLE, Preference, Search, Toolchain, Way, find};
pub use project::{Language, new_project};
pub use sdk::write_sdk;
pub use stamp::{Freshness, freshness, is_stale};
pub use survey::{Finding, State, survey};

/// The one target that guests are built for.
pub const TARGET: &str = "wasm32-wasip2";

/// Where progress goes: one sentence or one line of a tool's own progress at a time, without a line feed.
pub type Say<'a> = &'a mut dyn FnMut(&str);
