//! Where state lies, and what `hotcell.toml` says.

mod file;
mod home;
mod units;

pub use file::{
    ApprovalSection, ConfigFile, FILE_NAME, GrantSection, HookEntry, HookMatcher, LimitSection, OnFailure, RuleEntry,
};
pub use home::{HOME_VARIABLE, Home};
pub use units::{duration, size};
