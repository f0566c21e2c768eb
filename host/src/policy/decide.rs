use crate::record::{
    AccessKind, Behavior, DecisionId, ErrorClass, Extra, Mode, PermissionDecision, PermissionProfile, Reason,
    ReasonType, Refusal, RiskLevel, RuleSource, SchemaVersion, Timestamp, WriteEffect,
};

use super::{Brief, Capability, Case, Grants, Permit, Question, Touches};

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
    let capability = Capability::effective(case.declared.profile, case.grants);
    let ruling = rule(&case, &capability);
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
        accept_feedback: None,
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
fn rule(case: &Case<'_>, capability: &Capability) -> Ruling {
    let declared = &case.declared;
    let missing = |kind: &AccessKind| missing(declared.tool_id, kind, declared.profile, case.grants, capability);
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
        .map(|grant| grant.rule.clone())
        .collect();
    rules.dedup();
    rules
}
