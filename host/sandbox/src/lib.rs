//! Execution, the only module that names wasmtime: a fresh store for each call, with the world that one permit carries.
//!
//! `trap.rs` maps each failure to an error class. What a guest can reach is in `wasi.rs`, `filesystem/`, `egress/` and
//! `import/`; the last has one file for each interface of the contract.

#[macro_use(guard)]
extern crate toolcell_core;

mod bindings;
mod cache;
mod call;
mod compile;
mod component;
mod confine;
mod egress;
mod engine;
mod filesystem;
mod folder;
mod hook;
mod import;
mod limiter;
mod linking;
mod logs;
mod nondeterminism;
mod scratch;
mod state;
mod trap;
mod wasi;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::Serialize;
use serde::de::IgnoredAny;
use tokio::sync::Semaphore;
use toolcell_core::executor::{self, BoxFuture, Cancellation, Check, Execution, Executor, Run};
use toolcell_core::file_state::FileState;
use toolcell_core::policy::{Limits, Permit};
use toolcell_core::pool::{STORE, Unfinished};
use toolcell_core::record::{AbortReason, ErrorClass, Refusal, SafetyFacts};

pub use compile::{COMPONENT_BYTES_MAX, CompilerSettings, compile_worker};
pub use component::{Exports, LoadedComponent};
pub use egress::{Listening, NetworkSettings, Resolver, SystemResolver};
pub use engine::{ENGINE_VERSION, FEATURES_OFF};
pub use hook::SandboxedHook;

pub use cache::cached_bytes;

use cache::{Cache, Entry, Note};
use compile::Compiler;
use component::{Description, Linked};
use egress::Uplink;
use engine::Engine;

/// Configuration of a sandbox.
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// Calls that can run at once: the size of the pool. `None` allocates each instance on demand, which starts
    /// faster and suits a process that makes one call.
    pub pool: Option<u32>,
    /// Instances of calls that other calls make, beside those.
    pub nested: u32,
    /// Highest memory limit that a call may have, in bytes.
    pub memory_bytes_max: u64,
    /// Folder of the cache of compiled components; `None` compiles each component when it is loaded.
    pub cache_dir: Option<PathBuf>,
    /// Maximum size of the cache, in bytes; the least recently used entry is evicted first.
    pub cache_bytes_max: u64,
    /// File of the key that authenticates cache entries.
    pub key_file: PathBuf,
    /// Folder in which the scratch folders of calls are created.
    pub scratch_dir: PathBuf,
    pub compiler: CompilerSettings,
    /// Time that a canceled guest may still run if it imports the cancellation interface.
    pub cancel_grace: Duration,
    pub network: NetworkSettings,
}

/// Compiled code of a component.
enum Code<D> {
    /// Straight from the compiler.
    Compiled(Vec<u8>),
    /// From the cache. It has no description if an earlier load failed after it compiled the component.
    Kept(Entry<D>),
}

impl<D> Code<D> {
    fn component(&self, engine: &Engine) -> Result<wasmtime::component::Component, Refusal> {
        match self {
            Self::Compiled(code) => component::deserialize(engine, code),
            Self::Kept(entry) => component::map(engine, entry.code_file()),
        }
    }
}

/// Loads components and runs them. Cheap to share.
pub struct Sandbox {
    engine: Engine,
    uplink: Arc<Uplink>,
    compiler: Compiler,
    /// `None` without a cache folder; `Err` if the cache cannot be used.
    cache: Result<Option<Arc<Cache>>, Refusal>,
    cancel_grace: Duration,
    /// Permits for checks, descriptions and hooks. They are separate from the places of calls, so that none of these
    /// takes a call's place.
    checks: Semaphore,
    loaded: RwLock<HashMap<Arc<str>, Arc<LoadedComponent>>>,
}

impl Sandbox {
    pub fn new(settings: SandboxSettings) -> anyhow::Result<Self> {
        let checks = settings.pool.map_or(1, |calls| calls.div_ceil(4));
        let pool = settings.pool.map(|calls| calls.saturating_add(checks).saturating_add(settings.nested));
        let engine = Engine::new(pool, settings.memory_bytes_max, settings.scratch_dir)?;
        let bytes_max = settings.cache_bytes_max;
        let open =
            |dir: &PathBuf| Cache::open(dir, &settings.key_file, engine.compatibility(), bytes_max).map(Arc::new);
        let cache = settings.cache_dir.as_ref().map(open).transpose();
        Ok(Self {
            engine,
            uplink: Arc::new(Uplink::new(settings.network)?),
            compiler: Compiler::new(settings.compiler),
            cache,
            cancel_grace: settings.cancel_grace,
            checks: Semaphore::new(usize::try_from(checks).unwrap_or(1)),
            loaded: RwLock::default(),
        })
    }

    /// Loads the component `bytes`, named `sha256:<hex>` by `digest`: from memory, from the cache on disk, or by
    /// compiling it in a child process. `limits` bound what its `describe` may use.
    pub async fn load(
        &self,
        digest: &Arc<str>,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Arc<LoadedComponent>, Refusal> {
        if let Some(component) = self.get(digest) {
            return Ok(component);
        }
        let name = blake3::hash(bytes);
        let mut entry: Option<Entry<Description>> = self.cache()?.and_then(|cache| cache.read(&name));
        if let Some(entry) = &mut entry
            && let Some(description) = entry.take_description()
        {
            return LoadedComponent::revive(&self.engine, name, entry, description).map(|found| self.keep(found));
        }
        let code = self.code(entry, bytes).await?;
        let _place = self.checks.acquire().await;
        let examined = async {
            let component = code.component(&self.engine)?;
            LoadedComponent::examine(&self.engine, (digest, name), &component, &limits.for_checks()).await
        };
        let examined = examined.await;
        self.keep_code(&name, code, examined.as_ref().ok().map(LoadedComponent::description));
        examined.map(|component| self.keep(component))
    }

    /// Returns the code of `entry`, if there is one; otherwise compiles `bytes`.
    async fn code<D>(&self, entry: Option<Entry<D>>, bytes: &[u8]) -> Result<Code<D>, Refusal> {
        match entry {
            Some(entry) => Ok(Code::Kept(entry)),
            None => {
                compile::refuse_what_is_no_component(bytes)?;
                self.compiler.compile(bytes).await.map(Code::Compiled)
            }
        }
    }

    /// Caches compiled code with the component's description. Code without a description is cached too, so that the
    /// next load does not compile it again.
    fn keep_code<D: Serialize>(&self, name: &blake3::Hash, code: Code<D>, description: Option<&D>) {
        let Ok(Some(cache)) = self.cache() else { return };
        // A failed write only costs another compilation; the call need not fail for it.
        let _ = match (code, description) {
            (Code::Compiled(code), description) => cache.write(name, description, &code),
            (Code::Kept(mut entry), Some(description)) => {
                entry.code().map_err(anyhow::Error::from).and_then(|code| cache.write(name, Some(description), &code))
            }
            (Code::Kept(_), None) => Ok(()),
        };
    }

    /// Returns the component in `file`, which was opened at `path`, without reading it or its compiled code; `None` if it
    /// has no note, or has changed since. Its records were accepted. Its code is loaded by the first call.
    pub fn recall(&self, path: &Path, file: &File) -> Result<Option<Arc<LoadedComponent>>, Refusal> {
        let (Some(cache), Some(state)) = (self.cache()?, FileState::of(file)) else { return Ok(None) };
        Ok(cache.recall(path, &state).map(|note| self.keep(LoadedComponent::noted(path, note))))
    }

    /// Returns the component in `file` from the cache on disk; `None` if it is not there. It reads the file and the
    /// compiled code, which can block this thread for long. It does not compile, and does not keep the component's bytes.
    pub fn find(&self, file: &mut File) -> Result<Option<Arc<LoadedComponent>>, Refusal> {
        let Some(cache) = self.cache()? else { return Ok(None) };
        let mut hasher = blake3::Hasher::new();
        if hasher.update_reader(file.take(COMPONENT_BYTES_MAX)).is_err() {
            return Ok(None);
        }
        let name = hasher.finalize();
        let Some(mut entry) = cache.read::<Description>(&name) else { return Ok(None) };
        // `load`, which has the component's bytes, examines code without a description.
        let Some(description) = entry.take_description() else { return Ok(None) };
        LoadedComponent::revive(&self.engine, name, &entry, description).map(|found| Some(self.keep(found)))
    }

    /// Notes that the file `path`, in the lasting state `state`, held `component`, whose records were accepted.
    pub fn accept(&self, path: &Path, state: FileState, component: &LoadedComponent) {
        if let Ok(Some(cache)) = self.cache() {
            let (name, description) = (*component.name().as_bytes(), component.description());
            cache.remember(path, &Note { name, component: state, entry: component.entry, description });
        }
    }

    /// Returns the code of `component`. The first call of a component that was recalled loads it, unless the call is
    /// canceled meanwhile.
    async fn linked<'c>(
        &self,
        component: &'c LoadedComponent,
        cancellation: &Cancellation,
    ) -> Result<&'c Linked, Refusal> {
        if let Some(linked) = component.linked.get() {
            return Ok(linked);
        }
        tokio::select! {
            biased;
            () = cancellation.cancelled() => Err(canceled(cancellation)),
            linked = component.linked.get_or_try_init(|| self.fetch(component)) => linked,
        }
    }

    /// Loads the code of a component that was recalled: from its unchanged entry, from one that has to be authenticated
    /// again, or by compiling the component's file.
    async fn fetch(&self, component: &LoadedComponent) -> Result<Linked, Refusal> {
        let (Some(cache), Some((path, state))) = (self.cache()?, &component.file) else {
            return Err(Refusal::host_fault("a component without code has no file"));
        };
        let (name, description) = (component.name(), component.description());
        if let Some(entry) = component.entry.and_then(|state| cache.reopen(&name, &state)) {
            return Linked::new(&self.engine, &component::map(&self.engine, entry.code_file())?, description);
        }
        let reader = Arc::clone(cache);
        if let Some(entry) = on_disk(move || reader.read::<IgnoredAny>(&name)).await? {
            let linked = Linked::new(&self.engine, &component::map(&self.engine, entry.code_file())?, description)?;
            // From the next start on, the entry need not be read as a whole.
            if entry.lasting().is_some() {
                let note = Note { name: *name.as_bytes(), component: *state, entry: entry.lasting(), description };
                cache.remember(path, &note);
            }
            return Ok(linked);
        }
        let file = path.clone();
        let bytes = on_disk(move || read_again(&file, &name)).await?;
        let bytes = bytes.ok_or_else(|| changed(path))?;
        let code = self.code::<Description>(None, &bytes).await?;
        let linked = Linked::new(&self.engine, &code.component(&self.engine)?, description)?;
        self.keep_code(&name, code, Some(description));
        Ok(linked)
    }

    /// Returns the cache on disk, if there is one. An unusable cache fails every load, so that each call reports it;
    /// otherwise each start would compile everything again without notice.
    fn cache(&self) -> Result<Option<&Arc<Cache>>, Refusal> {
        self.cache.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }

    fn keep(&self, component: LoadedComponent) -> Arc<LoadedComponent> {
        let component = Arc::new(component);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(loaded.entry(component.digest().into()).or_insert(component))
    }

    fn get(&self, digest: &str) -> Option<Arc<LoadedComponent>> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).get(digest).cloned()
    }

    fn known(&self, digest: &str) -> Result<Arc<LoadedComponent>, Refusal> {
        self.get(digest).ok_or_else(|| {
            Refusal::new(
                ErrorClass::DependencyUnavailable,
                "component_not_loaded",
                "the tool's component is not loaded",
            )
        })
    }
}

impl Executor for Sandbox {
    fn validate<'a>(&'a self, check: Check<'a>) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(async move {
            let component = self.known(check.component)?;
            if !component.exports().validation {
                return Ok(());
            }
            let linked = self.linked(&component, check.cancellation).await?;
            let _place = tokio::select! {
                biased;
                () = check.cancellation.cancelled() => return Err(canceled(check.cancellation)),
                place = self.checks.acquire() => place,
            };
            call::validate(&self.engine, linked, check).await
        })
    }

    fn classify<'a>(&'a self, check: Check<'a>) -> BoxFuture<'a, Result<Option<SafetyFacts>, Refusal>> {
        Box::pin(async move {
            let component = self.known(check.component)?;
            if !component.exports().classification {
                return Ok(None);
            }
            // A failure ends the call: without the classification it could get more than its input needs.
            let linked = self.linked(&component, check.cancellation).await?;
            let _place = tokio::select! {
                biased;
                () = check.cancellation.cancelled() => return Err(canceled(check.cancellation)),
                place = self.checks.acquire() => place,
            };
            Ok(call::classify(&self.engine, linked, check).await)
        })
    }

    fn invoke<'a>(&'a self, permit: &'a Permit, run: Run) -> BoxFuture<'a, Execution> {
        Box::pin(async move {
            let component = match self.known(&permit.subject().component) {
                Ok(component) => component,
                Err(refusal) => return not_run(refusal),
            };
            match self.linked(&component, &run.cancellation).await {
                Ok(linked) => {
                    let component = (&*component, linked);
                    call::invoke(&self.engine, &self.uplink, component, self.cancel_grace, permit, run).await
                }
                Err(refusal) => not_run(refusal),
            }
        })
    }
}

/// The execution of a call whose component cannot be used.
fn not_run(refusal: Refusal) -> Execution {
    Execution::failed(refusal, Default::default())
}

/// Runs `work`, which reads files of the host's own, on a thread for that.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    STORE.run(work).await.map_err(|error| match error {
        Unfinished::Busy(_) => {
            let message = format!("the tool's component cannot be loaded now: {error}; call again later");
            Refusal::new(ErrorClass::RateLimited, "too_many_loads", message)
        }
        Unfinished::Panicked => Refusal::host_fault("loading a component panicked"),
    })
}

/// Reads the component in the file `path` again; `None` if it is not the one with this hash any more.
fn read_again(path: &Path, name: &blake3::Hash) -> Option<Vec<u8>> {
    // Without NONBLOCK, a named pipe that took the file's place would block the reader.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(COMPONENT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    (blake3::hash(&bytes) == *name).then_some(bytes)
}

fn changed(path: &Path) -> Refusal {
    let message = format!(
        "the component {} changed or was removed before its first call, and its compiled code is not in the cache; call \
         again when the tool is loaded anew",
        path.display()
    );
    Refusal::new(ErrorClass::DependencyUnavailable, "component_changed", message)
}

fn canceled(cancellation: &Cancellation) -> Refusal {
    executor::canceled(cancellation.requested().unwrap_or(AbortReason::UserInterruption))
}

/// A cancellation that is never requested, for guests that run outside a call.
fn never() -> Cancellation {
    Cancellation::new()
}
