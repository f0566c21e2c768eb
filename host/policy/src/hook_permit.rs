use std::path::PathBuf;
use std::time::Duration;

use toolcell_spec::{AccessKind, PermissionProfile, Refusal, WriteEffect};

use super::{Capability, Grants, Limits};

/// Capability and limits of a hook component, decided at configuration and valid for every run. Only this module can
/// construct one.
#[derive(Debug)]
pub struct HookPermit {
    capability: Capability,
    limits: Limits,
}

impl HookPermit {
    /// Needs no profile, because the operator who configures a hook also grants. No grant may reach `protected`; a run
    /// may take `wall`. Fails with `policy_blocked`, if [`Grants::refusal`] does.
    pub fn standing(
        grants: &Grants,
        protected: &[PathBuf],
        wall: Duration,
    ) -> Result<Self, Refusal> {
        if let Some(refusal) = grants.refusal(protected) {
            return Err(refusal);
        }
        let mut profile = PermissionProfile::none("hook");
        if !grants.read.is_empty() {
            profile.access_kinds.push(AccessKind::FileRead);
        }
        if !grants.write.is_empty() {
            profile
                .access_kinds
                .extend([AccessKind::FileRead, AccessKind::FileWrite]);
            profile.write_effects = vec![WriteEffect::LocalPersistent];
        }
        profile.environment = grants
            .environment
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        let capability = Capability::effective(&profile, grants, &grants.denials());
        Ok(Self {
            capability,
            limits: limits(wall),
        })
    }

    pub fn capability(&self) -> &Capability {
        &self.capability
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}

/// A hook runs with every call, so it gets much less than a tool; but an output as large, because it may rewrite one.
fn limits(wall: Duration) -> Limits {
    Limits {
        fuel: 20_000_000_000,
        wall,
        memory_bytes: 64 << 20,
        table_elements: 20_000,
        instances: 16,
        handles: 64,
        log_bytes: 16 << 10,
        progress_updates: 1,
        ..Limits::default()
    }
}
