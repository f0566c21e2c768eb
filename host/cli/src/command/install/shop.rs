//! The resources of the commands: a lock, the store, and sources of components.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::runtime::Runtime;
use toolcell::{Home, Refusal, Tool};
use toolcell_config::{
    self as config, ConfigLayers, DeclaredTool, LayerOptions, ProjectFiles, TrustStore,
    WITHOUT_FILES,
};
use toolcell_install::ceiling::AccessCeiling;
use toolcell_install::declarations::ToolDeclarations;
use toolcell_install::digest::Digest;
use toolcell_install::lock::{LockEntry, written};
use toolcell_install::lock_location::{InstalledTools, LockLocation};
use toolcell_install::obtain::ComponentSources;
use toolcell_install::plan::ToolVersion;
use toolcell_install::reference::ComponentReference;
use toolcell_install::signature::SignatureVerifier;
use toolcell_install::store::{self, ComponentStore};
use toolcell_spec::ErrorCode;
use toolcell_system::private;

use super::super::exit::Stop;
use super::super::hosts;
use super::candidate::Want;
use super::options::{PlaceOptions, SourceOptions};
use super::parts;

pub(super) struct Shop {
    pub(super) home: Home,
    /// The file may not exist.
    pub(super) config: PathBuf,
    pub(super) place: LockLocation,
    pub(super) store: ComponentStore,
    pub(super) sources: ComponentSources,
    pub(super) verifier: SignatureVerifier,
    pub(super) runtime: Runtime,
    /// `false` for a project's lock.
    pub(super) is_user: bool,
    layers: ConfigLayers,
}

/// The named file, the project's, or the user's own, for which the second value is `true`.
pub(super) fn config(home: &Home, options: &PlaceOptions) -> anyhow::Result<(PathBuf, bool)> {
    let user = home.user_file()?;
    if options.user {
        return Ok((user, true));
    }
    if let Some(named) = &options.config {
        let named = named.canonicalize().unwrap_or_else(|_| named.clone());
        return Ok((named, false));
    }
    let here = std::env::current_dir().ok();
    let project = here.and_then(|here| ProjectFiles::find(&here));
    let is_user = |file: &PathBuf| {
        *file == user
            || matches!((file.canonicalize(), user.canonicalize()), (Ok(a), Ok(b)) if a == b)
    };
    let project = project.map(|files| files.shared);
    match project.filter(|file| !is_user(file)) {
        Some(project) => Ok((project.canonicalize().unwrap_or(project), false)),
        None => Ok((user, true)),
    }
}

pub(super) fn place(home: &Home, options: &PlaceOptions) -> anyhow::Result<LockLocation> {
    config(home, options).map(|(config, _)| LockLocation::beside(&config, home.folder()))
}

impl Shop {
    /// Settings of a project count only if the user has trusted its file.
    pub(super) fn open(
        home: &Home,
        options: &PlaceOptions,
        sources: &SourceOptions,
    ) -> Result<Self, Stop> {
        let (config, is_user) = config(home, options)?;
        let layers = if is_user {
            ConfigLayers::of_user(home).map_err(|error| unreadable(&error))?
        } else {
            let here = std::env::current_dir().ok();
            let of_files = LayerOptions {
                file: options.config.clone(),
                none: false,
            };
            ConfigLayers::read(home, here.as_deref(), &of_files).map_err(|refusal| {
                let message = refusal
                    .message
                    .replace(WITHOUT_FILES, "--user goes on without it");
                Refusal { message, ..refusal }
            })?
        };
        if is_user && let Some(folder) = config.parent() {
            private::create_dir(folder).map_err(|error| unreadable(&error.into()))?;
        }
        Ok(Self {
            place: LockLocation::beside(&config, home.folder()),
            store: ComponentStore::open(home.folder())?,
            sources: parts::sources(home, sources)?,
            verifier: SignatureVerifier::new(layers.signers.clone()),
            runtime: Runtime::on_this_thread()?,
            home: home.clone(),
            config,
            is_user,
            layers,
        })
    }

    pub(super) fn written(&self, typed: &str, reference: &ComponentReference) -> String {
        let is_relative = !self.is_user && !typed.starts_with('/');
        written(reference, self.place.folder(), is_relative)
    }

    /// Servers offer what a project's file names. Fails if toolcell cannot change the file.
    pub(super) fn declare(&self, want: &Want) -> Result<(), Refusal> {
        let tool = DeclaredTool {
            reference: want.written.clone(),
            allow_unsigned: want.is_unsigned_allowed,
        };
        if want.is_new && !self.is_user {
            declare(&self.home, &self.config, &want.name, Some(&tool))
        } else {
            Ok(())
        }
    }

    pub(super) fn declared(&self) -> &BTreeMap<String, DeclaredTool> {
        static NONE: BTreeMap<String, DeclaredTool> = BTreeMap::new();
        let mut layers = self.layers.files().iter();
        let layer = layers.find(|layer| layer.file.path == self.config);
        layer.map_or(&NONE, |layer| &layer.file.declared)
    }

    pub(super) fn all(&self, installed: &InstalledTools) -> Vec<(String, Result<Want, Refusal>)> {
        let folder = self.place.folder();
        let declared = self.declared().iter().map(|(name, declared)| {
            let reference = ComponentReference::parse(&declared.reference, folder);
            let want = reference.map(|reference| {
                let written = self.written(&declared.reference, &reference);
                let want = Want::new(name, written, reference);
                let entry = installed.lock.0.get(name);
                let entry = entry.filter(|entry| entry.reference == want.written);
                Want {
                    is_declared: true,
                    pinned: entry.cloned(),
                    is_unsigned_allowed: declared.allow_unsigned,
                    ..want
                }
            });
            (name.clone(), want)
        });
        let is_other =
            |entry: &&LockEntry| !self.declared().contains_key(&entry.name) && !entry.declared;
        let others = installed.lock.0.values().filter(is_other);
        declared
            .chain(others.map(|entry| (entry.name.clone(), self.again(installed, entry))))
            .collect()
    }

    pub(super) fn again(
        &self,
        installed: &InstalledTools,
        entry: &LockEntry,
    ) -> Result<Want, Refusal> {
        let reference = entry.reference(self.place.folder())?;
        let written = self.written(&entry.reference, &reference);
        let want = Want::new(&entry.name, written, reference);
        let declared = self.declared().get(&entry.name);
        // What a lock of others says of signatures is not the user's word, nor what [tools] says of another reference.
        let is_unsigned_allowed = match declared {
            Some(declared) => {
                let is_same = ComponentReference::parse(&declared.reference, self.place.folder())?
                    == want.reference;
                declared.allow_unsigned && (is_same || !guard!("declared_unsigned"))
            }
            None => entry.allow_unsigned && installed.is_confirmed(entry),
        };
        Ok(Want {
            is_declared: declared.is_some(),
            pinned: Some(entry.clone()),
            is_unsigned_allowed,
            ..want
        })
    }

    /// Reads what the component declares, in an empty world under the limits of every load. The host is its own,
    /// because two versions of a tool have the same names.
    pub(super) fn load(&self, bytes: &[u8]) -> Result<Vec<Arc<Tool>>, Refusal> {
        let fault = |error: anyhow::Error| Refusal::host_fault(format!("{error:#}"));
        let compilation = self.layers.compilation;
        let host = hosts::host(&self.home, |settings| compilation.apply(settings));
        let host = host.map_err(fault)?;
        self.runtime.block_on(async {
            let loaded = host.load(bytes).await?;
            host.log_loaded(&loaded).await;
            Ok(loaded.tools)
        })
    }

    /// Loads the component only if it has other digests than `than`.
    pub(super) fn version(&self, entry: &LockEntry, than: (Digest, Digest)) -> ToolVersion {
        let bytes = || store::read(self.home.folder(), &entry.component);
        let tools = || self.load(&bytes()?);
        let is_same = (entry.ceiling, entry.declarations) == than;
        let declared = if is_same { None } else { tools().ok() };
        let declared = declared.map(|tools| declared_by(&tools));
        ToolVersion {
            entry: entry.clone(),
            declared,
        }
    }
}

/// The most that `tools` can ask for, and what they say of themselves.
pub(super) fn declared_by(tools: &[Arc<Tool>]) -> (AccessCeiling, ToolDeclarations) {
    (
        AccessCeiling::from_tools(tools),
        ToolDeclarations::from_tools(tools),
    )
}

/// `None` for `tool` removes the name. A file that the user trusts stays trusted.
pub(super) fn declare(
    home: &Home,
    config: &Path,
    name: &str,
    tool: Option<&DeclaredTool>,
) -> Result<(), Refusal> {
    if !config.exists() {
        return Ok(());
    }
    config::declare(config, name, tool, &TrustStore::at(home.trusted()))
        .map_err(|error| Refusal::new(ErrorCode::LockUnwritable, format!("{error:#}")))
}

fn unreadable(error: &anyhow::Error) -> Refusal {
    config::policy_unreadable(format!("your own settings cannot be used: {error:#}"))
}
