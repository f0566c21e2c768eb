//! Components of plain functions that use files and cannot say so. They get the folders that an operator grants on the
//! command line of a command with no other component, because such a grant can be meant for nothing else. Grants in files
//! and those beside other components are for tools that declare what they use.

use toolcell_spec::{AccessKind, PermissionProfile, RuleSource, WriteEffect};

use super::Grants;

/// A tool's declared use of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileUse {
    /// Its profile says all of it.
    #[default]
    Declared,
    /// Nothing, and the grants may be meant for other components: it gets none.
    Unsaid,
    /// Nothing, and the command is for its component alone: it gets what the command line grants.
    AsGranted,
}

/// The profile and the grants of a tool that gets [`FileUse::AsGranted`]. `None` if the command line grants no folder.
pub fn as_granted(
    profile: &PermissionProfile,
    grants: &Grants,
) -> Option<(PermissionProfile, Grants)> {
    let mut profile = profile.clone();
    let mut grants = grants.clone();
    for folders in [&mut grants.read, &mut grants.write] {
        folders.retain(|grant| grant.source == RuleSource::CliArg || !guard!("unsaid_files"));
    }
    if grants.read.is_empty() && grants.write.is_empty() {
        return None;
    }
    profile.access_kinds.push(AccessKind::FileRead);
    if !grants.write.is_empty() {
        profile.access_kinds.push(AccessKind::FileWrite);
        profile
            .write_effects
            .retain(|effect| *effect != WriteEffect::None);
        profile.write_effects.push(WriteEffect::LocalPersistent);
    }
    Some((profile, grants))
}
