//! `[[principal]]`: callers of a server with rules of their own, which only narrow the server's.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use toolcell_engine::scheduler::Quota;
use toolcell_policy::{
    GrantWord, Grants, JwtMatch, Limits, Policy, Provenance, Rule, ToolPatterns, WordPattern,
    token_caller,
};
use toolcell_spec::{Behavior, RuleSource, ToolDeclaration};

use super::file::{ConfigFile, GrantSection, LimitSection, RuleEntry, WorkspaceSection};
use super::layers::{compiled_rule, strictness};
use super::units::{duration, size};
use super::{ConfigText, GivenLimits, MODES, WorkspaceConfig};

const NAME_CHARS_MAX: usize = 64;
const GENERATED: &str = "generated";
/// Hexadecimal digits of SHA-256.
const DIGEST_CHARS: usize = 64;

/// `[[principal]]`: an error in a project's file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrincipalEntry {
    /// Its calls, records and workspaces belong to `token:NAME`.
    pub name: ConfigText,
    /// `sha256:<hex>` of each of its tokens. A line of the token file with its name counts, too.
    #[serde(default)]
    pub tokens: Vec<ConfigText>,
    /// The `url` of the `[[issuer]]` whose access tokens are its own, if they have its `claims`.
    pub issuer: Option<ConfigText>,
    /// Claims of these tokens, such as `{ sub = "anna" }`. Of a list, one text is enough.
    #[serde(default)]
    pub claims: BTreeMap<String, ClaimTexts>,
    /// The tools that it sees and calls, such as `files.*` [default: the server's].
    pub tools: Option<Vec<ConfigText>>,
    /// `default`, `non_interactive` or `plan`; of this mode and the server's, the stricter one counts.
    pub mode: Option<ConfigText>,
    /// All that its calls are granted, within the grants of the server [default: the same].
    pub grants: Option<GrantSection>,
    /// Limits of each of its calls, below the server's.
    #[serde(default)]
    pub limits: LimitSection,
    /// Further rules for its calls, which deny or ask.
    #[serde(default, rename = "rule")]
    pub rules: Vec<RuleEntry>,
    /// What it may use altogether [default: no bound].
    #[serde(default)]
    pub quotas: QuotaSection,
    /// Its workspaces [default: as the server's].
    #[serde(default)]
    pub workspace: WorkspaceSection,
    /// Principals whose calls it may approve, such as `*`; never its own.
    #[serde(default)]
    pub approves: Vec<ConfigText>,
    /// It may see the page of the server at `/`, with what is its own.
    #[serde(default)]
    pub page: bool,
}

/// What a claim may be.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum ClaimTexts {
    One(String),
    Any(Vec<String>),
}

/// `[principal.quotas]`: a call beyond them is refused as `quota_exceeded`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotaSection {
    /// Calls that run or wait.
    pub calls_at_once: Option<u32>,
    /// Calls that may begin in a minute.
    pub calls_per_minute: Option<u32>,
    /// CPU time of a day, such as `30m`. Of tools that are metered by fuel, 25 million units count as 1 ms.
    pub cpu_per_day: Option<ConfigText>,
    /// Bytes that calls of a day return, write to files, send and receive, such as `1GiB`.
    #[serde(deserialize_with = "super::config_text::size")]
    pub bytes_per_day: Option<ConfigText>,
}

/// A caller of a server with rules of its own.
#[derive(Clone, Debug)]
pub struct Principal {
    pub name: String,
    /// SHA-256 of each token, as lowercase hexadecimal digits.
    pub tokens: Vec<String>,
    /// Its access tokens; `None` if it has no issuer.
    pub jwt: Option<JwtMatch>,
    pub quota: Quota,
    /// Whose calls it may approve.
    pub approves: Vec<WordPattern>,
    /// It may see the page of the server.
    pub page: bool,
    workspace: WorkspaceConfig,
    has_scope: bool,
    tools: Option<ToolPatterns>,
    /// An index of [`MODES`].
    strictness: usize,
    grants: Option<Grants>,
    limits: GivenLimits,
    rules: Vec<Rule>,
}

impl Principal {
    /// Reads the principals of `file`. `known` are of files before it.
    pub(super) fn read(
        file: &ConfigFile,
        said: &Provenance<'_>,
        known: &mut Vec<Self>,
    ) -> anyhow::Result<()> {
        let mut taken: HashSet<String> = known.iter().flat_map(Self::own).collect();
        for entry in &file.principals {
            let is_own = matches!(
                said.source,
                RuleSource::UserSettings | RuleSource::FlagSettings
            );
            ensure!(
                is_own,
                "{}: [[principal]] is for your own toolcell.toml, or a file of --config, because it says who may call; \
                 remove it here",
                file.place_of(&entry.name)
            );
            let place = || format!("{}: principal {:?}", file.place_of(&entry.name), entry.name);
            let new = Self::new(file, entry, said).with_context(place)?;
            if let Some(other) = new.own().find(|own| !taken.insert(own.clone())) {
                bail!(
                    "{}: another principal has {other}; give each its own",
                    place()
                );
            }
            known.push(new);
        }
        Ok(())
    }

    /// What no other principal may have, in words.
    fn own(&self) -> impl Iterator<Item = String> {
        let name = format!("the name {:?}", self.name.to_ascii_lowercase());
        let tokens = self.tokens.iter();
        [name]
            .into_iter()
            .chain(tokens.map(|token| format!("the token sha256:{token}")))
    }

    fn new(
        file: &ConfigFile,
        entry: &PrincipalEntry,
        said: &Provenance<'_>,
    ) -> anyhow::Result<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
        ensure!(
            !entry.name.is_empty() && entry.name.len() <= NAME_CHARS_MAX,
            "a name has 1 to {NAME_CHARS_MAX} characters"
        );
        ensure!(
            entry.name.chars().all(fits)
                && entry.name.starts_with(|c: char| c.is_ascii_alphabetic()),
            "a name begins with a letter, and has letters, digits, `.`, `_`, `-` and `@`"
        );
        ensure!(
            &*entry.name != GENERATED,
            "{GENERATED:?} is the caller with the token that a server makes for itself"
        );
        ensure!(
            entry.limits.memory_total.is_none(),
            "limits.memory_total is for all calls of a server; set it in [limits]"
        );
        let mut workspace = WorkspaceConfig::default();
        workspace.narrow(file, &entry.workspace)?;
        Ok(Self {
            name: entry.name.to_string(),
            tokens: entry
                .tokens
                .iter()
                .map(|word| token(file, word))
                .collect::<anyhow::Result<_>>()?,
            jwt: jwt(entry)?,
            quota: quota(file, &entry.quotas)?,
            approves: patterns(&entry.approves)?,
            page: entry.page,
            workspace,
            has_scope: entry.workspace.per.is_some(),
            tools: entry
                .tools
                .as_deref()
                .map(ToolPatterns::compile)
                .transpose()?,
            strictness: entry
                .mode
                .as_ref()
                .map_or(Ok(0), |mode| strictness(file, mode))?,
            grants: entry
                .grants
                .as_ref()
                .map(|grants| granted(file, grants, said))
                .transpose()?,
            limits: GivenLimits::of_section(file, &entry.limits)?,
            rules: rules(file, entry, said)?,
        })
    }

    /// The caller, as records have it.
    pub fn caller(&self) -> String {
        token_caller(&self.name)
    }

    /// Patterns of the tools that it sees; `None` for all of the server's.
    pub fn tools(&self) -> Option<&[String]> {
        self.tools.as_ref().map(ToolPatterns::texts)
    }

    /// `true` if it may see and call the tool, which has these bytes.
    pub fn has_tool(&self, tool: &ToolDeclaration, component: &str, policy: &Policy) -> bool {
        let named = |tools: &ToolPatterns| tools.allow(tool, component, policy);
        self.tools.as_ref().is_none_or(named) || !guard!("principal_tools")
    }

    /// The grants of its calls.
    ///
    /// # Errors
    ///
    /// A grant that reaches beyond `server`, the grants of the server.
    pub fn grants(&self, server: &Arc<Grants>) -> anyhow::Result<Arc<Grants>> {
        let Some(wanted) = &self.grants else {
            return Ok(Arc::clone(server));
        };
        let narrowed = server
            .narrowed(wanted)
            .with_context(|| format!("principal {:?}", self.name))?;
        Ok(Arc::new(narrowed))
    }

    /// The mode and rules of its calls: the server's, and its own.
    pub fn policy(&self, server: &Arc<Policy>) -> Arc<Policy> {
        let is_stricter =
            MODES.iter().position(|mode| *mode == server.mode) < Some(self.strictness);
        let is_own = !self.rules.is_empty() || is_stricter;
        if !is_own || !guard!("principal_rules") {
            return Arc::clone(server);
        }
        let mut policy = (**server).clone();
        if let Some(mode) = MODES.get(self.strictness).filter(|_| is_stricter) {
            policy.mode = *mode;
        }
        self.rules.iter().for_each(|rule| policy.add(rule.clone()));
        Arc::new(policy)
    }

    /// Its workspaces: its own sharing, if it says one, and of each bound the stricter.
    pub fn workspace(&self, server: &WorkspaceConfig) -> WorkspaceConfig {
        let mut own = server.stricter(&self.workspace);
        if self.has_scope {
            own.scope = self.workspace.scope;
        }
        own
    }

    /// The limits of its calls, below the limits of the server.
    pub fn limits(&self, server: &Limits) -> Limits {
        if guard!("principal_limits") {
            self.limits.below(server)
        } else {
            server.clone()
        }
    }
}

fn token(file: &ConfigFile, word: &ConfigText) -> anyhow::Result<String> {
    let digest = word.strip_prefix("sha256:").map(str::to_ascii_lowercase);
    let is_digest = |digest: &String| {
        digest.len() == DIGEST_CHARS && digest.bytes().all(|b| b.is_ascii_hexdigit())
    };
    // The word is not shown: it may be the token itself.
    digest.filter(is_digest).with_context(|| {
        format!(
            "line {}: tokens are given by their digest, sha256:<64 hexadecimal digits>: printf %s TOKEN | sha256sum",
            file.line_of(word)
        )
    })
}

fn jwt(entry: &PrincipalEntry) -> anyhow::Result<Option<JwtMatch>> {
    let claims = entry.claims.iter().map(|(name, texts)| {
        let texts = match texts {
            ClaimTexts::One(text) => vec![text.clone()],
            ClaimTexts::Any(texts) => texts.clone(),
        };
        ensure!(
            !texts.is_empty(),
            "the claim {name:?} has no text that it may have"
        );
        Ok((name.clone(), texts))
    });
    let claims: BTreeMap<_, _> = claims.collect::<anyhow::Result<_>>()?;
    let Some(issuer) = &entry.issuer else {
        ensure!(claims.is_empty(), "claims are those of an issuer: name it");
        return Ok(None);
    };
    Ok(Some(JwtMatch {
        issuer: issuer.to_string(),
        claims,
    }))
}

fn patterns(words: &[ConfigText]) -> anyhow::Result<Vec<WordPattern>> {
    words
        .iter()
        .map(|word| WordPattern::compile(word))
        .collect()
}

fn quota(file: &ConfigFile, section: &QuotaSection) -> anyhow::Result<Quota> {
    let mut quota = Quota {
        calls_at_once: section.calls_at_once,
        calls_per_minute: section.calls_per_minute,
        ..Quota::default()
    };
    let time = |text: &str| duration(text).map(Some);
    file.set(
        &mut quota.cpu_per_day,
        "quotas.cpu_per_day",
        &section.cpu_per_day,
        time,
    )?;
    let bytes = |text: &str| size(text).map(Some);
    file.set(
        &mut quota.bytes_per_day,
        "quotas.bytes_per_day",
        &section.bytes_per_day,
        bytes,
    )?;
    Ok(quota)
}

fn granted(
    file: &ConfigFile,
    section: &GrantSection,
    said: &Provenance<'_>,
) -> anyhow::Result<Grants> {
    let mut grants = Grants::default();
    for word in GrantWord::ALL {
        for spec in section.specs(word) {
            let place = || format!("line {}", file.line_of(spec));
            grants.add(word, spec, said).with_context(place)?;
        }
    }
    Ok(grants)
}

fn rules(
    file: &ConfigFile,
    entry: &PrincipalEntry,
    said: &Provenance<'_>,
) -> anyhow::Result<Vec<Rule>> {
    let one = |rule: &RuleEntry| {
        ensure!(
            rule.actor.is_none(),
            "a rule of a principal is for its own calls; remove actor"
        );
        let rule = compiled_rule(file, rule, said)?;
        ensure!(
            rule.behavior() != Behavior::Allow,
            "a rule of a principal denies or asks: allow can only be said for all callers"
        );
        Ok(rule)
    };
    entry.rules.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::WorkspaceScope;

    fn principal(text: &str) -> Principal {
        let text = format!("[[principal]]\nname = \"anna\"\n{text}\n");
        let file = ConfigFile::parse(&text, Path::new("/")).unwrap();
        let said = Provenance {
            source: RuleSource::UserSettings,
            file: None,
        };
        let mut read = Vec::new();
        Principal::read(&file, &said, &mut read).unwrap();
        read.remove(0)
    }

    #[test]
    fn a_workspace_has_the_stricter_bounds_whichever_file_says_them() {
        let own =
            "workspace = { per = \"principal\", quota = \"2MiB\", max_files = 5, ttl = \"60m\" }";
        let own = principal(own);
        let mut server = WorkspaceConfig::default();
        server.settings.quota.bytes = 1 << 20;
        server.settings.time_to_live = Some(Duration::from_secs(60));
        server.on_failure = toolcell_workspace::OnFailure::RollBack;
        let both = own.workspace(&server);
        assert_eq!(both.scope, WorkspaceScope::Principal);
        assert_eq!(
            (both.settings.quota.bytes, both.settings.quota.files),
            (1 << 20, 5)
        );
        assert_eq!(both.settings.time_to_live, Some(Duration::from_secs(60)));
        assert_eq!(both.on_failure, server.on_failure);
        server.scope = WorkspaceScope::Session;
        assert_eq!(principal("").workspace(&server), server);
    }
}
