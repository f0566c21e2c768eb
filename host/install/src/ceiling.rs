//! The most access that a tool can ask for, in plain words, and the difference of two: later declarations count only
//! after the user has seen them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use toolcell_engine::catalog::Tool;
use toolcell_spec::{
    AccessKind, CredentialUse, NonInteractive, PermissionProfile, RiskLevel, WriteEffect,
};

use crate::digest::Digest;

/// A call also needs a grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct AccessCeiling(BTreeMap<String, ToolCeiling>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolCeiling {
    /// More of these is a larger ceiling.
    could: BTreeSet<String>,
    /// Where requests could go.
    hosts: BTreeSet<String>,
    /// Fewer of these is a larger ceiling.
    held: BTreeSet<String>,
}

const ANY_HOST: &str = "any host that you grant";
const ARGUMENT_HOSTS: &str = "hosts that its arguments name";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CeilingDifference {
    pub grown: Vec<String>,
    pub shrunk: Vec<String>,
}

impl AccessCeiling {
    pub fn from_tools(tools: &[Arc<Tool>]) -> Self {
        let of = |tool: &Arc<Tool>| {
            let mut ceiling = ToolCeiling::from_profile(tool.permission_profile());
            if tool.takes_granted_files() {
                ceiling.could.insert(
                    "read and change files in folders that a command grants to it alone".to_owned(),
                );
            }
            (tool.declaration().qualified_name(), ceiling)
        };
        Self(tools.iter().map(of).collect())
    }

    pub fn digest(&self) -> Digest {
        Digest::of(serde_json::to_string(self).unwrap_or_default().as_bytes())
    }

    pub fn lines(&self) -> Vec<(String, Vec<String>)> {
        self.0
            .iter()
            .map(|(tool, ceiling)| (tool.clone(), ceiling.lines()))
            .collect()
    }

    pub fn difference(&self, later: &Self) -> CeilingDifference {
        let nothing = ToolCeiling::default();
        let mut found = CeilingDifference::default();
        let names: BTreeSet<&String> = self.0.keys().chain(later.0.keys()).collect();
        for name in names {
            let before = self.0.get(name);
            let after = later.0.get(name);
            let say = |line: String| format!("{name}: {line}");
            let b = before.unwrap_or(&nothing);
            let a = after.unwrap_or(&nothing);
            found.grown.extend(a.beyond(b).into_iter().map(say));
            found.shrunk.extend(b.beyond(a).into_iter().map(say));
            // A tool that is not there holds nothing back.
            if let (Some(before), Some(after)) = (before, after) {
                let lost = |held: &String| say(format!("it no longer {held}"));
                found
                    .grown
                    .extend(before.held.difference(&after.held).map(lost));
                found.shrunk.extend(
                    after
                        .held
                        .difference(&before.held)
                        .map(|held| say(format!("it {held}"))),
                );
            }
        }
        found
    }
}

impl ToolCeiling {
    fn from_profile(profile: &PermissionProfile) -> Self {
        let mut ceiling = Self::default();
        ceiling.could.extend(
            profile
                .access_kinds
                .iter()
                .flat_map(|kind| access(kind, profile)),
        );
        if profile.wants(&AccessKind::Network) {
            let scope = profile.network_scope.as_deref().unwrap_or("none");
            ceiling.hosts = scope
                .split(',')
                .filter_map(|word| host(word.trim()))
                .collect();
        }
        let variables = profile
            .environment
            .iter()
            .map(|name| format!("see the variable {name}"));
        let calls = profile
            .tool_calls
            .iter()
            .map(|tool| format!("call the tool {tool}"));
        ceiling.could.extend(variables.chain(calls));
        if profile.has_effect(&WriteEffect::RemoteMutation) {
            ceiling
                .could
                .insert("change things at the hosts that it reaches".to_owned());
        }
        if profile.has_effect(&WriteEffect::Irreversible) {
            ceiling.could.insert("do what cannot be undone".to_owned());
        }
        let risk = match profile.risk_level {
            RiskLevel::Low | RiskLevel::Medium => None,
            RiskLevel::High => Some("high"),
            RiskLevel::Critical => Some("critical"),
        };
        if let Some(risk) = risk {
            ceiling
                .could
                .insert(format!("declares its own risk as {risk}"));
            ceiling.held.insert(
                "asks before each call that no rule allows, because of its risk".to_owned(),
            );
        }
        ceiling.hold(profile);
        ceiling
    }

    fn hold(&mut self, profile: &PermissionProfile) {
        if profile.approval_required == Some(true) {
            self.held.insert("asks before each call".to_owned());
        }
        if profile.permission_channel.is_some() {
            self.held
                .insert("never runs where it would have to ask".to_owned());
        }
        if profile.non_interactive == Some(NonInteractive::AllowIfPreapproved) {
            self.could
                .insert("run without being asked about where a rule allows it".to_owned());
        }
        if let Some(name) = &profile.sandbox_profile {
            self.held
                .insert(format!("runs under the sandbox profile {name}"));
        }
        if profile.is_secret() {
            self.held.insert(
                "keeps its output off the disk and out of records, because it is secret".to_owned(),
            );
        } else if profile.is_sensitive() {
            self.held
                .insert("has its output redacted, because it is sensitive".to_owned());
        }
    }

    fn lines(&self) -> Vec<String> {
        let requests = self.hosts.iter().map(|host| requests(host));
        let mut lines: Vec<String> = self.could.iter().cloned().chain(requests).collect();
        if lines.is_empty() {
            lines.push("no access (computes only)".to_owned());
        }
        lines.extend(self.held.iter().map(|held| format!("(it {held})")));
        lines
    }

    fn beyond(&self, other: &Self) -> Vec<String> {
        let covered = other.hosts.contains(ANY_HOST);
        let hosts = self.hosts.difference(&other.hosts).filter(|_| !covered);
        self.could
            .difference(&other.could)
            .cloned()
            .chain(hosts.map(|host| requests(host)))
            .collect()
    }
}

fn requests(host: &str) -> String {
    format!("send requests to {host}")
}

fn host(word: &str) -> Option<String> {
    match word {
        "none" | "" => None,
        "any" => Some(ANY_HOST.to_owned()),
        "argument" => Some(ARGUMENT_HOSTS.to_owned()),
        pattern => Some(pattern.to_owned()),
    }
}

fn access(kind: &AccessKind, profile: &PermissionProfile) -> Vec<String> {
    let one = |words: &str| vec![words.to_owned()];
    match kind {
        AccessKind::FileRead => one("read files in folders that you grant"),
        AccessKind::FileWrite => {
            let kept = profile
                .wants_file_write()
                .then(|| "change files in folders that you grant".to_owned());
            let drafts = profile
                .wants_drafts()
                .then(|| "write drafts, which are removed with the call".to_owned());
            kept.into_iter().chain(drafts).collect()
        }
        // The hosts say more.
        AccessKind::Network => Vec::new(),
        AccessKind::Browser => one("use a browser"),
        AccessKind::Credential => {
            let plain = profile
                .credential_refs
                .iter()
                .map(|name| CredentialUse::bearer(name));
            plain
                .chain(profile.credential_uses.iter().cloned())
                .map(|used| secret(&used))
                .collect()
        }
        AccessKind::Payment => one("make payments"),
        AccessKind::ExternalSend => one("send messages to others"),
        AccessKind::CodeExecution => one("run other code"),
    }
}

fn secret(used: &CredentialUse) -> String {
    let name = &used.credential_ref;
    match &used.query {
        Some(key) => format!("use the secret {name} in the parameter {key} of its requests"),
        None => format!(
            "use the secret {name} in the header {} of its requests",
            used.header_name()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceiling(change: impl FnOnce(&mut PermissionProfile)) -> AccessCeiling {
        let mut profile = PermissionProfile::none("t");
        change(&mut profile);
        AccessCeiling([("t.t".to_owned(), ToolCeiling::from_profile(&profile))].into())
    }

    fn net(scope: &str) -> AccessCeiling {
        ceiling(|profile| {
            profile.access_kinds = vec![AccessKind::Network];
            profile.network_scope = Some(scope.to_owned());
        })
    }

    #[test]
    fn a_tool_that_asks_for_nothing_could_do_nothing() {
        let none = ceiling(|_| {});
        assert_eq!(
            none.lines(),
            [(
                "t.t".to_owned(),
                vec!["no access (computes only)".to_owned()]
            )]
        );
        assert_eq!(none.difference(&none), CeilingDifference::default());
    }

    #[test]
    fn more_hosts_are_more_and_fewer_are_not() {
        let one = net("a.example");
        let two = net("a.example, b.example");
        let any = net("any");
        assert_eq!(
            one.difference(&two).grown,
            ["t.t: send requests to b.example"]
        );
        assert_eq!(two.difference(&one).grown, [""; 0]);
        assert_eq!(
            two.difference(&one).shrunk,
            ["t.t: send requests to b.example"]
        );
        assert_eq!(
            one.difference(&any).grown,
            ["t.t: send requests to any host that you grant"]
        );
        assert_eq!(
            any.difference(&two).grown,
            [""; 0],
            "any host is all of them"
        );
        assert_ne!(one.digest(), two.digest());
    }

    #[test]
    fn what_held_a_tool_back_is_missed() {
        let asking = ceiling(|profile| profile.approval_required = Some(true));
        let free = ceiling(|_| {});
        assert_eq!(
            asking.difference(&free).grown,
            ["t.t: it no longer asks before each call"]
        );
        assert_eq!(free.difference(&asking).grown, [""; 0]);
        let gone = AccessCeiling::default();
        assert_eq!(
            asking.difference(&gone).grown,
            [""; 0],
            "a tool that is gone can do nothing"
        );
    }

    #[test]
    fn each_kind_of_access_is_said_in_plain_words() {
        let all = ceiling(|profile| {
            profile.access_kinds = vec![
                AccessKind::FileRead,
                AccessKind::FileWrite,
                AccessKind::Credential,
            ];
            profile.write_effects = vec![WriteEffect::LocalPersistent, WriteEffect::Irreversible];
            profile.credential_refs = vec!["API_KEY".to_owned()];
            profile.environment = vec!["LANG".to_owned()];
            profile.tool_calls = vec!["files.*".to_owned()];
            profile.risk_level = RiskLevel::High;
        });
        let lines = all.lines().remove(0).1;
        for words in [
            "read files in folders that you grant",
            "change files in folders that you grant",
            "use the secret API_KEY in the header authorization of its requests",
            "see the variable LANG",
            "call the tool files.*",
            "do what cannot be undone",
            "declares its own risk as high",
        ] {
            assert!(lines.iter().any(|line| line == words), "{words}: {lines:?}");
        }
    }
}
