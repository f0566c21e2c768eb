use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use toolcell_spec::RuleSource;
use toolcell_system::pseudo_files;
use toolcell_system::resolved_path::ResolvedPath;

use super::network::NetworkRule;
use super::place::{named, resolve, rooted};
use super::{Denial, NetworkGrants, PathPattern, Provenance, SecretGrant, ToolGrant};

/// Guest path of the caller's workspace.
pub const WORKSPACE: &str = "/workspace";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderGrant {
    /// Canonical: links are followed once, when the grant is read.
    pub host: PathBuf,
    /// Followed links. A call is refused while one lies where a tool may write.
    pub links: Vec<PathBuf>,
    /// The host path unless mapped.
    pub guest: String,
    /// The folder's path as the caller knows it, where links lead from it to `host`, and nothing is mapped.
    pub alias: Option<String>,
    /// As written, for the record: `--allow-read=src`.
    pub rule: String,
    pub source: RuleSource,
    /// Name of the workspace, for a folder that toolcell keeps for the caller, in its own state.
    pub workspace: Option<String>,
}

impl FolderGrant {
    /// Its paths inside the tool.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        [self.guest.as_str()]
            .into_iter()
            .chain(self.alias.as_deref())
    }
}

/// A path that is closed whatever is granted, as is each symbolic link on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedPath {
    /// Canonical, so far as it exists.
    pub host: PathBuf,
    pub rule: String,
    pub source: RuleSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableGrant {
    pub name: String,
    pub rule: String,
    pub source: RuleSource,
}

/// A folder that a file grants and that does not exist: a tool with files has to wait for it (AT-LIFE-04).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFolder {
    pub host: PathBuf,
    pub rule: String,
}

impl MissingFolder {
    /// `None` for another word, and for a folder that exists or cannot be looked up.
    pub fn find(word: GrantWord, spec: &str, said: &Provenance<'_>) -> Option<Self> {
        if !matches!(word, GrantWord::Read | GrantWord::Write) {
            return None;
        }
        let (host, _) = halves(spec, said).ok()?;
        let host = rooted(host, said.base()).ok()?;
        let looked = std::fs::metadata(&host);
        looked
            .is_err_and(|error| error.kind() == ErrorKind::NotFound)
            .then(|| Self {
                host,
                rule: word.words(spec, said),
            })
    }
}

/// Grants of a caller to the tools that it calls; by default nothing.
///
/// ```
/// use toolcell_policy::{GrantWord, Grants, Provenance};
///
/// let mut grants = Grants::default();
/// grants.add(GrantWord::Net, "GET+HEAD@api.example.com", &Provenance::COMMAND_LINE)?;
/// grants.add(GrantWord::Env, "LANG", &Provenance::COMMAND_LINE)?;
/// assert_eq!(grants.variables[0].rule, "--allow-env=LANG");
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Grants {
    pub read: Vec<FolderGrant>,
    /// Includes reading.
    pub write: Vec<FolderGrant>,
    /// They grant nothing.
    pub missing: Vec<MissingFolder>,
    pub environment: Vec<(String, String)>,
    /// The grants behind `environment`, unset variables included.
    pub variables: Vec<VariableGrant>,
    /// Values stay in the store until needed.
    pub secrets: Vec<SecretGrant>,
    pub tools: Vec<ToolGrant>,
    /// Paths closed for reading and writing.
    pub deny_read: Vec<ClosedPath>,
    /// Paths closed for writing.
    pub deny_write: Vec<ClosedPath>,
    /// Folders that a denial's path leaves through `..`. A tool may not move or replace them, because that would undo
    /// the denial.
    pub held: Vec<PathBuf>,
    /// Folders that hooks may change, in a tool's grants, and the reverse. They grant nothing, but links in them are
    /// not trusted, as in [`Self::write`].
    pub changeable: Vec<FolderGrant>,
    /// Includes denials.
    pub network: NetworkGrants,
    /// `true` if meant for one component only.
    pub for_one: bool,
    /// The caller's; relative paths start here, where a grant covers it.
    pub cwd: Option<PathBuf>,
}

/// Kind of grant or denial: an option, or an entry of `[grants]` in a file.
///
/// ```
/// use toolcell_policy::{GrantWord, Grants, Provenance};
///
/// # fn example() -> anyhow::Result<()> {
/// // --allow-read=. --deny-read=.git
/// let mut grants = Grants::default();
/// grants.add(GrantWord::Read, ".", &Provenance::COMMAND_LINE)?;
/// grants.add(GrantWord::DenyRead, ".git", &Provenance::COMMAND_LINE)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantWord {
    /// A folder and everything below it.
    Read,
    /// Includes reading.
    Write,
    Env,
    /// Closes a path for reading and writing.
    DenyRead,
    /// Closes a path for writing.
    DenyWrite,
    Net,
    /// In requests to one origin.
    Secret,
    Tool,
    DenyNet,
}

impl GrantWord {
    /// In the order of application.
    pub const ALL: [Self; 9] = [
        Self::Read,
        Self::Write,
        Self::Env,
        Self::DenyRead,
        Self::DenyWrite,
        Self::Net,
        Self::Secret,
        Self::Tool,
        Self::DenyNet,
    ];

    pub fn option(self) -> &'static str {
        self.names().0
    }

    pub fn entry(self) -> &'static str {
        self.names().1
    }

    pub fn is_path(self) -> bool {
        match self {
            Self::Read | Self::Write | Self::DenyRead | Self::DenyWrite => true,
            Self::Env | Self::Net | Self::Secret | Self::Tool | Self::DenyNet => false,
        }
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Read => ("--allow-read", "read"),
            Self::Write => ("--allow-write", "write"),
            Self::Env => ("--allow-env", "env"),
            Self::DenyRead => ("--deny-read", "deny_read"),
            Self::DenyWrite => ("--deny-write", "deny_write"),
            Self::Net => ("--allow-net", "net"),
            Self::Secret => ("--allow-secret", "secret"),
            Self::Tool => ("--allow-tool", "tool"),
            Self::DenyNet => ("--deny-net", "deny_net"),
        }
    }

    fn words(self, spec: &str, said: &Provenance<'_>) -> String {
        said.words(self.option(), self.entry(), spec)
    }
}

impl Grants {
    /// Adds `spec`: `HOST` or `HOST=GUEST` for folders, a name for the environment, a path for a denial of files, a
    /// [`super::network::NetworkRule`] for the network, `NAME@ORIGIN` for a secret, a pattern of qualified names for
    /// tools. An unset environment variable grants nothing.
    ///
    /// # Errors
    ///
    /// A `spec` that is malformed, ambiguous, or a path that cannot be resolved.
    pub fn add(
        &mut self,
        word: GrantWord,
        spec: &str,
        said: &Provenance<'_>,
    ) -> anyhow::Result<()> {
        let rule = word.words(spec, said);
        self.add_words(word, spec, said, &rule)
            .with_context(|| rule.clone())
    }

    fn add_words(
        &mut self,
        word: GrantWord,
        spec: &str,
        said: &Provenance<'_>,
        rule: &str,
    ) -> anyhow::Result<()> {
        let closed = || {
            said.leads_somewhere(spec, "")?;
            plain_path(spec, said)
        };
        match word {
            GrantWord::Read | GrantWord::Write => {
                self.add_folder(folder(word, spec, said)?, word == GrantWord::Write)?;
            }
            GrantWord::Env => {
                self.environment.extend(variable(spec)?);
                let name = spec.to_owned();
                let rule = rule.to_owned();
                self.variables.push(VariableGrant {
                    name,
                    rule,
                    source: said.source,
                });
            }
            GrantWord::DenyRead => self.close(closed()?, true, rule, said.source),
            GrantWord::DenyWrite => self.close(closed()?, false, rule, said.source),
            GrantWord::Net => self
                .network
                .allow
                .push(NetworkRule::allow(spec, rule, said.source)?),
            GrantWord::Secret => self
                .secrets
                .push(SecretGrant::parse(spec, rule, said.source)?),
            GrantWord::Tool => self.tools.push(ToolGrant::parse(spec, rule, said.source)?),
            GrantWord::DenyNet => {
                self.network
                    .deny
                    .push(NetworkRule::deny(spec, rule, said.source)?)
            }
        }
        Ok(())
    }

    /// `--allow-read=SPEC`, where `SPEC` is `HOST` or `HOST=GUEST`.
    pub fn allow_read(&mut self, spec: &str) -> anyhow::Result<()> {
        self.add(GrantWord::Read, spec, &Provenance::COMMAND_LINE)
    }

    /// `--allow-write=SPEC`.
    pub fn allow_write(&mut self, spec: &str) -> anyhow::Result<()> {
        self.add(GrantWord::Write, spec, &Provenance::COMMAND_LINE)
    }

    /// `--allow-env=NAME`, with this process's value.
    pub fn allow_env(&mut self, name: &str) -> anyhow::Result<()> {
        self.add(GrantWord::Env, name, &Provenance::COMMAND_LINE)
    }

    /// `--deny-read=PATH`: nothing below it is opened.
    pub fn deny_read(&mut self, path: &str) -> anyhow::Result<()> {
        self.add(GrantWord::DenyRead, path, &Provenance::COMMAND_LINE)
    }

    /// `--deny-write=PATH`: nothing below it is changed.
    pub fn deny_write(&mut self, path: &str) -> anyhow::Result<()> {
        self.add(GrantWord::DenyWrite, path, &Provenance::COMMAND_LINE)
    }

    /// `--allow-net=SPEC`, a [`super::network::NetworkRule`].
    pub fn allow_net(&mut self, spec: &str) -> anyhow::Result<()> {
        self.add(GrantWord::Net, spec, &Provenance::COMMAND_LINE)
    }

    /// `--allow-secret=NAME@ORIGIN`: requests of declaring tools to exactly that origin may carry it. The network
    /// itself is not granted.
    pub fn allow_secret(&mut self, spec: &str) -> anyhow::Result<()> {
        self.add(GrantWord::Secret, spec, &Provenance::COMMAND_LINE)
    }

    /// `--allow-tool=PATTERN` of qualified names, for declaring tools.
    pub fn allow_tool(&mut self, pattern: &str) -> anyhow::Result<()> {
        self.add(GrantWord::Tool, pattern, &Provenance::COMMAND_LINE)
    }

    /// `--deny-net=SPEC`: such requests are never sent.
    pub fn deny_net(&mut self, spec: &str) -> anyhow::Result<()> {
        self.add(GrantWord::DenyNet, spec, &Provenance::COMMAND_LINE)
    }

    /// Like `--deny-write`, recorded as `rule`, for the target and the links on the way.
    pub fn keep(&mut self, path: &Path, rule: &str, source: RuleSource) -> anyhow::Result<()> {
        let full = std::path::absolute(path)
            .with_context(|| format!("cannot find the path {}", path.display()))?;
        self.close(ResolvedPath::resolve(&full)?, false, rule, source);
        Ok(())
    }

    /// [`Self::keep`] that never fails. If `path` cannot be resolved (a loop of links, a folder that may not be
    /// entered), it denies writing to every link on the way and where resolution stops, so that nothing can be created
    /// at `path`. Denied places are not repeated.
    pub fn keep_so_far(&mut self, path: &Path, rule: &str, source: RuleSource) {
        self.close_so_far(path, false, rule, source);
    }

    /// [`Self::keep_so_far`] that denies reading, too.
    pub fn shut_so_far(&mut self, path: &Path, rule: &str, source: RuleSource) {
        self.close_so_far(path, true, rule, source);
    }

    fn close_so_far(&mut self, path: &Path, read: bool, rule: &str, source: RuleSource) {
        // `absolute` fails for a relative path in a deleted working directory; such a path leads nowhere.
        let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let resolved = ResolvedPath::so_far(&full);
        let known = if read {
            &self.deny_read
        } else {
            &self.deny_write
        };
        let is_closed =
            |place: &PathBuf| known.iter().any(|closed| place.starts_with(&closed.host));
        if !resolved.links.iter().chain([&resolved.end]).all(is_closed) || !resolved.left.is_empty()
        {
            self.close(resolved, read, rule, source);
        }
    }

    /// Closes links too, because a tool that replaced one would undo the denial.
    fn close(&mut self, resolved: ResolvedPath, read: bool, rule: &str, source: RuleSource) {
        let ResolvedPath { end, links, left } = resolved;
        let links = links.into_iter().filter(|_| guard!("denied_links"));
        let closed = links.chain([end]).map(|host| ClosedPath {
            host,
            rule: rule.to_owned(),
            source,
        });
        if read {
            self.deny_read.extend(closed)
        } else {
            self.deny_write.extend(closed)
        }
        self.held.extend(left);
    }

    /// Grants the files `tree` of the workspace `name` as `/workspace`, for reading and writing, and starts relative paths
    /// there. `tree` is canonical.
    ///
    /// # Errors
    ///
    /// Another folder has that path inside the tool.
    pub fn add_workspace(&mut self, tree: &Path, name: &str) -> anyhow::Result<()> {
        let grant = FolderGrant {
            host: tree.to_owned(),
            links: Vec::new(),
            guest: WORKSPACE.to_owned(),
            alias: None,
            rule: format!("--workspace={name}"),
            source: RuleSource::CliArg,
            workspace: Some(name.to_owned()),
        };
        self.add_folder(grant, true)?;
        self.cwd = Some(tree.to_owned());
        Ok(())
    }

    pub(super) fn changing(&self, place: &Path) -> Option<&FolderGrant> {
        self.write
            .iter()
            .chain(&self.changeable)
            .find(|grant| place.starts_with(&grant.host))
    }

    /// Fails if two folders would have the same guest path.
    pub fn extend(&mut self, other: &Self) -> anyhow::Result<()> {
        for (folders, write) in [(&other.read, false), (&other.write, true)] {
            for grant in folders {
                self.add_folder(grant.clone(), write)?;
            }
        }
        self.missing.extend(other.missing.iter().cloned());
        self.environment.extend(other.environment.iter().cloned());
        self.variables.extend(other.variables.iter().cloned());
        self.deny_read.extend(other.deny_read.iter().cloned());
        self.deny_write.extend(other.deny_write.iter().cloned());
        self.held.extend(other.held.iter().cloned());
        self.changeable.extend(other.changeable.iter().cloned());
        self.secrets.extend(other.secrets.iter().cloned());
        self.tools.extend(other.tools.iter().cloned());
        self.network.extend(&other.network);
        Ok(())
    }

    /// Each grant as it was written, for people.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        let folders = self.read.iter().chain(&self.write);
        let folders = folders.map(|grant| grant.rule.as_str());
        let variables = self.variables.iter().map(|grant| grant.rule.as_str());
        let secrets = self.secrets.iter().map(|grant| grant.rule.as_str());
        let tools = self.tools.iter().map(|grant| grant.rule.as_str());
        let requests = self.network.granted().map(|(words, _)| words);
        folders
            .chain(requests)
            .chain(secrets)
            .chain(variables)
            .chain(tools)
    }

    /// Writable ones first.
    pub fn folders(&self) -> impl Iterator<Item = &FolderGrant> {
        self.write.iter().chain(&self.read)
    }

    /// Fails if another folder has the same guest path.
    pub(super) fn add_folder(&mut self, grant: FolderGrant, write: bool) -> anyhow::Result<()> {
        let is_same = |other: &&FolderGrant| other.guest == grant.guest && other.host != grant.host;
        if let Some(other) = self.folders().find(is_same) {
            bail!(
                "{} and {} give two folders the same path inside the tool",
                other.rule,
                grant.rule
            );
        }
        if write {
            self.write.push(grant);
        } else {
            self.read.push(grant);
        }
        Ok(())
    }

    pub(super) fn closed(&self) -> impl Iterator<Item = (&ClosedPath, bool)> {
        let read = self.deny_read.iter().map(|path| (path, true));
        read.chain(self.deny_write.iter().map(|path| (path, false)))
    }

    pub(super) fn denials(&self) -> Vec<Denial> {
        let closed = self.closed().map(|(path, read)| Denial {
            what: PathPattern::below(path.host.clone()),
            read,
            by_host: path.source == RuleSource::PolicySettings,
        });
        let held = self.held.iter().map(|folder| Denial {
            what: PathPattern::itself(folder.clone()),
            read: false,
            by_host: true,
        });
        closed.chain(held).collect()
    }
}

fn variable(name: &str) -> anyhow::Result<Option<(String, String)>> {
    if name.is_empty() || name.contains(['=', '\0']) {
        bail!("not a name of an environment variable");
    }
    match std::env::var(name) {
        Ok(value) => Ok(Some((name.to_owned(), value))),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(error).context("cannot read the environment variable"),
    }
}

/// The host path, and the guest path if it is mapped.
fn halves<'s>(spec: &'s str, said: &Provenance<'_>) -> anyhow::Result<(&'s str, Option<&'s str>)> {
    Ok(match spec.split_once('=') {
        // A folder's name may contain `=`.
        Some((host, guest)) if !rooted(spec, said.base())?.exists() => (host, Some(guest)),
        _ => (spec, None),
    })
}

fn folder(word: GrantWord, spec: &str, said: &Provenance<'_>) -> anyhow::Result<FolderGrant> {
    let (host, guest) = halves(spec, said)?;
    let ResolvedPath {
        end: canonical,
        links,
        ..
    } = resolve(host, said.base()).with_context(|| format!("cannot find the folder {host}"))?;
    // Does not follow links: one that was put here after the path was resolved would lead elsewhere (TOCTOU race).
    if !std::fs::symlink_metadata(&canonical)
        .with_context(|| format!("cannot find the folder {host}"))?
        .is_dir()
    {
        let parent = canonical
            .parent()
            .unwrap_or(Path::new("/"))
            .display()
            .to_string();
        bail!(
            "{host} is not a folder; grant the folder that holds it: {}",
            word.words(&parent, said)
        );
    }
    if pseudo_files::contain(&canonical) {
        bail!(
            "{host} holds no files, but the kernel's state, such as the memory of processes; no tool gets that"
        );
    }
    said.own_link(&links, &canonical)?;
    let alias = match guest {
        None => named(host, said.base())?.filter(|alias| Path::new(alias) != canonical),
        Some(_) => None,
    };
    let guest = match guest {
        Some(guest) if guest.starts_with('/') && !guest.split('/').any(|part| part == "..") => {
            guest.to_owned()
        }
        Some(guest) => {
            bail!("the path inside the guest, {guest}, must be absolute and without `..`")
        }
        None => canonical
            .to_str()
            .with_context(|| format!("the path is not UTF-8; map it: {host}=/name"))?
            .to_owned(),
    };
    Ok(FolderGrant {
        host: canonical,
        links,
        guest,
        alias,
        rule: word.words(spec, said),
        source: said.source,
        workspace: None,
    })
}

/// Fails on wildcards that name nothing: a denial takes no patterns, and would close nothing.
fn plain_path(spec: &str, said: &Provenance<'_>) -> anyhow::Result<ResolvedPath> {
    let resolved = resolve(spec, said.base())?;
    ensure!(
        !spec.contains(['*', '?']) || resolved.end.exists(),
        "{spec:?} is a pattern, and this takes the path of a file or folder; for a pattern, write a [[rule]] with behavior = \
         \"deny\" and path = {spec:?} into toolcell.toml"
    );
    Ok(resolved)
}
