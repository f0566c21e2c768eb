//! Execution, the only module that names wasmtime: a fresh store for each call, with the world that one permit carries.

#![cfg_attr(
    not(feature = "foreign-worlds"),
    allow(
        dead_code,
        reason = "a few functions and words are for foreign worlds alone"
    )
)]

#[macro_use(guard)]
extern crate toolcell_spec;

mod adapt;
mod bindings;
mod cache;
mod call;
mod compile;
mod component;
mod confine;
mod cpu_clock;
mod egress;
mod engine;
mod filesystem;
mod folder;
mod hook;
mod import;
mod imports;
mod interpreter;
mod judge;
mod limiter;
mod linking;
mod loader;
mod loads;
mod logs;
mod metadata;
mod nondeterminism;
mod own_files;
mod scratch;
mod stack;
mod state;
mod streams;
mod trap;
mod twice;
mod wasi;
mod world;

use std::collections::{HashMap, hash_map};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use toolcell_executor as executor;
use toolcell_executor::{Cancellation, Execution, Executor, InputCheck, RunInput};
use toolcell_policy::{Capability, Limits, Permit};
use toolcell_spec::{ErrorCode, Refusal, SafetyFacts};
use toolcell_system::BoxFuture;
use toolcell_system::component_size::component_bytes_max;
use toolcell_system::file_state::FileState;

pub use adapt::component_of_library;
pub use compile::{Compilation, CompileEffort, CompileWatch, CompilerSettings, compile_worker};
pub use component::{LoadedComponent, OptionalExports};
pub use egress::{ListenGuard, NetworkSettings, Resolver, SystemResolver};
pub use engine::{ENGINE_VERSION, FEATURES_OFF, Meter};
pub use hook::SandboxedHook;
pub use interpreter::Interpreter;
pub use judge::Judge;
pub use own_files::OwnFolder;

pub use cache::cached_bytes;

use cache::{CacheNote, CodeCache};
use compile::{CompileOrder, Compiler};
use component::{ComponentDescription, LinkedComponent};
use egress::NetworkResources;
use engine::{EngineKind, Engines};
use loader::{CachedCode, ComponentCode, ComponentLoader};
use own_files::{OpenFolders, OwnFileStore};

#[derive(Clone)]
pub struct SandboxSettings {
    /// Calls that can run at once. `None` allocates each instance on demand, which starts faster and suits a process
    /// that makes one call.
    pub pool: Option<u32>,
    /// Instances of calls that other calls make, beside those.
    pub nested: u32,
    /// Highest memory limit of a call, in bytes.
    pub memory_bytes_max: u64,
    /// `None` compiles each component when it is loaded.
    pub cache_dir: Option<PathBuf>,
    /// In bytes; the least recently used entry is evicted first.
    pub cache_bytes_max: u64,
    pub key_file: PathBuf,
    pub scratch_dir: PathBuf,
    pub compiler: CompilerSettings,
    /// Whether the calls of the component in a file are metered by CPU time; `None`: no component's.
    pub metered_by_time: Option<MeteredByTime>,
    /// A guest that imports the cancellation interface may run so long after its cancellation or its deadline.
    pub cancel_grace: Duration,
    pub network: NetworkSettings,
}

/// Must not block.
pub type MeteredByTime = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// Cheap to share.
pub struct Sandbox {
    loader: Arc<ComponentLoader>,
    uplink: Arc<NetworkResources>,
    cancel_grace: Duration,
    metered_by_time: Option<MeteredByTime>,
    /// Separate from the places of calls, so that no check, description or hook takes a call's place.
    checks: Semaphore,
    loaded: Arc<LoadedComponents>,
    /// KiB of components that may wait to be compiled again; none for a host that makes one call.
    again: Arc<Semaphore>,
}

/// With its own files, and the place of the check.
type CheckedComponent<'c, 's> = (
    &'c LinkedComponent,
    OpenFolders,
    Option<SemaphorePermit<'s>>,
);

type LoadedComponents = Mutex<HashMap<Arc<str>, Arc<LoadedComponent>>>;

/// Components beyond it are compiled thoroughly at once.
const AGAIN_KIB_MAX: u32 = 64 << 10;
const IMPROVE_AFTER: Duration = Duration::from_secs(2);

impl Sandbox {
    pub fn new(settings: SandboxSettings) -> anyhow::Result<Self> {
        let checks = settings.pool.map_or(1, |calls| calls.div_ceil(4));
        let pool = settings
            .pool
            .map(|calls| calls.saturating_add(checks).saturating_add(settings.nested));
        let own_files = OwnFileStore::new(settings.cache_dir.as_deref(), &settings.scratch_dir);
        let engines = Engines::new(pool, settings.memory_bytes_max, settings.scratch_dir)?;
        let compatibility = engines.get(EngineKind::Pooled).compatibility();
        let bytes_max = settings.cache_bytes_max;
        let open = |dir: &PathBuf| {
            CodeCache::open(dir, &settings.key_file, compatibility, bytes_max).map(Arc::new)
        };
        let cache = settings.cache_dir.as_ref().map(open).transpose();
        Ok(Self {
            loader: Arc::new(ComponentLoader::new(
                engines,
                Compiler::new(settings.compiler),
                cache,
                own_files,
            )),
            uplink: Arc::new(NetworkResources::new(settings.network)?),
            cancel_grace: settings.cancel_grace,
            metered_by_time: settings.metered_by_time,
            checks: Semaphore::new(usize::try_from(checks).unwrap_or(1)),
            loaded: Arc::default(),
            // One call is over before it would have paid to compile twice.
            again: Arc::new(Semaphore::new(
                settings.pool.map_or(0, |_| AGAIN_KIB_MAX as usize),
            )),
        })
    }

    /// What meters the calls of the component in the file at `path`, an absolute path.
    pub fn meter(&self, path: &Path) -> Meter {
        match &self.metered_by_time {
            Some(is_meant) if is_meant(path) => Meter::Time,
            _ => Meter::Fuel,
        }
    }

    /// `digest`: `sha256:<hex>` of `bytes`. The code of a recalled component is loaded from these bytes, because its
    /// file may hold others; that load goes on if this future is dropped. A component that is loaded already keeps its
    /// meter. `limits` bound its `describe`.
    pub async fn load(
        &self,
        digest: &Arc<str>,
        bytes: &[u8],
        meter: Meter,
        limits: &Limits,
    ) -> Result<Arc<LoadedComponent>, Refusal> {
        if let Some(component) = self.get(digest) {
            self.loader.link(&component, Some(bytes)).await?;
            self.loader.unpack(&component, Some(bytes)).await?;
            return Ok(component);
        }
        let loader = &self.loader;
        let name = blake3::hash(bytes);
        let mut entry: Option<CachedCode<ComponentDescription>> =
            loader.cached(&name, meter).await?;
        if let Some((kind, entry)) = &mut entry
            && let Some(description) = entry.take_description()
        {
            let engine = loader.engines.get(*kind);
            let found = self.keep(LoadedComponent::revive(engine, name, entry, description)?);
            loader.unpack(&found, Some(bytes)).await?;
            return Ok(found);
        }
        let kib = u32::try_from(bytes.len() >> 10)
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let waits = Arc::clone(&self.again).try_acquire_many_owned(kib).ok();
        let effort = if waits.is_some() {
            CompileEffort::Quick
        } else {
            CompileEffort::Thorough
        };
        let order = CompileOrder { effort, meter };
        let code = loader.code(entry, bytes, order).await?;
        let waits = waits.filter(|_| matches!(code, ComponentCode::Compiled(..)));
        let examined = async {
            let own_files = loader.unpack_sections(bytes).await?;
            let _place = self.checks.acquire().await;
            let (engine, component) = code.component(&loader.engines)?;
            LoadedComponent::examine(
                engine,
                (digest, name),
                &component,
                (bytes, own_files),
                &limits.for_checks(),
            )
            .await
        };
        let examined = examined.await;
        let description = examined
            .as_ref()
            .ok()
            .map(|component| component.description().clone());
        loader.keep_code(&name, code, description).await;
        let component = self.keep(examined?);
        if let Some(waits) = waits {
            self.improve_later(&component, bytes, waits);
        }
        Ok(component)
    }

    /// A failure leaves the old code. `waits` are the component's KiB.
    fn improve_later(
        &self,
        component: &Arc<LoadedComponent>,
        bytes: &[u8],
        waits: OwnedSemaphorePermit,
    ) {
        let loader = Arc::clone(&self.loader);
        let loaded = Arc::downgrade(&self.loaded);
        let component = Arc::clone(component);
        let bytes = bytes.to_vec();
        tokio::spawn(async move {
            let _waits = waits;
            tokio::time::sleep(IMPROVE_AFTER).await;
            let Ok(better) = loader.improve(&component, &bytes).await else {
                return;
            };
            let Some(loaded) = loaded.upgrade() else {
                return;
            };
            if let Some(file) = component.file.get() {
                better.is_from(&file.0, file.1);
            }
            locked(&loaded).insert(component.digest().into(), Arc::new(better));
        });
    }

    /// Reads neither `file`, opened at `path`, nor compiled code; `None` without a note, or after a change. The first
    /// call loads the code.
    pub fn recall(
        &self,
        path: &Path,
        file: &File,
    ) -> Result<Option<Arc<LoadedComponent>>, Refusal> {
        let (Some(cache), Some(state)) = (self.loader.cache()?, FileState::from_file(file)) else {
            return Ok(None);
        };
        Ok(cache
            .recall(path, &state, self.meter(path))
            .map(|note| self.keep(LoadedComponent::noted(path, note))))
    }

    /// Reads the file and the compiled code, which can block this thread for long; does not compile.
    pub fn find(
        &self,
        file: &mut File,
        meter: Meter,
    ) -> Result<Option<Arc<LoadedComponent>>, Refusal> {
        if self.loader.cache()?.is_none() {
            return Ok(None);
        }
        let mut hasher = blake3::Hasher::new();
        if hasher
            .update_reader(file.take(component_bytes_max()))
            .is_err()
        {
            return Ok(None);
        }
        let name = hasher.finalize();
        let Some((kind, mut entry)) = self
            .loader
            .cached_here::<ComponentDescription>(&name, meter)?
        else {
            return Ok(None);
        };
        // `load`, which has the component's bytes, examines code without a description.
        let Some(description) = entry.take_description() else {
            return Ok(None);
        };
        let engine = self.loader.engines.get(kind);
        LoadedComponent::revive(engine, name, &entry, description)
            .map(|found| Some(self.keep(found)))
    }

    /// `component` was loaded from the file at `path`. `state` is `None` if a later change of the file may not show in it.
    pub async fn accept(&self, path: &Path, state: Option<FileState>, component: &LoadedComponent) {
        component.is_from(path, state);
        let Some(state) = state else { return };
        let name = *component.name().as_bytes();
        let description = component.description().clone();
        self.loader
            .remember(
                path,
                CacheNote {
                    name,
                    component: state,
                    entry: component.entry,
                    description,
                },
            )
            .await;
    }

    /// The load goes on after a cancellation or `wall`, for the next call.
    async fn linked<'c>(
        &self,
        component: &'c Arc<LoadedComponent>,
        wall: Duration,
        cancellation: &Cancellation,
    ) -> Result<&'c LinkedComponent, Refusal> {
        if let Some(linked) = component.linked.get() {
            return Ok(linked);
        }
        // Boxed, to keep the future of all other calls small.
        Box::pin(call::in_time(
            self.loader.link(component, None),
            wall,
            cancellation,
        ))
        .await?;
        component
            .linked
            .get()
            .ok_or_else(|| Refusal::host_fault("a component that was loaded has no code"))
    }

    /// They are unpacked again if somebody removed them; that goes on as in [`Self::linked`].
    async fn own_files(
        &self,
        component: &Arc<LoadedComponent>,
        wall: Duration,
        cancellation: &Cancellation,
    ) -> Result<OpenFolders, Refusal> {
        match self.loader.own_files(component)? {
            Some(open) => Ok(open),
            None => {
                let unpack = self.loader.unpack(component, None);
                Box::pin(call::in_time(unpack, wall, cancellation)).await
            }
        }
    }

    async fn checked<'c>(
        &self,
        component: &'c Arc<LoadedComponent>,
        check: &InputCheck<'_>,
    ) -> Result<CheckedComponent<'c, '_>, Refusal> {
        let linked = self
            .linked(component, check.wall, check.cancellation)
            .await?;
        let own_files = self
            .own_files(component, check.wall, check.cancellation)
            .await?;
        tokio::select! {
            biased;
            () = check.cancellation.cancelled() => Err(executor::stopped(check.cancellation)),
            place = self.checks.acquire() => Ok((linked, own_files, place.ok())),
        }
    }

    fn keep(&self, component: LoadedComponent) -> Arc<LoadedComponent> {
        let mut loaded = locked(&self.loaded);
        match loaded.entry(component.digest().into()) {
            hash_map::Entry::Occupied(known) => {
                // One that was recalled takes this code, so that its first call need not load it.
                if let Some(linked) = component.linked.into_inner() {
                    let _ = known.get().linked.set(linked);
                }
                Arc::clone(known.get())
            }
            hash_map::Entry::Vacant(place) => Arc::clone(place.insert(Arc::new(component))),
        }
    }

    fn get(&self, digest: &str) -> Option<Arc<LoadedComponent>> {
        locked(&self.loaded).get(digest).cloned()
    }

    fn known(&self, digest: &str) -> Result<Arc<LoadedComponent>, Refusal> {
        self.get(digest).ok_or_else(|| {
            Refusal::new(
                ErrorCode::ComponentNotLoaded,
                "the tool's component is not loaded",
            )
        })
    }
}

impl Executor for Sandbox {
    fn check_world(&self, capability: &Capability) -> Result<(), Refusal> {
        call::check_world(capability)
    }

    fn validate<'a>(&'a self, check: InputCheck<'a>) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(async move {
            let component = self.known(check.component)?;
            if !component.exports().validation {
                return Ok(());
            }
            let (linked, own_files, _place) = self.checked(&component, &check).await?;
            call::validate((linked, &own_files), check).await
        })
    }

    fn classify<'a>(
        &'a self,
        check: InputCheck<'a>,
    ) -> BoxFuture<'a, Result<Option<SafetyFacts>, Refusal>> {
        Box::pin(async move {
            let component = self.known(check.component)?;
            if !component.exports().classification {
                return Ok(None);
            }
            // A failure ends the call: without the classification it could get more than its input needs.
            let (linked, own_files, _place) = self.checked(&component, &check).await?;
            Ok(call::classify((linked, &own_files), check).await)
        })
    }

    fn invoke<'a>(&'a self, permit: &'a Permit, run: RunInput) -> BoxFuture<'a, Box<Execution>> {
        Box::pin(async move {
            let component = match self.known(&permit.subject().component) {
                Ok(component) => component,
                Err(refusal) => return Execution::failed(refusal, Default::default()),
            };
            call::invoke(self, &component, permit, run).await
        })
    }
}

/// Works after a panic of another thread, too: what it guards is whole at every moment.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn never() -> Cancellation {
    Cancellation::new()
}
