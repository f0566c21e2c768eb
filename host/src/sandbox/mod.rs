//! Execution, the only module that names wasmtime: a fresh store for each call, with the world that one permit carries.
//!
//! `trap.rs` maps each failure to an error class. What a guest can reach is in `wasi.rs`, `filesystem/`, `egress/` and
//! `import/`; the last has one file for each interface of the contract.

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
mod scratch;
mod state;
mod trap;
mod wasi;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Semaphore;

use crate::executor::{self, BoxFuture, Cancellation, Check, Execution, Executor, Run};
use crate::file_state::FileState;
use crate::policy::{Limits, Permit};
use crate::record::{AbortReason, ErrorClass, Refusal, SafetyFacts};

pub use compile::{COMPONENT_BYTES_MAX, CompilerSettings, compile_worker};
pub use component::{Exports, LoadedComponent};
pub use egress::{Listening, NetworkSettings, Resolver, SystemResolver};
pub use engine::{ENGINE_VERSION, FEATURES_OFF};
pub use hook::SandboxedHook;

pub use cache::cached_bytes;

use cache::{Cache, Entry};
use compile::Compiler;
use component::Description;
use egress::Uplink;
use engine::Engine;

/// Configuration of a sandbox.
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// Calls that can run at once: the size of the pool. `None` allocates each instance on demand, which starts
    /// faster and suits a process that makes one call.
    pub pool: Option<u32>,
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
    cache: Result<Option<Cache>, Refusal>,
    cancel_grace: Duration,
    /// Permits for checks, descriptions and hooks. They are separate from the places of calls, so that none of these
    /// takes a call's place.
    checks: Semaphore,
    loaded: RwLock<HashMap<Arc<str>, Arc<LoadedComponent>>>,
}

impl Sandbox {
    pub fn new(settings: SandboxSettings) -> anyhow::Result<Self> {
        let checks = settings.pool.map_or(1, |calls| calls.div_ceil(4));
        let pool = settings.pool.map(|calls| calls.saturating_add(checks));
        let engine = Engine::new(pool, settings.memory_bytes_max, settings.scratch_dir)?;
        let bytes_max = settings.cache_bytes_max;
        let open = |dir: &PathBuf| Cache::open(dir, &settings.key_file, engine.compatibility(), bytes_max);
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
            return LoadedComponent::revive(&self.engine, entry, description).map(|found| self.keep(found));
        }
        let code = self.code(entry, bytes).await?;
        let _place = self.checks.acquire().await;
        let examined = async {
            let component = code.component(&self.engine)?;
            LoadedComponent::examine(&self.engine, digest, &component, &limits.for_checks()).await
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

    /// Loads the component in `file`, which was opened at `path`, from the cache on disk; `None` if it is not there. It
    /// does not compile, does not keep the component's bytes, and does not read a file that has not changed since it
    /// was last read.
    pub fn find(&self, path: &Path, file: &mut File) -> Result<Option<Arc<LoadedComponent>>, Refusal> {
        let (Some(cache), Some(state)) = (self.cache()?, FileState::of(file)) else { return Ok(None) };
        let found: Option<Entry<Description>> = cache.recall(path, &state).or_else(|| {
            let lasting = FileState::lasting(file);
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(file.take(COMPONENT_BYTES_MAX)).ok()?;
            let name = hasher.finalize();
            let entry = cache.read(&name)?;
            if let Some(state) = lasting {
                cache.remember(path, &state, &name, &entry);
            }
            Some(entry)
        });
        let Some(mut entry) = found else { return Ok(None) };
        // `load`, which has the component's bytes, examines code without a description.
        let Some(description) = entry.take_description() else { return Ok(None) };
        LoadedComponent::revive(&self.engine, &entry, description).map(|found| Some(self.keep(found)))
    }

    /// Returns the cache on disk, if there is one. An unusable cache fails every load, so that each call reports it;
    /// otherwise each start would compile everything again without notice.
    fn cache(&self) -> Result<Option<&Cache>, Refusal> {
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
            let _place = tokio::select! {
                biased;
                () = check.cancellation.cancelled() => return Err(canceled(check.cancellation)),
                place = self.checks.acquire() => place,
            };
            call::validate(&self.engine, &component, check).await
        })
    }

    fn classify<'a>(&'a self, check: Check<'a>) -> BoxFuture<'a, Option<SafetyFacts>> {
        Box::pin(async move {
            let component = self.known(check.component).ok()?;
            let _place = tokio::select! {
                biased;
                () = check.cancellation.cancelled() => return None,
                place = self.checks.acquire() => place,
            };
            call::classify(&self.engine, &component, check).await
        })
    }

    fn invoke<'a>(&'a self, permit: &'a Permit, run: Run) -> BoxFuture<'a, Execution> {
        Box::pin(async move {
            match self.known(&permit.subject().component) {
                Ok(component) => {
                    call::invoke(&self.engine, &self.uplink, &component, self.cancel_grace, permit, run).await
                }
                Err(refusal) => {
                    Execution { outcome: Err(refusal), usage: Default::default(), logs: Vec::new(), redacted: false }
                }
            }
        })
    }
}

fn canceled(cancellation: &Cancellation) -> Refusal {
    executor::canceled(cancellation.requested().unwrap_or(AbortReason::UserInterruption))
}

/// A cancellation that is never requested, for guests that run outside a call.
fn never() -> Cancellation {
    Cancellation::new()
}
