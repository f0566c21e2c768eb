//! The files that no tool and no hook of a command may reach, whatever is granted: files that hold authority or
//! evidence are closed for reading and writing; components and sources, which decide what runs, for writing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toolcell::{Grants, Home};
use toolcell_config::{ClusterConfig, ConfigLayers, ConfigText};
use toolcell_install::lock;
use toolcell_install::registry::RegistryCredentials;
use toolcell_spec::RuleSource;
use toolcell_toolchain as toolchain;

use super::hooks;
use super::options::{GrantOptions, PolicyOptions, Settings};
use super::target::Target;

/// They say which programs clients start, and with which grants.
const PROJECT_CLIENTS: [&str; 3] = [".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"];
const USER_CLIENTS: [&str; 4] = [
    ".claude.json",
    ".cursor/mcp.json",
    ".config/Claude/claude_desktop_config.json",
    "Library/Application Support/Claude/claude_desktop_config.json",
];

/// Closed to guests under all of its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptFile {
    /// Absolute, because another process reads it, too. The file need not exist.
    path: PathBuf,
    what: String,
    /// `true` if it is closed for reading, too.
    read: bool,
}

impl KeptFile {
    /// A file that holds authority or evidence: closed for reading and writing.
    pub(crate) fn shut(path: &Path, what: &str) -> Self {
        Self {
            path: absolute(path),
            what: what.to_owned(),
            read: true,
        }
    }

    /// A file that decides what runs: closed for writing.
    pub(crate) fn unchanged(path: &Path, what: &str) -> Self {
        Self {
            path: absolute(path),
            what: what.to_owned(),
            read: false,
        }
    }

    /// While the file does not exist, nothing can be read in it.
    fn if_there(path: &Path, what: &str) -> Self {
        Self {
            read: path.exists(),
            ..Self::shut(path, what)
        }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CommandFiles {
    pub(crate) sources: Vec<PathBuf>,
    pub(crate) files: Vec<KeptFile>,
}

impl CommandFiles {
    pub(crate) fn from_targets<'a>(targets: impl IntoIterator<Item = &'a Target> + Clone) -> Self {
        let files = targets.clone().into_iter().flat_map(components).collect();
        Self {
            sources: source_folders(targets),
            files,
        }
    }
}

/// Every command closes the settings files. `here` is the folder that it runs in.
pub(crate) fn of_settings(
    home: &Home,
    here: Option<&Path>,
    grants: &GrantOptions,
    policy: &PolicyOptions,
    layers: &ConfigLayers,
) -> Vec<KeptFile> {
    let tls_ca = grants.tls_ca().into_iter();
    let mut files: Vec<KeptFile> = tls_ca
        .map(|file| KeptFile::shut(file, "the certificates of --tls-ca"))
        .collect();
    let places = policy.places(home, here);
    let read = layers.files().iter().map(|layer| &layer.file.path);
    for file in places.iter().chain(read) {
        let lock = lock::beside(file);
        files.push(KeptFile::if_there(file, "a file of settings"));
        files.push(KeptFile::if_there(&lock, "the lock of installed tools"));
    }
    for layer in layers.files() {
        let file = &layer.file;
        let named = |word: &ConfigText, what| KeptFile::shut(&file.folder.join(&**word), what);
        let roots = file.trusted_root.iter();
        files.extend(roots.map(|word| named(word, "the trusted root of signatures")));
        let certificates = file.registry.certificates.iter();
        files.extend(certificates.map(|word| named(word, "certificates of [registry]")));
        for entry in &file.tools {
            let target = Target::of_entry(layer, &entry.component, &layers.names);
            files.extend(components(&target));
        }
    }
    let cluster = layers.cluster.iter().flat_map(ClusterConfig::files);
    files.extend(cluster.map(|(file, what)| KeptFile::shut(file, what)));
    let credentials = RegistryCredentials::of_docker();
    let credentials = credentials.file().into_iter();
    files.extend(credentials.map(|file| KeptFile::if_there(file, "credentials of registries")));
    let client = "the settings of a client, which starts programs";
    let user = std::env::home_dir();
    for (folder, names) in [
        (user.as_deref(), &USER_CLIENTS[..]),
        (here, &PROJECT_CLIENTS[..]),
    ] {
        let places = folder
            .into_iter()
            .flat_map(|folder| names.iter().map(|name| folder.join(name)));
        files.extend(places.map(|file| KeptFile::if_there(&file, client)));
    }
    let program = std::env::current_exe().ok();
    files.extend(program.map(|file| KeptFile::unchanged(&file, "the program of toolcell")));
    files
}

/// A guest that replaces one of these files gets the grants of the command. Files of a folder are closed with the
/// folder, but for the targets of links.
fn components(target: &Target) -> Vec<KeptFile> {
    if target.is_installed() {
        return Vec::new();
    }
    let is_folder = target.path.is_dir();
    let files = target
        .files()
        .into_iter()
        .filter(|file| file.is_symlink() || (!is_folder && !file.is_dir()));
    files
        .map(|file| KeptFile::unchanged(&file, "the component of a tool"))
        .collect()
}

/// Returns everything that hooks may not reach either.
pub(crate) fn close(home: &Home, settings: &mut Settings, command: &CommandFiles) -> Grants {
    let mut kept = settings.layers.kept.clone();
    let hooks = || {
        settings
            .layers
            .files()
            .iter()
            .flat_map(|layer| &layer.file.hooks)
    };
    let writes =
        !settings.grants.write.is_empty() || hooks().any(|hook| !hook.grants.write.is_empty());
    let reads =
        !settings.grants.read.is_empty() || hooks().any(|hook| !hook.grants.read.is_empty());
    // Without grants, there is nothing to close.
    if !writes && !reads {
        return kept;
    }
    if writes && guard!("sources_closed") {
        close_sources(home, settings, &mut kept, &command.sources);
    }
    for file in settings.kept.iter().chain(&command.files) {
        let is_needed = if file.read {
            guard!("authority_closed")
        } else {
            writes && guard!("components_closed")
        };
        for grants in [&mut settings.grants, &mut kept]
            .into_iter()
            .filter(|_| is_needed)
        {
            if file.read {
                grants.shut_so_far(&file.path, &file.what, RuleSource::PolicySettings)
            } else {
                grants.keep_so_far(&file.path, &file.what, RuleSource::PolicySettings)
            }
        }
    }
    kept
}

fn close_sources(home: &Home, settings: &mut Settings, kept: &mut Grants, sources: &[PathBuf]) {
    // Files that steer cargo above one tool also steer it above its neighbors, so each place is resolved once. A folder
    // comes before its contents.
    let mut places = BTreeMap::new();
    for folder in all(&settings.layers, sources) {
        let rule = format!("sources of the tool {}", folder.display());
        for place in toolchain::source_places(&folder, &home.builds()) {
            places.entry(place).or_insert_with(|| rule.clone());
        }
    }
    for (place, rule) in &places {
        for grants in [&mut settings.grants, &mut *kept] {
            grants.keep_so_far(place, rule, RuleSource::PolicySettings);
        }
    }
}

pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Absolute, because another process reads the paths, too.
fn source_folders<'a>(targets: impl IntoIterator<Item = &'a Target>) -> Vec<PathBuf> {
    let folders = targets.into_iter().filter_map(Target::source_folder);
    folders
        .map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.to_owned()))
        .collect()
}

fn all(layers: &ConfigLayers, sources: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders = sources.to_vec();
    for layer in layers.files() {
        let tools = layer.file.tools.iter();
        let tools = tools.map(|entry| Path::new(&*entry.component));
        let hooks = layer.file.hooks.iter().map(|entry| &*entry.component);
        for word in tools.chain(hooks) {
            let path = hooks::path(layer, word);
            folders.extend(source_folders(path.to_str().map(Target::parse).as_ref()));
        }
    }
    folders.sort();
    folders.dedup();
    folders
}
