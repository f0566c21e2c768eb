//! DECISION. Permissions of a call: grants, the tool's permission profile, and the sealed [`Permit`] that results from
//! both.
//!
//! Nothing is granted by default, and the capability is the intersection of profile and grants. Only an approval turns
//! an [`ApprovalQuestion`] into a permit.

#[macro_use(guard)]
extern crate toolcell_spec;

mod blocked;
mod call_subjects;
mod capability;
mod case;
mod ceiling;
mod decide;
mod facts;
mod file_use;
mod grants;
mod hook_permit;
mod issuer;
mod limits;
mod missing;
mod narrow;
mod narrowed;
pub mod network;
mod opinion;
mod pattern;
mod permit;
mod place;
mod plain_path;
mod protect;
mod provenance;
mod question;
mod record;
mod retry;
mod rule_match;
mod rules;
mod sandbox_profile;
mod scope;
pub mod secret;
mod secret_grant;
mod suggestion;
mod tools;
mod unused;

pub use blocked::ToolPatterns;
pub use call_subjects::{names_much, names_paths, with_whole_paths};
pub use capability::{Capability, Denial, Mount, SCRATCH};
pub use case::{DecisionCase, ToolClaims};
pub use ceiling::CallCeiling;
pub use decide::{DecisionOutcome, Explanation, PolicyVerdict, decide, explain, look};
pub use facts::EFFECTIVE_FACTS;
pub use file_use::FileUse;
pub use file_use::as_granted;
pub use grants::{
    ClosedPath, FolderGrant, GrantWord, Grants, MissingFolder, VariableGrant, WORKSPACE,
};
pub use hook_permit::HookPermit;
pub use issuer::{JwtMatch, SignatureAlgorithm, TOKEN_CALLER, TokenIssuer, token_caller};
pub use limits::{Limits, NetworkLimits};
pub use network::{Network, NetworkGrants};
pub use opinion::Opinion;
pub use pattern::WordPattern;
pub use pattern::{PathPattern, UrlPattern};
pub use permit::{DecisionSubject, Permit, PermitTerms, PreflightPermit};
pub use provenance::Provenance;
pub use question::{ApprovalBrief, ApprovalQuestion};
pub use retry::{ATTEMPTS_MAX, BACKOFF_MAX, RETRY_CLASSES, RetryPolicy};
pub use rule_match::RuleMatch;
pub use rules::{InstalledTool, Policy, Rule, RuleWords};
pub use scope::ApprovalScope;
pub use secret_grant::{SecretGrant, SecretPlacement, SecretUse};
pub use tools::{ToolCalls, ToolGrant};
