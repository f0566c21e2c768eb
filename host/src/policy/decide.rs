use crate::record::{
    AccessKind, Behavior, DecisionId, ErrorClass, Extra, Input, Mode, PermissionDecision, PermissionProfile, Reason,
    ReasonType, Refusal, RuleSource, SchemaVersion, Timestamp,
};

use super::{Capability, Grants, Limits, Permit, Subject};

/// The decision on one call, and what follows from it.
#[derive(Debug)]
pub struct Verdict {
    pub decision: PermissionDecision,
    pub outcome: Outcome,
}

/// What follows from a decision.
#[derive(Debug)]
pub enum Outcome {
    Allow(Permit),
    Deny(Refusal),
}

/// Decides whether the call of `subject` with `input` may run under `grants`.
///
/// Every access kind that the profile declares must have been granted: a tool that says it needs something is not
/// started without it. What was granted and not declared is not given.
pub fn decide(
    subject: Subject,
    tool_id: &str,
    profile: &PermissionProfile,
    grants: &Grants,
    input: Input,
    limits: Limits,
) -> Verdict {
    let capability = Capability::effective(profile, grants);
    let refusal = profile.access_kinds.iter().find_map(|kind| missing(tool_id, kind, profile, grants, &capability));
    let mut decision = PermissionDecision {
        schema_version: SchemaVersion::default(),
        decision_id: DecisionId::new(),
        invocation_id: subject.invocation_id,
        behavior: Behavior::Allow,
        mode: Mode::Default,
        source: Some(RuleSource::CliArg),
        reason: Reason { kind: ReasonType::Rule, message: String::new(), extra: Extra::new() },
        rule_refs: Vec::new(),
        policy_refs: Vec::new(),
        updated_input: None,
        user_modified: false,
        suggested_updates: Vec::new(),
        blocked_path: None,
        content_blocks: Vec::new(),
        decided_at: Timestamp::now(),
        expires_at: None,
        extra: Extra::new(),
    };
    let Some(refusal) = refusal else {
        if profile.access_kinds.is_empty() {
            decision.reason.kind = ReasonType::SafetyCheck;
            "the tool asks for no access".clone_into(&mut decision.reason.message);
            decision.source = None;
        } else {
            decision.rule_refs = rules_used(&capability, grants);
            "everything that the tool declares was granted".clone_into(&mut decision.reason.message);
        }
        return Verdict { decision, outcome: Outcome::Allow(Permit::mint(subject, input, capability, limits)) };
    };
    decision.behavior = Behavior::Deny;
    decision.reason.message.clone_from(&refusal.refusal.message);
    decision.blocked_path = refusal.blocked_path;
    decision.reason.kind = refusal.reason;
    if refusal.reason != ReasonType::Rule {
        decision.source = None;
    }
    Verdict { decision, outcome: Outcome::Deny(refusal.refusal) }
}

struct Missing {
    refusal: Refusal,
    reason: ReasonType,
    blocked_path: Option<String>,
}

/// Why `kind` is not covered by what was granted; nothing when it is.
fn missing(
    tool_id: &str,
    kind: &AccessKind,
    profile: &PermissionProfile,
    grants: &Grants,
    capability: &Capability,
) -> Option<Missing> {
    let (covered, granted, denied, verb, flag) = match kind {
        AccessKind::FileRead => (
            !capability.mounts.is_empty(),
            grants.read.iter().chain(&grants.write).next(),
            &grants.deny_read,
            "read files",
            "--allow-read=DIR",
        ),
        AccessKind::FileWrite if !profile.wants_file_write() => return None,
        AccessKind::FileWrite => (
            capability.mounts.iter().any(|mount| mount.writable),
            grants.write.first(),
            &grants.deny_write,
            "write files",
            "--allow-write=DIR",
        ),
        AccessKind::Credential => return missing_secret(tool_id, profile, capability),
        other => return Some(not_grantable(tool_id, other)),
    };
    if covered {
        return None;
    }
    Some(match granted {
        Some(grant) => Missing {
            refusal: Refusal::new(
                ErrorClass::PermissionDenied,
                "denied_by_rule",
                format!("{tool_id} wants to {verb}; {} is overruled by a denial", grant.rule),
            ),
            reason: ReasonType::Rule,
            blocked_path: denied.first().or(grants.deny_read.first()).map(|path| path.display().to_string()),
        },
        None => Missing {
            refusal: Refusal::new(
                ErrorClass::PermissionDenied,
                "not_granted",
                format!("{tool_id} wants to {verb}, and nothing allows it; add {flag} to grant a folder"),
            ),
            reason: ReasonType::Mode,
            blocked_path: None,
        },
    })
}

/// The first secret that the profile declares and nobody granted. A profile that asks for credentials and names none
/// asks for something that does not exist.
fn missing_secret(tool_id: &str, profile: &PermissionProfile, capability: &Capability) -> Option<Missing> {
    let granted = |name: &String| capability.secrets.iter().any(|granted| granted.name == *name);
    let message = match profile.credential_refs.iter().find(|name| !granted(name)) {
        Some(name) => format!(
            "{tool_id} wants to send the secret {name}, and nothing allows it; add --allow-secret={name}@https://HOST to \
             grant it to one host"
        ),
        None if profile.credential_refs.is_empty() => {
            format!("{tool_id} asks for `credential`, and its profile names none in credential_refs")
        }
        None => return None,
    };
    let refusal = Refusal::new(ErrorClass::PermissionDenied, "not_granted", message);
    Some(Missing { refusal, reason: ReasonType::Mode, blocked_path: None })
}

fn not_grantable(tool_id: &str, kind: &AccessKind) -> Missing {
    let word = serde_json::to_value(kind).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    Missing {
        refusal: Refusal::new(
            ErrorClass::CapabilityGap,
            "access_kind_not_supported",
            format!("{tool_id} asks for `{word}`, which this host cannot grant"),
        ),
        reason: ReasonType::SafetyCheck,
        blocked_path: None,
    }
}

/// The grants that stand behind the mounts of `capability`.
fn rules_used(capability: &Capability, grants: &Grants) -> Vec<String> {
    let mut rules: Vec<String> = grants
        .write
        .iter()
        .chain(&grants.read)
        .filter(|grant| capability.mounts.iter().any(|mount| mount.guest == grant.guest))
        .map(|grant| grant.rule.clone())
        .collect();
    let used = |name: &str, origin| capability.secrets.iter().any(|used| used.name == name && used.origin == origin);
    rules.extend(
        grants.secrets.iter().filter(|grant| used(&grant.name, grant.origin.clone())).map(|grant| grant.rule.clone()),
    );
    rules.dedup();
    rules
}
