//! The changes of an install or an update, and whether it asks. An update that grows nothing does not.

use std::cmp::Ordering;

use serde::Serialize;
use toolcell_engine::approval::legible;
use toolcell_spec::{ErrorCode, Refusal, Timestamp};

use crate::ceiling::{AccessCeiling, CeilingDifference};
use crate::declarations::{DeclarationDiff, DiffLine, ToolDeclarations};
use crate::lock::LockEntry;
use crate::verifier::Signer;
use crate::workflow::TaggedWorkflow;

#[derive(Clone, Debug)]
pub struct ToolVersion {
    pub entry: LockEntry,
    /// `None` if the component is no longer in the store.
    pub declared: Option<(AccessCeiling, ToolDeclarations)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum InstallChange {
    /// Nothing was installed under this name.
    First,
    /// The name came from elsewhere.
    Reference { before: String, after: String },
    /// Another signer, or none. In words.
    Signer {
        /// `None` if it was unsigned.
        before: Option<String>,
        after: Option<String>,
    },
    /// The same workflow signed it, for another tag.
    Tag {
        before: String,
        after: String,
        /// The workflow's at every tag, as a `[[signer]]` entry has it.
        identity: String,
        issuer: String,
        /// A `[[signer]]` entry names the workflow at both tags.
        #[serde(rename = "named")]
        is_named: bool,
    },
    /// It could ask for more.
    Ceiling(CeilingDifference),
    /// It could ask for less, and for nothing more.
    SmallerCeiling(CeilingDifference),
    /// It says other things of itself.
    Words { lines: Vec<DiffLine> },
    /// Declarations for a host, not for a model, changed.
    Records { lines: Vec<DiffLine> },
    /// The earlier component is not in the store.
    Unknown,
    /// An unsigned version with a lower number.
    Older { before: String, after: String },
    /// The versions cannot be compared, so the new one may be older than the lock's.
    Unordered { before: String, after: String },
    /// It had a version, and has none.
    Unversioned { before: String },
    /// It may be unsigned, which was not so before.
    MayBeUnsigned,
}

impl InstallChange {
    pub fn asks(&self) -> bool {
        !matches!(
            self,
            Self::SmallerCeiling(_) | Self::Tag { is_named: true, .. }
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstallPlan {
    pub changes: Vec<InstallChange>,
}

impl InstallPlan {
    /// The user last confirmed `before`. `names_both`: one `[[signer]]` entry names two signers, which is the user's
    /// word on another tag of the same workflow. Fails on an older version in place of a signed one.
    pub fn new(
        before: Option<&ToolVersion>,
        after: &ToolVersion,
        names_both: impl Fn(&Signer, &Signer) -> bool,
    ) -> Result<Self, Refusal> {
        let Some(before) = before else {
            return Ok(Self {
                changes: vec![InstallChange::First],
            });
        };
        let old = &before.entry;
        let new = &after.entry;
        let mut changes = versions(old, new)?;
        if old.reference != new.reference {
            changes.push(InstallChange::Reference {
                before: old.reference.clone(),
                after: new.reference.clone(),
            });
        }
        if old.signer != new.signer && guard!("pinned_signers") {
            changes.push(signers(old, new, names_both));
        }
        if new.allow_unsigned && !old.allow_unsigned {
            changes.push(InstallChange::MayBeUnsigned);
        }
        changes.extend(declarations(before, after));
        Ok(Self { changes })
    }

    pub fn asks(&self) -> bool {
        self.changes.iter().any(InstallChange::asks)
    }
}

fn signers(
    old: &LockEntry,
    new: &LockEntry,
    names_both: impl Fn(&Signer, &Signer) -> bool,
) -> InstallChange {
    if let (Some(before), Some(after)) = (&old.signer, &new.signer)
        && let Some(workflow) = TaggedWorkflow::of_both(before, after)
    {
        return InstallChange::Tag {
            before: before.to_string(),
            after: after.to_string(),
            identity: workflow.at_every_tag(),
            issuer: workflow.issuer().to_owned(),
            is_named: names_both(before, after),
        };
    }
    let words = |entry: &LockEntry| entry.signer.as_ref().map(ToString::to_string);
    InstallChange::Signer {
        before: words(old),
        after: words(new),
    }
}

/// The same workflow at two tags counts.
fn is_same_signer(old: &LockEntry, new: &LockEntry) -> bool {
    let signers = old.signer.as_ref().zip(new.signer.as_ref());
    old.signer == new.signer
        || signers.is_some_and(|(old, new)| TaggedWorkflow::of_both(old, new).is_some())
}

fn declarations(before: &ToolVersion, after: &ToolVersion) -> Vec<InstallChange> {
    let old = &before.entry;
    let new = &after.entry;
    if (old.ceiling, old.declarations) == (new.ceiling, new.declarations) {
        return Vec::new();
    }
    let (Some((old_ceiling, old_words)), Some((ceiling, words))) =
        (&before.declared, &after.declared)
    else {
        return vec![InstallChange::Unknown];
    };
    let mut changes = Vec::new();
    let difference = old_ceiling.difference(ceiling);
    if !difference.grown.is_empty() && guard!("larger_ceilings") {
        changes.push(InstallChange::Ceiling(difference));
    } else if !difference.shrunk.is_empty() {
        changes.push(InstallChange::SmallerCeiling(difference));
    }
    let DeclarationDiff { words, records } = old_words.difference(words);
    if !words.is_empty() {
        changes.push(InstallChange::Words { lines: words });
    }
    if !records.is_empty() {
        changes.push(InstallChange::Records { lines: records });
    }
    changes
}

/// Fails on an older version in place of a signed one: its holes are known.
fn versions(old: &LockEntry, new: &LockEntry) -> Result<Vec<InstallChange>, Refusal> {
    let Some(before) = &old.version else {
        return signed_earlier(old, new).map_or(Ok(Vec::new()), Err);
    };
    let Some(after) = &new.version else {
        return Ok(vec![InstallChange::Unversioned {
            before: before.clone(),
        }]);
    };
    match compare(after, before) {
        Some(Ordering::Less) => {}
        None if after != before => {
            return Ok(vec![InstallChange::Unordered {
                before: before.clone(),
                after: after.clone(),
            }]);
        }
        Some(Ordering::Greater) => return Ok(Vec::new()),
        _ => return signed_earlier(old, new).map_or(Ok(Vec::new()), Err),
    }
    if old.signer.is_some() && guard!("downgrades") {
        let message = format!(
            "`{}`: version {} is older than {}, which is installed and signed, so it could bring back what was repaired: if \
             you mean it, run `toolcell remove {}`, and install it again",
            old.name,
            legible(after),
            legible(before),
            old.name
        );
        return Err(Refusal::new(ErrorCode::Downgrade, message));
    }
    Ok(vec![InstallChange::Older {
        before: before.clone(),
        after: after.clone(),
    }])
}

/// Refuses other bytes that the same signer signed before what is installed, where no version tells which is the older
/// one.
fn signed_earlier(old: &LockEntry, new: &LockEntry) -> Option<Refusal> {
    let before = old.signed_at?;
    let after = new.signed_at?;
    let is_older = after < before && old.component != new.component && is_same_signer(old, new);
    if !is_older || !guard!("signing_times") {
        return None;
    }
    let moment = |seconds: i64| Timestamp::of_unix_millis(seconds.saturating_mul(1000));
    let message = format!(
        "`{}`: this was signed at {}, before what is installed, at {}, so it could bring back what was repaired: if you mean \
         it, run `toolcell remove {}`, and install it again",
        old.name,
        moment(after),
        moment(before),
        old.name
    );
    Some(Refusal::new(ErrorCode::Downgrade, message))
}

/// Semver's order; `None` if one version has none.
fn compare(one: &str, other: &str) -> Option<Ordering> {
    Some(precedence(one)?.cmp(&precedence(other)?))
}

/// A part of what follows `-` in a version. Numbers come before words.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum PrereleasePart<'a> {
    Number(u64),
    Word(&'a str),
}

/// The order of a version: its numbers, then whether nothing follows them, then what follows.
fn precedence(version: &str) -> Option<(Vec<u64>, bool, Vec<PrereleasePart<'_>>)> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let version = version
        .split_once('+')
        .map_or(version, |(version, _)| version);
    let (numbers, pre) = version.split_once('-').unwrap_or((version, ""));
    let numbers = numbers.split('.').map(|number| number.parse().ok());
    let mut numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
    while numbers.pop_if(|number| *number == 0).is_some() {}
    let part = |part| str::parse(part).map_or(PrereleasePart::Word(part), PrereleasePart::Number);
    Some((numbers, pre.is_empty(), pre.split('.').map(part).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::lock::tests::entry;

    fn compared(before: Option<&ToolVersion>, after: &ToolVersion) -> Result<InstallPlan, Refusal> {
        InstallPlan::new(before, after, |_, _| false)
    }

    fn version(change: impl FnOnce(&mut LockEntry)) -> ToolVersion {
        let mut entry = entry("a");
        change(&mut entry);
        ToolVersion {
            entry,
            declared: None,
        }
    }

    fn kinds(plan: &InstallPlan) -> Vec<String> {
        let value = serde_json::to_value(&plan.changes).unwrap();
        value
            .as_array()
            .unwrap()
            .iter()
            .map(|change| change["kind"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn an_update_that_grows_nothing_goes_through() {
        let before = version(|_| {});
        let after = version(|entry| {
            entry.digest = Digest::of(b"new");
            entry.component = Digest::of(b"new component");
            entry.version = Some("1.1.0".to_owned());
        });
        let plan = compared(Some(&before), &after).unwrap();
        assert_eq!((plan.asks(), kinds(&plan)), (false, Vec::new()));
        let first = compared(None, &after).unwrap();
        assert_eq!(
            (first.asks(), kinds(&first)),
            (true, vec!["first".to_owned()])
        );
    }

    #[test]
    fn whatever_else_changes_asks() {
        let before = version(|_| {});
        let other = Signer::Key {
            fingerprint: "sha256:00".to_owned(),
        };
        for (after, kind) in [
            (version(|entry| entry.signer = Some(other)), "signer"),
            (version(|entry| entry.signer = None), "signer"),
            (
                version(|entry| entry.reference = "oci://evil.example/a:1".to_owned()),
                "reference",
            ),
            (
                version(|entry| entry.declarations = Digest::of(b"other")),
                "unknown",
            ),
            (version(|entry| entry.version = None), "unversioned"),
            (
                version(|entry| entry.version = Some("1.0.0.old".to_owned())),
                "unordered",
            ),
            (
                version(|entry| entry.allow_unsigned = true),
                "may_be_unsigned",
            ),
        ] {
            let plan = compared(Some(&before), &after).unwrap();
            assert_eq!((plan.asks(), kinds(&plan)), (true, vec![kind.to_owned()]));
        }
    }

    fn at(git_ref: &str) -> ToolVersion {
        let identity =
            format!("https://github.com/acme/jq/.github/workflows/release.yml@refs/{git_ref}");
        version(|entry| {
            entry.signer = Some(Signer::Identity {
                identity,
                issuer: "https://issuer.test".to_owned(),
            })
        })
    }

    #[test]
    fn another_tag_of_the_same_workflow_asks_unless_an_entry_names_both() {
        let before = at("tags/v1");
        let after = at("tags/v2");
        let asked = compared(Some(&before), &after).unwrap();
        assert_eq!(
            (asked.asks(), kinds(&asked)),
            (true, vec!["tag".to_owned()])
        );
        let named = InstallPlan::new(Some(&before), &after, |_, _| true).unwrap();
        assert_eq!(
            (named.asks(), kinds(&named)),
            (false, vec!["tag".to_owned()])
        );
        // An entry can name other signers, too; the lock has had only this one.
        for other in ["heads/main", "heads/x@refs/tags/v2", "pull/7/merge"] {
            let plan = InstallPlan::new(Some(&before), &at(other), |_, _| true).unwrap();
            assert_eq!(
                (plan.asks(), kinds(&plan)),
                (true, vec!["signer".to_owned()]),
                "{other}"
            );
        }
    }

    #[test]
    fn without_a_version_what_the_same_workflow_signed_earlier_at_another_tag_is_older() {
        let of = |tag: &str, signed_at: i64, bytes: &[u8]| {
            let mut version = at(tag);
            (version.entry.version, version.entry.signed_at) = (None, Some(signed_at));
            version.entry.component = Digest::of(bytes);
            version
        };
        let installed = of("tags/v2", 200, b"installed");
        let refused =
            InstallPlan::new(Some(&installed), &of("tags/v1", 100, b"older"), |_, _| true)
                .unwrap_err();
        assert_eq!(refused.code, ErrorCode::Downgrade);
        assert!(
            !InstallPlan::new(Some(&installed), &of("tags/v3", 300, b"newer"), |_, _| true)
                .unwrap()
                .asks()
        );
        assert_eq!(
            kinds(&compared(Some(&installed), &of("heads/main", 100, b"other")).unwrap()),
            ["signer"]
        );
    }

    #[test]
    fn a_signed_version_is_never_replaced_by_an_older_one() {
        let signed = version(|entry| entry.version = Some("1.10.0".to_owned()));
        let older = version(|entry| entry.version = Some("1.9.9".to_owned()));
        assert_eq!(
            compared(Some(&signed), &older).unwrap_err().code,
            ErrorCode::Downgrade
        );
        for (before, after) in [
            ("1.3.0", "1.3.0-2026.01.05"),
            ("1.3.1", "1.2.0-rc_2"),
            ("1.2.0-rc.02", "1.2.0-rc.01"),
        ] {
            let before = version(|entry| entry.version = Some(before.to_owned()));
            let after = version(|entry| entry.version = Some(after.to_owned()));
            assert_eq!(
                compared(Some(&before), &after).unwrap_err().code,
                ErrorCode::Downgrade
            );
        }
        let unsigned = ToolVersion {
            entry: LockEntry {
                signer: None,
                ..signed.entry
            },
            declared: None,
        };
        let older = ToolVersion {
            entry: LockEntry {
                signer: None,
                ..older.entry
            },
            declared: None,
        };
        assert_eq!(
            kinds(&compared(Some(&unsigned), &older).unwrap()),
            ["older"]
        );
        // A name such as a date or a commit in place of a number must not bring an older version back unseen.
        let unordered = version(|entry| entry.version = Some("nightly".to_owned()));
        let plan = compared(Some(&version(|_| {})), &unordered).unwrap();
        assert_eq!(
            (plan.asks(), kinds(&plan)),
            (true, vec!["unordered".to_owned()])
        );
        assert_eq!(
            kinds(&compared(Some(&unordered), &unordered).unwrap()),
            [""; 0]
        );
    }

    #[test]
    fn without_a_version_the_time_of_the_signature_tells_which_is_older() {
        let of = |signed_at: Option<i64>, bytes: &[u8]| {
            version(|entry| {
                (entry.version, entry.signed_at, entry.component) =
                    (None, signed_at, Digest::of(bytes));
            })
        };
        let installed = of(Some(200), b"installed");
        let refused = compared(Some(&installed), &of(Some(100), b"older")).unwrap_err();
        assert!(
            refused.code == ErrorCode::Downgrade && refused.message.contains("1970-01-01T00:01:40"),
            "{refused}"
        );
        for other in [
            of(Some(300), b"newer"),
            of(None, b"other"),
            of(Some(100), b"installed"),
        ] {
            assert!(!compared(Some(&installed), &other).unwrap().asks());
        }
        let mut by_another = of(Some(100), b"older");
        by_another.entry.signer = None;
        assert_eq!(
            kinds(&compared(Some(&installed), &by_another).unwrap()),
            ["signer"]
        );
        // The same bytes from elsewhere, such as a file of a registry, are no older version.
        let mut elsewhere = of(Some(100), b"installed");
        elsewhere.entry.digest = Digest::of(b"another manifest");
        assert!(!compared(Some(&installed), &elsewhere).unwrap().asks());
    }

    #[test]
    fn of_two_builds_of_one_version_the_one_that_was_signed_earlier_is_older() {
        let of = |number: &str, signed_at: i64, bytes: &[u8]| {
            version(|entry| {
                entry.version = Some(number.to_owned());
                (entry.signed_at, entry.component) = (Some(signed_at), Digest::of(bytes));
            })
        };
        for number in ["0.1.0", "nightly"] {
            let installed = of(number, 200, b"installed");
            assert_eq!(
                compared(Some(&installed), &of(number, 100, b"older"))
                    .unwrap_err()
                    .code,
                ErrorCode::Downgrade
            );
            assert!(
                !compared(Some(&installed), &of(number, 300, b"newer"))
                    .unwrap()
                    .asks()
            );
        }
        // A higher number counts, whenever it was signed.
        assert!(
            !compared(
                Some(&of("0.1.0", 200, b"installed")),
                &of("0.2.0", 100, b"next")
            )
            .unwrap()
            .asks()
        );
    }

    #[test]
    fn versions_have_the_order_of_semver() {
        let ordered = [
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "v1.2",
            "1.10",
        ];
        for (at, one) in ordered.iter().enumerate() {
            for (other_at, other) in ordered.iter().enumerate() {
                assert_eq!(
                    compare(one, other),
                    Some(at.cmp(&other_at)),
                    "{one} {other}"
                );
            }
        }
        assert_eq!(compare("1.0+a", "1.0.0+b"), Some(Ordering::Equal));
        // What semver does not allow after `-` has an order, too.
        for (one, other) in [
            ("1.2.9-2026.01.05", "1.3.0-2026.01.05"),
            ("1.3.0-2026.01.05", "1.3.0-2026.02.01"),
            ("1.2.0-rc.01", "1.2.0-rc.2"),
            ("1.2.0-rc_2", "1.2.0"),
            ("1.2.0-rc_1", "1.2.0-rc_2"),
        ] {
            assert_eq!(compare(one, other), Some(Ordering::Less), "{one} {other}");
        }
        assert_eq!(compare("latest", "1.0"), None);
    }
}
