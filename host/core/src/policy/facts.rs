use serde_json::json;

use crate::record::{AccessKind, Extra, PermissionProfile, SafetyFacts, WriteEffect};

use super::{Capability, Case};

/// Safety facts of the call. `is_read_only`, `is_destructive` and `is_open_world` follow from what the host enforces;
/// `is_concurrency_safe` is the tool's claim, unless its claims contradict each other.
pub(super) fn effective(case: &Case<'_>, capability: &Capability) -> SafetyFacts {
    let remote = case.declared.profile.wants(&AccessKind::Network);
    let read_only = changes_nothing(case.declared.profile, capability);
    let claims = [Some(case.declared.facts), case.classified];
    let says = |fact: fn(&SafetyFacts) -> Option<bool>, answer| {
        claims.iter().flatten().any(|facts| fact(facts) == Some(answer))
    };
    let concurrency = |facts: &SafetyFacts| facts.is_concurrency_safe;
    SafetyFacts {
        is_read_only: Some(read_only),
        is_concurrency_safe: Some(says(concurrency, true) && !says(concurrency, false)),
        // The host cannot stop a tool that may write from destroying data.
        is_destructive: Some(!read_only),
        is_open_world: Some(remote),
    }
}

/// Whether a call with `capability` can make no lasting change, locally or remotely.
fn changes_nothing(profile: &PermissionProfile, capability: &Capability) -> bool {
    let mutates = profile.wants(&AccessKind::Network) && profile.has_effect(&WriteEffect::RemoteMutation);
    !capability.is_writable() && !mutates && !profile.has_effect(&WriteEffect::Irreversible)
}

/// Effective, declared and classified facts for the record. Empty unless the component classified the input, the
/// effective `is_read_only` differs from the declared one, or the declaration contradicts the profile.
pub(super) fn recorded(case: &Case<'_>, capability: &Capability) -> Extra {
    let effective = effective(case, capability);
    let declared = case.declared.facts;
    let differs = declared.is_read_only.is_some() && declared.is_read_only != effective.is_read_only;
    let contradicts = declared.is_read_only == Some(true) && case.declared.profile.wants_file_write();
    if case.classified.is_none() && !differs && !contradicts {
        return Extra::new();
    }
    let mut extra = Extra::new();
    extra.insert("effective_facts".to_owned(), json!(effective));
    extra.insert("declared_facts".to_owned(), json!(declared));
    extra.insert("classified_facts".to_owned(), json!(case.classified));
    extra
}
