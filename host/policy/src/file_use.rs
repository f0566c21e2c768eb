//! Components of plain functions cannot say that they use files. They get folders granted on the command line of a
//! command with no other component, because such a grant can be meant for nothing else; other grants are for declaring
//! tools.

use toolcell_spec::{AccessKind, PermissionProfile, RuleSource, WriteEffect};

use super::Grants;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileUse {
    /// All is in the profile.
    #[default]
    Declared,
    /// No declaration, and grants may be meant for other components: none are given.
    Unsaid,
    /// No declaration, but the command line is for this component alone.
    AsGranted,
}

/// Profile and grants with [`FileUse::AsGranted`]. `None` without a folder on the command line.
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
