//! DECISION. What a call may do: grants, the profile that a tool declares, and the sealed [`Permit`] that comes of both.
//!
//! Nothing is granted unless somebody granted it. The effective capability is what the tool's permission profile
//! declares and what was granted, never one of them alone. A decision allows, denies, or asks a [`Question`] that only
//! its answer turns into a permit.

mod capability;
mod case;
mod decide;
mod grants;
mod limits;
pub mod network;
mod permit;
mod question;
mod rules;
mod secret;

pub use capability::{Capability, Denial, Mount};
pub use case::{Case, Declared};
pub use decide::{Outcome, Verdict, decide};
pub use grants::{FolderGrant, Grants};
pub use limits::{Limits, NetworkLimits};
pub use network::{Network, NetworkGrants};
pub use permit::{Permit, Subject};
pub use question::{Brief, Question, Touches};
pub use rules::Policy;
pub use secret::{Placement, SecretGrant, SecretUse};
