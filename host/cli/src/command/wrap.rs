//! `toolcell wrap`: writes into a copy of a component what its file does not say of its tools, and files of its own.

mod own_folder;

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::runtime::Runtime;
use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use toolcell::{ComponentTools, Home, Tool};
use toolcell_config::{api_routes, extension_manifest, policy_ceiling};
use toolcell_spec::Refusal;
use toolcell_spec::dialect::near;
use toolcell_spec::dialect::sections::{SECTION_BYTES_MAX, custom, with_custom, with_large_custom};
use toolcell_spec::dialect::wrapping::{
    DOCS_SECTION, FILES_SECTION, OwnFilesRoom, PROFILE_SECTION, Profile,
};
use toolcell_system::component_file::read_component;
use toolcell_system::component_size::{component_bytes_max, larger_than_allowed};
use toolcell_system::named_file;
use wit_parser::{PackageId, PackageMetadata, Resolve, WorldItem};

use super::exit::{self, BadRequest, Exit, Stop};
use super::{hosts, show};

/// All files that are read, in bytes.
const WIT_BYTES_MAX: u64 = 8 << 20;
const WIT_DEPTH_MAX: usize = 3;
const DOCS_VERSION: u8 = 1;
const MANIFEST_SOURCE: &str = "near:agent";

/// Writes into a copy of a component what its file does not say: a namespace. For plain functions also the documentation of its
/// WIT package, a profile, and a policy of Wassette; for a server its OpenAPI document; for a tool of IronClaw the manifest of its extension; and folders of files
/// for the component itself, such as the library of an interpreter. None of them grants anything.
#[derive(Debug, Args)]
#[command(
    after_help = "A profile is JSON, and names tools as `toolcell describe` does:\n  \
                  {\"tools\": {\"tools-read\": {\"paths\": [\"path\"], \"read_only\": true}}}\n\
                  A tool may have: description, read_only, network (false: it asks for none), paths and urls (the \
                  arguments that name some).\n\n\
                  Examples:\n  toolcell wrap add.wasm --wit wit --name sums -o sums.wasm\n  \
                  toolcell wrap files.wasm --profile profile.json -o wrapped.wasm\n  \
                  toolcell wrap fetch.wasm --policy policy.yaml -o wrapped.wasm\n  \
                  toolcell wrap server.wasm --openapi openapi.yaml -o api.wasm\n  \
                  toolcell wrap python.wasm --folder Lib=/usr/lib/python -o with-library.wasm"
)]
pub(super) struct Wrap {
    /// The component: a .wasm file
    file: PathBuf,
    /// The folder or file of its WIT package, whose documentation is written
    #[arg(long, value_name = "DIR")]
    wit: Option<PathBuf>,
    /// The profile that is written
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// A policy.yaml of Wassette: the most that its tools may ask for
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The OpenAPI document of a server, 3.0 or 3.1, in JSON or YAML: each operation becomes a tool
    #[arg(long, value_name = "FILE")]
    openapi: Option<PathBuf>,
    /// The namespace of its tools [default: the name of its package]
    #[arg(long, value_name = "NAMESPACE")]
    name: Option<String>,
    /// Make tools of its functions, although it is a command
    #[arg(long)]
    functions: bool,
    /// The manifest.toml of an IronClaw extension, with its schemas beside it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["wit", "profile", "policy", "openapi", "name", "functions"])]
    manifest: Option<PathBuf>,
    /// A folder that becomes the component's own: its calls see it read-only at GUEST_PATH, and no grant is needed
    #[arg(long = "folder", value_name = "DIR=GUEST_PATH")]
    folders: Vec<String>,
    /// The new file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Wrap {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let wrapped = exit::refusable(self.wrap())?;
        let refusal = wrapped.as_ref().err();
        let tools = wrapped.as_ref().map_or(&[][..], |loaded| &loaded.tools);
        let notes = ComponentTools::notes(tools);
        let record = self.json.then(|| {
            let names = tools.iter().map(|tool| tool.declaration().qualified_name());
            json!({
                "wrapped": wrapped.is_ok().then(|| self.output.to_string_lossy()),
                "component": tools.first().map(|tool| tool.component()),
                "tools": names.collect::<Vec<_>>(),
                "notes": notes,
                "error": refusal.map(Refusal::to_error),
            })
        });
        if !self.json {
            notes
                .iter()
                .for_each(|note| show::say(&format!("note: {note}")));
        }
        let made = self.output.display().to_string();
        show::outcome(refusal, record.as_ref(), &made)
    }

    fn wrap(&self) -> Result<ComponentTools, Stop> {
        if [
            &self.wit,
            &self.profile,
            &self.policy,
            &self.openapi,
            &self.manifest,
        ]
        .iter()
        .all(|file| file.is_none())
            && self.name.is_none()
            && !self.functions
            && self.folders.is_empty()
        {
            let message = "there is nothing to write: give --wit, --profile, --policy, --openapi, --name, --functions, \
                           --manifest or --folder";
            return Err(BadRequest(message.to_owned()).into());
        }
        if !self.force && self.output.symlink_metadata().is_ok() {
            return Err(exists(&self.output).into());
        }
        let home = Home::find()?;
        let host = hosts::loading_host(&home)?;
        let wrapped = self.with_words(read_component(&self.file)?)?;
        let wrapped = self.with_folders(wrapped)?;
        let loaded = Runtime::on_this_thread()?.block_on(host.load(&wrapped))?;
        if self.manifest.is_some() && !loaded.tools.iter().all(|tool| is_of_manifest(tool)) {
            let shown = self.file.display();
            let message = format!(
                "cannot wrap {shown}: it is not a tool of near:agent@0.4.1, which alone reads a manifest"
            );
            return Err(BadRequest(message).into());
        }
        if self.wit.is_some() && !loaded.is_of_plain_functions() {
            let shown = self.file.display();
            let message = format!(
                "cannot wrap {shown}: only components of plain functions read the documentation of a WIT package; leave \
                 out --wit"
            );
            return Err(BadRequest(message).into());
        }
        write(&self.output, &wrapped, self.force)?;
        Ok(loaded)
    }

    /// The loading host looks at the paths for the component.
    fn with_folders(&self, mut component: Vec<u8>) -> anyhow::Result<Vec<u8>> {
        let refused =
            |why: String| BadRequest(format!("cannot wrap {}: {why}", self.file.display()));
        let mut room = OwnFilesRoom::default();
        let mut known = Vec::new();
        for option in &self.folders {
            let (folder, guest) = own_folder::halves(option)?;
            if known.contains(&guest) {
                let why = format!("two folders cannot both be at {guest}");
                return Err(refused(why).into());
            }
            known.push(guest);
            let archive = own_folder::pack(folder, &mut room)?;
            let name = format!("{FILES_SECTION}{guest}");
            component = with_large_custom(&component, &name, &archive).map_err(refused)?;
        }
        let size = component.len();
        if size as u64 > component_bytes_max() {
            let why = format!("it would have {size} bytes, {}", larger_than_allowed());
            return Err(refused(why).into());
        }
        Ok(component)
    }

    fn with_words(&self, mut component: Vec<u8>) -> anyhow::Result<Vec<u8>> {
        let section = |component: &[u8], name: &str, content: &[u8]| {
            let refused =
                |why: String| BadRequest(format!("cannot wrap {}: {why}", self.file.display()));
            with_custom(component, name, content).map_err(refused)
        };
        if let Some(manifest) = &self.manifest {
            let manifest = extension_manifest(manifest).map_err(BadRequest::from_error)?;
            return Ok(section(
                &component,
                near::SECTION,
                &serde_json::to_vec(&manifest)?,
            )?);
        }
        if let Some(wit) = &self.wit {
            component = section(&component, DOCS_SECTION, &documentation(wit)?)?;
        }
        let says_nothing = [&self.profile, &self.policy, &self.openapi]
            .iter()
            .all(|file| file.is_none());
        if says_nothing && self.name.is_none() && !self.functions {
            return Ok(component);
        }
        let known = written(&component).map_err(BadRequest)?;
        let mut profile = match &self.profile {
            Some(file) => Profile::read(&text(file)?)
                .map_err(|why| BadRequest(format!("{}: {why}", file.display())))?,
            // A new name replaces nothing else of a profile that is there.
            None => known.clone(),
        };
        if let Some(policy) = &self.policy {
            if self.profile.is_some() && profile.ceiling.is_some() {
                return Err(BadRequest(
                    "the profile has a ceiling, as the policy is; give one of them".to_owned(),
                )
                .into());
            }
            profile.ceiling = Some(policy_ceiling(policy).map_err(BadRequest::from_error)?);
        }
        if let Some(file) = &self.openapi {
            add_routes(&mut profile, file)?;
        }
        // A profile that has no ceiling must not remove one.
        profile.ceiling = profile.ceiling.or(known.ceiling);
        profile.functions |= self.functions || known.functions;
        if self.name.is_some() {
            profile.namespace.clone_from(&self.name);
        }
        let content = serde_json::to_vec(&profile).context("cannot write the profile")?;
        Ok(section(&component, PROFILE_SECTION, &content)?)
    }
}

/// The operations of an OpenAPI document, and the name of its API.
fn add_routes(profile: &mut Profile, file: &Path) -> anyhow::Result<()> {
    let api = api_routes(file).map_err(BadRequest::from_error)?;
    for (operation, why) in &api.left_out {
        show::say(&format!("note: not offered as a tool: {operation}: {why}"));
    }
    if profile.namespace.is_none() {
        let fits = |c: char| c.is_ascii_alphanumeric();
        let name: String = api
            .title
            .chars()
            .map(|c| if fits(c) { c } else { '-' })
            .take(64)
            .collect();
        let name = name.trim_matches('-').to_ascii_lowercase();
        profile.namespace = Some(name).filter(|name| !name.is_empty());
    }
    profile.routes = api.routes;
    Ok(())
}

fn is_of_manifest(tool: &Tool) -> bool {
    tool.declaration()
        .external_mappings
        .iter()
        .flatten()
        .any(|mapping| mapping.source == MANIFEST_SOURCE)
}

fn written(component: &[u8]) -> Result<Profile, String> {
    match custom(component, PROFILE_SECTION)? {
        Some(content) => Profile::read(&String::from_utf8_lossy(content)),
        None => Ok(Profile::default()),
    }
}

fn text(file: &Path) -> Result<String, BadRequest> {
    named_file::read_text(file, SECTION_BYTES_MAX as u64).map_err(|error| {
        let next = match error.kind() {
            io::ErrorKind::FileTooLarge => "; write a smaller profile",
            _ => "",
        };
        BadRequest(format!("cannot read {}: {error}{next}", file.display()))
    })
}

/// Includes the foreign interfaces that its worlds export.
fn documentation(wit: &Path) -> anyhow::Result<Vec<u8>> {
    let mut left = WIT_BYTES_MAX;
    take(wit, &mut left, 0)?;
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).map_err(|error| {
        BadRequest(format!(
            "cannot read the WIT package {}: {error:#}",
            wit.display()
        ))
    })?;
    let mut docs = docs_of(&resolve, package)?;
    let worlds = resolve
        .packages
        .get(package)
        .into_iter()
        .flat_map(|package| package.worlds.values());
    for export in worlds
        .filter_map(|id| resolve.worlds.get(*id))
        .flat_map(|world| world.exports.values())
    {
        if let WorldItem::Interface { id, .. } = export
            && let Some(interface) = resolve.interfaces.get(*id)
            && let (Some(name), Some(owner)) = (&interface.name, interface.package)
            && owner != package
            && let Some(found) = docs_of(&resolve, owner)?
                .get("interfaces")
                .and_then(|all| all.get(name))
        {
            add(&mut docs, name, found);
        }
    }
    let mut section = vec![DOCS_VERSION];
    section.extend(docs.to_string().into_bytes());
    Ok(section)
}

fn docs_of(resolve: &Resolve, package: PackageId) -> anyhow::Result<Value> {
    let encoded = PackageMetadata::extract(resolve, package).encode();
    let encoded =
        encoded.map_err(|error| anyhow::anyhow!("cannot encode the documentation: {error:#}"))?;
    // The first byte is the version.
    serde_json::from_slice(encoded.get(1..).unwrap_or_default())
        .context("cannot encode the documentation")
}

/// Adds nothing if the package itself has an interface of this name.
fn add(docs: &mut Value, name: &str, found: &Value) {
    let Some(fields) = docs.as_object_mut() else {
        return;
    };
    let interfaces = fields.entry("interfaces").or_insert_with(|| json!({}));
    if let Some(interfaces) = interfaces.as_object_mut() {
        interfaces.entry(name).or_insert_with(|| found.clone());
    }
}

fn take(path: &Path, left: &mut u64, depth: usize) -> anyhow::Result<()> {
    let unreadable =
        |error: io::Error| BadRequest(format!("cannot read {}: {error}", path.display()));
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.is_file() {
        let message = || {
            BadRequest(format!(
                "the WIT files have more than {WIT_BYTES_MAX} bytes; give one package"
            ))
        };
        *left = left.checked_sub(metadata.len()).ok_or_else(message)?;
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?.path();
        let is_wit = entry
            .extension()
            .is_some_and(|extension| extension == "wit" || extension == "wasm");
        if is_wit || (depth < WIT_DEPTH_MAX && entry.is_dir()) {
            take(&entry, left, depth + 1)?;
        }
    }
    Ok(())
}

pub(super) fn folder_of(file: &Path) -> &Path {
    let parent = file.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

pub(super) fn exists(file: &Path) -> BadRequest {
    BadRequest(format!("{} exists; --force replaces it", file.display()))
}

/// The file appears whole or not at all, with the permissions of any new file.
pub(super) fn write(file: &Path, bytes: &[u8], force: bool) -> anyhow::Result<()> {
    write_with(file, force, 0o666, |draft| draft.write_all(bytes))
}

/// Does what [`write`] does with what `content` writes, with the permissions `mode`.
pub(super) fn write_with(
    file: &Path,
    force: bool,
    mode: u32,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    if !force && file.symlink_metadata().is_ok() {
        return Err(exists(file).into());
    }
    let folder = folder_of(file);
    let draft = tempfile::Builder::new()
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder);
    let mut draft = draft
        .map_err(|error| BadRequest(format!("cannot write to {}: {error}", folder.display())))?;
    content(&mut draft).with_context(|| format!("cannot write {}", file.display()))?;
    let kept = if force {
        draft.persist(file)
    } else {
        draft.persist_noclobber(file)
    };
    match kept {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(exists(file).into())
        }
        Err(error) => Err(error.error).with_context(|| format!("cannot write {}", file.display())),
    }
}
