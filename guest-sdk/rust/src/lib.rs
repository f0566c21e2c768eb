//! Write toolcell tools in Rust. A tool is a typed function; its declaration comes from its types and its doc comment.
//!
//! ```
//! use toolcell_guest::{data, tool, toolkit};
//!
//! #[data]
//! struct Text {
//!     /// The text to count in.
//!     text: String,
//! }
//!
//! /// Counts the words of a text.
//! #[tool(read_only, concurrency_safe)]
//! fn count(input: Text) -> String {
//!     format!("{} words", input.text.split_whitespace().count())
//! }
//!
//! toolkit! { namespace: "text", tools: [count] }
//! # fn main() {
//! # use toolcell_guest::testing;
//! # let described = testing::describe::<Toolkit>();
//! # assert_eq!(described["declarations"][0]["tool_id"], "text.count");
//! # }
//! ```
//!
//! The package is a `cdylib` (and an `rlib`, to be tested with plain `cargo test`) that is built for `wasm32-wasip2`.
//! The function may return
//!
//! * a value whose type has `#[data]`: the structured result,
//! * a `String`: text,
//! * an [`Output`]: content blocks, a structured value, a line for a person,
//! * or a `Result` of one of them and a [`ToolError`].
//!
//! A panic ends the call with the error code `guest_panicked`.
//!
//! While it runs, a tool can report [`progress`], write a [`log`], notice a [`cancellation`], ask its user something
//! ([`interaction`]), call other [`tools`], write large files in chunks ([`Artifact`]), read its [`context()`], and change
//! that of its caller ([`context_modifiers`]). It can take settings of its operator ([`configuration()`]). With the feature
//! `http` it can send requests. A [`hook`] is a component that the operator of a host runs around tools.
//! Outside WebAssembly these calls are recorded, and [`testing`] reads them back.

mod artifact;
mod configuration;
mod context;
mod doc;
mod error;
mod output;
mod schema;
mod toolkit;

pub mod cancellation;
pub mod context_modifiers;
pub mod hook;
#[cfg(feature = "http")]
pub mod http;
pub mod interaction;
pub mod log;
pub mod progress;
pub mod tools;

#[cfg(target_arch = "wasm32")]
mod component;
#[cfg(target_arch = "wasm32")]
mod hook_component;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

#[cfg(target_arch = "wasm32")]
use component as host;
#[cfg(not(target_arch = "wasm32"))]
use testing as host;

pub use artifact::{Artifact, ArtifactError};
pub use configuration::configuration;
pub use context::{Context, context};
pub use error::{ErrorClass, ToolError};
pub use output::{Content, Outcome, Output, Unstructured};
pub use toolcell_guest_macros::{data, tool, toolkit};
pub use toolkit::{Attributes, Entry, Facts, Tool, Toolkit};

pub use {schemars, serde, serde_json};

/// The input of a tool that takes nothing: an empty object.
#[doc(hidden)]
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoInput {}

/// For the code that the macros generate.
#[doc(hidden)]
pub mod __private {
    #[cfg(target_arch = "wasm32")]
    pub use crate::component::{
        classifying::{self, export_classification},
        configuring::{self, export_configuration},
        tool::{self, export_tool},
        validating::{self, export_validation},
    };
    #[cfg(target_arch = "wasm32")]
    pub use crate::hook_component::world::{self as hook, export_hook};
    pub use crate::{
        configuration::configure,
        context::enter_cwd,
        output::{Fallible, IntoOutcome},
        schema::of_input,
        toolkit::{assert_unique_names, parse},
    };
}
