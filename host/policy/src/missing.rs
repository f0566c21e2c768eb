use std::path::Path;

use crate::secret::SecretStore;
use toolcell_spec::{AccessKind, ErrorCode, ReasonType, Refusal, RuleSource};

use super::call_subjects::{NamedPath, NamedUrl, below};
use super::decide::Ruling;
use super::network::{self, Origin};
use super::rule_match::RuleCall;
use super::{Capability, DecisionCase, PathPattern, suggestion};

const ALLOW_READ: &str = "--allow-read";
const ALLOW_WRITE: &str = "--allow-write";

const HOSTS_SHOWN: usize = 5;

/// `None` if the grants cover `kind`. `named`: the arguments' origins.
pub(super) fn missing(
    call: &RuleCall<'_>,
    kind: &AccessKind,
    capability: &Capability,
    named: &[Origin],
) -> Option<Ruling> {
    let case = call.case;
    let profile = case.declared.profile;
    let (covered, write) = match kind {
        AccessKind::FileRead => (
            !capability.mounts.is_empty() || capability.scratch.is_some(),
            false,
        ),
        AccessKind::FileWrite => (
            !profile.wants_file_write() || capability.is_writable(),
            true,
        ),
        AccessKind::Network => {
            return capability
                .network
                .is_empty()
                .then(|| no_network(case, named));
        }
        AccessKind::Credential => return missing_secret(case, capability, named),
        other => return Some(not_grantable(case.tool_id(), other)),
    };
    (!covered).then(|| not_granted(call, capability, write))
}

fn not_granted(call: &RuleCall<'_>, capability: &Capability, write: bool) -> Ruling {
    let case = call.case;
    let tool_id = case.tool_id();
    let (verb, flag) = if write {
        ("write files", ALLOW_WRITE)
    } else {
        ("read files", ALLOW_READ)
    };
    let granted = if write {
        case.grants.write.first()
    } else {
        case.grants.folders().next()
    };
    let Some(grant) = granted else {
        let options = suggestion::folders(case, flag, call.named.paths.iter());
        let message = format!(
            "{tool_id} wants to {verb}, and nothing allows it; add {options} to grant a folder"
        );
        let refusal = folder_needed(not_given(message), write, options);
        return Ruling::deny(ReasonType::Mode, refusal);
    };
    let message = format!(
        "{tool_id} needs permission to {verb}, but a deny rule overrides {}",
        grant.rule
    );
    let is_mounted = || {
        let mut mounts = capability.mounts.iter();
        mounts.any(|mount| mount.host == grant.host)
    };
    let closing = closing(call, &grant.host, |read| read || (write && is_mounted()));
    closed_by(closing, message)
}

pub(super) fn closed_by(closing: Option<ClosingRule>, message: String) -> Ruling {
    let mut ruling = Ruling::refuse(ReasonType::Rule, ErrorCode::DeniedByRule, message);
    if let Some((words, source, blocked)) = closing {
        ruling.blocked_path = Some(blocked);
        ruling.source = Some(source);
        ruling.rule_refs = vec![words];
    }
    ruling
}

/// Written rule, source, and denied path.
pub(super) type ClosingRule = (String, RuleSource, String);

/// The deny rule, or the denial among the grants, that closes `host`.
pub(super) fn closing(
    call: &RuleCall<'_>,
    host: &Path,
    closes: impl Fn(bool) -> bool,
) -> Option<ClosingRule> {
    let case = call.case;
    let mut closed = case
        .grants
        .closed()
        .filter(|(closed, read)| closes(*read) && host.starts_with(&closed.host));
    if let Some((closed, _)) = closed.next() {
        return Some((
            closed.rule.clone(),
            closed.source,
            closed.host.display().to_string(),
        ));
    }
    let covers = |path: &PathPattern| path.covers(host);
    let mut rules = case.policy.rules().iter();
    let rule =
        rules.find(|rule| rule.path.as_ref().is_some_and(covers) && call.closes_path(rule))?;
    Some((rule.words.clone(), rule.source, host.display().to_string()))
}

/// Set if a denial closes the grant: granting another folder would not help.
pub(super) fn closed_grant(call: &RuleCall<'_>, path: &NamedPath) -> Option<Ruling> {
    if path.mount.is_some() {
        return None;
    }
    let grants = call.case.grants.folders().filter(|grant| {
        grant
            .paths()
            .any(|folder| below(&path.guest, folder).is_some())
    });
    let (grant, closing) = grants
        .filter_map(|grant| Some((grant, closing(call, &grant.host, |read| read)?)))
        .next()?;
    let message = format!(
        "access to {} is denied: {} overrides {}",
        path.typed, closing.0, grant.rule
    );
    Some(closed_by(Some(closing), message))
}

/// `None` if one URL's requests may be sent. It is known, and so decided, before the call.
pub(super) fn unreachable(
    case: &DecisionCase<'_>,
    capability: &Capability,
    named: &NamedUrl,
) -> Option<Ruling> {
    if !case.declared.profile.wants(&AccessKind::Network) {
        return None;
    }
    let origin = named.origin()?;
    let reason = capability.network.refuses(&origin, named.url.path())?;
    let can_grant = case
        .grants
        .network
        .can_grant(case.declared.profile, std::slice::from_ref(&origin));
    let tool = case.tool_id();
    let is_metadata = origin.host.is_metadata();
    let denied_by = &reason.rule;
    let needs = format!("{tool} needs to reach {origin}");
    let (kind, message) = match reason.code {
        ErrorCode::DeniedByRule => (
            ReasonType::Rule,
            format!("{tool} may not send requests to {origin}: {denied_by} denies it"),
        ),
        _ if is_metadata => (
            ReasonType::SafetyCheck,
            format!("{needs}, but {}", network::METADATA_HINT),
        ),
        ErrorCode::SpecialAddress => (
            ReasonType::SafetyCheck,
            format!("{needs}, a {denied_by}: grant it with --allow-net={origin}"),
        ),
        _ if !can_grant => (
            ReasonType::SafetyCheck,
            format!(
                "{tool} does not declare access to {origin}, so no grant can allow it: use a URL that the tool declares"
            ),
        ),
        _ => (
            ReasonType::Mode,
            format!("{needs}, which no grant covers: add --allow-net={origin}"),
        ),
    };
    let mut refusal = Refusal::new(reason.code, message);
    if kind != ReasonType::Rule && can_grant && !is_metadata {
        let subject = origin.to_string();
        let option = format!("--allow-net={subject}");
        refusal = refusal.needs(AccessKind::Network, Some(subject), option);
    }
    let mut ruling = Ruling::deny(kind, refusal);
    if kind == ReasonType::Rule {
        ruling.source = case.grants.network.source_of_denial(&reason.rule);
        ruling.rule_refs = vec![reason.rule];
    }
    Some(ruling)
}

fn no_network(case: &DecisionCase<'_>, named: &[Origin]) -> Ruling {
    let tool_id = case.tool_id();
    let denied = |code, message| Ruling::refuse(ReasonType::SafetyCheck, code, message);
    let wishes = match network::wishes(case.declared.profile, named) {
        Ok(wishes) => wishes,
        Err(error) => {
            let message = format!("{tool_id} asks for what this host cannot grant: {error:#}");
            return denied(ErrorCode::NetworkScopeNotSupported, message);
        }
    };
    if wishes.is_empty() {
        let message = format!(
            "{tool_id} asks for network access, but neither its profile nor its arguments name a host"
        );
        return denied(ErrorCode::NotGranted, message);
    }
    if !case.grants.network.can_grant(case.declared.profile, named) {
        let message = format!(
            "{tool_id} needs to reach {wishes}, but its profile does not declare all of it, or a deny rule \
             blocks it: use another URL"
        );
        return denied(ErrorCode::NotGranted, message);
    }
    if network::wishes_metadata(case.declared.profile, named) {
        let message = format!(
            "{tool_id} needs to reach {wishes}, but {}",
            network::METADATA_HINT
        );
        return denied(ErrorCode::NotGranted, message);
    }
    let why = if case.grants.network.is_empty() {
        "which nothing allows".to_owned()
    } else {
        format!("which no grant covers ({})", granted_hosts(case))
    };
    let options = suggestion::hosts(case.declared.profile, named);
    let message = format!("{tool_id} needs to reach {wishes}, {why}: add {options}");
    Ruling::deny(
        ReasonType::Mode,
        not_given(message).needs(AccessKind::Network, Some(wishes), options),
    )
}

/// Refuses also a profile that asks for credentials and names none.
fn missing_secret(
    case: &DecisionCase<'_>,
    capability: &Capability,
    named: &[Origin],
) -> Option<Ruling> {
    let tool_id = case.tool_id();
    let refs = &case.declared.profile.credential_refs;
    let granted = |name: &String| {
        capability
            .secrets
            .iter()
            .any(|granted| granted.name == *name)
    };
    let refusal = match refs.iter().find(|name| !granted(name)) {
        // A tool's name with a comma or an `@` in an option could grant another secret, to a host of its choice.
        Some(name) if SecretStore::check_name(name).is_err() => not_given(format!(
            "{tool_id} wants to send the secret {name:?}, and no secret can have that name"
        )),
        Some(name) => {
            let option = suggestion::secret(name, case.declared.profile, named);
            let message =
                format!("{tool_id} needs the secret {name}: grant it for one host with {option}");
            not_given(message).needs(AccessKind::Credential, Some(name.clone()), option)
        }
        None if refs.is_empty() => not_given(format!(
            "{tool_id} asks for `credential`, and its profile names none in credential_refs"
        )),
        None => return None,
    };
    Some(Ruling::deny(ReasonType::Mode, refusal))
}

pub(super) fn outside(
    case: &DecisionCase<'_>,
    refusal: Refusal,
    outside: &[&NamedPath],
    write: bool,
) -> Refusal {
    let flag = if write { ALLOW_WRITE } else { ALLOW_READ };
    let options = suggestion::folders(case, flag, outside.iter().copied());
    let message = format!("{}; {options} adds a folder", refusal.message);
    folder_needed(Refusal { message, ..refusal }, write, options)
}

fn folder_needed(refusal: Refusal, write: bool, options: String) -> Refusal {
    let kind = if write {
        AccessKind::FileWrite
    } else {
        AccessKind::FileRead
    };
    refusal.needs(kind, None, options)
}

fn granted_hosts(case: &DecisionCase<'_>) -> String {
    let mut targets = case.grants.network.targets();
    let shown: Vec<String> = targets.by_ref().take(HOSTS_SHOWN).collect();
    match targets.count() {
        0 => format!("granted: {}", shown.join(", ")),
        more => format!("granted: {} and {more} more", shown.join(", ")),
    }
}

fn not_given(message: String) -> Refusal {
    Refusal::new(ErrorCode::NotGranted, message)
}

fn not_grantable(tool_id: &str, kind: &AccessKind) -> Ruling {
    let word = serde_json::json!(kind);
    let word = word.as_str().unwrap_or_default();
    let message = format!("{tool_id} asks for `{word}`, which this host cannot grant");
    let code = ErrorCode::AccessKindNotSupported;
    Ruling::refuse(ReasonType::SafetyCheck, code, message)
}
