//! The layers of configuration: the user's file, the two of a project, and one named on the command line. Each layer can
//! add restrictions, and cannot remove another layer's.

use std::path::{Path, PathBuf};

use anyhow::Context;

use toolcell::{Home, LogSettings};
use toolcell_install::trust::TrustPolicy;
use toolcell_policy::RetryPolicy;
use toolcell_policy::{
    FolderGrant, GrantWord, Grants, Limits, MissingFolder, Policy, Provenance, Rule, RuleWords,
    TokenIssuer,
};
use toolcell_spec::{ErrorCode, Mode, OutputRetention, Refusal, RuleSource, digest};

use super::cluster::ClusterConfig;
use super::file::{CacheSection, CompileSection, JournalSection, RuleEntry};
use super::hooks::{self, hook_digest};
use super::installed::is_same;
use super::server::{GivenServerLimits, ServerSection};
use super::workspace::WorkspaceConfig;
use super::{
    CompilationSettings, ConfigFile, ConfigText, GivenLimits, InstalledNames, Principal,
    ProjectFiles, TelemetrySettings, TrustStore, TrustedDigests,
};

const FOLDER_GONE: &str = "the current folder no longer exists, so its toolcell.toml cannot be found; change to an \
 existing folder, or use --no-config or --config=FILE";

/// Suggested when a project's file is refused, where the option exists.
pub const WITHOUT_FILES: &str = "--no-config goes on without any file";

/// Selects the configuration files that are read.
#[derive(Clone, Debug, Default)]
pub struct LayerOptions {
    /// Read this file instead of the files of the project. Naming a file is trusting it.
    pub file: Option<PathBuf>,
    /// Read no file.
    pub none: bool,
}

/// The rule that grants a folder, and a digest of the folder's path; `None` if it does not exist.
type BoundFolder = (String, Option<String>);

/// One file, and the source that its settings count as.
#[derive(Debug)]
pub struct ConfigLayer {
    pub source: RuleSource,
    pub file: ConfigFile,
    /// The digests of the hook components that a project was trusted with, in the order of its hooks.
    pub trusted: Vec<String>,
}

/// A file of a project as it is, trusted or not.
#[derive(Debug)]
pub struct ProjectFile {
    pub source: RuleSource,
    /// Canonical.
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

/// All files that apply to a call, parsed.
#[derive(Debug, Default)]
pub struct ConfigLayers {
    layers: Vec<ConfigLayer>,
    /// The mode that allows least, by its place in [`MODES`].
    strictness: usize,
    rules: Vec<Rule>,
    /// Grants and denials of the files.
    pub grants: Grants,
    /// The components of all hooks, which no tool or hook may change, whatever is granted. `grants` denies them, too. Also
    /// lists what other hooks and tools may change.
    pub kept: Grants,
    /// The lowest limits that any file sets.
    limits: GivenLimits,
    /// How components are compiled, and how much of their code is kept.
    pub compilation: CompilationSettings,
    /// How calls are kept on record.
    pub journal: LogSettings,
    /// Persistence of outputs that every file allows.
    pub keeping: OutputRetention,
    /// The stricter one of each setting of all files.
    retry: Option<RetryPolicy>,
    pub telemetry: TelemetrySettings,
    /// `None`: all calls run in this process.
    pub cluster: Option<ClusterConfig>,
    /// The issuers whose access tokens a server accepts.
    pub issuers: Vec<TokenIssuer>,
    /// How `toolcell serve` serves.
    pub server: GivenServerLimits,
    pub workspace: WorkspaceConfig,
    /// Callers of a server with rules of their own.
    pub principals: Vec<Principal>,
    /// The signers that every file trusts.
    pub signers: TrustPolicy,
    /// The installed tools.
    pub names: InstalledNames,
}

/// The modes, each of which allows less than the one before it.
pub const MODES: [Mode; 3] = [Mode::Default, Mode::NonInteractive, Mode::Plan];

/// Maximum number of times that a file is read again because it changed while it was read.
const CHANGES_MAX: usize = 64;

impl ConfigLayers {
    /// No files, and the installed tools that are known in the current folder; `named` is the file of `--config`.
    pub fn without_files(home: &Home, named: Option<&Path>) -> Self {
        Self {
            names: InstalledNames::here(home, named),
            ..Self::default()
        }
    }

    /// Reads the user's own file alone, if there is one.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or applied.
    pub fn of_user(home: &Home) -> anyhow::Result<Self> {
        let mut layers = Self {
            names: InstalledNames::new(home, None, None),
            ..Self::default()
        };
        layers.add_user(&home.user_file()?)?;
        Ok(layers)
    }

    /// Reads the files that apply to a call from `folder`. Fails if a file cannot be read or parsed, or has a setting
    /// that cannot be applied, and if the user has not trusted a file of the project in its current state. Fails without a
    /// folder, in which a project would be searched for, unless `options` exclude its files.
    pub fn read(
        home: &Home,
        folder: Option<&Path>,
        options: &LayerOptions,
    ) -> Result<Self, Refusal> {
        let names = InstalledNames::new(home, folder, options.file.as_deref());
        let mut layers = Self {
            names,
            ..Self::default()
        };
        if options.none {
            return Ok(layers);
        }
        let user = home.user_file().map_err(unreadable)?;
        layers.add_user(&user).map_err(unreadable)?;
        if let Some(named) = &options.file {
            let file = named_file(named).map_err(unreadable)?;
            layers
                .add(RuleSource::FlagSettings, file, Vec::new())
                .map_err(unreadable)?;
            return Ok(layers);
        }
        let folder = folder.context(FOLDER_GONE).map_err(unreadable)?;
        let files = ProjectFiles::find(folder);
        for (source, path) in files.iter().flat_map(ProjectFiles::sources) {
            if !is_same(path, &user)
                && let Some(bytes) = super::project_bytes(path).map_err(unreadable)?
            {
                layers.add_trusted(home, source, path, bytes)?;
            }
        }
        Ok(layers)
    }

    /// Adds `path`, a file of a project that has these `bytes`, if the user trusts it as it is.
    fn add_trusted(
        &mut self,
        home: &Home,
        source: RuleSource,
        path: &Path,
        bytes: Vec<u8>,
    ) -> Result<(), Refusal> {
        let path = path
            .canonicalize()
            .with_context(|| format!("cannot find {}", path.display()))
            .map_err(unreadable)?;
        let trust = TrustStore::at(home.trusted());
        let (bytes, trusted) = settled(&trust, &path, bytes).map_err(unreadable)?;
        let TrustedDigests {
            components,
            folders,
        } = trusted.ok_or_else(|| {
            let message = format!("{}; {WITHOUT_FILES}", untrusted(&trust, &path, &bytes));
            not_trusted(message)
        })?;
        let file = ConfigFile::from_bytes(bytes, &path).map_err(unreadable)?;
        check_hooks(&file, &components)?;
        let found = self.add(source, file, components).map_err(unreadable)?;
        check_folders(&path, &found, &folders)
    }

    /// Checks the files of a project as a call does that finds them trusted. Returns their layers, and what the trust in
    /// each is to cover.
    ///
    /// # Errors
    ///
    /// Everything that would refuse every call once the files are trusted: an invalid word, a missing folder, a grant
    /// that reaches toolcell's own state, a hook that cannot be configured.
    pub fn of_project(
        home: &Home,
        files: &[ProjectFile],
    ) -> anyhow::Result<(Self, Vec<TrustedDigests>)> {
        let mut layers = Self::default();
        // A denial of the user can make a wide grant possible.
        layers.add_user(&home.user_file()?)?;
        let trusted = files.iter().map(|file| layers.add_checked(home, file));
        let trusted = trusted.collect::<anyhow::Result<_>>()?;
        Ok((layers, trusted))
    }

    fn add_checked(&mut self, home: &Home, found: &ProjectFile) -> anyhow::Result<TrustedDigests> {
        let path = &found.path;
        let file = ConfigFile::from_bytes(found.bytes.clone(), path)?;
        let said = Provenance {
            source: found.source,
            file: Some(path),
        };
        let of_hook = || format!("a hook of {}", path.display());
        file.hooks
            .iter()
            .try_for_each(|entry| hooks::check(entry, &said, &home.protected()))
            .with_context(of_hook)?;
        let components = hooks::hook_digests(&file).with_context(of_hook)?;
        let known = self.grants.missing.len();
        let folders = self.add(found.source, file, components.clone())?;
        if let Some(missing) = self.grants.missing.get(known) {
            anyhow::bail!("{}: the folder does not exist", missing.rule);
        }
        if let Some(refusal) = self.grants.refusal(&home.protected()) {
            anyhow::bail!("{}: {}", path.display(), refusal.message);
        }
        let folders = folders.into_iter().filter_map(|(_, folder)| folder);
        let folders = folders.collect();
        Ok(TrustedDigests {
            components,
            folders,
        })
    }

    /// Adds the user's own file, if there is one.
    fn add_user(&mut self, path: &Path) -> anyhow::Result<()> {
        if let Some(file) = ConfigFile::read(path)? {
            self.add(RuleSource::UserSettings, file, Vec::new())?;
        }
        Ok(())
    }

    /// Adds the settings of `file`. Returns the folders that its grants lead to.
    fn add(
        &mut self,
        source: RuleSource,
        file: ConfigFile,
        trusted: Vec<String>,
    ) -> anyhow::Result<Vec<BoundFolder>> {
        let said = Provenance {
            source,
            file: Some(&file.path),
        };
        if let Some(word) = &file.mode {
            self.strictness = self.strictness.max(strictness(&file, word)?);
        }
        let mut found = self.add_grants(&file, &said)?;
        self.add_rules(&file, &said)?;
        found.extend(self.add_hooks(&file, &said)?);
        self.limits = std::mem::take(&mut self.limits).lower(GivenLimits::of_file(&file)?);
        let shared = |section: &str, is_set: bool, what: &str| {
            anyhow::ensure!(
                !is_set || source == RuleSource::UserSettings,
                "{}: {section} is for your own toolcell.toml alone, because all projects share {what}; remove it here",
                file.path.display()
            );
            Ok(is_set)
        };
        let has_cache = shared(
            "[cache]",
            file.cache != CacheSection::default(),
            "the cache",
        )?;
        let compiles = file.compile != CompileSection::default();
        if shared("[compile]", compiles, "the cache")? || has_cache {
            self.compilation = CompilationSettings::of_file(&file)?.heeded();
        }
        let logs = file.log != JournalSection::default();
        if shared("[log]", logs, "the call log")? {
            self.journal = super::journal::settings(&file)?;
        }
        anyhow::ensure!(
            source != RuleSource::LocalSettings || file.declared.is_empty(),
            "{}: [tools] is for the project's toolcell.toml, because toolcell.lock beside it says what is installed; \
             remove it here",
            file.path.display()
        );
        super::telemetry::read(&mut self.telemetry, source, &file)?;
        super::cluster::read(&mut self.cluster, source, &file)?;
        super::issuer::read(&mut self.issuers, source, &file)?;
        if file.server != ServerSection::default() {
            anyhow::ensure!(
                !source.is_in_checkout(),
                "{}: [server] is for your own toolcell.toml or the file of --config, because it limits the calls of all \
                 callers; remove it here",
                file.path.display()
            );
            self.server = GivenServerLimits::of_file(&file)?.or(&self.server);
        }
        super::signers::read(&mut self.signers, source, &file)?;
        super::registry::settings(source, &file)?;
        self.keeping = self.keeping.and(super::results::keeping(&file)?);
        self.retry = match (self.retry.take(), super::retry::policy(&file)?) {
            (Some(known), Some(said)) => Some(known.stricter(said)),
            (known, said) => known.or(said),
        };
        self.workspace.read(&file)?;
        Principal::read(&file, &said, &mut self.principals)?;
        self.names.declare(&file.path, file.declared.keys());
        self.layers.push(ConfigLayer {
            source,
            file,
            trusted,
        });
        Ok(found)
    }

    /// Returns the folders in the order of [`Grants::folders`], with those that do not exist.
    fn add_grants(
        &mut self,
        file: &ConfigFile,
        said: &Provenance<'_>,
    ) -> anyhow::Result<Vec<BoundFolder>> {
        let mut grants = Grants::default();
        let mut absent = Vec::new();
        for word in GrantWord::ALL {
            for (at, spec) in file.grants.specs(word).iter().enumerate() {
                if let Some(missing) = MissingFolder::find(word, spec, said) {
                    let before = match word {
                        GrantWord::Read => file.grants.write.len(),
                        _ => 0,
                    };
                    absent.push((before + at, missing.rule.clone()));
                    grants.missing.push(missing);
                    continue;
                }
                grants
                    .add(word, spec, said)
                    .with_context(|| file.place_of(spec))?;
            }
        }
        let mut found: Vec<BoundFolder> = grants.folders().map(bound).collect();
        absent.sort();
        for (at, rule) in absent {
            found.insert(at, (rule, None));
        }
        self.grants
            .extend(&grants)
            .with_context(|| file.path.display().to_string())?;
        Ok(found)
    }

    fn add_rules(&mut self, file: &ConfigFile, said: &Provenance<'_>) -> anyhow::Result<()> {
        for entry in &file.rules {
            self.rules.push(compiled_rule(file, entry, said)?);
        }
        Ok(())
    }

    /// Closes the components of the hooks to tools. Returns the folders that the grants of hooks lead to.
    fn add_hooks(
        &mut self,
        file: &ConfigFile,
        said: &Provenance<'_>,
    ) -> anyhow::Result<Vec<BoundFolder>> {
        let mut found = Vec::new();
        for entry in &file.hooks {
            let rule = format!(
                "hook component {:?} in {}",
                entry.component,
                file.path.display()
            );
            let path = file.folder.join(&entry.component);
            [&mut self.grants, &mut self.kept]
                .into_iter()
                .try_for_each(|grants| grants.keep(&path, &rule, said.source))?;
            // A hook with invalid grants is not loaded, and changes nothing.
            if let Ok(of_hook) = hooks::grants(&entry.grants, said) {
                found.extend(of_hook.folders().map(bound));
                self.grants.changeable.extend(of_hook.write.iter().cloned());
                self.kept.changeable.extend(of_hook.write);
            }
        }
        Ok(found)
    }

    /// Records what tools may change, so that no hook is given a folder through a link that a tool may change.
    pub fn note_changeable(&mut self, tools: &Grants) {
        self.kept.changeable.extend(tools.write.iter().cloned());
    }

    /// The files that were read, the user's before the project's, for sections that other modules parse.
    pub fn files(&self) -> &[ConfigLayer] {
        &self.layers
    }

    /// Returns rules, retries and mode. `mode`, from the command line, overrides the files.
    pub fn policy(&self, mode: Option<Mode>) -> Policy {
        let of_files = MODES.get(self.strictness).copied();
        let mode = mode.or(of_files).unwrap_or_default();
        let mut policy = Policy::new(mode, self.rules.clone());
        policy.retry = self.retry.clone().unwrap_or_default();
        self.names.bind(
            self.layers.iter().map(|layer| layer.file.path.as_path()),
            &mut policy,
        );
        policy
    }

    /// Returns `defaults`, overridden by the limits of the files.
    pub fn limits(&self, defaults: Limits) -> Limits {
        self.limits.over(defaults)
    }

    /// The memory that all calls of a server together may have, in bytes: the lowest that any file says.
    pub fn memory_total(&self) -> Option<u64> {
        self.limits.memory_total
    }
}

pub(super) fn unreadable(error: anyhow::Error) -> Refusal {
    policy_unreadable(format!(
        "all calls are refused, because the policy cannot be read: {error:#}"
    ))
}

/// The place of `word`, a mode of `file`, in [`MODES`].
pub(super) fn strictness(file: &ConfigFile, word: &ConfigText) -> anyhow::Result<usize> {
    let mode = MODES.iter().position(|mode| mode.as_str() == &**word);
    mode.with_context(|| {
        let known = MODES.map(Mode::as_str).join(", ");
        format!(
            "{}: mode {word:?} is not one of: {known}",
            file.place_of(word)
        )
    })
}

/// An error says where the rule is written.
pub(super) fn compiled_rule(
    file: &ConfigFile,
    entry: &RuleEntry,
    said: &Provenance<'_>,
) -> anyhow::Result<Rule> {
    let words = RuleWords {
        behavior: &entry.behavior,
        tool: entry.tool.as_deref(),
        namespace: entry.namespace.as_deref(),
        component: entry.component.as_deref(),
        path: entry.path.as_deref(),
        url: entry.url.as_deref(),
        resource: entry.resource.as_deref(),
        command: entry.command.as_deref(),
        native_operation_id: entry.native_operation_id.as_deref(),
        risk: entry.risk.as_deref(),
        actor: entry.actor.as_deref(),
        reason: entry.reason.as_deref(),
    };
    let telling = [
        &entry.path,
        &entry.url,
        &entry.risk,
        &entry.tool,
        &entry.resource,
        &entry.command,
        &entry.actor,
    ];
    let telling = telling.into_iter().flatten().next();
    let place = || file.place_of(telling.unwrap_or(&entry.behavior));
    Rule::compile(&words, said).with_context(place)
}

/// Names the file as the policy that refuses (AT-ERR-07).
pub fn policy_unreadable(message: String) -> Refusal {
    let refusal = Refusal::new(ErrorCode::PolicyUnreadable, message);
    refusal.by_policy("settings:toolcell.toml".to_owned())
}

fn not_trusted(message: String) -> Refusal {
    let refusal = Refusal::new(ErrorCode::ProjectNotTrusted, message);
    refusal.by_policy("trust:toolcell.toml".to_owned())
}

fn named_file(named: &Path) -> anyhow::Result<ConfigFile> {
    let missing = || format!("cannot find {}", named.display());
    let path = named.canonicalize().with_context(missing)?;
    ConfigFile::read_named(&path)?.with_context(missing)
}

/// Fails if a hook component of a project is not the one that the user trusted, because a hook decides what a project
/// does as much as its file.
fn check_hooks(file: &ConfigFile, trusted: &[String]) -> Result<(), Refusal> {
    let refusal = |component: &Path| {
        let message = format!(
            "the hook {} of {} is not the one that was trusted: it has changed, or was removed; look at it, then run \
             `toolcell trust {}`; {WITHOUT_FILES}",
            component.display(),
            file.path.display(),
            file.folder.display(),
        );
        not_trusted(message)
    };
    for (at, entry) in file.hooks.iter().enumerate() {
        let now = hook_digest(file, entry)
            .map_err(|error| refusal(&entry.component).detail(format!("{error:#}")))?;
        if trusted.get(at) != Some(&now) {
            return Err(refusal(&entry.component));
        }
    }
    Ok(())
}

fn bound(grant: &FolderGrant) -> BoundFolder {
    let folder = digest(grant.host.as_os_str().as_encoded_bytes());
    (grant.rule.clone(), Some(folder))
}

/// Fails if the grants of the project's file `path` lead to other folders than when the user trusted it: a folder
/// outside of the project can be a link, which another user or process may change.
fn check_folders(path: &Path, found: &[BoundFolder], trusted: &[String]) -> Result<(), Refusal> {
    // A missing folder gives no access.
    let is_trusted = |(at, (_, folder)): &(usize, &BoundFolder)| {
        folder.is_none() || trusted.get(*at) == folder.as_ref()
    };
    let moved = found.iter().enumerate().find(|one| !is_trusted(one));
    if !guard!("trusted_folders") || (moved.is_none() && found.len() == trusted.len()) {
        return Ok(());
    }
    let rule = moved.map_or_else(|| path.display().to_string(), |(_, (rule, _))| rule.clone());
    let message = format!(
        "{rule} leads to another folder than when the file was trusted; look at where it leads, then run \
         `toolcell trust {}`; {WITHOUT_FILES}",
        path.parent().unwrap_or(path).display(),
    );
    Err(not_trusted(message))
}

/// Returns what `path` was trusted with, and its content, which was `bytes` when it was last read: an install in another
/// process changes the file and the trust in it one after the other.
fn settled(
    trust: &TrustStore,
    path: &Path,
    mut bytes: Vec<u8>,
) -> anyhow::Result<(Vec<u8>, Option<TrustedDigests>)> {
    for _ in 0..CHANGES_MAX {
        if let Some(trusted) = trust.find(path, &bytes)? {
            return Ok((bytes, Some(trusted)));
        }
        match super::project_bytes(path)? {
            Some(now) if now != bytes => bytes = now,
            _ => break,
        }
    }
    Ok((bytes, None))
}

/// Says why the project's file `path`, which has these `bytes`, has no effect, and what to do. A file that was trusted
/// before is the user's own work, so a mistake in it is shown.
pub fn untrusted(trust: &TrustStore, path: &Path, bytes: &[u8]) -> String {
    let shown = path.display();
    let folder = path.parent().unwrap_or(path).display();
    let trusting = format!("then run `toolcell trust {folder}`");
    if !trust.knows(path) {
        return format!("{shown} is not trusted: read it, {trusting}");
    }
    match ConfigFile::problem(bytes) {
        Some(why) => {
            format!(
                "{shown} has changed since it was trusted, and cannot be parsed ({why}): correct it, {trusting}"
            )
        }
        None => format!("{shown} changed after you trusted it: review it, {trusting}"),
    }
}
