use serde_json::json;

use crate::record::{AccessKind, Extra, PermissionProfile, SafetyFacts, WriteEffect};

use super::{Capability, Case};

/// What is true of the call, because the host sees to it; a claim that the host cannot hold the tool to counts for
/// nothing, unless it asks for more care.
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
        // Nobody can hold a tool that writes to destroying nothing.
        is_destructive: Some(!read_only),
        is_open_world: Some(remote),
    }
}

/// Whether a call in this world can change nothing that lasts, here or elsewhere.
pub(super) fn changes_nothing(profile: &PermissionProfile, capability: &Capability) -> bool {
    let mutates = profile.wants(&AccessKind::Network) && profile.has_effect(&WriteEffect::RemoteMutation);
    !capability.is_writable() && !mutates && !profile.has_effect(&WriteEffect::Irreversible)
}

/// The facts for the record, where they differ from what the tool says of itself, or the tool was asked.
pub(super) fn recorded(case: &Case<'_>, capability: &Capability) -> Extra {
    let effective = effective(case, capability);
    let declared = case.declared.facts;
    let differs = declared.is_read_only.is_some() && declared.is_read_only != effective.is_read_only;
    // It says of itself that it only reads, and asks to write.
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
