//! Compares rules with a call, and gives reasons.

use std::path::PathBuf;

use toolcell_spec::{AccessKind, Behavior, RiskLevel, RuleSource, ToolDeclaration};

use super::call_subjects::{CallSubjects, NamedCommand, NamedPath, NamedUrl};
use super::pattern::WordPattern;
use super::{Capability, DecisionCase, Denial, PathPattern, Policy, Rule, UrlPattern};

/// Comparison of a rule with a call.
///
/// ```
/// use toolcell_policy::{Explanation, RuleMatch};
///
/// /// The rules that apply to the call, as they are written.
/// fn applied(explanation: &Explanation) -> Vec<&str> {
///     explanation.looks.iter().filter(|look| look.matched).map(|look: &RuleMatch| look.rule.as_str()).collect()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct RuleMatch {
    pub rule: String,
    pub behavior: Behavior,
    pub source: RuleSource,
    pub matched: bool,
    pub subject: Option<String>,
    pub why: String,
    /// `true` if the matching rule does not count, because it allows a name that is not bound to a component digest;
    /// `why` says how to bind it.
    pub unbound: bool,
    pub(super) names_tool: bool,
    pub(super) reason: Option<String>,
    pub(super) blocked: Option<PathBuf>,
}

pub(super) fn matching(
    looks: &[RuleMatch],
    behavior: Behavior,
) -> impl Iterator<Item = &RuleMatch> {
    let is_matching = move |look: &&RuleMatch| look.matched && look.behavior == behavior;
    looks.iter().filter(is_matching)
}

pub(super) struct RuleCall<'a> {
    pub(super) case: &'a DecisionCase<'a>,
    pub(super) risk: RiskLevel,
    pub(super) named: &'a CallSubjects,
    pub(super) wide: &'a Capability,
}

type RuleMiss = String;

impl RuleCall<'_> {
    pub(super) fn look(&self, rule: &Rule) -> RuleMatch {
        let mut found = self.compare(rule);
        let component = &self.case.subject.component;
        let unbound =
            found.is_ok() && !rule.may_name(self.case.policy, self.case.declared.tool, component);
        if unbound {
            found = Err(format!(
                "it allows the tool by name, and the name is the tool's own claim, or that of an installed tool; to mean \
                 these bytes, add component = \"{component}\" to the rule, or install it and name it as it is installed, \
                 or name the component as a [[tool]] of the same file"
            ));
        }
        let (subject, blocked, why) = match &found {
            Ok(hit) => (
                hit.subject.clone(),
                hit.blocked.clone(),
                "every subject of the rule matches".to_owned(),
            ),
            Err(miss) => (None, None, miss.clone()),
        };
        RuleMatch {
            rule: rule.words.clone(),
            behavior: rule.behavior,
            source: rule.source,
            matched: found.is_ok(),
            subject,
            why,
            unbound,
            names_tool: rule.tool.is_some() || rule.component.is_some(),
            reason: rule.reason.clone(),
            blocked,
        }
    }

    fn compare(&self, rule: &Rule) -> Result<SubjectMatch, RuleMiss> {
        let mut hit = SubjectMatch {
            subject: self.names(rule)?,
            blocked: None,
        };
        if let Some(pattern) = &rule.url {
            hit.subject = Some(self.url(rule.behavior, pattern)?);
        }
        if let Some(pattern) = &rule.path {
            let path = self.path(rule.behavior, pattern)?;
            hit.subject = Some(path.display().to_string());
            hit.blocked = (rule.behavior == Behavior::Deny).then_some(path);
        }
        Ok(hit)
    }

    /// Compares everything but paths and URLs, which the sandbox can close one by one. Returns a matching subject, if
    /// the rule names one.
    fn names(&self, rule: &Rule) -> Result<Option<String>, RuleMiss> {
        let component = &self.case.subject.component;
        is_named(rule, self.case.policy, self.case.declared.tool, component)?;
        if let Some(risk) = rule.risk.filter(|risk| self.risk < *risk) {
            return Err(format!("the risk is {:?}, less than {risk:?}", self.risk).to_lowercase());
        }
        if let Some(pattern) = &rule.actor {
            let is_meant = |actor: &str| pattern.matches(actor);
            if !self.case.actor.as_deref().is_some_and(is_meant) {
                return Err("the caller is another one".to_owned());
            }
        }
        let mut subject = None;
        if let Some(pattern) = &rule.native_operation_id {
            subject = Some(self.operation(rule.behavior, pattern)?);
        }
        if let Some(pattern) = &rule.command {
            subject = Some(self.command(rule.behavior, pattern)?);
        }
        if let Some(pattern) = &rule.resource {
            let found = some_or_all(rule.behavior, &self.named.resources, |resource| {
                pattern.matches(resource)
            });
            subject = Some(
                found
                    .cloned()
                    .ok_or_else(|| "no argument names such a resource".to_owned())?,
            );
        }
        Ok(subject)
    }

    /// Denials and questions match a command that a shell could read in another way.
    fn command(&self, behavior: Behavior, pattern: &WordPattern) -> Result<String, RuleMiss> {
        let about = |command: &NamedCommand| match behavior {
            Behavior::Allow => command.plain && pattern.matches(&command.text),
            _ => {
                !command.plain
                    || pattern.matches(&command.text)
                    || pattern.matches(command.by_name())
            }
        };
        let found = some_or_all(behavior, &self.named.commands, about);
        found
            .map(|command| command.text.clone())
            .ok_or_else(|| "no argument names such a command".to_owned())
    }

    /// Operations in the arguments, or else the tool's declared ids in other protocols.
    fn operation(&self, behavior: Behavior, pattern: &WordPattern) -> Result<String, RuleMiss> {
        let named = &self.named.operations;
        let declared = self.case.declared.native_ids;
        let found = match behavior {
            Behavior::Allow if named.is_empty() => {
                some_or_all(behavior, declared, |id| pattern.matches(id))
            }
            Behavior::Allow => some_or_all(behavior, named, |id| pattern.matches(id)),
            _ => named.iter().chain(declared).find(|id| pattern.matches(id)),
        };
        found
            .cloned()
            .ok_or_else(|| "neither the tool nor an argument names such an operation".to_owned())
    }

    /// `true` if the sandbox must close the rule's paths and URLs: it denies them, or no question is asked because the
    /// arguments do not name them. With both, [`Self::closes_path`] checks the URL.
    fn closes(&self, rule: &Rule) -> bool {
        let closes = match rule.behavior {
            Behavior::Deny => true,
            Behavior::Ask => self.compare(rule).is_err(),
            Behavior::Allow | Behavior::Passthrough => false,
        };
        closes && self.names(rule).is_ok()
    }

    /// Where the rule has a URL too, the call must name it.
    pub(super) fn closes_path(&self, rule: &Rule) -> bool {
        self.closes(rule)
            && rule
                .url
                .as_ref()
                .is_none_or(|url| self.url(rule.behavior, url).is_ok())
    }

    fn url(&self, behavior: Behavior, pattern: &UrlPattern) -> Result<String, RuleMiss> {
        let about = |named: &NamedUrl| match behavior {
            Behavior::Allow => pattern.covers(&named.url),
            _ => pattern.touches(&named.url, named.plain),
        };
        if let Some(named) = some_or_all(behavior, &self.named.urls, about) {
            return Ok(named.url.as_str().to_owned());
        }
        // A call that names no URL could request this one.
        let anywhere =
            self.named.urls.is_empty() && self.case.declared.profile.wants(&AccessKind::Network);
        match behavior {
            Behavior::Ask if anywhere => Ok("any URL".to_owned()),
            _ => Err("no argument names such a URL".to_owned()),
        }
    }

    fn path(&self, behavior: Behavior, pattern: &PathPattern) -> Result<PathBuf, RuleMiss> {
        let changing = |link: &PathBuf| {
            self.case
                .grants
                .changing(link)
                .filter(|_| guard!("grant_links"))
        };
        if behavior == Behavior::Allow
            && let Some((link, by)) = pattern
                .links()
                .iter()
                .find_map(|link| Some((link, changing(link)?)))
        {
            return Err(format!(
                "its path leads through the link {}, which {} lets tools change",
                link.display(),
                by.rule
            ));
        }
        let about = |path: &NamedPath| match behavior {
            Behavior::Allow => pattern.covers(&path.host),
            _ => path.touches(pattern),
        };
        if let Some(path) = some_or_all(behavior, &self.named.paths, about) {
            return Ok(path.host.clone());
        }
        let mounts = &self.wide.mounts;
        let open = match behavior {
            _ if !self.named.paths.is_empty() => None,
            // A call that names no path could open anything in its mounts.
            Behavior::Ask => mounts
                .iter()
                .find(|mount| pattern.reaches_into(&mount.host)),
            Behavior::Allow => some_or_all(behavior, mounts, |mount| pattern.covers(&mount.host)),
            // The sandbox enforces the denial, so the rest of the call can go on.
            Behavior::Deny | Behavior::Passthrough => None,
        };
        open.map(|mount| mount.host.clone())
            .ok_or_else(|| "nothing that the call names lies there".to_owned())
    }
}

#[derive(Default)]
struct SubjectMatch {
    subject: Option<String>,
    blocked: Option<PathBuf>,
}

/// A denial or a question needs one matching subject, an allowance all.
fn some_or_all<T>(behavior: Behavior, subjects: &[T], matches: impl Fn(&T) -> bool) -> Option<&T> {
    match behavior {
        Behavior::Allow => subjects.first().filter(|_| subjects.iter().all(matches)),
        _ => subjects.iter().find(|subject| matches(subject)),
    }
}

pub(super) fn is_named(
    rule: &Rule,
    policy: &Policy,
    tool: &ToolDeclaration,
    component: &str,
) -> Result<(), RuleMiss> {
    let namespace = &tool.namespace;
    if let Some(pattern) = &rule.tool {
        let qualified = tool.qualified_name();
        let own = [qualified.as_str(), &tool.tool_id, &tool.name];
        let mut names = own.into_iter().chain(rule.installed_as(policy, component));
        if !names.any(|name| pattern.matches(name)) {
            return Err(format!("the tool is {qualified}"));
        }
    }
    let is_other = |pattern: &WordPattern| !pattern.matches(namespace);
    if rule.namespace.as_ref().is_some_and(is_other) {
        return Err(format!("the namespace is {namespace}"));
    }
    match rule.component.as_deref() {
        Some(named) if named != component => Err(format!("the component is {component}")),
        _ => Ok(()),
    }
}

/// Places that the sandbox closes: denied, or not asked about because the arguments do not name them.
pub(super) fn closed_places(call: &RuleCall<'_>) -> (Vec<Denial>, Vec<UrlPattern>) {
    let mut paths = Vec::new();
    let mut urls = Vec::new();
    for rule in call.case.policy.rules() {
        match (&rule.path, &rule.url) {
            (Some(what), _) if call.closes_path(rule) => {
                paths.extend(what.with_way().map(|what| Denial {
                    what,
                    read: true,
                    by_host: false,
                }));
            }
            (None, Some(url)) if call.closes(rule) => urls.push(url.clone()),
            _ => {}
        }
    }
    (paths, urls)
}
