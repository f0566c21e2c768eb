use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use toolcell_policy::Limits;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::file_state::FileState;
use wasmtime::component::{Component, InstancePre, Linker};

use super::bindings::classifying::ClassifyingPre;
use super::bindings::validating::ValidatingPre;
use super::cache::{CacheEntry, CacheNote};
use super::call::host_fault;
use super::engine::{EngineKind, GuestEngine};
use super::linking;
use super::loads::ComponentLoads;
use super::own_files::{OwnFiles, OwnFolder};
use super::state::StoreState;
use super::twice;
use super::world::{self, ComponentWorld, FirstLoad};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionalExports {
    pub validation: bool,
    pub classification: bool,
    pub configuration: bool,
}

impl OptionalExports {
    fn new(world: world::WorldKind, exports: &[String]) -> Self {
        let has = |wanted: &str| exports.iter().any(|name| name == wanted);
        Self {
            validation: has(VALIDATION),
            classification: has(CLASSIFICATION),
            // No other world hands settings over. They would be accepted, and have no effect.
            configuration: has(CONFIGURATION) && world == world::WorldKind::Tool,
        }
    }
}

/// Found at the component's first load, and cached with its compiled code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ComponentDescription {
    pub(super) digest: String,
    world: world::WorldKind,
    pub(super) engine: EngineKind,
    pub(super) toolkit: String,
    takes_granted_files: bool,
    pub(super) exports: OptionalExports,
    pub(super) imports: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    own_files: Vec<OwnFolder>,
}

/// Found once, because a component may import dozens, and each call asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostImports {
    /// The guest gets a grace: it imports `cancellation` or `cancellation-signal`.
    pub(super) cancellation: bool,
    pub(super) http: bool,
    pub(super) random: bool,
    pub(super) clocks: bool,
}

impl HostImports {
    fn new(imports: &[String]) -> Self {
        let has = |name: &str| imports.iter().any(|import| import.starts_with(name));
        Self {
            cancellation: has("toolcell:tool/cancellation@")
                || has("toolcell:tool/cancellation-signal@"),
            http: has("wasi:http/outgoing-handler") || has("wasi:http/client@") || has(NEAR_HOST),
            random: has("wasi:random/"),
            clocks: has("wasi:clocks/") || has(NEAR_HOST),
        }
    }
}

/// Its first call loads the code.
pub struct LoadedComponent {
    description: ComponentDescription,
    pub(super) imported: HostImports,
    /// The cache keeps the code under it.
    name: blake3::Hash,
    /// State of the entry when authenticated; `None` if a later change might not show.
    pub(super) entry: Option<FileState>,
    /// Where it was read, if that is known; without a state if a later change of the file may not show in it.
    pub(super) file: OnceLock<(PathBuf, Option<FileState>)>,
    pub(super) linked: OnceLock<LinkedComponent>,
    pub(super) loads: ComponentLoads,
    /// Of its own files.
    pub(super) unpacks: ComponentLoads,
}

pub(super) struct LinkedComponent {
    pub(super) engine: GuestEngine,
    pub(super) world: Box<dyn ComponentWorld>,
    pub(super) validating: Option<ValidatingPre<StoreState>>,
    pub(super) classifying: Option<ClassifyingPre<StoreState>>,
}

/// IronClaw's tools send requests and read the clock through it.
const NEAR_HOST: &str = "near:agent/host";
pub(super) const TOOL_CONTRACT: &str = "toolcell:tool@0.2.0";
const VALIDATION: &str = "toolcell:tool/validation@0.2.0";
const CLASSIFICATION: &str = "toolcell:tool/classification@0.2.0";
const CONFIGURATION: &str = "toolcell:tool/configuration@0.2.0";

impl LoadedComponent {
    pub(super) fn new(
        description: ComponentDescription,
        name: blake3::Hash,
        linked: LinkedComponent,
    ) -> Self {
        let imported = HostImports::new(&description.imports);
        let linked = OnceLock::from(linked);
        Self {
            description,
            imported,
            name,
            entry: None,
            file: OnceLock::new(),
            linked,
            loads: ComponentLoads::default(),
            unpacks: ComponentLoads::default(),
        }
    }

    /// The cache entry was authenticated.
    pub(super) fn revive(
        engine: &GuestEngine,
        name: blake3::Hash,
        entry: &CacheEntry<ComponentDescription>,
        description: ComponentDescription,
    ) -> Result<Self, Refusal> {
        let linked = LinkedComponent::new(engine, &map(engine, entry.code_file())?, &description)?;
        Ok(Self {
            entry: entry.lasting(),
            ..Self::new(description, name, linked)
        })
    }

    pub(super) fn noted(path: &Path, note: CacheNote<ComponentDescription>) -> Self {
        Self {
            imported: HostImports::new(&note.description.imports),
            description: note.description,
            name: blake3::Hash::from(note.name),
            entry: note.entry,
            file: OnceLock::from((path.to_owned(), Some(note.component))),
            linked: OnceLock::new(),
            loads: ComponentLoads::default(),
            unpacks: ComponentLoads::default(),
        }
    }

    /// Refuses a component at its first load if two `describe` calls differ.
    pub(super) async fn examine(
        engine: &GuestEngine,
        (digest, name): (&str, blake3::Hash),
        component: &Component,
        (bytes, own_files): (&[u8], OwnFiles),
        limits: &Limits,
    ) -> Result<Self, Refusal> {
        let kind = component.component_type();
        let exports: Vec<String> = kind
            .exports(engine.wasmtime())
            .map(|(name, _)| name.to_owned())
            .collect();
        let imports = imports(component);
        let world = world::WorldKind::find(&exports, &imports)?.chosen(&exports, bytes);
        let namespace = world.heed_profile(bytes)?;
        let mut description = ComponentDescription {
            digest: digest.to_owned(),
            world,
            engine: engine.kind(),
            toolkit: String::new(),
            takes_granted_files: world.takes_granted_files(&imports, bytes),
            exports: OptionalExports::new(world, &exports),
            imports,
            own_files: own_files.folders,
        };
        let mut linked = LinkedComponent::new(engine, component, &description)?;
        let examined = FirstLoad {
            engine,
            component,
            bytes,
            imports: &description.imports,
            limits,
            own_files: &own_files.open,
            namespace: namespace.as_deref(),
        };
        let first = linked.world.describe(examined).await?;
        let second = linked.world.describe(examined).await?;
        let toolkit = match twice::agreed(first, &second) {
            Err(what) => {
                let message = format!(
                    "the tool describes itself differently each time: {what}; ask its author to correct it"
                );
                return Err(Refusal::new(ErrorCode::DescriptionChanges, message));
            }
            Ok(toolkit) => toolkit,
        };
        linked.world.described(&toolkit);
        description.toolkit = toolkit;
        Ok(Self::new(description, name, linked))
    }

    /// Ignored if a file is known already.
    pub(super) fn is_from(&self, path: &Path, state: Option<FileState>) {
        let _ = self.file.set((path.to_owned(), state));
    }

    /// Ignored if another load was faster; it had the same bytes.
    pub(super) fn take_code(&self, linked: LinkedComponent) {
        let _ = self.linked.set(linked);
    }

    /// `sha256:<hex>` of the component.
    pub fn digest(&self) -> &str {
        &self.description.digest
    }

    /// JSON text, not yet validated. A command without a name gets its file's.
    pub fn toolkit(&self, file: Option<&Path>) -> Cow<'_, str> {
        let ComponentDescription { world, toolkit, .. } = &self.description;
        file.and_then(|file| world.named_by(file, toolkit))
            .map_or(Cow::Borrowed(toolkit), Cow::Owned)
    }

    /// `true` if the component uses files, and nothing says which of its tools do, and how.
    pub fn takes_granted_files(&self) -> bool {
        self.description.takes_granted_files
    }

    pub fn exports(&self) -> OptionalExports {
        self.description.exports
    }

    /// Files that the component leaves in its scratch folder become artifacts.
    pub fn leaves_files(&self) -> bool {
        self.description.world.leaves_files()
    }

    /// The tools are made from the types and the documentation of the component's functions.
    pub fn is_of_plain_functions(&self) -> bool {
        self.description.world == world::WorldKind::Wit
    }

    /// Each call is a request, and its response.
    pub fn is_server(&self) -> bool {
        self.description.world.is_server()
    }

    /// A partial outcome can be a failure, whose output is kept.
    pub(super) fn fails_with_output(&self) -> bool {
        self.description.world.fails_with_output()
    }

    /// Folders that the component carries, which its calls see read-only.
    pub fn own_files(&self) -> &[OwnFolder] {
        &self.description.own_files
    }

    /// All that the component can ask the host for.
    pub fn imports(&self) -> &[String] {
        &self.description.imports
    }

    pub(super) fn description(&self) -> &ComponentDescription {
        &self.description
    }

    pub(super) fn name(&self) -> blake3::Hash {
        self.name
    }
}

impl LinkedComponent {
    pub(super) fn new(
        engine: &GuestEngine,
        component: &Component,
        description: &ComponentDescription,
    ) -> Result<Self, Refusal> {
        let linker = description
            .world
            .linker(engine.wasmtime(), &description.imports);
        let linker = linker.map_err(|error| host_fault(&error))?;
        let instance = linker.instantiate_pre(component).map_err(|error| {
            let is_newer = description.imports.iter().any(|import| linking::is_of_wasi_0_3(import));
            let hint = if is_newer { linking::WASI_0_3_HINT } else { "" };
            Refusal::new(ErrorCode::ImportNotAvailable,
                format!("the component imports an interface that toolcell does not provide: {error:#}{hint}"))
        })?;
        let mismatch = |error| mismatch(description.world.contract(), &error);
        let validating = optional(
            description.exports.validation,
            &instance,
            ValidatingPre::new,
        )
        .map_err(mismatch)?;
        let classifying = optional(
            description.exports.classification,
            &instance,
            ClassifyingPre::new,
        );
        let classifying = classifying.map_err(mismatch)?;
        let mut world = description
            .world
            .bind(instance, description.exports)
            .map_err(mismatch)?;
        if !description.toolkit.is_empty() {
            world.described(&description.toolkit);
        }
        Ok(Self {
            engine: engine.clone(),
            world,
            validating,
            classifying,
        })
    }
}

fn imports(component: &Component) -> Vec<String> {
    let kind = component.component_type();
    kind.imports(component.engine())
        .map(|(name, _)| name.to_owned())
        .collect()
}

pub(super) fn link_handler<T>(
    engine: &GuestEngine,
    component: &Component,
    (what, code, handler): (&str, ErrorCode, &str),
    linker: fn(&wasmtime::Engine, &[String]) -> wasmtime::Result<Linker<StoreState>>,
    bind: fn(InstancePre<StoreState>) -> wasmtime::Result<T>,
) -> Result<T, Refusal> {
    let kind = component.component_type();
    if !kind
        .exports(component.engine())
        .any(|(name, _)| name == handler)
    {
        let message = format!("the component is not a {what}: it does not export {handler}");
        return Err(Refusal::new(code, message));
    }
    let linker =
        linker(engine.wasmtime(), &imports(component)).map_err(|error| host_fault(&error))?;
    let instance = linker.instantiate_pre(component).map_err(|error| {
        let message = format!("the {what} asks for what no {what} gets: {error:#}");
        Refusal::new(ErrorCode::ImportNotAvailable, message)
    })?;
    bind(instance).map_err(|error| mismatch(TOOL_CONTRACT, &error))
}

pub(super) fn mismatch(contract: &str, error: &wasmtime::Error) -> Refusal {
    let message = format!("the component does not follow {contract}: {error:#}");
    Refusal::new(ErrorCode::ContractMismatch, message)
}

fn optional<T>(
    exported: bool,
    instance: &InstancePre<StoreState>,
    bind: impl FnOnce(InstancePre<StoreState>) -> wasmtime::Result<T>,
) -> wasmtime::Result<Option<T>> {
    exported.then(|| bind(instance.clone())).transpose()
}

#[allow(
    unsafe_code,
    reason = "wasmtime cannot check that bytes are code it made; the caller did"
)]
pub(super) fn deserialize(engine: &GuestEngine, compiled: &[u8]) -> Result<Component, Refusal> {
    // SAFETY: the bytes come straight from the pipe of our own compile worker.
    unsafe { Component::deserialize(engine.wasmtime(), compiled) }
        .map_err(|error| not_loadable(&error))
}

#[allow(
    unsafe_code,
    reason = "wasmtime cannot check that bytes are code it made; the caller did"
)]
pub(super) fn deserialize_module(
    engine: &GuestEngine,
    compiled: &[u8],
) -> Result<wasmtime::Module, Refusal> {
    // SAFETY: the bytes come straight from the pipe of our own compile worker.
    unsafe { wasmtime::Module::deserialize(engine.wasmtime(), compiled) }
        .map_err(|error| not_loadable(&error))
}

#[allow(
    unsafe_code,
    reason = "wasmtime cannot check that a file holds code it made; the caller did"
)]
pub(super) fn map(engine: &GuestEngine, code: &Path) -> Result<Component, Refusal> {
    // SAFETY: the file is a cache entry that was authenticated, either just now or before its unchanged state was
    // noted. On Linux it is reached through the same handle. Only this user can write to it; toolcell replaces entries,
    // and never writes into one.
    unsafe { Component::deserialize_file(engine.wasmtime(), code) }
        .map_err(|error| not_loadable(&error))
}

/// The component needs more than any call gets, or the host is at fault.
fn not_loadable(error: &wasmtime::Error) -> Refusal {
    let text = format!("{error:#}");
    let code = match &text {
        text if text.contains("core module instances") => ErrorCode::InstanceLimit,
        text if text.contains("limit") || text.contains("configured maximum") => {
            ErrorCode::MemoryLimit
        }
        _ => return Refusal::host_fault(text),
    };
    starts_too_large(code, text)
}

pub(super) fn starts_too_large(code: ErrorCode, detail: String) -> Refusal {
    let message = "the component starts with more than any call may use";
    Refusal::new(code, message).detail(detail)
}

#[cfg(test)]
mod tests {
    use super::{CLASSIFICATION, CONFIGURATION, HostImports, OptionalExports, VALIDATION};
    use crate::world::{ForeignWorld, WorldKind};

    #[test]
    fn only_a_world_that_hands_settings_over_takes_them() {
        let exports = [VALIDATION, CLASSIFICATION, CONFIGURATION].map(str::to_owned);
        let all = OptionalExports {
            validation: true,
            classification: true,
            configuration: true,
        };
        assert_eq!(OptionalExports::new(WorldKind::Tool, &exports), all);
        assert_eq!(
            OptionalExports::new(WorldKind::Tool, &[]),
            OptionalExports::default()
        );
        for world in [
            WorldKind::Command,
            WorldKind::Foreign(ForeignWorld::Act),
            WorldKind::Foreign(ForeignWorld::Near),
            WorldKind::Foreign(ForeignWorld::Amplifier),
            WorldKind::Wit,
        ] {
            assert_eq!(
                OptionalExports::new(world, &exports),
                OptionalExports {
                    configuration: false,
                    ..all
                }
            );
        }
    }

    #[test]
    fn an_interface_is_imported_in_any_version() {
        let of = |imports: &[&str]| {
            HostImports::new(
                &imports
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let pure = of(&[
            "wasi:io/streams@0.2.6",
            "toolcell:tool/log@0.2.0",
            "wasi:http/types@0.2.6",
        ]);
        assert!(
            !pure.cancellation && !pure.http && !pure.random && !pure.clocks,
            "{pure:?}"
        );
        let all = of(&[
            "toolcell:tool/cancellation@0.2.0",
            "wasi:http/outgoing-handler@0.2.6",
            "wasi:random/insecure-seed@0.2.6",
            "wasi:clocks/wall-clock@0.2.0",
        ]);
        assert!(
            all.cancellation && all.http && all.random && all.clocks,
            "{all:?}"
        );
        assert!(of(&["toolcell:tool/cancellation-signal@0.2.0"]).cancellation);
        let near = of(&["near:agent/host@0.4.1"]);
        assert!(
            near.http && near.clocks && !near.random && !near.cancellation,
            "{near:?}"
        );
    }
}
