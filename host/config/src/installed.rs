//! The installed tools that a command finds by name: in the lock next to the project's file or the file of `--config`,
//! and in the user's lock.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use toolcell::{Home, Policy, Refusal};
use toolcell_install::digest::Digest;
use toolcell_install::lock::{LockEntry, is_name};
use toolcell_install::lock_location::{InstalledTools, LockLocation};
use toolcell_install::store;
use toolcell_policy::InstalledTool;
use toolcell_spec::{ErrorClass, ErrorCode};

use super::ProjectFiles;
use super::find::shared_file;

/// The locks that a command knows. They are read once, when they are first needed.
#[derive(Debug, Default)]
pub struct InstalledNames {
    home: PathBuf,
    /// Files of settings, whether they exist or not; the first lock that has a name counts.
    configs: Vec<PathBuf>,
    /// The names of `[tools]` in each file of settings that counts.
    declared: Vec<(PathBuf, BTreeSet<String>)>,
    read: OnceLock<Vec<LoadedLock>>,
}

/// A lock that was read.
#[derive(Debug)]
struct LoadedLock {
    config: PathBuf,
    installed: Result<InstalledTools, Refusal>,
    /// Entries that this user ever confirmed.
    known: Vec<LockEntry>,
}

/// An installed tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledComponent {
    /// The name under which it was found.
    pub name: String,
    /// The bytes that the name stands for.
    pub component: Digest,
    /// Their file in the store.
    pub file: PathBuf,
}

impl InstalledNames {
    /// The locks for a command in `folder`; `named` is the file that `--config` names.
    pub fn new(home: &Home, folder: Option<&Path>, named: Option<&Path>) -> Self {
        let named = named.map(|file| file.canonicalize().unwrap_or_else(|_| file.to_owned()));
        let project = named.or_else(|| Some(ProjectFiles::find(folder?)?.shared));
        let configs = project.into_iter().chain(home.user_file().ok()).collect();
        Self {
            home: home.folder().to_owned(),
            configs,
            declared: Vec::new(),
            read: OnceLock::new(),
        }
    }

    /// Those for a command in the current folder, without settings.
    pub fn here(home: &Home, named: Option<&Path>) -> Self {
        Self::new(home, std::env::current_dir().ok().as_deref(), named)
    }

    fn read(&self) -> &[LoadedLock] {
        self.read.get_or_init(|| {
            let read = |config: &PathBuf| {
                let place = LockLocation::beside(config, &self.home);
                let installed = place.read();
                let known = installed
                    .as_ref()
                    .map_or_else(|_| place.known(), |read| read.confirmed().to_vec());
                LoadedLock {
                    config: config.clone(),
                    installed,
                    known,
                }
            };
            self.configs.iter().map(read).collect()
        })
    }

    /// Notes the names of `[tools]` in `config`, which mean what is installed beside it, and nothing else.
    pub fn declare<'a>(&mut self, config: &Path, names: impl Iterator<Item = &'a String>) {
        self.declared
            .push((config.to_owned(), names.cloned().collect()));
    }

    /// The tool that was installed as `name`; `None` if none was.
    ///
    /// # Errors
    ///
    /// A lock that cannot be read, an entry that this user has not confirmed, and a name of `[tools]` that is not
    /// installed there: a tool of that name in the user's own lock is another one.
    pub fn find(&self, name: &str) -> Option<Result<InstalledComponent, Refusal>> {
        if !is_name(name) {
            return None;
        }
        self.read().iter().find_map(|read| self.in_lock(read, name))
    }

    /// Does what [`Self::find`] does, in the lock beside `config` alone.
    pub fn find_beside(
        &self,
        config: &Path,
        name: &str,
    ) -> Option<Result<InstalledComponent, Refusal>> {
        let read = self
            .read()
            .iter()
            .find(|read| is_of_lock(config, &read.config))?;
        self.in_lock(read, name)
    }

    fn in_lock(
        &self,
        read: &LoadedLock,
        name: &str,
    ) -> Option<Result<InstalledComponent, Refusal>> {
        let installed = match &read.installed {
            Ok(installed) => installed,
            Err(refusal) => return Some(Err(refusal.clone())),
        };
        let found = |entry: &LockEntry| InstalledComponent {
            name: name.to_owned(),
            component: entry.component,
            file: store::file(&self.home, &entry.component),
        };
        match installed.get(name) {
            Some(entry) => Some(entry.map(found)),
            None => self
                .declares(&read.config, name)
                .then(|| Err(not_installed(name, &read.config))),
        }
    }

    /// `true` if `[tools]` in `config` has `name`.
    fn declares(&self, config: &Path, name: &str) -> bool {
        let has = |(file, names): &(PathBuf, BTreeSet<String>)| {
            names.contains(name) && is_same(file, config)
        };
        self.declared.iter().any(has) && guard!("declared_tools")
    }

    /// The project's file, if `name` was installed next to it and is known only in its folder.
    pub fn is_of_project(&self, name: &str) -> Option<&Path> {
        let has = |read: &&LoadedLock| {
            read.installed
                .as_ref()
                .is_ok_and(|installed| installed.get(name).is_some())
        };
        let first = self.read().iter().find(has)?;
        let user = self.configs.last()?;
        (&first.config != user).then_some(first.config.as_path())
    }

    /// Tells `policy` which names the locks bind to which bytes. A lock beside one of `files` counts for the rules of that
    /// file, too.
    pub fn bind<'a>(&self, files: impl Iterator<Item = &'a Path> + Clone, policy: &mut Policy) {
        for read in self.read() {
            let mut beside: Vec<&Path> = files
                .clone()
                .filter(|file| is_of_lock(file, &read.config))
                .collect();
            if beside.is_empty() {
                beside.push(&read.config);
            }
            for entry in read.installed.iter().flat_map(InstalledTools::entries) {
                beside
                    .iter()
                    .for_each(|config| policy.install(config, tool(entry)));
            }
            for entry in &read.known {
                beside
                    .iter()
                    .for_each(|config| policy.reserve(config, tool(entry)));
            }
        }
    }
}

fn tool(entry: &LockEntry) -> InstalledTool {
    InstalledTool {
        name: entry.name.clone(),
        component: entry.component.to_string(),
        claims: entry.claims().cloned().collect(),
    }
}

/// The refusal of a name of `[tools]` in `config` that is not installed.
pub fn not_installed(name: &str, config: &Path) -> Refusal {
    let message = format!(
        "`{name}`, of [tools] in {}, is not installed: run `toolcell install`",
        config.display()
    );
    Refusal::new(ErrorCode::NotInstalled, message).with_class(ErrorClass::SetupRequired)
}

/// `true` if `file` gets its names from the lock beside `config`.
fn is_of_lock(file: &Path, config: &Path) -> bool {
    is_same(file, config) || shared_file(file).is_some_and(|shared| is_same(&shared, config))
}

pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    one == other
        || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
