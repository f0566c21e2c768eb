//! Where state lies, and what `hotcell.toml` says.

mod file;
mod home;

pub use file::{
    ApprovalSection, ConfigFile, FILE_NAME, GrantSection, HookEntry, HookMatcher, LimitSection, OnFailure, RuleEntry,
};
pub use home::{HOME_VARIABLE, Home};
