use super::{AccessKind, PermissionProfile, SafetyFacts, ToolInterface, ToolKind, WriteEffect};

/// Effects to assume (AT-N-03): missing statements count against a tool, and so does everything that its profile
/// allows.
///
/// ```
/// use toolcell_spec::{Effects, PermissionProfile, ToolKind};
///
/// let silent = Effects::from_records(&ToolKind("function".to_owned()), None, &PermissionProfile::none("a.b"));
/// assert!(!silent.is_read_only && silent.is_destructive && silent.is_open_world);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    pub is_read_only: bool,
    pub is_destructive: bool,
    pub is_open_world: bool,
}

impl Effects {
    pub fn from_records(
        kind: &ToolKind,
        interface: Option<&ToolInterface>,
        profile: &PermissionProfile,
    ) -> Self {
        let facts = interface.map(ToolInterface::facts).unwrap_or_default();
        Self::claimed(kind, facts, profile, profile.wants_file_write())
    }

    /// Based on claimed `facts`. `changes`: the host knows of possible changes.
    pub fn claimed(
        kind: &ToolKind,
        facts: SafetyFacts,
        profile: &PermissionProfile,
        changes: bool,
    ) -> Self {
        let changes = changes || changes_elsewhere(profile);
        let is_read_only =
            !changes && facts.is_read_only == Some(true) && facts.is_destructive != Some(true);
        Self {
            is_read_only,
            is_destructive: changes || (facts.is_destructive != Some(false) && !is_read_only),
            is_open_world: profile.reaches_out() || is_open(kind, facts, profile),
        }
    }
}

/// A profile that names access states the tool's reach, unless the tool's kind implies more (AT-KIND-02, 03, 05, 06,
/// 09, 13).
fn is_open(kind: &ToolKind, facts: SafetyFacts, profile: &PermissionProfile) -> bool {
    let is_closed =
        profile.network_scope.as_deref() == Some("none") || !profile.access_kinds.is_empty();
    match facts.is_open_world {
        Some(said) => said,
        None => kind.is_open_world() || !is_closed,
    }
}

/// A request can change its target, unless the profile excludes remote mutation.
fn changes_elsewhere(profile: &PermissionProfile) -> bool {
    let harmless = profile
        .write_effects
        .iter()
        .all(|effect| *effect == WriteEffect::None);
    let only_reads_out = harmless && !profile.write_effects.is_empty();
    let acts = [
        AccessKind::ExternalSend,
        AccessKind::Payment,
        AccessKind::CodeExecution,
    ];
    acts.iter().any(|kind| profile.wants(kind)) || (profile.reaches_out() && !only_reads_out)
}

impl From<Effects> for SafetyFacts {
    fn from(effects: Effects) -> Self {
        Self {
            is_read_only: Some(effects.is_read_only),
            is_concurrency_safe: None,
            is_destructive: Some(effects.is_destructive),
            is_open_world: Some(effects.is_open_world),
        }
    }
}
