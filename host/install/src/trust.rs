//! The signers that the user trusts: the `[[signer]]` entries of `toolcell.toml`.

use std::path::{Component, Path, PathBuf};

use url::Url;

use crate::reference::ComponentReference;
use crate::registry;
use crate::signature::{ManagedKey, MinisignKey};
use crate::verifier::Signer;
use crate::workflow::{TaggedWorkflow, is_ambiguous, is_at_tag};

pub const ENTRIES_MAX: usize = 256;

/// `*` stands for any text, of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustPattern(String);

impl TrustPattern {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A pattern without a letter and a digit matches every text, or every e-mail address.
    pub fn is_blank(&self) -> bool {
        !self.0.contains(char::is_alphanumeric)
    }

    /// Takes time in proportion to the product of both lengths.
    pub fn matches(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        for part in parts {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last)
    }

    /// No `*` matches a workflow's identity with several refs, and a pattern of tags matches no branch.
    fn identifies(&self, identity: &str) -> bool {
        let is_of_tags = self.0.contains("refs/tags/");
        let is_clear = !is_ambiguous(identity) && (!is_of_tags || is_at_tag(identity));
        self.0 == identity || (self.matches(identity) && (is_clear || !guard!("workflow_refs")))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedSigner {
    Identity {
        /// The e-mail address or the URL of a workflow.
        identity: TrustPattern,
        /// URL of who vouches for the identity.
        issuer: String,
    },
    Key(ManagedKey),
    Minisign(MinisignKey),
}

impl TrustedSigner {
    fn is(&self, signer: &Signer) -> bool {
        match (self, signer) {
            (
                Self::Identity { identity, issuer },
                Signer::Identity {
                    identity: other,
                    issuer: by,
                },
            ) => identity.identifies(other) && issuer == by,
            (Self::Key(key), signer) => key.signer() == *signer,
            (Self::Minisign(key), signer) => key.signer() == *signer,
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
pub struct TrustEntry {
    /// `host/repository`, a URL, or an absolute path.
    pub reference: TrustPattern,
    pub signer: TrustedSigner,
    pub place: String,
}

impl TrustEntry {
    /// Only a pattern that is a path covers files, which may be unsigned.
    fn covers(&self, names: &[String]) -> bool {
        let is_of_files = self.reference.0.starts_with('/');
        names
            .iter()
            .any(|name| is_of_files == name.starts_with('/') && self.reference.matches(name))
    }
}

/// Each file that names a reference has to be met, so that a project can only be stricter than the user.
#[derive(Clone, Debug, Default)]
pub struct TrustPolicy {
    files: Vec<Vec<TrustEntry>>,
    trusted_root: Option<PathBuf>,
}

impl TrustPolicy {
    pub fn add(&mut self, entries: Vec<TrustEntry>) {
        self.files.push(entries);
    }

    /// Replaces the public instance's.
    pub fn use_root(&mut self, file: PathBuf) {
        self.trusted_root = Some(file);
    }

    pub fn trusted_root(&self) -> Option<&Path> {
        self.trusted_root.as_deref()
    }

    pub fn managed_keys(&self) -> impl Iterator<Item = &ManagedKey> {
        self.entries().filter_map(|entry| match &entry.signer {
            TrustedSigner::Key(key) => Some(key),
            _ => None,
        })
    }

    pub fn minisign_keys(&self) -> impl Iterator<Item = &MinisignKey> {
        self.entries().filter_map(|entry| match &entry.signer {
            TrustedSigner::Minisign(key) => Some(key),
            _ => None,
        })
    }

    /// The place of an entry of a file that names `reference`, and none of `signers` for it; `None` if there is no such
    /// file.
    pub fn unmet(&self, reference: &ComponentReference, signers: &[&Signer]) -> Option<&str> {
        let names = names(reference);
        self.files.iter().find_map(|file| {
            let mut of_reference = file.iter().filter(|entry| entry.covers(&names)).peekable();
            let first = of_reference.peek()?.place.as_str();
            let is_met =
                of_reference.any(|entry| signers.iter().any(|signer| entry.signer.is(signer)));
            (!is_met).then_some(first)
        })
    }

    pub fn names(&self, reference: &ComponentReference, signer: &Signer) -> bool {
        let names = names(reference);
        self.entries()
            .any(|entry| entry.covers(&names) && entry.signer.is(signer))
    }

    pub fn names_both(&self, reference: &ComponentReference, one: &Signer, other: &Signer) -> bool {
        let names = names(reference);
        self.entries()
            .any(|entry| entry.covers(&names) && entry.signer.is(one) && entry.signer.is(other))
    }

    /// The identity at every tag, if an entry for `reference` names the same workflow at another tag.
    pub(crate) fn at_every_tag(
        &self,
        reference: &ComponentReference,
        signers: &[&Signer],
    ) -> Option<String> {
        let names = names(reference);
        self.entries()
            .filter(|entry| entry.covers(&names))
            .find_map(|entry| {
                let TrustedSigner::Identity { identity, issuer } = &entry.signer else {
                    return None;
                };
                let named = Signer::Identity {
                    identity: identity.0.clone(),
                    issuer: issuer.clone(),
                };
                let workflow = |signer: &&Signer| {
                    Some(TaggedWorkflow::of_both(&named, signer)?.at_every_tag())
                };
                signers.iter().find_map(workflow)
            })
    }

    fn entries(&self) -> impl Iterator<Item = &TrustEntry> {
        self.files.iter().flatten()
    }
}

/// No name has a version, because a signer signs all of them. Another spelling of a host or a path must not bypass an
/// entry. A file has its own path and its resolved path.
fn names(reference: &ComponentReference) -> Vec<String> {
    match reference {
        ComponentReference::Registry(registry) => {
            vec![plain_repository(&registry.host, &registry.repository)]
        }
        ComponentReference::Package(package) => vec![package.unversioned()],
        ComponentReference::Url(url) => spellings(url),
        ComponentReference::Path(path) => {
            let spelt = plain_path(path);
            let linked = path.canonicalize().ok().filter(|linked| *linked != spelt);
            [Some(spelt), linked]
                .into_iter()
                .flatten()
                .map(|path| path.to_string_lossy().into_owned())
                .collect()
        }
    }
}

/// Unchanged, without needless escapes, and without any.
fn spellings(url: &Url) -> Vec<String> {
    let written = url.to_string();
    let Some(origin) = written
        .strip_suffix(url.path())
        .filter(|_| guard!("url_spellings"))
    else {
        return vec![written];
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let plain = format!("{origin}{}", unescaped(url.path(), is_plain));
    let bare = format!("{origin}{}", unescaped(url.path(), |_| true));
    vec![written, plain, bare]
}

/// Replaces the escapes that `is_meant` accepts, and drops `.`, `..` and empty parts.
fn unescaped(path: &str, is_meant: impl Fn(u8) -> bool) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escape = escaped(rest).filter(|(byte, _)| is_meant(*byte));
        let (byte, after) = escape.unwrap_or((first, after));
        bytes.push(byte);
        rest = after;
    }
    let text = String::from_utf8_lossy(&bytes);
    let plain = plain_path(Path::new(&*text)).to_string_lossy().into_owned();
    if text.ends_with('/') && !plain.ends_with('/') {
        plain + "/"
    } else {
        plain
    }
}

fn escaped(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (&[percent, high, low], rest) = bytes.split_first_chunk::<3>()?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = u8::try_from(digit(high)? * 16 + digit(low)?).ok()?;
    (percent == b'%').then_some((byte, rest))
}

/// The one spelling in patterns: in lower case, without `default_port` and without the dot of the root.
pub fn plain_host(host: &str, default_port: &str) -> String {
    let host = host.to_ascii_lowercase();
    let host = host
        .strip_suffix(default_port)
        .and_then(|host| host.strip_suffix(':'))
        .unwrap_or(&host);
    match host.split_once(':') {
        // An address of IPv6 has colons of its own.
        Some((name, port)) if !host.starts_with('[') => {
            format!("{}:{port}", name.trim_end_matches('.'))
        }
        _ => host.trim_end_matches('.').to_owned(),
    }
}

/// The one spelling: docker's registry has several hosts, and short names.
pub fn plain_repository(host: &str, repository: &str) -> String {
    let host = plain_host(host, "443");
    match registry::is_docker_hub(&host) {
        true if repository.contains(['/', '*']) => format!("docker.io/{repository}"),
        true => format!("docker.io/library/{repository}"),
        false => format!("{host}/{repository}"),
    }
}

pub fn plain_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> TrustPattern {
        TrustPattern::new(text)
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
        assert!(
            ["*", "", "**", "*@*", "*.*", "* *"]
                .into_iter()
                .all(|blank| pattern(blank).is_blank())
        );
        assert!(!pattern("*@example.org").is_blank());
    }

    #[test]
    fn a_pattern_of_tags_matches_no_branch_and_no_star_an_identity_with_two_refs() {
        const WORKFLOW: &str = "https://github.com/acme/jq/.github/workflows/release.yml";
        let pinned = format!("{WORKFLOW}@refs/tags/*");
        for (words, end, expected) in [
            (&*pinned, "@refs/tags/v1", true),
            (&*pinned, "@refs/tags/tools/v1", true),
            (&*pinned, "@refs/tags/jq@1.0.0", true),
            (&*pinned, "@refs/heads/main", false),
            (&*pinned, "@refs/heads/x@refs/tags/v1", false),
            (&*pinned, "@refs/tags/x.yml@refs/heads/main", false),
            (&*pinned, "@refs/pull/7/merge", false),
            (&*pinned, "2@refs/tags/v1", false),
            (
                "https://github.com/acme/*@refs/tags/*",
                "@refs/tags/v1",
                true,
            ),
            (
                "https://github.com/acme/*@refs/tags/*",
                "@refs/heads/x@refs/tags/v1",
                false,
            ),
            (
                "https://github.com/acme/*refs/tags/*",
                "@refs/heads/x-refs/tags/v1",
                false,
            ),
            (
                "https://github.com/acme/*@refs/t*",
                "@refs/heads/x@refs/tags/v1",
                false,
            ),
            (
                "https://github.com/acme/*",
                "@refs/heads/x@refs/tags/v1",
                false,
            ),
            ("https://github.com/acme/*", "@refs/heads/main", true),
        ] {
            assert_eq!(
                pattern(words).identifies(&format!("{WORKFLOW}{end}")),
                expected,
                "{words} {end}"
            );
        }
        // A pattern without a star names what it spells.
        let exact = format!("{WORKFLOW}@refs/heads/x@refs/tags/v1");
        assert!(pattern(&exact).identifies(&exact));
    }

    #[test]
    fn an_entry_for_one_tag_names_no_other_and_says_how_to_name_all() {
        const WORKFLOW: &str = "https://github.com/acme/jq/.github/workflows/release.yml";
        let at = |end: &str| Signer::Identity {
            identity: format!("{WORKFLOW}@refs/{end}"),
            issuer: "https://issuer.test".to_owned(),
        };
        let one = at("tags/v1");
        let other = at("tags/v2");
        let branch = at("heads/main");
        let jq = ComponentReference::parse("ghcr.io/acme/jq:1", "/".as_ref()).unwrap();
        let with = |identities: &[&str]| {
            let mut policy = TrustPolicy::default();
            policy.add(
                identities
                    .iter()
                    .map(|end| entry("ghcr.io/acme/*", &format!("{WORKFLOW}@refs/{end}")))
                    .collect(),
            );
            policy
        };
        let exact = with(&["tags/v1"]);
        assert!(exact.unmet(&jq, &[&one]).is_none() && exact.unmet(&jq, &[&other]).is_some());
        assert_eq!(
            exact.at_every_tag(&jq, &[&branch, &other]),
            Some(format!("{WORKFLOW}@refs/tags/*"))
        );
        assert_eq!(exact.at_every_tag(&jq, &[&branch]), None);
        // Each is named, and none says that the next one is.
        let each = with(&["tags/v1", "tags/v2"]);
        assert!(
            each.names(&jq, &one) && each.names(&jq, &other) && !each.names_both(&jq, &one, &other)
        );
        let all = with(&["tags/*"]);
        assert!(all.names_both(&jq, &one, &other) && !all.names_both(&jq, &one, &branch));
        let elsewhere = ComponentReference::parse("ghcr.io/other/jq:1", "/".as_ref()).unwrap();
        assert!(!all.names_both(&elsewhere, &one, &other));
    }

    fn entry(reference: &str, identity: &str) -> TrustEntry {
        let signer = TrustedSigner::Identity {
            identity: pattern(identity),
            issuer: "https://issuer.test".to_owned(),
        };
        TrustEntry {
            reference: pattern(reference),
            signer,
            place: format!("{reference} {identity}"),
        }
    }

    #[test]
    fn no_spelling_of_a_reference_leads_around_its_entry() {
        let mut policy = TrustPolicy::default();
        policy.add(
            [
                "ghcr.io/acme/*",
                "docker.io/library/jq",
                "docker.io/acme/jq",
                "https://example.org/*",
                "https://example.net/acme/*",
                "https://example.net/a%20b/*",
                "/tools/*",
            ]
            .map(|reference| entry(reference, "a@acme.test"))
            .into(),
        );
        for (reference, is_named) in [
            ("ghcr.io/acme/jq:1", true),
            ("GHCR.io:443/acme/jq:1", true),
            ("ghcr.io:8443/acme/jq", false),
            ("docker.io/jq:1", true),
            ("index.docker.io/library/jq", true),
            ("registry-1.docker.io/acme/jq", true),
            ("docker.io/other/jq", false),
            ("https://EXAMPLE.org:443/jq.wasm", true),
            ("https://example.org.evil.test/jq.wasm", false),
            ("https://example.net/acme/jq.wasm", true),
            ("https://example.net/%61cme/jq.wasm", true),
            ("https://example.net//acme//jq.wasm", true),
            ("https://example.net/x/..%2Facme/jq.wasm", true),
            ("https://example.net/%61cme/", true),
            ("https://example.net/%61%20b/jq.wasm", true),
            ("https://example.net/%2561cme/jq.wasm", false),
            ("https://example.net/other/jq.wasm", false),
            ("/other/../tools/jq.wasm", true),
            ("/tools/../other/jq.wasm", false),
        ] {
            let reference = ComponentReference::parse(reference, "/".as_ref()).unwrap();
            assert_eq!(
                policy.unmet(&reference, &[]).is_some(),
                is_named,
                "{reference}"
            );
        }
    }

    #[test]
    fn a_link_leads_around_no_entry() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("tools")).unwrap();
        std::fs::write(root.join("tools/jq.wasm"), "").unwrap();
        std::os::unix::fs::symlink("tools/jq.wasm", root.join("link.wasm")).unwrap();
        let mut policy = TrustPolicy::default();
        policy.add(vec![entry(
            &format!("{}/tools/*", root.display()),
            "a@acme.test",
        )]);
        assert!(
            policy
                .unmet(
                    &ComponentReference::parse("./link.wasm", &root).unwrap(),
                    &[]
                )
                .is_some()
        );
        assert!(
            policy
                .unmet(
                    &ComponentReference::parse("./other.wasm", &root).unwrap(),
                    &[]
                )
                .is_none()
        );
    }

    #[test]
    fn each_file_that_names_a_reference_has_to_be_met() {
        let mut policy = TrustPolicy::default();
        policy.add(vec![
            entry("ghcr.io/acme/*", "a@acme.test"),
            entry("ghcr.io/acme/*", "b@acme.test"),
        ]);
        policy.add(vec![entry("ghcr.io/acme/jq", "c@other.test")]);
        let of = |text: &str| ComponentReference::parse(text, "/".as_ref()).unwrap();
        let by = |identity: &str, issuer: &str| Signer::Identity {
            identity: identity.into(),
            issuer: issuer.into(),
        };
        let a = by("a@acme.test", "https://issuer.test");
        let b = by("b@acme.test", "https://issuer.test");
        let c = by("c@other.test", "https://issuer.test");
        let elsewhere = by("a@acme.test", "https://evil.test");
        let yq = of("ghcr.io/acme/yq:1");
        assert_eq!(policy.unmet(&yq, &[&b]), None);
        assert!(policy.unmet(&yq, &[&c]).is_some() && policy.unmet(&yq, &[&elsewhere]).is_some());
        let jq = of(
            "ghcr.io/acme/jq@sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        );
        assert_eq!(policy.unmet(&jq, &[&c]), Some("ghcr.io/acme/* a@acme.test"));
        assert_eq!(
            policy.unmet(&jq, &[&a]),
            Some("ghcr.io/acme/jq c@other.test")
        );
        assert_eq!(policy.unmet(&jq, &[&a, &c]), None);
        assert_eq!(policy.unmet(&of("ghcr.io/other/jq"), &[]), None);
        policy.add(vec![entry("*", "d@acme.test")]);
        assert!(policy.unmet(&of("ghcr.io/other/jq"), &[]).is_some());
        assert_eq!(
            policy.unmet(&of("/tools/jq.wasm"), &[]),
            None,
            "files may be unsigned"
        );
        assert!(
            policy.names(&yq, &a)
                && !policy.names(&yq, &c)
                && !policy.names(&of("ghcr.io/other/jq"), &a)
        );
    }
}
