//! The order of a call, as types: each phase takes by value what only the phase before can make.
//!
//! Nothing here can be called from outside the crate: only the pipeline begins a [`CallState`]. Each example that must
//! not compile differs in one place from one that must, so that it fails for that reason alone; nightly rustdoc also
//! compares error codes.
//!
//! [`permission()`] decides on the input that checks, defaults and hooks made:
//!
//! ```no_run
//! use toolcell_engine::pipeline::phase::{Gated, CallState, PreHooked, permission};
//!
//! async fn decide(journey: &mut CallState<'_>, gated: Gated, hooked: PreHooked) {
//!     let _ = permission(journey, hooked).await;
//! }
//! ```
//!
//! Arguments that satisfy the schema do not get past the tool's own checks and the hooks:
//!
//! ```compile_fail,E0308
//! use toolcell_engine::pipeline::phase::{Gated, CallState, PreHooked, permission};
//!
//! async fn decide(journey: &mut CallState<'_>, gated: Gated, hooked: PreHooked) {
//!     let _ = permission(journey, gated).await;
//! }
//! ```
//!
//! [`schedule()`] gives a place to a permitted call:
//!
//! ```no_run
//! use toolcell_engine::pipeline::phase::{CallState, Permitted, PreHooked, schedule};
//!
//! async fn wait(journey: &mut CallState<'_>, hooked: PreHooked, permitted: Permitted) {
//!     let _ = schedule(journey, permitted).await;
//! }
//! ```
//!
//! A call without a decision gets none, and a decision gives only one:
//!
//! ```compile_fail,E0308
//! use toolcell_engine::pipeline::phase::{CallState, Permitted, PreHooked, schedule};
//!
//! async fn wait(journey: &mut CallState<'_>, hooked: PreHooked, permitted: Permitted) {
//!     let _ = schedule(journey, hooked).await;
//! }
//! ```
//!
//! ```compile_fail,E0382
//! use toolcell_engine::pipeline::phase::{CallState, Permitted, PreHooked, schedule};
//!
//! async fn wait(journey: &mut CallState<'_>, hooked: PreHooked, permitted: Permitted) {
//!     let _ = schedule(journey, permitted).await;
//!     let _ = schedule(journey, permitted).await;
//! }
//! ```
//!
//! [`execute()`] runs a call that has a place:
//!
//! ```no_run
//! use toolcell_engine::pipeline::phase::{CallState, Permitted, Scheduled, execute};
//!
//! async fn run(journey: &mut CallState<'_>, permitted: Permitted, scheduled: Scheduled) {
//!     let _ = execute(journey, scheduled).await;
//! }
//! ```
//!
//! A permitted call without a place does not run. The content of what a phase returns is private to its module, so no
//! other module can make it:
//!
//! ```compile_fail,E0308
//! use toolcell_engine::pipeline::phase::{CallState, Permitted, Scheduled, execute};
//!
//! async fn run(journey: &mut CallState<'_>, permitted: Permitted, scheduled: Scheduled) {
//!     let _ = execute(journey, permitted).await;
//! }
//! ```
//!
//! ```compile_fail,E0616
//! use toolcell_engine::pipeline::phase::{CallState, Permitted, Scheduled, execute};
//!
//! async fn run(journey: &mut CallState<'_>, permitted: Permitted, scheduled: Scheduled) {
//!     let content = scheduled.0;
//! }
//! ```

pub use super::call_state::CallState;
pub use super::execute::{Executed, run as execute};
pub use super::permission::{Permitted, decide as permission};
pub use super::pre_hooks::PreHooked;
pub use super::schedule::{Scheduled, wait as schedule};
pub use super::schema_gate::Gated;
