//! Finds or sets up a toolchain, builds guests, and creates new projects.
//!
//! ```text
//! find     the first of: the user's own rustc, `rustup target add`, the system's packages
//! packages the toolchain from apt's packages
//! build    cargo, then the component copied to `<tool>/target/toolcell/`
//!          workspace is what cargo says of the tool and of the packages beside it
//!          build_cache bounds the folders where cargo compiles
//! c_code   a compiler for C in the dependencies of a tool in Rust
//! sources  the files that cargo reads, and a digest of each
//! record   which sources were built with the user's consent, and the resulting component
//! language a file for each language, which has its row      make     a build in any of them but Rust
//!          toolchain_cache has the parts of toolchains that toolcell fetches
//! sdk      the SDK's sources, embedded in this binary         project  `toolcell new`
//! watch    waits until a project's sources change
//! survey   the same questions as `find`, asked without changing anything
//! ```
//!
//! Everything here blocks: call it outside the async runtime. Slow steps report their progress through `say`.

mod build;
mod build_cache;
mod c_code;
mod file_lock;
mod find;
mod language;
mod make;
mod packages;
mod process;
mod project;
mod record;
mod sdk;
mod sources;
mod survey;
mod toolchain_cache;
mod watch;
mod workspace;

#[cfg(test)]
mod shim;

pub use build::{BuildOutcome, BuildSettings};
pub use find::{Preference, ToolchainSearch};
pub use language::{Language, build, names, no_project};
pub use process::{ProgramOutput, last_line, output, which};
pub use project::{ProjectKind, new_project};
pub use record::{BuildState, source_places, standing};
pub use sdk::write_sdk;
pub use survey::{PartState, SurveyFinding};
pub use watch::SourceWatch;

/// The one target that guests are built for.
const TARGET: &str = "wasm32-wasip2";

/// One sentence, or one line of another program's progress, without a line feed.
pub type ProgressSink<'a> = &'a mut dyn FnMut(&str);
