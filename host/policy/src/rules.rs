use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};

use crate::RetryPolicy;
use toolcell_spec::{Behavior, Mode, RiskLevel, RuleSource, ToolDeclaration};

use super::pattern::WordPattern;
use super::{PathPattern, Provenance, UrlPattern};

/// Mode and rules of all layers, compiled once for many calls.
///
/// ```
/// use toolcell_policy::{Policy, Provenance, Rule, RuleWords};
/// use toolcell_spec::Mode;
///
/// let words = RuleWords { behavior: "deny", path: Some("**/.env"), ..RuleWords::default() };
/// let policy = Policy::new(Mode::NonInteractive, vec![Rule::compile(&words, &Provenance::COMMAND_LINE)?]);
/// assert_eq!(policy.rules().len(), 1);
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Decides on approvers and effects.
    pub mode: Mode,
    /// Default: none.
    pub retry: RetryPolicy,
    rules: Vec<Rule>,
    /// Each file, with a component digest of its `[[tool]]` entries.
    named: Vec<(PathBuf, String)>,
    /// Each file, with a tool of the lock beside it.
    installed: Vec<(PathBuf, InstalledTool)>,
    /// Each file, with a tool whose names the user gave to bytes, whatever the lock says by now.
    reserved: Vec<(PathBuf, InstalledTool)>,
}

/// Names that a lock binds to bytes.
///
/// ```
/// use toolcell_policy::{InstalledTool, Policy};
///
/// let jq = InstalledTool { name: "jq".to_owned(), component: "sha256:..".to_owned(), claims: vec!["jq.jq".to_owned()] };
/// let mut policy = Policy::default();
/// policy.install("/projects/a/toolcell.toml".as_ref(), jq);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledTool {
    /// The name of the installation, which a rule of the file can use.
    pub name: String,
    /// `sha256:<hex>`.
    pub component: String,
    /// Qualified names and ids of its tools.
    pub claims: Vec<String>,
}

impl InstalledTool {
    fn has(&self, name: &str) -> bool {
        self.name == name || self.claims.iter().any(|claim| claim == name)
    }
}

impl Policy {
    /// Rules apply by the authority of their sources, not in this order.
    pub fn new(mode: Mode, rules: Vec<Rule>) -> Self {
        let mut policy = Self {
            mode,
            rules,
            ..Self::default()
        };
        policy.rules.sort_by_key(|rule| rule.source);
        policy
    }

    /// Weakens no denial or question of another rule.
    pub fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
        self.rules.sort_by_key(|rule| rule.source);
    }

    /// Records a `[[tool]]` of `file`, so that an allow rule of the same file by name means these bytes.
    pub fn name(&mut self, file: &Path, component: &str) {
        self.named.push((file.to_owned(), component.to_owned()));
    }

    /// Records names in the lock beside `file`: its rules mean these bytes, and no other component of its tools can
    /// claim the names.
    pub fn install(&mut self, file: &Path, tool: InstalledTool) {
        self.installed.push((file.to_owned(), tool));
    }

    /// Records names that the user gave to a component beside `file`, even if the lock has it no more: no other
    /// component gets anything by them. A lock that a tool can write gives no name away.
    pub fn reserve(&mut self, file: &Path, tool: InstalledTool) {
        self.reserved.push((file.to_owned(), tool));
    }

    fn is_reserved(&self, file: Option<&PathBuf>, name: &str, component: &str) -> bool {
        let given = || {
            self.reserved
                .iter()
                .filter(move |(of, tool)| Some(of) == file && tool.has(name))
        };
        given().next().is_some()
            && given().all(|(_, tool)| tool.component != component)
            && guard!("reserved_names")
    }

    /// `true` if an installed tool with different bytes has the qualified name or id, or the bare name if `means`
    /// accepts none of the others: grants and roles are for the installed one. Names of these bytes' own installation
    /// are theirs.
    pub fn is_impostor(
        &self,
        tool: &ToolDeclaration,
        component: &str,
        means: impl Fn(&str) -> bool,
    ) -> bool {
        if self.installed.is_empty() && self.reserved.is_empty() {
            return false;
        }
        let installed = || {
            self.installed
                .iter()
                .chain(&self.reserved)
                .map(|(_, tool)| tool)
        };
        let is_own =
            |name: &str| installed().any(|tool| tool.component == component && tool.has(name));
        let is_taken =
            |name: &str| installed().any(|tool| tool.component != component && tool.has(name));
        any_taken(tool, means, |name| is_taken(name) && !is_own(name)) && guard!("impostors")
    }

    /// Names with digests of their bytes, for people who ask what changed.
    pub fn bound_names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.installed.iter().flat_map(|(_, tool)| {
            tool.claims
                .iter()
                .chain([&tool.name])
                .map(move |name| (name.as_str(), tool.component.as_str()))
        })
    }

    fn installed_beside(&self, file: Option<&PathBuf>) -> impl Iterator<Item = &InstalledTool> {
        self.installed
            .iter()
            .filter(move |(of, _)| Some(of) == file)
            .map(|(_, tool)| tool)
    }

    /// Highest authority first.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

/// A rule as written, of which every named subject must match.
///
/// ```
/// use toolcell_policy::{Provenance, Rule, RuleWords};
///
/// let words = RuleWords { behavior: "ask", tool: Some("patch.*"), ..RuleWords::default() };
/// assert_eq!(Rule::compile(&words, &Provenance::COMMAND_LINE)?.words(), r#"ask tool "patch.*""#);
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleWords<'a> {
    /// `allow`, `ask` or `deny`.
    pub behavior: &'a str,
    /// Pattern of the qualified name, name or `tool_id`, such as `patch.*`.
    pub tool: Option<&'a str>,
    /// Pattern of the tool's namespace.
    pub namespace: Option<&'a str>,
    /// `sha256:<hex>` of the bytes, because a tool's name is its own claim.
    pub component: Option<&'a str>,
    /// Pattern of a path that the call names or could reach. `*` matches within one name, `**` across folders. In a
    /// denial or a question, `**/` begins in every folder; other relative patterns start at the file.
    pub path: Option<&'a str>,
    /// Pattern of a URL that the call names or could reach.
    pub url: Option<&'a str>,
    /// Pattern of another named resource.
    pub resource: Option<&'a str>,
    /// Pattern of a named command, with one space between words. A command with quotes, `;`, `$` or other signs of a
    /// shell is met by every `deny` and `ask`, and by no `allow`.
    pub command: Option<&'a str>,
    /// Pattern of an operation's id in another protocol, named by the call or declared by the tool.
    pub native_operation_id: Option<&'a str>,
    /// Tools of at least this risk.
    pub risk: Option<&'a str>,
    /// Pattern of the caller, as `actor_ref` of its records has it, such as `token:anna`.
    pub actor: Option<&'a str>,
    /// For the approver, or the denied caller.
    pub reason: Option<&'a str>,
}

/// A compiled rule.
///
/// ```
/// use toolcell_policy::{Provenance, Rule, RuleWords};
///
/// let misspelt = RuleWords { behavior: "forbid", ..RuleWords::default() };
/// let error = Rule::compile(&misspelt, &Provenance::COMMAND_LINE).map_err(|error| error.to_string()).err();
/// assert_eq!(error.as_deref(), Some("behavior \"forbid\" is not one of: allow, ask, deny"));
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) behavior: Behavior,
    pub(super) source: RuleSource,
    pub(super) words: String,
    pub(super) tool: Option<WordPattern>,
    pub(super) namespace: Option<WordPattern>,
    pub(super) component: Option<String>,
    pub(super) path: Option<PathPattern>,
    pub(super) url: Option<UrlPattern>,
    pub(super) resource: Option<WordPattern>,
    pub(super) command: Option<WordPattern>,
    pub(super) native_operation_id: Option<WordPattern>,
    pub(super) risk: Option<RiskLevel>,
    pub(super) actor: Option<WordPattern>,
    pub(super) reason: Option<String>,
    file: Option<PathBuf>,
}

impl Rule {
    /// Compiles `words`.
    ///
    /// # Errors
    ///
    /// An invalid behavior, risk, component digest or pattern, a relative path in the user's own file, and an allowed
    /// path of a project's file that leads through a link inside the project.
    pub fn compile(words: &RuleWords<'_>, said: &Provenance<'_>) -> anyhow::Result<Self> {
        let behavior = match words.behavior {
            "allow" => Behavior::Allow,
            "ask" => Behavior::Ask,
            "deny" => Behavior::Deny,
            other => anyhow::bail!("behavior {other:?} is not one of: allow, ask, deny"),
        };
        let word = |name: &str, text: Option<&str>| {
            text.map(|text| WordPattern::compile(text).with_context(|| format!("{name} {text:?}")))
                .transpose()
        };
        let path = words
            .path
            .map(|text| path_pattern(text, behavior, said).context(format!("path {text:?}")));
        let path = path.transpose()?;
        if let Some(pattern) = path.as_ref().filter(|_| behavior == Behavior::Allow) {
            said.own_link(pattern.links(), pattern.prefix())?;
        }
        let url = words
            .url
            .map(|text| UrlPattern::compile(text).with_context(|| format!("url {text:?}")));
        let risk = words.risk.map(risk).transpose()?;
        if let Some(digest) = words.component {
            let hex = digest.strip_prefix("sha256:").unwrap_or_default();
            ensure!(
                hex.len() == 64 && hex.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')),
                "component {digest:?} is not sha256:<hex>"
            );
        }
        Ok(Self {
            behavior,
            source: said.source,
            words: describe(words, said),
            tool: word("tool", words.tool)?,
            namespace: word("namespace", words.namespace)?,
            component: words.component.map(str::to_owned),
            path,
            url: url.transpose()?,
            resource: word("resource", words.resource)?,
            command: word("command", words.command)?,
            native_operation_id: word("native_operation_id", words.native_operation_id)?,
            risk,
            actor: word("actor", words.actor)?,
            reason: words.reason.map(str::to_owned),
            file: said.file.map(Path::to_owned),
        })
    }

    /// `true` if the name counts. A tool's name is its own claim, which another may share, so an allow rule needs bound
    /// bytes: by `component`, by the lock beside the file, or by a `[[tool]]` of the file, and no other installed tool
    /// may have the name. An installation's name is the user's own word. Deny and ask rules count for every tool of
    /// that name.
    pub(super) fn may_name(
        &self,
        policy: &Policy,
        tool: &ToolDeclaration,
        component: &str,
    ) -> bool {
        let is_by_name = self.tool.is_some() || self.namespace.is_some();
        if self.behavior != Behavior::Allow
            || !is_by_name
            || self.component.is_some()
            || !guard!("bound_names")
        {
            return true;
        }
        if let Some(pattern) = &self.tool
            && self
                .installed_as(policy, component)
                .any(|name| pattern.matches(name))
        {
            return true;
        }
        let is_installed = policy
            .installed_beside(self.file.as_ref())
            .any(|tool| tool.component == component);
        let is_bound = policy
            .named
            .iter()
            .any(|(named, digest)| Some(named) == self.file.as_ref() && digest == component);
        (is_installed || is_bound) && !self.is_taken(policy, tool, component)
    }

    /// `true` if an installed tool of the same file, with other bytes, has the qualified name or id, or the bare name
    /// if the rule matches only that.
    fn is_taken(&self, policy: &Policy, tool: &ToolDeclaration, component: &str) -> bool {
        let is_claimed = |name: &str| {
            let file = self.file.as_ref();
            policy
                .installed_beside(file)
                .any(|tool| tool.component != component && tool.has(name))
                || policy.is_reserved(file, name, component)
        };
        let matches = |name: &str| {
            self.tool
                .as_ref()
                .is_none_or(|pattern| pattern.matches(name))
        };
        any_taken(tool, matches, is_claimed) && guard!("installed_names")
    }

    pub(super) fn installed_as<'a>(
        &'a self,
        policy: &'a Policy,
        component: &'a str,
    ) -> impl Iterator<Item = &'a str> {
        let tools = policy
            .installed_beside(self.file.as_ref())
            .filter(move |tool| tool.component == component);
        tools.map(|tool| tool.name.as_str())
    }

    pub fn behavior(&self) -> Behavior {
        self.behavior
    }

    pub fn source(&self) -> RuleSource {
        self.source
    }

    pub fn words(&self) -> &str {
        &self.words
    }
}

/// The bare name counts only if `means` accepts nothing else.
fn any_taken(
    tool: &ToolDeclaration,
    means: impl Fn(&str) -> bool,
    is_taken: impl Fn(&str) -> bool,
) -> bool {
    let qualified = tool.qualified_name();
    let by_bare_name = !means(&qualified) && !means(&tool.tool_id);
    is_taken(&qualified) || is_taken(&tool.tool_id) || (by_bare_name && is_taken(&tool.name))
}

fn risk(word: &str) -> anyhow::Result<RiskLevel> {
    let unknown = |_| anyhow!("risk {word:?} is not one of: low, medium, high, critical");
    word.parse().map_err(unknown)
}

/// A denial or a question of `**/NAME` is about every folder, because the file's folder says nothing about where calls
/// are made.
fn path_pattern(
    text: &str,
    behavior: Behavior,
    said: &Provenance<'_>,
) -> anyhow::Result<PathPattern> {
    let is_anywhere = text == "**" || text.starts_with("**/");
    if is_anywhere && behavior != Behavior::Allow && guard!("rules_anywhere") {
        return PathPattern::compile(text, Path::new("/"));
    }
    said.leads_somewhere(text, "; to mean it in every folder, put **/ before it")?;
    PathPattern::compile(text, said.base())
}

fn describe(words: &RuleWords<'_>, said: &Provenance<'_>) -> String {
    let mut text = words.behavior.to_owned();
    for (name, value) in [
        ("tool", words.tool),
        ("namespace", words.namespace),
        ("component", words.component),
        ("path", words.path),
        ("url", words.url),
        ("resource", words.resource),
        ("command", words.command),
        ("native_operation_id", words.native_operation_id),
        ("risk", words.risk),
        ("actor", words.actor),
    ] {
        if let Some(value) = value {
            text.push_str(&format!(" {name} {value:?}"));
        }
    }
    if let Some(file) = said.file {
        text.push_str(&format!(" in {}", file.display()));
    }
    text
}
