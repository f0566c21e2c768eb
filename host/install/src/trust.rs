//! Whom the user trusts to sign what: the `[[trust]]` entries of `toolcell.toml`.

use std::path::{Path, PathBuf};

use crate::reference::Reference;
use crate::signature::{ManagedKey, MinisignKey};
use crate::verifier::Signer;

/// Maximum number of entries of one file.
pub const ENTRIES_MAX: usize = 256;

/// A pattern: `*` stands for any text, of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// A pattern of any text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether it says nothing: it is empty, or matches every text.
    pub fn is_blank(&self) -> bool {
        self.0.trim_matches('*').trim().is_empty()
    }

    /// Whether `text` matches. Takes time in proportion to the product of both lengths.
    pub fn matches(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

/// Who may sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedSigner {
    /// A sigstore identity.
    Identity {
        /// Pattern of the e-mail address or the URL of a workflow.
        identity: Pattern,
        /// URL of who vouches for the identity.
        issuer: String,
    },
    /// A managed public key.
    Key(ManagedKey),
    /// A minisign key.
    Minisign(MinisignKey),
}

impl TrustedSigner {
    fn is(&self, signer: &Signer) -> bool {
        match (self, signer) {
            (Self::Identity { identity, issuer }, Signer::Identity { identity: other, issuer: by }) => {
                identity.matches(other) && issuer == by
            }
            (Self::Key(key), signer) => key.signer() == *signer,
            (Self::Minisign(key), signer) => key.signer() == *signer,
            _ => false,
        }
    }
}

/// One `[[trust]]` entry.
#[derive(Clone, Debug)]
pub struct TrustEntry {
    /// Which references: `host/repository`, a URL, or an absolute path.
    pub reference: Pattern,
    /// Who may sign them.
    pub signer: TrustedSigner,
    /// Where the entry is written, for messages.
    pub place: String,
}

impl TrustEntry {
    /// Whether it is about what is called `name`. Only a pattern that is a path is about files, which may be unsigned.
    fn covers(&self, name: &str) -> bool {
        self.reference.0.starts_with('/') == name.starts_with('/') && self.reference.matches(name)
    }
}

/// The entries of all files. Each file that names a reference has to be met, so that a project can only be stricter than
/// the user.
#[derive(Clone, Debug, Default)]
pub struct TrustPolicy {
    files: Vec<Vec<TrustEntry>>,
    trusted_root: Option<PathBuf>,
}

impl TrustPolicy {
    /// Adds the entries of one file.
    pub fn add(&mut self, entries: Vec<TrustEntry>) {
        self.files.push(entries);
    }

    /// Uses the sigstore trusted root in `file` in place of that of the public instance.
    pub fn use_root(&mut self, file: PathBuf) {
        self.trusted_root = Some(file);
    }

    /// The file of the trusted root of a private sigstore deployment.
    pub fn trusted_root(&self) -> Option<&Path> {
        self.trusted_root.as_deref()
    }

    /// All managed keys, of whatever reference.
    pub fn managed_keys(&self) -> impl Iterator<Item = &ManagedKey> {
        self.entries().filter_map(|entry| match &entry.signer {
            TrustedSigner::Key(key) => Some(key),
            _ => None,
        })
    }

    /// All minisign keys, of whatever reference.
    pub fn minisign_keys(&self) -> impl Iterator<Item = &MinisignKey> {
        self.entries().filter_map(|entry| match &entry.signer {
            TrustedSigner::Minisign(key) => Some(key),
            _ => None,
        })
    }

    /// Returns the place of an entry of a file that names `reference`, and none of `signers` for it; `None` if there is
    /// no such file.
    pub fn unmet(&self, reference: &Reference, signers: &[&Signer]) -> Option<&str> {
        let name = name(reference);
        self.files.iter().find_map(|file| {
            let mut of_reference = file.iter().filter(|entry| entry.covers(&name)).peekable();
            let first = of_reference.peek()?.place.as_str();
            let is_met = of_reference.any(|entry| signers.iter().any(|signer| entry.signer.is(signer)));
            (!is_met).then_some(first)
        })
    }

    /// Whether an entry names `signer` for `reference`.
    pub fn names(&self, reference: &Reference, signer: &Signer) -> bool {
        let name = name(reference);
        self.entries().any(|entry| entry.covers(&name) && entry.signer.is(signer))
    }

    fn entries(&self) -> impl Iterator<Item = &TrustEntry> {
        self.files.iter().flatten()
    }
}

/// What patterns are compared with: a version is no part of it, because a signer signs all of them.
fn name(reference: &Reference) -> String {
    match reference {
        Reference::Registry(registry) => registry.name(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::new(text)
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (words, text, expected) in [
            ("ghcr.io/acme/*", "ghcr.io/acme/tools/jq", true),
            ("ghcr.io/acme/*", "ghcr.io/acme", false),
            ("ghcr.io/acme/jq", "ghcr.io/acme/jq", true),
            ("ghcr.io/acme/jq", "ghcr.io/acme/jq2", false),
            ("*@example.org", "me@example.org", true),
            ("*@example.org", "me@example.org.evil.test", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(pattern(words).matches(text), expected, "{words} {text}");
        }
        assert!(["*", "", "**"].into_iter().all(|blank| pattern(blank).is_blank()));
        assert!(!pattern("*@example.org").is_blank());
    }

    fn entry(reference: &str, identity: &str) -> TrustEntry {
        let signer = TrustedSigner::Identity { identity: pattern(identity), issuer: "https://issuer.test".to_owned() };
        TrustEntry { reference: pattern(reference), signer, place: format!("{reference} {identity}") }
    }

    #[test]
    fn each_file_that_names_a_reference_has_to_be_met() {
        let mut policy = TrustPolicy::default();
        policy.add(vec![entry("ghcr.io/acme/*", "a@acme.test"), entry("ghcr.io/acme/*", "b@acme.test")]);
        policy.add(vec![entry("ghcr.io/acme/jq", "c@other.test")]);
        let of = |text: &str| Reference::parse(text, "/".as_ref()).unwrap();
        let by = |identity: &str, issuer: &str| Signer::Identity { identity: identity.into(), issuer: issuer.into() };
        let (a, b, c) = (
            by("a@acme.test", "https://issuer.test"),
            by("b@acme.test", "https://issuer.test"),
            by("c@other.test", "https://issuer.test"),
        );
        let elsewhere = by("a@acme.test", "https://evil.test");
        let yq = of("ghcr.io/acme/yq:1");
        assert_eq!(policy.unmet(&yq, &[&b]), None);
        assert!(policy.unmet(&yq, &[&c]).is_some() && policy.unmet(&yq, &[&elsewhere]).is_some());
        let jq = of("ghcr.io/acme/jq@sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(policy.unmet(&jq, &[&c]), Some("ghcr.io/acme/* a@acme.test"));
        assert_eq!(policy.unmet(&jq, &[&a]), Some("ghcr.io/acme/jq c@other.test"));
        assert_eq!(policy.unmet(&jq, &[&a, &c]), None);
        assert_eq!(policy.unmet(&of("ghcr.io/other/jq"), &[]), None);
        policy.add(vec![entry("*", "d@acme.test")]);
        assert!(policy.unmet(&of("ghcr.io/other/jq"), &[]).is_some());
        assert_eq!(policy.unmet(&of("/tools/jq.wasm"), &[]), None, "files may be unsigned");
        assert!(policy.names(&yq, &a) && !policy.names(&yq, &c) && !policy.names(&of("ghcr.io/other/jq"), &a));
    }
}
