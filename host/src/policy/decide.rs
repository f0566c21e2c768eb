use crate::record::{
    AccessKind, Behavior, DecisionId, ErrorClass, Extra, Mode, PermissionDecision, PermissionProfile, Reason,
    ReasonType, Refusal, RiskLevel, RuleSource, SchemaVersion, Timestamp, WriteEffect,
};

use super::network::{self, Origin};
use super::{Brief, Capability, Case, Grants, Permit, Question, SecretGrant, Touches};

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
    /// Somebody has to say yes first.
    Ask(Question),
    Deny(Refusal),
}

/// Decides whether the call that `case` describes may run.
///
/// Every access kind that the profile declares must have been granted: a tool that says it needs something is not
/// started without it. What was granted and not declared is not given.
pub fn decide(case: Case<'_>) -> Verdict {
    let named = network::named_by(case.declared.profile, &case.input);
    let capability = Capability::effective(case.declared.profile, case.grants, &named);
    let ruling = rule(&case, &capability, &named);
    let decision = PermissionDecision {
        schema_version: SchemaVersion::default(),
        decision_id: DecisionId::new(),
        invocation_id: case.subject.invocation_id,
        behavior: ruling.behavior,
        mode: case.policy.mode,
        source: ruling.source,
        reason: Reason { kind: ruling.kind, message: ruling.message.clone(), extra: Extra::new() },
        rule_refs: ruling.rule_refs.clone(),
        policy_refs: Vec::new(),
        updated_input: None,
        user_modified: false,
        suggested_updates: Vec::new(),
        blocked_path: ruling.blocked_path,
        content_blocks: Vec::new(),
        decided_at: Timestamp::now(),
        expires_at: None,
        extra: Extra::new(),
    };
    if let Some(refusal) = ruling.refusal {
        return Verdict { decision, outcome: Outcome::Deny(refusal) };
    }
    let brief = (ruling.behavior == Behavior::Ask).then(|| Brief {
        tool_id: case.declared.tool_id.to_owned(),
        risk: case.declared.profile.risk_level,
        reason: ruling.message,
        source: ruling.source,
        rule_refs: ruling.rule_refs,
        channel: case.declared.profile.permission_channel().map(str::to_owned),
        touches: Touches::of(&capability),
    });
    let permit = Permit::mint(case.subject, case.input, capability, case.limits);
    let outcome = match brief {
        Some(brief) => Outcome::Ask(Question::new(permit, brief)),
        None => Outcome::Allow(permit),
    };
    Verdict { decision, outcome }
}

/// What was found, before it is written down.
struct Ruling {
    behavior: Behavior,
    source: Option<RuleSource>,
    kind: ReasonType,
    message: String,
    rule_refs: Vec<String>,
    blocked_path: Option<String>,
    /// What the caller is told; there exactly when the call is denied.
    refusal: Option<Refusal>,
}

impl Ruling {
    fn deny(kind: ReasonType, refusal: Refusal) -> Self {
        Self {
            behavior: Behavior::Deny,
            source: (kind == ReasonType::Rule).then_some(RuleSource::CliArg),
            kind,
            message: refusal.message.clone(),
            rule_refs: Vec::new(),
            blocked_path: None,
            refusal: Some(refusal),
        }
    }
}

/// The order of authority: denials, then what has to be asked, then what was allowed.
fn rule(case: &Case<'_>, capability: &Capability, named: &[Origin]) -> Ruling {
    let declared = &case.declared;
    let missing = |kind: &AccessKind| match kind {
        AccessKind::Network => no_network(declared.tool_id, declared.profile, case.grants, capability, named),
        kind => missing(declared.tool_id, kind, declared.profile, case.grants, capability),
    };
    if let Some(denied) = declared.profile.access_kinds.iter().find_map(missing) {
        return denied;
    }
    if let Some(reason) = asks(declared.profile) {
        return ask(case, ReasonType::SafetyCheck, None, Vec::new(), reason);
    }
    allow(case, capability)
}

/// Why the tool's own profile wants somebody to be asked (AT-PERM-03, 05, 10).
fn asks(profile: &PermissionProfile) -> Option<String> {
    if profile.approval_required == Some(true) {
        let why = profile.approval_reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        return Some(format!("the tool's profile requires an approval{why}"));
    }
    if profile.write_effects.contains(&WriteEffect::Irreversible) {
        return Some("what the tool does cannot be undone".to_owned());
    }
    let high = profile.risk_level >= RiskLevel::High;
    high.then(|| "the tool says of itself that its risk is high".to_owned())
}

/// A question where somebody can be asked, and a denial where nobody can.
fn ask(
    case: &Case<'_>,
    kind: ReasonType,
    source: Option<RuleSource>,
    rule_refs: Vec<String>,
    message: String,
) -> Ruling {
    let silent = case.policy.mode == Mode::NonInteractive || case.declared.profile.permission_channel() == Some("none");
    if !silent {
        return Ruling { behavior: Behavior::Ask, source, kind, message, rule_refs, blocked_path: None, refusal: None };
    }
    let tool = case.declared.tool_id;
    let message = format!("{tool} needs an approval ({message}), and in this mode nobody is asked");
    let refusal = Refusal::new(ErrorClass::PermissionDenied, "approval_not_possible", message);
    Ruling { rule_refs, source, ..Ruling::deny(ReasonType::Mode, refusal) }
}

fn allow(case: &Case<'_>, capability: &Capability) -> Ruling {
    let (kind, source, rule_refs, message) = if case.declared.profile.access_kinds.is_empty() {
        (ReasonType::SafetyCheck, None, Vec::new(), "the tool asks for no access")
    } else {
        let rules = rules_used(capability, case.grants);
        (ReasonType::Rule, Some(RuleSource::CliArg), rules, "everything that the tool declares was granted")
    };
    Ruling {
        behavior: Behavior::Allow,
        source,
        kind,
        message: message.to_owned(),
        rule_refs,
        blocked_path: None,
        refusal: None,
    }
}

/// Why `kind` is not covered by what was granted; nothing when it is.
fn missing(
    tool_id: &str,
    kind: &AccessKind,
    profile: &PermissionProfile,
    grants: &Grants,
    capability: &Capability,
) -> Option<Ruling> {
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
        Some(grant) => {
            let message = format!("{tool_id} wants to {verb}; {} is overruled by a denial", grant.rule);
            let refusal = Refusal::new(ErrorClass::PermissionDenied, "denied_by_rule", message);
            let blocked = denied.first().or(grants.deny_read.first()).map(|path| path.display().to_string());
            Ruling { blocked_path: blocked, ..Ruling::deny(ReasonType::Rule, refusal) }
        }
        None => {
            let message = format!("{tool_id} wants to {verb}, and nothing allows it; add {flag} to grant a folder");
            Ruling::deny(ReasonType::Mode, Refusal::new(ErrorClass::PermissionDenied, "not_granted", message))
        }
    })
}

/// The first secret that the profile declares and nobody granted. A profile that asks for credentials and names none
/// asks for something that does not exist.
fn missing_secret(tool_id: &str, profile: &PermissionProfile, capability: &Capability) -> Option<Ruling> {
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
    Some(Ruling::deny(ReasonType::Mode, Refusal::new(ErrorClass::PermissionDenied, "not_granted", message)))
}

/// Why no request may leave, although the tool says that it needs the network; nothing when some may.
fn no_network(
    tool_id: &str,
    profile: &PermissionProfile,
    grants: &Grants,
    capability: &Capability,
    named: &[Origin],
) -> Option<Ruling> {
    if !capability.network.is_empty() {
        return None;
    }
    let wishes = match network::wishes(profile, named) {
        Ok(wishes) if wishes.is_empty() => {
            let message = format!("{tool_id} wants to use the network, and neither it nor its arguments say where to");
            let refusal = Refusal::new(ErrorClass::PermissionDenied, "not_granted", message);
            return Some(Ruling::deny(ReasonType::SafetyCheck, refusal));
        }
        Ok(wishes) => wishes,
        Err(error) => {
            let message = format!("{tool_id} asks for what this host cannot grant: {error:#}");
            let refusal = Refusal::new(ErrorClass::CapabilityGap, "network_scope_not_supported", message);
            return Some(Ruling::deny(ReasonType::SafetyCheck, refusal));
        }
    };
    let why = if grants.network.is_empty() { "nothing allows it" } else { "what was granted does not cover that" };
    let message = format!("{tool_id} wants to reach {wishes}, and {why}; --allow-net=HOST grants a host");
    let refusal = Refusal::new(ErrorClass::PermissionDenied, "not_granted", message);
    Some(Ruling::deny(ReasonType::Mode, refusal))
}

fn not_grantable(tool_id: &str, kind: &AccessKind) -> Ruling {
    let word = serde_json::to_value(kind).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    let message = format!("{tool_id} asks for `{word}`, which this host cannot grant");
    let refusal = Refusal::new(ErrorClass::CapabilityGap, "access_kind_not_supported", message);
    Ruling::deny(ReasonType::SafetyCheck, refusal)
}

/// The grants that stand behind the mounts of `capability`.
fn rules_used(capability: &Capability, grants: &Grants) -> Vec<String> {
    let mut rules: Vec<String> = grants
        .write
        .iter()
        .chain(&grants.read)
        .filter(|grant| capability.mounts.iter().any(|mount| mount.guest == grant.guest))
        .map(|grant| grant.rule.as_str())
        .chain(capability.network.rules())
        .map(str::to_owned)
        .collect();
    let used = |grant: &&SecretGrant| {
        capability.secrets.iter().any(|used| used.name == grant.name && used.origin == grant.origin)
    };
    rules.extend(grants.secrets.iter().filter(used).map(|grant| grant.rule.clone()));
    rules.dedup();
    rules
}
