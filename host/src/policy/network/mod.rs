//! Which requests a tool may send: what its profile declares, what was granted, and what this one call names.

mod address;
mod origin;
mod rule;

use std::collections::HashSet;
use std::net::IpAddr;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use url::Url;

use crate::record::{AccessKind, PermissionProfile, RuleSource, WriteEffect};

use super::UrlPattern;

pub use address::{reached, special};
pub use origin::{HostName, Origin, Scheme};
pub use rule::Rule;
pub(super) use rule::is_plain;

/// The one name that means addresses of this machine. It is never looked up (RFC 6761).
pub const LOCALHOST: &str = "localhost";

/// Methods that a tool may use where a grant names none.
const COMMON_METHODS: [&str; 7] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];

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

    /// The grants as they were written.
    pub(super) fn granted(&self) -> impl Iterator<Item = (&str, RuleSource)> {
        self.allow.iter().map(|rule| (rule.words.as_str(), rule.source))
    }

    /// Where the denial with these words comes from.
    pub(super) fn source_of_denial(&self, words: &str) -> Option<RuleSource> {
        self.deny.iter().find(|rule| rule.words == words).map(|rule| rule.source)
    }

    pub(super) fn allow(&mut self, spec: &str, words: &str, source: RuleSource) -> anyhow::Result<()> {
        self.allow.push(Rule::allow(spec, words, source)?);
        Ok(())
    }

    pub(super) fn deny(&mut self, spec: &str, words: &str, source: RuleSource) -> anyhow::Result<()> {
        self.deny.push(Rule::deny(spec, words, source)?);
        Ok(())
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.allow.extend(other.allow.iter().cloned());
        self.deny.extend(other.deny.iter().cloned());
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
    /// What rules close; see `[[rule]]`.
    closed: Vec<UrlPattern>,
}

impl Network {
    /// What `profile` declares and `grants` allows. `named` are the origins that the call's own arguments name: the word
    /// `argument` of a scope means them, and patterns reach no others where there are any. Unless the profile says
    /// `remote_mutation`, only methods that change nothing remain. A scope that cannot be understood declares nothing.
    /// `closed` stays closed.
    pub fn effective(
        profile: &PermissionProfile,
        grants: &NetworkGrants,
        named: &[Origin],
        closed: &[UrlPattern],
    ) -> Self {
        if !profile.wants(&AccessKind::Network) && guard!("network_declared") || grants.allow.is_empty() {
            return Self::default();
        }
        let Ok(scope) = Scope::of(profile) else { return Self::default() };
        let wanted = scope.narrowed(named);
        let mutating = profile.has_effect(&WriteEffect::RemoteMutation) || !guard!("safe_methods");
        let mut allow: Vec<Rule> = Vec::new();
        // A thousand origins meet 64 patterns: a list would be searched once for each of them.
        let mut known = HashSet::new();
        for grant in &grants.allow {
            let met = wanted.iter().filter_map(|pattern| grant.meet(pattern));
            let met = met.filter_map(|rule| if mutating { Some(rule) } else { rule.safe() });
            allow.extend(met.filter(|rule| known.insert(rule.clone())));
        }
        if allow.is_empty() {
            return Self::default();
        }
        Self { allow, deny: grants.deny.clone(), closed: closed.to_vec() }
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

    /// A form that is the same for the same network, whatever order it was granted in.
    pub(super) fn canonical(&self) -> Value {
        // Without `..`: a field that is added has to be bound, too.
        let Self { allow, deny, closed } = self;
        let sorted = |mut words: Vec<String>| {
            words.sort_unstable();
            words.dedup();
            words
        };
        json!({
            "allow": sorted(allow.iter().map(|rule| format!("{rule}{}", if rule.named { " named" } else { "" })).collect()),
            "deny": sorted(deny.iter().map(Rule::to_string).collect()),
            "closed": sorted(closed.iter().map(|pattern| pattern.text().to_owned()).collect()),
        })
    }

    /// The grants behind it, as they were written.
    pub(super) fn rules(&self) -> impl Iterator<Item = (&str, RuleSource)> {
        self.allow.iter().map(|rule| (rule.words.as_str(), rule.source))
    }

    /// Whether some request to `origin` is allowed.
    pub(super) fn may_reach(&self, origin: &Origin) -> bool {
        let origin = Rule::origin(origin);
        self.allow.iter().any(|rule| rule.meet(&origin).is_some())
    }

    /// Why no request at all for `path` of `origin` may be sent, whatever its method; nothing where one may. The addresses
    /// that a name has are not known here.
    pub(super) fn refuses(&self, origin: &Origin, path: &str) -> Option<NotAllowed> {
        let listed = self.allow.iter().filter_map(Rule::methods).flatten().map(String::as_str);
        let mut refused = None;
        // Each method once: with many rules, most of them list the same ones.
        let mut tried: Vec<&str> = Vec::new();
        for method in listed.chain(COMMON_METHODS) {
            if tried.contains(&method) {
                continue;
            }
            tried.push(method);
            let Origin { scheme, host, port } = origin;
            match self.check(&Request { scheme: *scheme, host, port: *port, method, path }) {
                Ok(()) => return None,
                // The first one is the plainest: a later one may be refused for its method alone.
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
        refused
    }

    /// Decides on `request` before anything is looked up or sent.
    pub fn check(&self, request: &Request<'_>) -> Result<(), NotAllowed> {
        self.check_denials(request, request.host)?;
        if guard!("network_grants") && !self.allow.iter().any(|rule| rule.covers(request, request.host)) {
            return Err(NotAllowed {
                code: "not_granted",
                rule: "this call was given nothing that covers it".to_owned(),
            });
        }
        match request.host {
            HostName::Address(address) => self.check_address(request, *address, false),
            HostName::Name(_) => Ok(()),
        }
    }

    /// Decides on one address that the host of an allowed `request` has. An address of a special-purpose registry, and any
    /// other one that leads back to this machine (`here`), must have been granted as an address itself, or be a loopback
    /// address where `localhost` was granted.
    pub fn check_address(&self, request: &Request<'_>, address: IpAddr, here: bool) -> Result<(), NotAllowed> {
        let host = HostName::Address(address);
        self.check_denials(request, &host)?;
        let purpose = match special(address) {
            Some(purpose) => guard!("special_addresses").then_some(purpose),
            None => (here && guard!("machine_addresses")).then_some("this machine's own"),
        };
        let Some(purpose) = purpose else { return Ok(()) };
        let named = |host: &HostName| self.allow.iter().any(|rule| rule.named && rule.covers(request, host));
        let local = matches!(request.host, HostName::Name(name) if name == LOCALHOST) && address.is_loopback();
        if named(&host) || local && named(request.host) {
            return Ok(());
        }
        Err(NotAllowed { code: "special_address", rule: format!("{purpose} address") })
    }

    /// Whether something denies `request`, going to `host`.
    fn check_denials(&self, request: &Request<'_>, host: &HostName) -> Result<(), NotAllowed> {
        let denied = |rule: &str| Err(NotAllowed { code: "denied_by_rule", rule: rule.to_owned() });
        if let Some(rule) = self.deny.iter().find(|rule| guard!("network_denials") && rule.touches(request, host)) {
            return denied(&rule.words);
        }
        if self.closed.is_empty() {
            return Ok(());
        }
        let url = format!("{}://{host}:{}{}", request.scheme.as_str(), request.port, request.path);
        // What is no URL cannot be compared, and so is not sent.
        let Ok(url) = Url::parse(&url) else { return denied("a rule about URLs") };
        // Of the path as it would be sent: a URL has its dots resolved.
        let plain = is_plain(request.path);
        match self.closed.iter().find(|pattern| pattern.touches(&url, plain)) {
            Some(pattern) => denied(&format!("a rule closes {}", pattern.text())),
            None => Ok(()),
        }
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

    /// What a call with `named` in its arguments may want.
    fn narrowed(self, named: &[Origin]) -> Vec<Rule> {
        let origins = named.iter().map(Rule::origin);
        if self.argument {
            self.patterns.into_iter().chain(origins).collect()
        } else if named.is_empty() {
            self.patterns
        } else {
            origins.flat_map(|origin| self.patterns.iter().filter_map(move |pattern| origin.meet(pattern))).collect()
        }
    }
}

/// Where a tool wants to go, in words that can be granted. Fails for a scope that asks for more than requests.
pub(super) fn wishes(profile: &PermissionProfile, named: &[Origin]) -> anyhow::Result<String> {
    let scope = Scope::of(profile)?;
    if !named.is_empty() {
        return Ok(named.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    }
    Ok(scope.patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
