//! Which requests a tool may send: what its profile declares, what was granted, and what this one call names.

mod address;
mod origin;
mod rule;

use std::net::IpAddr;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::record::{AccessKind, Input, PermissionProfile, WriteEffect};

pub use address::special;
pub use origin::{HostName, Origin, Scheme};
pub use rule::Rule;

/// The one name that means addresses of this machine. It is never looked up (RFC 6761).
pub const LOCALHOST: &str = "localhost";

/// A `network_scope` is a tool's own text: longer ones are not read.
const SCOPE_BYTES_MAX: usize = 4 << 10;
/// More patterns than a scope needs.
const SCOPE_PATTERNS_MAX: usize = 64;

/// What was granted and denied.
#[derive(Clone, Debug, Default)]
pub struct NetworkGrants {
    pub(super) allow: Vec<Rule>,
    pub(super) deny: Vec<Rule>,
}

impl NetworkGrants {
    /// Whether nothing was granted.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty()
    }

    pub(super) fn allow(&mut self, spec: &str) -> anyhow::Result<()> {
        self.allow.push(Rule::allow(spec, "--allow-net")?);
        Ok(())
    }

    pub(super) fn deny(&mut self, spec: &str) -> anyhow::Result<()> {
        self.deny.push(Rule::deny(spec, "--deny-net")?);
        Ok(())
    }
}

/// A request as far as rules look at it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub scheme: Scheme,
    pub host: &'a HostName,
    pub port: u16,
    pub method: &'a str,
    /// Without the query; begins with `/`.
    pub path: &'a str,
}

/// Why a request is not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAllowed {
    /// `not_granted`, `denied_by_rule` or `special_address`.
    pub code: &'static str,
    /// The rule, as it was written, or what the address is for.
    pub rule: String,
}

/// The network of one call: every request that may leave it. Empty unless something was declared and granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    allow: Vec<Rule>,
    deny: Vec<Rule>,
}

impl Network {
    /// What `profile` declares and `grants` allows. `named` are the origins that the call's own arguments name: a scope
    /// with the word `argument` reaches these and no others. Unless the profile says `remote_mutation`, only methods
    /// that change nothing remain. A scope that cannot be understood declares nothing.
    pub fn effective(profile: &PermissionProfile, grants: &NetworkGrants, named: &[Origin]) -> Self {
        if !profile.wants(&AccessKind::Network) || grants.allow.is_empty() {
            return Self::default();
        }
        let Ok(Scope { mut patterns, argument }) = Scope::of(profile) else { return Self::default() };
        if argument {
            patterns.extend(named.iter().map(Rule::origin));
        }
        let mutating = profile.write_effects.contains(&WriteEffect::RemoteMutation);
        let mut allow: Vec<Rule> = Vec::new();
        for grant in &grants.allow {
            let met = patterns.iter().filter_map(|pattern| grant.meet(pattern));
            let met = met.filter_map(|rule| if mutating { Some(rule) } else { rule.safe() });
            for rule in met {
                if !allow.contains(&rule) {
                    allow.push(rule);
                }
            }
        }
        let deny = if allow.is_empty() { Vec::new() } else { grants.deny.clone() };
        Self { allow, deny }
    }

    /// Whether no request at all can leave.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty()
    }

    /// What may be sent. Each rule prints in a canonical form.
    pub fn allowed(&self) -> &[Rule] {
        &self.allow
    }

    /// What may not, whatever is allowed.
    pub fn denied(&self) -> &[Rule] {
        &self.deny
    }

    /// The grants behind it, as they were written.
    pub(super) fn rules(&self) -> impl Iterator<Item = &str> {
        self.allow.iter().map(|rule| rule.words.as_str())
    }

    /// Decides on `request` before anything is looked up or sent.
    pub fn check(&self, request: &Request<'_>) -> Result<(), NotAllowed> {
        if let Some(rule) = self.deny.iter().find(|rule| rule.touches(request, request.host)) {
            return Err(NotAllowed { code: "denied_by_rule", rule: rule.words.clone() });
        }
        if !self.allow.iter().any(|rule| rule.covers(request, request.host)) {
            return Err(NotAllowed { code: "not_granted", rule: "no grant covers it".to_owned() });
        }
        match request.host {
            HostName::Address(address) => self.check_address(request, *address),
            HostName::Name(_) => Ok(()),
        }
    }

    /// Decides on one address that the host of an allowed `request` has. An address of a special-purpose registry must
    /// have been granted as an address itself, or be this machine's own where `localhost` was granted.
    pub fn check_address(&self, request: &Request<'_>, address: IpAddr) -> Result<(), NotAllowed> {
        let host = HostName::Address(address);
        if let Some(rule) = self.deny.iter().find(|rule| rule.touches(request, &host)) {
            return Err(NotAllowed { code: "denied_by_rule", rule: rule.words.clone() });
        }
        let Some(purpose) = special(address) else { return Ok(()) };
        let named = |host: &HostName| self.allow.iter().any(|rule| rule.named && rule.covers(request, host));
        let local = matches!(request.host, HostName::Name(name) if name == LOCALHOST) && address.is_loopback();
        if named(&host) || local && named(request.host) {
            return Ok(());
        }
        Err(NotAllowed { code: "special_address", rule: format!("{purpose} address") })
    }
}

/// A profile's `network_scope` (AT-PERM-06): patterns with commas between them, or the words `none`, `any` and
/// `argument`. Absent, it declares nothing.
struct Scope {
    patterns: Vec<Rule>,
    /// The origins that a call's arguments name.
    argument: bool,
}

impl Scope {
    fn of(profile: &PermissionProfile) -> anyhow::Result<Self> {
        let text = profile.network_scope.as_deref().unwrap_or("none");
        if text.len() > SCOPE_BYTES_MAX {
            bail!("network_scope is longer than {SCOPE_BYTES_MAX} bytes");
        }
        let mut scope = Self { patterns: Vec::new(), argument: false };
        for (index, word) in text.split(',').map(str::trim).enumerate() {
            if index == SCOPE_PATTERNS_MAX {
                bail!("network_scope has more than {SCOPE_PATTERNS_MAX} patterns");
            }
            match word {
                "none" => {}
                "any" => scope.patterns.push(Rule::any()),
                "argument" => scope.argument = true,
                pattern => scope.patterns.push(Rule::declared(pattern).context("the tool's profile")?),
            }
        }
        Ok(scope)
    }
}

/// The origins that a call names in its argument `url`, a URL or a list of them; looked for only where the profile's
/// scope has the word `argument`.
pub(super) fn named_by(profile: &PermissionProfile, input: &Input) -> Vec<Origin> {
    let wanted = profile.wants(&AccessKind::Network) && Scope::of(profile).is_ok_and(|scope| scope.argument);
    let value = if wanted { input.value().ok().and_then(|value| value.get("url")) } else { None };
    let urls = match value {
        Some(Value::Array(urls)) => urls.as_slice(),
        Some(url) => std::slice::from_ref(url),
        None => &[],
    };
    urls.iter().take(SCOPE_PATTERNS_MAX).filter_map(|url| Origin::of_url(url.as_str()?)).collect()
}

/// Where a tool wants to go, in words that can be granted. Fails for a scope that asks for more than requests.
pub(super) fn wishes(profile: &PermissionProfile, named: &[Origin]) -> anyhow::Result<String> {
    let scope = Scope::of(profile)?;
    let patterns = scope.patterns.iter().map(ToString::to_string);
    let mut wishes: Vec<String> = patterns.collect();
    if scope.argument {
        wishes.extend(named.iter().map(ToString::to_string));
    }
    wishes.dedup();
    Ok(wishes.join(", "))
}

#[cfg(test)]
mod tests;
