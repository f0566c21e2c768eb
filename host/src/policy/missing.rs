use crate::record::{AccessKind, ErrorClass, ReasonType, Refusal};

use super::decide::Ruling;
use super::network::{self, Origin};
use super::{Capability, Case};

/// Why `kind` is not covered by what was granted; nothing when it is. `named` are the origins in the arguments.
pub(super) fn missing(case: &Case<'_>, kind: &AccessKind, capability: &Capability, named: &[Origin]) -> Option<Ruling> {
    let profile = case.declared.profile;
    let (covered, write) = match kind {
        AccessKind::FileRead => (!capability.mounts.is_empty() || capability.scratch.is_some(), false),
        AccessKind::FileWrite => (!profile.wants_file_write() || capability.is_writable(), true),
        AccessKind::Network => return capability.network.is_empty().then(|| no_network(case, named)),
        AccessKind::Credential => return missing_secret(case, capability),
        other => return Some(not_grantable(case.declared.tool_id, other)),
    };
    (!covered).then(|| not_granted(case, capability, write))
}

fn not_granted(case: &Case<'_>, capability: &Capability, write: bool) -> Ruling {
    let tool_id = case.declared.tool_id;
    let (verb, flag) = if write { ("write files", "--allow-write=DIR") } else { ("read files", "--allow-read=DIR") };
    let granted = if write { case.grants.write.first() } else { case.grants.folders().next() };
    let Some(grant) = granted else {
        let message = format!("{tool_id} wants to {verb}, and nothing allows it; add {flag} to grant a folder");
        return Ruling::deny(ReasonType::Mode, Refusal::new(ErrorClass::PermissionDenied, "not_granted", message));
    };
    let message = format!("{tool_id} wants to {verb}; {} is overruled by a denial", grant.rule);
    let refusal = Refusal::new(ErrorClass::PermissionDenied, "denied_by_rule", message);
    let mut ruling = Ruling::deny(ReasonType::Rule, refusal);
    let closes = |read: bool| read || (write && capability.mounts.iter().any(|mount| mount.host == grant.host));
    if let Some((closed, _)) =
        case.grants.closed().find(|(closed, read)| closes(*read) && grant.host.starts_with(&closed.host))
    {
        ruling.blocked_path = Some(closed.host.display().to_string());
        ruling.source = Some(closed.source);
        ruling.rule_refs = vec![closed.rule.clone()];
        return ruling;
    }
    let of_rules = case.policy.rules().iter();
    let closing = |rule: &&super::Rule| rule.path.as_ref().is_some_and(|path| path.covers(&grant.host));
    if let Some(rule) = of_rules.filter(|rule| rule.behavior != crate::record::Behavior::Allow).find(closing) {
        ruling.blocked_path = Some(grant.host.display().to_string());
        ruling.source = Some(rule.source);
        ruling.rule_refs = vec![rule.words.clone()];
    }
    ruling
}

/// Why no request may leave, although the tool says that it needs the network.
fn no_network(case: &Case<'_>, named: &[Origin]) -> Ruling {
    let tool_id = case.declared.tool_id;
    let denied = |kind, class, code, message| Ruling::deny(kind, Refusal::new(class, code, message));
    let wishes = match network::wishes(case.declared.profile, named) {
        Ok(wishes) => wishes,
        Err(error) => {
            let message = format!("{tool_id} asks for what this host cannot grant: {error:#}");
            return denied(ReasonType::SafetyCheck, ErrorClass::CapabilityGap, "network_scope_not_supported", message);
        }
    };
    if wishes.is_empty() {
        let message = format!("{tool_id} wants to use the network, and neither it nor its arguments say where to");
        return denied(ReasonType::SafetyCheck, ErrorClass::PermissionDenied, "not_granted", message);
    }
    let why = if case.grants.network.is_empty() { "nothing allows it" } else { "what was granted does not cover that" };
    let message = format!("{tool_id} wants to reach {wishes}, and {why}; --allow-net=HOST grants a host");
    denied(ReasonType::Mode, ErrorClass::PermissionDenied, "not_granted", message)
}

/// The first secret that the profile declares and nobody granted. A profile that asks for credentials and names none
/// asks for something that does not exist.
fn missing_secret(case: &Case<'_>, capability: &Capability) -> Option<Ruling> {
    let (tool_id, refs) = (case.declared.tool_id, &case.declared.profile.credential_refs);
    let granted = |name: &String| capability.secrets.iter().any(|granted| granted.name == *name);
    let message = match refs.iter().find(|name| !granted(name)) {
        Some(name) => format!(
            "{tool_id} wants to send the secret {name}, and nothing allows it; add --allow-secret={name}@https://HOST to \
             grant it to one host"
        ),
        None if refs.is_empty() => {
            format!("{tool_id} asks for `credential`, and its profile names none in credential_refs")
        }
        None => return None,
    };
    Some(Ruling::deny(ReasonType::Mode, Refusal::new(ErrorClass::PermissionDenied, "not_granted", message)))
}

fn not_grantable(tool_id: &str, kind: &AccessKind) -> Ruling {
    let word = serde_json::to_value(kind).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    let message = format!("{tool_id} asks for `{word}`, which this host cannot grant");
    let refusal = Refusal::new(ErrorClass::CapabilityGap, "access_kind_not_supported", message);
    Ruling::deny(ReasonType::SafetyCheck, refusal)
}
