//! Workflows as signers. Their identity ends with the ref for which they ran, such as
//! `https://github.com/o/r/.github/workflows/release.yml@refs/tags/v1`, so each release by tag has another one.

use crate::verifier::Signer;

const REF: &str = "@refs/";
const TAG: &str = "@refs/tags/";

/// Several refs, which no pattern tells apart: a branch can be called `a@refs/tags/b`.
pub(crate) fn is_ambiguous(identity: &str) -> bool {
    identity.matches(REF).count() > 1
}

pub(crate) fn is_at_tag(identity: &str) -> bool {
    identity.contains(TAG) && !is_ambiguous(identity)
}

/// Two that are equal, at whichever tags, are the same workflow of the same repository, and the same issuer vouches for
/// both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaggedWorkflow<'a> {
    /// `https://github.com/o/r/.github/workflows/release.yml`
    workflow: &'a str,
    issuer: &'a str,
}

impl<'a> TaggedWorkflow<'a> {
    /// `None` for another kind of signer, or one that is not spelt plainly: what this returns is compared byte by byte,
    /// and shown as a pattern.
    fn from_signer(signer: &'a Signer) -> Option<Self> {
        let Signer::Identity { identity, issuer } = signer else {
            return None;
        };
        let (workflow, tag) = identity.split_once(TAG).filter(|_| is_at_tag(identity))?;
        let is_of = |text: &str, others: &[u8]| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || others.contains(&byte);
            !text.is_empty() && text.bytes().all(is_plain)
        };
        let is_url = |url: &str| {
            url.strip_prefix("https://")
                .is_some_and(|rest| is_of(rest, b"-._/"))
        };
        (is_url(workflow) && is_url(issuer) && is_of(tag, b"-._/+@"))
            .then_some(Self { workflow, issuer })
    }

    pub(crate) fn of_both(one: &'a Signer, other: &'a Signer) -> Option<Self> {
        let one = Self::from_signer(one)?;
        let other = Self::from_signer(other)?;
        (one == other || !guard!("pinned_workflows")).then_some(one)
    }

    pub(crate) fn at_every_tag(&self) -> String {
        format!("{}{TAG}*", self.workflow)
    }

    /// URL of who vouches for it.
    pub(crate) fn issuer(&self) -> &'a str {
        self.issuer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKFLOW: &str = "https://github.com/acme/tools/.github/workflows/release.yml";
    const ISSUER: &str = "https://token.actions.githubusercontent.com";

    fn by(identity: &str, issuer: &str) -> Signer {
        Signer::Identity {
            identity: identity.to_owned(),
            issuer: issuer.to_owned(),
        }
    }

    #[test]
    fn a_workflow_is_the_same_at_each_of_its_tags() {
        let first = by(&format!("{WORKFLOW}@refs/tags/v1.2.0"), ISSUER);
        for tag in [
            "v1.2.0",
            "v2.0.0-rc.1+build",
            "tools/v2",
            "@acme/tools@2.0.0",
        ] {
            let next = by(&format!("{WORKFLOW}@refs/tags/{tag}"), ISSUER);
            let workflow = TaggedWorkflow::of_both(&first, &next).unwrap();
            assert_eq!(
                (workflow.at_every_tag(), workflow.issuer()),
                (format!("{WORKFLOW}@refs/tags/*"), ISSUER),
                "{tag}"
            );
        }
    }

    #[test]
    fn no_branch_and_no_other_workflow_passes_for_a_tag_of_this_one() {
        let first = by(&format!("{WORKFLOW}@refs/tags/v1"), ISSUER);
        let of_refs = [
            "@refs/heads/main",
            "@refs/heads/tags/v2",
            "@refs/heads/x@refs/tags/v2",
            "@refs/tags/v2@refs/heads/main",
            "@refs/tags/@refs/tags/v2",
            "@refs/pull/7/merge",
            "@refs/pull/7/merge@refs/tags/v2",
            "@refs/tags/",
            "@refs/tags",
            "@REFS/TAGS/v2",
            "@refs%2Ftags%2Fv2",
            "@refs//tags/v2",
            "@v2",
            "",
            "@@refs/tags/v2",
            "/@refs/tags/v2",
            "%20@refs/tags/v2",
            "\n@refs/tags/v2",
            "?x@refs/tags/v2",
            "#x@refs/tags/v2",
            "@refs/tags/*",
            "@refs/tags/v2 (by me)",
            "@refs/tags/v2\n",
            "@refs/tags/\u{202e}v2",
        ];
        let of_others = [
            "https://github.com/acme/tools/.github/workflows/other.yml",
            "https://github.com/acme/tools2/.github/workflows/release.yml",
            "https://github.com/evil/tools/.github/workflows/release.yml",
            "https://github.com/evil/acme/tools/.github/workflows/release.yml",
            "https://github.com.evil.test/acme/tools/.github/workflows/release.yml",
            "https://evil.test/https://github.com/acme/tools/.github/workflows/release.yml",
            "https://evil@github.com/acme/tools/.github/workflows/release.yml",
            "https://github.com:443/acme/tools/.github/workflows/release.yml",
            "https://GitHub.com/acme/tools/.github/workflows/release.yml",
            "https://github.com//acme/tools/.github/workflows/release.yml",
            "https://github.com/acme/x/../tools/.github/workflows/release.yml",
            "https://github.com/acme/tools/.github/workflows/rel\u{435}ase.yml",
            "http://github.com/acme/tools/.github/workflows/release.yml",
            "github.com/acme/tools/.github/workflows/release.yml",
            "https://",
            "",
        ];
        let identities = of_refs.iter().map(|end| format!("{WORKFLOW}{end}"));
        let identities = identities.chain(
            of_others
                .iter()
                .map(|workflow| format!("{workflow}@refs/tags/v2")),
        );
        for identity in identities {
            let other = by(&identity, ISSUER);
            assert_eq!(
                TaggedWorkflow::of_both(&first, &other),
                None,
                "{identity:?}"
            );
            assert_eq!(
                TaggedWorkflow::of_both(&other, &first),
                None,
                "{identity:?}"
            );
        }
        let tagged = format!("{WORKFLOW}@refs/tags/v2");
        for issuer in [
            "https://token.actions.githubusercontent.com/acme",
            "https://evil.test",
            "",
            "*",
        ] {
            assert_eq!(
                TaggedWorkflow::of_both(&first, &by(&tagged, issuer)),
                None,
                "{issuer}"
            );
        }
        let key = Signer::Key {
            fingerprint: tagged,
        };
        assert_eq!(TaggedWorkflow::of_both(&key, &key), None);
    }

    #[test]
    fn what_is_not_spelt_plainly_is_not_even_the_same_as_itself() {
        for identity in [
            "https://github.com/*@refs/tags/v1",
            "me@acme.test",
            "https://a/b@refs/heads/c@refs/tags/v1",
        ] {
            let signer = by(identity, ISSUER);
            assert_eq!(
                TaggedWorkflow::of_both(&signer, &signer),
                None,
                "{identity}"
            );
        }
    }
}
