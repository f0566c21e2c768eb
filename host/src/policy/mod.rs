//! DECISION. What a call may do: grants, the profile that a tool declares, and the sealed [`Permit`] that comes of both.
//!
//! Nothing is granted unless somebody granted it. The effective capability is what the tool's permission profile
//! declares and what was granted, never one of them alone.

mod capability;
mod decide;
mod grants;
mod hook_permit;
mod limits;
mod opinion;
mod permit;

pub use capability::{Capability, Denial, Mount};
pub use decide::{Outcome, Verdict, decide};
pub use grants::{FolderGrant, Grants};
pub use hook_permit::HookPermit;
pub use limits::Limits;
pub use opinion::Opinion;
pub use permit::{Permit, Subject};
