//! Requests that a tool may send: declared, granted, and named in this one call.

mod address;
mod authority;
mod origin;
mod rule;

use std::collections::HashSet;
use std::net::IpAddr;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use url::Url;

use toolcell_spec::{AccessKind, ErrorCode, PermissionProfile, RuleSource, WriteEffect};

use super::UrlPattern;
use super::narrowed::granted;

pub use address::{reached, special};
pub use authority::{Authority, OriginError};
pub(super) use authority::{SplitUrl, host_and_port, port_pattern};
pub use origin::{HostName, Origin, Scheme};
pub use rule::NetworkRule;
pub(super) use rule::{HostPattern, is_plain};

/// Addresses of this machine; never looked up (RFC 6761).
pub const LOCALHOST: &str = "localhost";

/// Suggests no option, because a model that reads the refusal may try to get what it suggests.
pub const METADATA_HINT: &str = "a cloud serves metadata there, and gives the credentials of this machine to a tool that \
                                 can reach it; only a grant that names the address itself allows that";

/// Methods appear in records.
pub const METHOD_CHARS_MAX: usize = 20;

/// Tried by [`Network::refuses`] beside listed methods.
const COMMON_METHODS: [&str; 7] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];

/// Limits the tool's own text.
const SCOPE_BYTES_MAX: usize = 4 << 10;
const SCOPE_PATTERNS_MAX: usize = 64;

/// Includes denials.
#[derive(Clone, Debug, Default)]
pub struct NetworkGrants {
    pub(super) allow: Vec<NetworkRule>,
    pub(super) deny: Vec<NetworkRule>,
}

impl NetworkGrants {
    /// What `wanted` names of these; the denials of both. Fails if these have nothing of one.
    pub(super) fn narrowed(&self, wanted: &Self) -> anyhow::Result<Self> {
        let mut allow = Vec::new();
        for rule in &wanted.allow {
            let before = allow.len();
            allow.extend(self.allow.iter().filter_map(|own| {
                let mut both = rule.meet(own)?;
                both.named &= own.named;
                Some(both)
            }));
            granted(allow.len() > before, &rule.words)?;
        }
        let deny = self.deny.iter().chain(&wanted.deny).cloned().collect();
        Ok(Self { allow, deny })
    }

    pub fn is_empty(&self) -> bool {
        self.allow.is_empty()
    }

    /// `true` if the scope covers each origin, and no denial closes it.
    pub(super) fn can_grant(&self, profile: &PermissionProfile, origins: &[Origin]) -> bool {
        let Ok(scope) = NetworkScope::from_profile(profile) else {
            return false;
        };
        let is_declared = |origin: &Origin| {
            let rule = NetworkRule::origin(origin);
            scope.argument
                || scope
                    .patterns
                    .iter()
                    .any(|pattern| rule.meet(pattern).is_some())
        };
        let is_denied = |origin: &Origin| {
            let request = NetworkRequest {
                origin,
                method: "GET",
                path: "/",
            };
            let mut denials = self.deny.iter();
            denials.any(|rule| rule.touches(&request, &origin.host))
        };
        origins
            .iter()
            .all(|origin| is_declared(origin) && !is_denied(origin))
    }

    pub fn targets(&self) -> impl Iterator<Item = String> {
        self.allow.iter().map(ToString::to_string)
    }

    pub(super) fn granted(&self) -> impl Iterator<Item = (&str, RuleSource)> {
        self.allow
            .iter()
            .map(|rule| (rule.words.as_str(), rule.source))
    }

    pub(super) fn source_of_denial(&self, words: &str) -> Option<RuleSource> {
        self.deny
            .iter()
            .find(|rule| rule.words == words)
            .map(|rule| rule.source)
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.allow.extend(other.allow.iter().cloned());
        self.deny.extend(other.deny.iter().cloned());
    }
}

#[derive(Clone, Copy, Debug)]
pub struct NetworkRequest<'a> {
    pub origin: &'a Origin,
    pub method: &'a str,
    /// Without the query; begins with `/`.
    pub path: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAllowed {
    /// `not_granted`, `denied_by_rule` or `special_address`.
    pub code: ErrorCode,
    pub rule: String,
}

/// Sendable requests of one call: none unless declared and granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    allow: Vec<NetworkRule>,
    deny: Vec<NetworkRule>,
    /// URLs that a `[[rule]]` closes.
    closed: Vec<UrlPattern>,
}

impl Network {
    /// Intersects `profile` and `grants`. A scope with the word `argument` adds `named`, the origins in the arguments;
    /// any other is narrowed to them, if any. Without `remote_mutation`, only methods that change nothing remain. A
    /// scope that cannot be parsed declares nothing.
    pub fn effective(
        profile: &PermissionProfile,
        grants: &NetworkGrants,
        named: &[Origin],
        closed: &[UrlPattern],
    ) -> Self {
        if !profile.wants(&AccessKind::Network) && guard!("network_declared")
            || grants.allow.is_empty()
        {
            return Self::default();
        }
        let Ok(scope) = NetworkScope::from_profile(profile) else {
            return Self::default();
        };
        let wanted = scope.narrowed(named);
        let mutating = profile.has_effect(&WriteEffect::RemoteMutation) || !guard!("safe_methods");
        let mut allow: Vec<NetworkRule> = Vec::new();
        // A thousand origins meet 64 patterns, and a list would be searched once for each pair.
        let mut known = HashSet::new();
        for grant in &grants.allow {
            let met = wanted.iter().filter_map(|pattern| grant.meet(pattern));
            let met = met.filter_map(|rule| if mutating { Some(rule) } else { rule.safe() });
            allow.extend(met.filter(|rule| known.insert(rule.clone())));
        }
        if allow.is_empty() {
            return Self::default();
        }
        Self {
            allow,
            deny: grants.deny.clone(),
            closed: closed.to_vec(),
        }
    }

    /// A special-purpose address has to be named in both.
    pub(super) fn limit(&mut self, most: &Self) {
        let mut known = HashSet::new();
        let met = self.allow.iter().flat_map(|own| {
            most.allow.iter().filter_map(move |other| {
                let mut both = own.meet(other)?;
                both.named &= other.named;
                Some(both)
            })
        });
        let allow: Vec<NetworkRule> = met.filter(|rule| known.insert(rule.clone())).collect();
        if allow.is_empty() {
            *self = Self::default();
            return;
        }
        self.allow = allow;
        self.deny.extend(most.deny.iter().cloned());
        self.closed.extend(most.closed.iter().cloned());
    }

    pub fn is_empty(&self) -> bool {
        self.allow.is_empty()
    }

    /// Each rule prints in a canonical form.
    pub fn allowed(&self) -> &[NetworkRule] {
        &self.allow
    }

    /// The requests that may be sent, in words.
    pub fn targets(&self) -> Vec<String> {
        listed(&self.allow)
    }

    pub fn denied(&self) -> &[NetworkRule] {
        &self.deny
    }

    pub(super) fn canonical(&self) -> Value {
        // No `..` in this pattern, so that a new field must be bound too.
        let Self {
            allow,
            deny,
            closed,
        } = self;
        let sorted = |mut words: Vec<String>| {
            words.sort_unstable();
            words.dedup();
            words
        };
        json!({
            "allow": sorted(allow.iter().map(|rule| format!("{rule}{}", if rule.named { " named" } else { "" })).collect()),
            "deny": sorted(deny.iter().map(NetworkRule::to_string).collect()),
            "closed": sorted(closed.iter().map(|pattern| pattern.text().to_owned()).collect()),
        })
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = (&str, RuleSource)> {
        self.allow
            .iter()
            .map(|rule| (rule.words.as_str(), rule.source))
    }

    pub(super) fn may_reach(&self, origin: &Origin) -> bool {
        let origin = NetworkRule::origin(origin);
        self.allow.iter().any(|rule| rule.meet(&origin).is_some())
    }

    /// `None` if some method may be sent. The name's addresses are not known here.
    pub(super) fn refuses(&self, origin: &Origin, path: &str) -> Option<NotAllowed> {
        let listed = self
            .allow
            .iter()
            .filter_map(NetworkRule::methods)
            .flatten()
            .map(String::as_str);
        let mut refused = None;
        // Tries each method once, because many rules list the same ones.
        let mut tried: Vec<&str> = Vec::new();
        for method in listed.chain(COMMON_METHODS) {
            if tried.contains(&method) {
                continue;
            }
            tried.push(method);
            let request = NetworkRequest {
                origin,
                method,
                path,
            };
            match self.check(&request) {
                Ok(()) => return None,
                // The first reason is the clearest: a later request may be refused for its method alone.
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
        refused
    }

    /// Decides before anything is looked up or sent.
    pub fn check(&self, request: &NetworkRequest<'_>) -> Result<(), NotAllowed> {
        let host = &request.origin.host;
        self.check_denials(request, host)?;
        if guard!("network_grants") && !self.allow.iter().any(|rule| rule.covers(request, host)) {
            return Err(NotAllowed {
                code: ErrorCode::NotGranted,
                rule: "this call was given nothing that covers it".to_owned(),
            });
        }
        match host {
            HostName::Address(address) => self.check_address(request, *address, false),
            HostName::Name(_) => Ok(()),
        }
    }

    /// Decides on one address of an allowed request's host. A special-purpose address, and any that leads back to this
    /// machine (`here`), must be granted as an address, or be a loopback address of a granted `localhost`.
    pub fn check_address(
        &self,
        request: &NetworkRequest<'_>,
        address: IpAddr,
        here: bool,
    ) -> Result<(), NotAllowed> {
        let host = HostName::Address(address);
        self.check_denials(request, &host)?;
        let purpose = match special(address) {
            Some(purpose) => guard!("special_addresses").then_some(purpose),
            None => (here && guard!("machine_addresses")).then_some("this machine's own"),
        };
        let Some(purpose) = purpose else {
            return Ok(());
        };
        let named = |host: &HostName| {
            self.allow
                .iter()
                .any(|rule| rule.named && rule.covers(request, host))
        };
        let asked = &request.origin.host;
        let local =
            matches!(asked, HostName::Name(name) if name == LOCALHOST) && address.is_loopback();
        if named(&host) || local && named(asked) {
            return Ok(());
        }
        Err(NotAllowed {
            code: ErrorCode::SpecialAddress,
            rule: format!("{purpose} address"),
        })
    }

    fn check_denials(
        &self,
        request: &NetworkRequest<'_>,
        host: &HostName,
    ) -> Result<(), NotAllowed> {
        let denied = |rule: &str| {
            Err(NotAllowed {
                code: ErrorCode::DeniedByRule,
                rule: rule.to_owned(),
            })
        };
        if let Some(rule) = self
            .deny
            .iter()
            .find(|rule| guard!("network_denials") && rule.touches(request, host))
        {
            return denied(&rule.words);
        }
        if self.closed.is_empty() {
            return Ok(());
        }
        let Origin { scheme, port, .. } = request.origin;
        let url = format!("{}://{host}:{port}{}", scheme.as_str(), request.path);
        // A request that does not parse as a URL cannot be compared, so it is not sent.
        let Ok(url) = Url::parse(&url) else {
            return denied("a rule about URLs");
        };
        // Checks the path as it would be sent, because parsing the URL resolved its dot segments.
        let plain = is_plain(request.path);
        match self
            .closed
            .iter()
            .find(|pattern| pattern.touches(&url, plain))
        {
            Some(pattern) => denied(&format!("a rule closes {}", pattern.text())),
            None => Ok(()),
        }
    }
}

/// A `network_scope` (AT-PERM-06): patterns and `none`, `any` and `argument`, separated by commas. Absent, it declares
/// nothing.
struct NetworkScope {
    patterns: Vec<NetworkRule>,
    argument: bool,
}

impl NetworkScope {
    fn from_profile(profile: &PermissionProfile) -> anyhow::Result<Self> {
        let text = profile.network_scope.as_deref().unwrap_or("none");
        if text.len() > SCOPE_BYTES_MAX {
            bail!("network_scope is longer than {SCOPE_BYTES_MAX} bytes");
        }
        let mut scope = Self {
            patterns: Vec::new(),
            argument: false,
        };
        for (index, word) in text.split(',').map(str::trim).enumerate() {
            if index == SCOPE_PATTERNS_MAX {
                bail!("network_scope has more than {SCOPE_PATTERNS_MAX} patterns");
            }
            match word {
                "none" => {}
                "any" => scope.patterns.push(NetworkRule::any()),
                "argument" => scope.argument = true,
                pattern => scope
                    .patterns
                    .push(NetworkRule::declared(pattern).context("the tool's profile")?),
            }
        }
        Ok(scope)
    }

    fn narrowed(self, named: &[Origin]) -> Vec<NetworkRule> {
        let origins = named.iter().map(NetworkRule::origin);
        if self.argument {
            self.patterns.into_iter().chain(origins).collect()
        } else if named.is_empty() {
            self.patterns
        } else {
            origins
                .flat_map(|origin| {
                    self.patterns
                        .iter()
                        .filter_map(move |pattern| origin.meet(pattern))
                })
                .collect()
        }
    }
}

/// Wanted origins, as grants. Fails where [`NetworkScope::from_profile`] does.
pub(super) fn wishes(profile: &PermissionProfile, named: &[Origin]) -> anyhow::Result<String> {
    let scope = NetworkScope::from_profile(profile)?;
    if !named.is_empty() {
        return Ok(listed(named).join(", "));
    }
    Ok(listed(&scope.patterns).join(", "))
}

pub(super) fn wished(profile: &PermissionProfile) -> Vec<String> {
    NetworkScope::from_profile(profile)
        .map(|scope| listed(&scope.patterns))
        .unwrap_or_default()
}

fn listed<T: ToString>(targets: &[T]) -> Vec<String> {
    targets.iter().map(T::to_string).collect()
}

pub(super) fn wishes_metadata(profile: &PermissionProfile, named: &[Origin]) -> bool {
    match named {
        [] => NetworkScope::from_profile(profile)
            .is_ok_and(|scope| scope.patterns.iter().any(NetworkRule::is_metadata)),
        named => named.iter().any(|origin| origin.host.is_metadata()),
    }
}

#[cfg(test)]
mod tests;
