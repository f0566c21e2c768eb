//! Callable tools: granted, and declared by the profile.

use anyhow::ensure;
use serde_json::{Value, json};

use toolcell_spec::{PermissionProfile, RuleSource};

use super::Grants;

/// A namespace, a dot and a name fit.
const PATTERN_BYTES_MAX: usize = 200;
/// Each declared pattern is compared with each tool of a list.
const DECLARED_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolGrant {
    /// `files.read`, or with `*` for any text: `files.*`.
    pub pattern: String,
    /// As written, for the record: `--allow-tool=files.*`.
    pub rule: String,
    pub source: RuleSource,
}

impl ToolGrant {
    pub(super) fn parse(spec: &str, rule: &str, source: RuleSource) -> anyhow::Result<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '*');
        ensure!(
            !spec.is_empty() && spec.len() <= PATTERN_BYTES_MAX && spec.chars().all(fits),
            "{spec:?} names no tool; give the name of one, such as files.read, or a pattern, such as files.*"
        );
        Ok(Self {
            pattern: spec.to_owned(),
            rule: rule.to_owned(),
            source,
        })
    }
}

/// The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCalls {
    granted: Vec<ToolGrant>,
    declared: Vec<String>,
    /// The caller's: a tool must be in both.
    within: Option<Box<ToolCalls>>,
}

impl ToolCalls {
    pub(super) fn effective(profile: &PermissionProfile, grants: &Grants) -> Self {
        if grants.tools.is_empty() || profile.tool_calls.is_empty() {
            return Self::default();
        }
        let declared = profile
            .tool_calls
            .iter()
            .take(DECLARED_MAX)
            .cloned()
            .collect();
        Self {
            granted: grants.tools.clone(),
            declared,
            within: None,
        }
    }

    pub(super) fn limit(&mut self, caller: &Self) {
        if !self.is_empty() {
            self.within = Some(Box::new(caller.clone()));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.granted.is_empty()
            || self.declared.is_empty()
            || self.within.as_ref().is_some_and(|within| within.is_empty())
    }

    pub fn allow(&self, name: &str) -> bool {
        self.granted
            .iter()
            .any(|grant| matches(&grant.pattern, name) || !guard!("tool_grants"))
            && self.declared.iter().any(|pattern| matches(pattern, name))
            && self.within.as_ref().is_none_or(|within| within.allow(name))
    }

    /// For people, without patterns that cover nothing declared.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        let covers = |grant: &&ToolGrant| overlaps(grant, &self.declared);
        let granted = self.usable().iter().filter(covers);
        granted.map(|grant| grant.pattern.as_str())
    }

    fn usable(&self) -> &[ToolGrant] {
        if self.is_empty() { &[] } else { &self.granted }
    }

    pub fn covered(&self) -> impl Iterator<Item = (&str, &ToolGrant)> {
        let with_each = |declared| self.usable().iter().map(move |grant| (declared, grant));
        let pairs = self.declared.iter().flat_map(with_each);
        pairs
            .filter(|(declared, grant)| overlap(&grant.pattern, declared))
            .map(|(declared, grant)| (declared.as_str(), grant))
    }

    /// Independent of the order of the grants.
    pub(super) fn canonical(&self) -> Value {
        if self.is_empty() {
            return Value::Null;
        }
        let sorted = |words: &mut Vec<&str>| {
            words.sort_unstable();
            words.dedup();
        };
        let mut granted: Vec<&str> = self
            .granted
            .iter()
            .map(|grant| grant.pattern.as_str())
            .collect();
        let mut declared: Vec<&str> = self.declared.iter().map(String::as_str).collect();
        sorted(&mut granted);
        sorted(&mut declared);
        let within = self.within.as_ref().map(|within| within.canonical());
        json!({ "granted": granted, "declared": declared, "within": within })
    }
}

pub(super) fn covers_declared(grant: &ToolGrant, profile: &PermissionProfile) -> bool {
    let declared = profile.tool_calls.iter().take(DECLARED_MAX);
    overlaps(grant, declared)
}

fn overlaps<'d>(grant: &ToolGrant, declared: impl IntoIterator<Item = &'d String>) -> bool {
    let mut declared = declared.into_iter();
    declared.any(|declared| overlap(&grant.pattern, declared))
}

/// `true` if a common name is covered. Takes time proportional to both limited lengths.
fn overlap(one: &str, other: &str) -> bool {
    match (one.contains('*'), other.contains('*')) {
        (true, true) => {}
        (_, false) => return matches(one, other),
        (false, true) => return matches(other, one),
    }
    let wild = |byte: u8| byte == b'*';
    // `row[n]`: whether the part of `one` that was read and the first `n` bytes of `other` cover a common text.
    let leading = other.bytes().scan(true, |all, byte| {
        *all &= wild(byte);
        Some(*all)
    });
    let mut row: Vec<bool> = std::iter::once(true).chain(leading).collect();
    for byte in one.bytes() {
        let mut diagonal = row.first().copied().unwrap_or(false);
        let mut left = diagonal && wild(byte);
        let mut next = Vec::with_capacity(row.len());
        next.push(left);
        for (above, letter) in row.iter().copied().skip(1).zip(other.bytes()) {
            left = if wild(byte) || wild(letter) {
                above || left
            } else {
                byte == letter && diagonal
            };
            next.push(left);
            diagonal = above;
        }
        row = next;
    }
    row.last().copied().unwrap_or(false)
}

/// Takes at most the product of both lengths, because tools write patterns too.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        // The first place is enough: what it leaves contains what any later place would leave.
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(specs: &[&str]) -> Grants {
        let mut grants = Grants::default();
        for spec in specs {
            grants
                .tools
                .push(ToolGrant::parse(spec, spec, RuleSource::CliArg).unwrap());
        }
        grants
    }

    fn calls(declared: &[&str], granted: &[&str]) -> ToolCalls {
        let mut profile = PermissionProfile::none("t");
        profile.tool_calls = declared.iter().map(|&pattern| pattern.to_owned()).collect();
        ToolCalls::effective(&profile, &grants(granted))
    }

    #[test]
    fn a_pattern_covers_a_whole_name() {
        for (pattern, name, covers) in [
            ("files.read", "files.read", true),
            ("files.read", "files.reader", false),
            ("files.*", "files.read", true),
            ("files.*", "myfiles.read", false),
            ("*.read", "files.read", true),
            ("*.read", "files.read.all", false),
            ("*", "files.read", true),
            ("f*.r*d", "files.read", true),
            ("f*.r*d", "files.rename", false),
            ("a*a", "a", false),
            ("a*b*b", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), covers, "{pattern} {name}");
        }
    }

    #[test]
    fn two_patterns_overlap_if_some_name_fits_both() {
        for (one, other, overlaps) in [
            ("files.read", "files.read", true),
            ("files.read", "files.write", false),
            ("files.*", "files.read", true),
            ("files.*", "probe.read", false),
            ("files.*", "*.read", true),
            ("*", "files.read", true),
            ("files.*", "file.*", false),
            ("a*b", "a*c", false),
            ("a*b*c", "*bc", true),
            ("*a*", "*b*", true),
            ("files.", "files.*", true),
            ("**", "", true),
            ("files.*", "files", false),
        ] {
            assert_eq!(
                (overlap(one, other), overlap(other, one)),
                (overlaps, overlaps),
                "{one} {other}"
            );
        }
    }

    #[test]
    fn what_is_told_of_the_grants_is_what_they_cover() {
        let calls = calls(
            &["files.read", "probe.*"],
            &["files.*", "net.*", "probe.echo"],
        );
        assert_eq!(
            calls.patterns().collect::<Vec<_>>(),
            ["files.*", "probe.echo"]
        );
        let covered: Vec<_> = calls
            .covered()
            .map(|(declared, grant)| (declared, grant.pattern.as_str()))
            .collect();
        assert_eq!(
            covered,
            [("files.read", "files.*"), ("probe.*", "probe.echo")]
        );
    }

    #[test]
    fn a_tool_is_called_only_if_it_was_declared_and_granted_along_the_whole_line() {
        assert!(calls(&["files.*"], &["files.read"]).allow("files.read"));
        assert!(!calls(&["files.*"], &["files.read"]).allow("files.write"));
        assert!(!calls(&["files.read"], &["*"]).allow("files.write"));
        assert!(calls(&[], &["*"]).is_empty() && calls(&["*"], &[]).is_empty());
        let mut inner = calls(&["*"], &["*"]);
        inner.limit(&calls(&["files.read"], &["*"]));
        assert!(inner.allow("files.read") && !inner.allow("files.write"));
        inner.limit(&ToolCalls::default());
        assert!(
            inner.is_empty() && !inner.allow("files.read") && inner.patterns().next().is_none()
        );
    }

    #[test]
    fn a_grant_names_tools() {
        for spec in ["", "a b", "files.\u{1b}", "{a,b}", "[a]", "?"] {
            assert!(
                ToolGrant::parse(spec, "", RuleSource::CliArg).is_err(),
                "{spec:?}"
            );
        }
    }
}
