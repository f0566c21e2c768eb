//! Wires a catalog, a sandbox and a pipeline together.

mod hooks;
mod imports;
mod layers;
mod machine;

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

pub use crate::approval::{
    Approver, COLUMNS, COLUMNS_MIN, EXPIRE_DEFAULT, EXPIRE_MAX, Inquiry, Prompt, ROWS, Reply, Requested, Respondent,
    Session, Sheet, Terms, Whitespace, deceives, legible, visible, visible_json,
};
use crate::catalog::{Catalog, Facts, Tool};
use crate::config::{self, Home};
use crate::dialect::agent_tool;
use crate::executor::Executor;
pub use crate::executor::{Cancellation, canceled};
use crate::hook::{Hooks, Registration};
use crate::journal::{self, PayloadStore};
pub use crate::journal::{Given, Held, Journal, Kept, Listener, Role, Standing, StoreError, Summary};
use crate::pipeline::{self, Desk, Services};
pub use crate::pipeline::{Foretold, Request};
pub use crate::policy::{
    Capability, Explanation, GrantWord, Grants, Limits, Look, Placement, Policy, Provenance, SecretUse,
};
use crate::record::{Approval, CallRecord, ErrorClass, Finding, Refusal, digest};
use crate::sandbox::{COMPONENT_BYTES_MAX, CompilerSettings, LoadedComponent, Sandbox, SandboxSettings};
pub use crate::sandbox::{ENGINE_VERSION, FEATURES_OFF, cached_bytes, compile_worker};
pub use crate::sandbox::{Listening, NetworkSettings, Resolver, SystemResolver};
use crate::scheduler::Scheduler;
pub use crate::scheduler::{MemoryBudget, share};
pub use crate::secret::{SecretEntry, SecretStore, SecretValue, VALUE_BYTES_MAX};
pub use hooks::{ConfiguredHook, hook_digests};
pub use layers::{Layer, LayerOptions, Layers, configured_cache_bytes};
pub use machine::share_bytes as memory_share_bytes;

/// The hidden subcommand of the `toolcell` program that compiles one component.
pub const COMPILE_COMMAND: &str = "compile-component";

/// Default number of calls that run at once in a host that serves many.
pub const CALLS_AT_ONCE: u32 = 64;

/// Default maximum size of the cache of compiled components, in bytes: a large tool takes 30 MiB.
pub const CACHE_BYTES: u64 = 2 << 30;

/// Configuration of a host. Begin with [`HostSettings::new`].
pub struct HostSettings {
    pub home: Home,
    /// Maximum number of calls that run at once; others wait.
    pub calls_at_once: u32,
    /// Number of callers, distinguished by `actor_ref`: with several, each has at most its [`share`] of the places.
    pub callers: usize,
    /// Reuse the memory of instances: fast for many calls, slower to start. Otherwise each call allocates its own.
    pub pooled: bool,
    /// Highest memory limit that a call may have, in bytes.
    pub memory_bytes_max: u64,
    /// The memory that all calls together may have, including those of other hosts with the same budget. A call that
    /// finds none free waits as long as it may run, and is then refused as `rate_limited`. `None`:
    /// [`memory_share_bytes`] for a pooled host, and no limit for one that makes one call after another.
    pub memory: Option<MemoryBudget>,
    /// The program that compiles components: `toolcell`.
    pub compiler: PathBuf,
    /// Keep compiled components on disk.
    pub cached: bool,
    /// Maximum size of the cache of compiled components, in bytes; the least recently used entry is evicted first.
    pub cache_bytes_max: u64,
    /// CPU time limit of one compilation, in seconds.
    pub compile_cpu_seconds: u64,
    /// Address space limit of one compilation, in bytes.
    pub compile_memory_bytes: u64,
    /// Time that a canceled tool may still run if it imports the cancellation interface.
    pub cancel_grace: Duration,
    /// Maximum bytes of output that stay inside a result; more is kept as a payload.
    pub inline_bytes_max: u64,
    /// How tools that may use the network reach it.
    pub network: NetworkSettings,
    /// Hooks that run around every call; hook components are added with [`Host::add_hook`].
    pub hooks: Vec<Registration>,
    pub listeners: Vec<Arc<dyn Listener>>,
    /// Whether calls that need approval wait for it, stored in the journal. Otherwise they are refused.
    pub approvals: bool,
    /// The approver in this process. Without one, answers come from other processes.
    pub approver: Option<Arc<dyn Approver>>,
}

impl HostSettings {
    /// Settings of a host that serves many calls, with its state in `home`; `compiler` is the `toolcell` program.
    pub fn new(home: Home, compiler: impl Into<PathBuf>) -> Self {
        Self {
            home,
            calls_at_once: CALLS_AT_ONCE,
            callers: 1,
            pooled: true,
            memory_bytes_max: Limits::default().memory_bytes.max(1 << 30),
            memory: None,
            compiler: compiler.into(),
            cached: true,
            cache_bytes_max: CACHE_BYTES,
            compile_cpu_seconds: 30,
            compile_memory_bytes: 3 << 30,
            cancel_grace: Duration::from_millis(100),
            inline_bytes_max: 64 << 10,
            network: NetworkSettings::default(),
            hooks: Vec::new(),
            listeners: Vec::new(),
            approvals: false,
            approver: None,
        }
    }
}

/// Loads tools and calls them.
pub struct Host {
    sandbox: Arc<Sandbox>,
    services: Services,
}

impl Host {
    pub fn new(settings: HostSettings) -> anyhow::Result<Self> {
        let sandbox = Sandbox::new(SandboxSettings {
            pool: settings.pooled.then_some(settings.calls_at_once),
            memory_bytes_max: settings.memory_bytes_max,
            cache_dir: settings.cached.then(|| settings.home.components()),
            cache_bytes_max: settings.cache_bytes_max,
            key_file: settings.home.component_key(),
            scratch_dir: settings.home.scratch(),
            compiler: CompilerSettings {
                program: settings.compiler,
                arguments: vec![COMPILE_COMMAND.to_owned()],
                cpu_seconds: settings.compile_cpu_seconds,
                memory_bytes: settings.compile_memory_bytes,
            },
            cancel_grace: settings.cancel_grace,
            network: settings.network,
        })
        .context("cannot set up the sandbox")?;
        let sandbox = Arc::new(sandbox);
        let executor: Arc<dyn Executor> = Arc::<Sandbox>::clone(&sandbox);
        let mut hooks = Hooks::default();
        settings.hooks.into_iter().try_for_each(|hook| hooks.add(hook)).map_err(anyhow::Error::msg)?;
        let shared = || MemoryBudget::new(machine::share_bytes());
        let memory = settings.memory.or_else(|| settings.pooled.then(shared));
        let services = Services {
            catalog: Catalog::default(),
            executor,
            scheduler: Scheduler::new(usize::try_from(settings.calls_at_once).unwrap_or(1), settings.callers, memory),
            hooks,
            payloads: PayloadStore::new(settings.home.payloads()),
            desk: settings.approvals.then(|| Desk {
                journal: Journal::new(settings.home.journal(), settings.home.journal_key()),
                approver: settings.approver,
            }),
            protected: protected(&settings.home),
            secrets: SecretStore::new(settings.home.secrets(), settings.home.secret_key()),
            listeners: settings.listeners.into(),
            source: concat!("toolcell/", env!("CARGO_PKG_VERSION")).into(),
            inline_bytes_max: settings.inline_bytes_max,
        };
        Ok(Self { sandbox, services })
    }

    /// Loads the component `bytes`, and puts its tools into the catalog. Loading it again changes nothing.
    pub async fn load(&self, bytes: &[u8]) -> Result<Loaded, Refusal> {
        let digest: Arc<str> = digest(bytes).into();
        let component = self.sandbox.load(&digest, bytes, &Limits::default()).await?;
        self.declare(component, &digest).await
    }

    /// Loads the component in `file`. A cached component is not read into memory, and not read at all if it was read
    /// before and has not changed since.
    pub async fn load_file(&self, file: &Path) -> Result<Loaded, Refusal> {
        let (mut open, _) = open_component(file)?;
        let path = std::path::absolute(file).map_err(|error| unreadable(file, &error))?;
        if let Some(component) = self.sandbox.find(&path, &mut open)? {
            return self.declare(component, &path.display().to_string()).await;
        }
        open.rewind().map_err(|error| unreadable(file, &error))?;
        let bytes = read_all(file, open)?;
        let digest: Arc<str> = digest(&bytes).into();
        let component = self.sandbox.load(&digest, &bytes, &Limits::default()).await?;
        self.declare(component, &path.display().to_string()).await
    }

    /// Adds the component's tools to the catalog; `from` says where it was found, for messages.
    async fn declare(&self, component: Arc<LoadedComponent>, from: &str) -> Result<Loaded, Refusal> {
        let digest: Arc<str> = component.digest().into();
        if let Some(tools) = self.services.catalog.of_component(&digest) {
            return Ok(Loaded { tools, component });
        }
        // The schemas come from a guest: compiling them takes time, and stack.
        let tools = {
            let (digest, component) = (Arc::clone(&digest), Arc::clone(&component));
            pipeline::load(move || tools(&digest, &component)).await?
        };
        let tools = tools.map_err(|errors| unusable(&errors))?;
        imports::check(component.imports(), &tools)?;
        self.services.catalog.add(tools.clone(), from)?;
        for tool in &tools {
            let id = &tool.declaration().tool_id;
            journal::declared(&self.services.listeners, &self.services.source, id, &digest);
        }
        Ok(Loaded { tools, component })
    }

    /// The tools that were loaded.
    pub fn catalog(&self) -> &Catalog {
        &self.services.catalog
    }

    /// Returns the payload that a result refers to by its digest, if it has at most `bytes_max` bytes.
    pub async fn payload(&self, digest: &str, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
        self.services.payloads.fetch(digest, bytes_max).await
    }

    /// Returns what would be decided on a call, and why. It runs only what describes the tool and checks its arguments.
    pub async fn explain(&self, request: Request) -> Result<Foretold, Refusal> {
        pipeline::explain(&self.services, request).await
    }

    /// Calls a tool. Every call ends in one terminal result.
    pub async fn call(&self, request: Request) -> CallRecord {
        pipeline::call(&self.services, request).await
    }

    /// Runs an orphaned call that was approved; `held` is the role of its runner. `request` is rebuilt from what `kept`
    /// stores: if it is not for the same call in every respect, nothing runs. `None` on a host without approvals.
    pub async fn resume(&self, request: Request, kept: &Kept, held: Held) -> Option<CallRecord> {
        let desk = self.services.desk.as_ref()?;
        Some(pipeline::resume(&self.services, desk, request, kept, held).await)
    }

    /// Fails with what is wrong with `edit`, the arguments that should run instead of those that were asked about. `Ok`
    /// if the tool was not loaded, or has another component by now, because such a call does not run anyway.
    pub async fn check_edit(&self, approval: &Approval, edit: &str) -> Result<(), String> {
        pipeline::check_edit(&self.services, approval, edit).await
    }

    /// Ends an orphaned call that cannot be resumed, so that it has a result; `held` is the role of its runner. `None`
    /// if it can be resumed, or has ended.
    pub async fn close(&self, request: Request, kept: &Kept, held: Held) -> Option<CallRecord> {
        let desk = self.services.desk.as_ref()?;
        pipeline::close(&self.services, desk, request, kept, held).await
    }
}

/// A component that was loaded.
pub struct Loaded {
    pub tools: Vec<Arc<Tool>>,
    component: Arc<LoadedComponent>,
}

impl Loaded {
    /// Returns what of the records of `tools` has no effect on this host, without duplicates.
    pub fn notes(tools: &[Arc<Tool>]) -> Vec<&Finding> {
        let mut notes: Vec<&Finding> = Vec::new();
        for note in tools.iter().flat_map(|tool| tool.notes()) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }

    /// The interfaces that the component imports.
    pub fn imports(&self) -> &[String] {
        self.component.imports()
    }
}

/// The folders of toolcell's own state, and of the user's own configuration.
fn protected(home: &Home) -> Vec<PathBuf> {
    let config = config::user_file(home).ok().and_then(|file| file.parent().map(Path::to_owned));
    let folders = [Some(home.folder().to_owned()), config].into_iter().flatten();
    let mut folders: Vec<PathBuf> = folders.map(|folder| folder.canonicalize().unwrap_or(folder)).collect();
    folders.dedup();
    folders
}

fn tools(digest: &Arc<str>, component: &LoadedComponent) -> Result<Vec<Arc<Tool>>, Vec<Finding>> {
    let facts = Facts {
        component: Arc::clone(digest),
        imports: component.imports().to_vec(),
        validates: component.exports().validation,
        classifies: component.exports().classification,
    };
    let described = agent_tool::toolkit(component.toolkit())?;
    Tool::from_toolkit(described.toolkit, &described.notes, &facts, Limits::default().wall)
}

/// Lists everything that keeps a component from being loaded, each on a line of its own.
fn unusable(errors: &[Finding]) -> Refusal {
    let listed: String = errors.iter().map(|error| format!("\n  {error}")).collect();
    let message = format!("the component's description cannot be used; correct it, or ask its author to:{listed}\n");
    Refusal::new(ErrorClass::SetupRequired, "description_invalid", message.trim_end())
}

/// Opens the file of a component, and returns its size. Fails if it is not a regular file, or too large.
fn open_component(file: &Path) -> Result<(File, u64), Refusal> {
    // Without NONBLOCK, a named pipe would block the reader. Reading a regular file ignores it.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let open = File::options().read(true).custom_flags(flags).open(file).map_err(|error| unreadable(file, &error))?;
    let metadata = open.metadata().map_err(|error| unreadable(file, &error))?;
    if !metadata.is_file() {
        return Err(unreadable(file, &std::io::Error::other("it is not a regular file")));
    }
    let size = metadata.len();
    if size > COMPONENT_BYTES_MAX {
        let message = format!("the component is larger than {COMPONENT_BYTES_MAX} bytes");
        return Err(Refusal::new(ErrorClass::SandboxViolation, "component_too_large", message));
    }
    Ok((open, size))
}

fn read_component(file: &Path) -> Result<Vec<u8>, Refusal> {
    read_all(file, open_component(file)?.0)
}

fn read_all(file: &Path, open: File) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    open.take(COMPONENT_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| unreadable(file, &error))?;
    Ok(bytes)
}

fn unreadable(file: &Path, error: &std::io::Error) -> Refusal {
    let message = format!("cannot read the component {}: {error}", file.display());
    Refusal::new(ErrorClass::SetupRequired, "component_unreadable", message)
}
