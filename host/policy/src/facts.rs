use serde_json::{Value, json};

use toolcell_spec::{AccessKind, Effects, Extra, PermissionProfile, SafetyFacts, WriteEffect};

use super::{Capability, DecisionCase};

pub const EFFECTIVE_FACTS: &str = "effective_facts";

/// Enforced and stated facts, for the record; unstated ones count against the tool (AT-N-03). [`changes_nothing`], not
/// these words, decides.
pub(super) fn effective(case: &DecisionCase<'_>, capability: &Capability) -> SafetyFacts {
    let mut claims = claims(case);
    let changes = !changes_nothing(case.declared.profile, capability);
    if !changes && claims.is_read_only == Some(true) {
        // What is held to reading destroys nothing, whatever other inputs of the tool do.
        claims.is_destructive = None;
    }
    let effects = Effects::claimed(
        &case.declared.tool.tool_kind,
        claims,
        case.declared.profile,
        changes,
    );
    SafetyFacts {
        is_concurrency_safe: Some(claims.is_concurrency_safe == Some(true)),
        ..effects.into()
    }
}

/// The stricter claims for all inputs and for this one. One claim to only read is enough, because the host enforces it.
fn claims(case: &DecisionCase<'_>) -> SafetyFacts {
    let claims = [Some(case.declared.facts), case.classified];
    let one = |fact: fn(&SafetyFacts) -> Option<bool>, wins: bool| {
        let mut said = claims.iter().flatten().filter_map(fact);
        said.clone()
            .find(|said| *said == wins)
            .or_else(|| said.next())
    };
    SafetyFacts {
        is_read_only: one(|facts| facts.is_read_only, true),
        is_concurrency_safe: one(|facts| facts.is_concurrency_safe, false),
        is_destructive: one(|facts| facts.is_destructive, true),
        is_open_world: one(|facts| facts.is_open_world, true),
    }
}

/// `true` if the host enforces that nothing lasting changes, locally or remotely.
pub(super) fn changes_nothing(profile: &PermissionProfile, capability: &Capability) -> bool {
    let mutates =
        profile.wants(&AccessKind::Network) && profile.has_effect(&WriteEffect::RemoteMutation);
    !capability.is_writable() && !mutates && !profile.has_effect(&WriteEffect::Irreversible)
}

/// The component's words on this input (AT-DEC-13). It is told no confidence, and can only restrict the call.
pub(super) fn classifier_check(case: &DecisionCase<'_>) -> Option<Value> {
    let SafetyFacts {
        is_read_only,
        is_concurrency_safe,
        is_destructive,
        is_open_world,
    } = case.classified?;
    let said: Vec<String> = [
        ("is_read_only", is_read_only),
        ("is_concurrency_safe", is_concurrency_safe),
        ("is_destructive", is_destructive),
        ("is_open_world", is_open_world),
    ]
    .into_iter()
    .filter_map(|(name, said)| Some(format!("{name}: {}", said?)))
    .collect();
    Some(json!({
        "classifier_ref": format!("component:{}", case.subject.component),
        "confidence": null,
        "classifier_reason": if said.is_empty() { "it states nothing".to_owned() } else { said.join(", ") },
        "can": "recommend",
    }))
}

/// Empty without a classification or a contradiction: of the effective and the declared `is_read_only`, or of
/// declaration and profile.
pub(super) fn recorded(case: &DecisionCase<'_>, capability: &Capability) -> Extra {
    let effective = effective(case, capability);
    let declared = case.declared.facts;
    let differs =
        declared.is_read_only.is_some() && declared.is_read_only != effective.is_read_only;
    let contradicts =
        declared.is_read_only == Some(true) && case.declared.profile.wants_file_write();
    if case.classified.is_none() && !differs && !contradicts {
        return Extra::new();
    }
    let mut extra = Extra::new();
    extra.insert(EFFECTIVE_FACTS.to_owned(), json!(effective));
    extra.insert("declared_facts".to_owned(), json!(declared));
    extra.insert("classified_facts".to_owned(), json!(case.classified));
    extra
}
