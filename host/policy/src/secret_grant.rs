use anyhow::{Context, ensure};

use crate::secret::SecretStore;
use toolcell_spec::{CredentialUse, PermissionProfile, RuleSource};

use super::Grants;
use super::network::{self, HostName, Origin, Scheme};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretGrant {
    pub name: String,
    pub origin: Origin,
    /// As written, for the record: `--allow-secret=API_KEY@https://api.example.com`.
    pub rule: String,
    pub source: RuleSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlacement {
    Header { name: String, prefix: String },
    Query { key: String },
}

/// A secret for one origin, without its value: only the sandbox's egress has that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretUse {
    pub name: String,
    pub origin: Origin,
    pub placement: SecretPlacement,
}

impl SecretUse {
    pub fn grant(&self) -> String {
        format!("{}@{}", self.name, self.origin)
    }
}

/// Only `https://HOST[:PORT]`, or `http://` for `localhost` and loopback addresses.
fn origin(text: &str) -> anyhow::Result<Origin> {
    let origin = Origin::parse(text)
        .with_context(|| format!("{text:?} is not an origin, https://HOST[:PORT]"))?;
    let loopback = match &origin.host {
        HostName::Name(name) => name == network::LOCALHOST,
        HostName::Address(address) => address.is_loopback(),
    };
    ensure!(
        origin.scheme == Scheme::Https || loopback,
        "a secret goes over plain http to a loopback address only; use https://"
    );
    Ok(origin)
}

impl SecretGrant {
    /// Parses `NAME@ORIGIN`; `rule` is the grant as written.
    pub(super) fn parse(spec: &str, rule: &str, source: RuleSource) -> anyhow::Result<Self> {
        let parts = spec.split_once('@').filter(|(name, _)| !name.is_empty());
        let (name, origin) = parts.context("give a name and an origin, NAME@https://HOST")?;
        // A grant is written into records and into bundles. The store has no secret of another name.
        ensure!(
            SecretStore::check_name(name).is_ok(),
            "give the name of a secret without its value, NAME@https://HOST: letters, digits, `_`, `-` and `.`"
        );
        Ok(Self {
            name: name.to_owned(),
            origin: self::origin(origin)?,
            rule: rule.to_owned(),
            source,
        })
    }
}

/// Declared references with each granted origin, in the order of the profile. Without a placement, `Authorization:
/// Bearer` carries them.
pub(super) fn uses(profile: &PermissionProfile, grants: &Grants) -> Vec<SecretUse> {
    let mut uses = Vec::new();
    for name in &profile.credential_refs {
        for grant in grants.secrets.iter().filter(|grant| grant.name == *name) {
            for placement in placements(profile, name) {
                let one = SecretUse {
                    name: name.clone(),
                    origin: grant.origin.clone(),
                    placement,
                };
                if !uses.contains(&one) {
                    uses.push(one);
                }
            }
        }
    }
    uses
}

fn placements(profile: &PermissionProfile, name: &str) -> Vec<SecretPlacement> {
    let named: Vec<SecretPlacement> = profile
        .credential_uses
        .iter()
        .filter(|named| named.credential_ref == name)
        .map(SecretPlacement::from)
        .collect();
    if named.is_empty() {
        vec![SecretPlacement::from(&CredentialUse::bearer(name))]
    } else {
        named
    }
}

impl From<&CredentialUse> for SecretPlacement {
    fn from(named: &CredentialUse) -> Self {
        match &named.query {
            Some(key) => Self::Query { key: key.clone() },
            None => Self::Header {
                name: named.header_name().to_ascii_lowercase(),
                prefix: named.header_prefix().to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::origin;

    #[test]
    fn an_origin_is_a_scheme_a_host_and_a_port_and_nothing_else() {
        for (text, shown) in [
            ("https://api.example.com", "https://api.example.com"),
            ("https://API.example.com:443/", "https://api.example.com"),
            ("https://example.com:8443", "https://example.com:8443"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://localhost", "http://localhost"),
            ("http://[::1]:81", "http://[::1]:81"),
            ("https://[2001:DB8::1]", "https://[2001:db8::1]"),
        ] {
            assert_eq!(origin(text).unwrap().to_string(), shown, "{text}");
        }
        for text in [
            "api.example.com",
            "ftp://example.com",
            "https://",
            "https://example.com/path",
            "https://example.com?query",
            "https://user@example.com",
            "https://example.com:0",
            "https://example.com:99999",
            "https://example.com:+80",
            "https://*.example.com",
            "https://exam ple.com",
            "https://example..com",
            "https://ex\u{e4}mple.com",
            "https://[::1",
            "http://example.com",
            "http://10.0.0.1",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
            "http://2130706433",
        ] {
            assert!(origin(text).is_err(), "{text}");
        }
    }
}
