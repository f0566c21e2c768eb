//! The location of state, and the contents of `toolcell.toml`.

mod file;
mod find;
mod home;
mod ownership;
mod trust;
mod units;

pub use file::{
    ApprovalSection, ConfigFile, FILE_NAME, GrantSection, HookEntry, HookMatcher, LimitSection, OnFailure, RuleEntry,
    ToolEntry, bytes, project_bytes,
};
pub use find::{project_file, user_file};
pub use home::{HOME_VARIABLE, Home};
pub use trust::{Trust, Trusted};
pub use units::{duration, size};
