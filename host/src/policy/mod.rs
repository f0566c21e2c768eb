//! DECISION. What a call may do: grants, the profile that a tool declares, and the sealed [`Permit`] that comes of both.
//!
//! Nothing is granted unless somebody granted it. The effective capability is what the tool's permission profile
//! declares and what was granted, never one of them alone.

mod capability;
mod decide;
mod grants;
mod limits;
mod permit;
mod secret;

pub use capability::{Capability, Denial, Mount};
pub use decide::{Outcome, Verdict, decide};
pub use grants::{FolderGrant, Grants};
pub use limits::Limits;
pub use permit::{Permit, Subject};
pub use secret::{Origin, Placement, SecretGrant, SecretUse};
