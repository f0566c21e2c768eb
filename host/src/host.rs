//! Wires the rooms: a catalog, a sandbox and a pipeline that belong together.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use crate::catalog::{Catalog, Facts, Tool};
use crate::config::Home;
use crate::dialect::agent_tool;
use crate::executor::Executor;
pub use crate::executor::{Cancellation, canceled};
use crate::hook::Hook;
pub use crate::journal::Listener;
use crate::journal::{self, PayloadStore};
pub use crate::pipeline::Request;
use crate::pipeline::{self, Services};
pub use crate::policy::{Grants, Limits};
use crate::record::{CallRecord, ErrorClass, Refusal, digest};
use crate::sandbox::{COMPONENT_BYTES_MAX, CompilerSettings, LoadedComponent, Sandbox, SandboxSettings};
pub use crate::sandbox::{ENGINE_VERSION, FEATURES_OFF, compile_worker};
use crate::scheduler::Scheduler;

/// The hidden subcommand of the `hotcell` program that compiles one component.
pub const COMPILE_COMMAND: &str = "compile-component";

/// Calls that run at once in a host that serves many.
pub const CALLS_AT_ONCE: u32 = 64;

/// How a host is set up. Begin with [`HostSettings::new`].
pub struct HostSettings {
    pub home: Home,
    /// Calls that run at once; others wait.
    pub calls_at_once: u32,
    /// Keep instances ready for reuse of their memory: fast for many calls, slower to start. Otherwise each call
    /// allocates its own.
    pub pooled: bool,
    /// The most memory that any call may be allowed, in bytes.
    pub memory_bytes_max: u64,
    /// The program that compiles components: `hotcell`.
    pub compiler: PathBuf,
    /// Keep compiled components on disk.
    pub cached: bool,
    /// Seconds of CPU that compiling one component may take.
    pub compile_cpu_seconds: u64,
    /// Bytes of address space that compiling one component may take.
    pub compile_memory_bytes: u64,
    /// How long a canceled tool that listens to cancellation may still run.
    pub cancel_grace: Duration,
    /// Bytes of output that stay inside a result.
    pub inline_bytes_max: u64,
    pub hooks: Vec<Arc<dyn Hook>>,
    pub listeners: Vec<Arc<dyn Listener>>,
}

impl HostSettings {
    /// Settings of a host that serves many calls, with its state in `home`; `compiler` is the `hotcell` program.
    pub fn new(home: Home, compiler: impl Into<PathBuf>) -> Self {
        Self {
            home,
            calls_at_once: CALLS_AT_ONCE,
            pooled: true,
            memory_bytes_max: Limits::default().memory_bytes.max(1 << 30),
            compiler: compiler.into(),
            cached: true,
            compile_cpu_seconds: 30,
            compile_memory_bytes: 3 << 30,
            cancel_grace: Duration::from_millis(100),
            inline_bytes_max: 64 << 10,
            hooks: Vec::new(),
            listeners: Vec::new(),
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
            key_file: settings.home.component_key(),
            compiler: CompilerSettings {
                program: settings.compiler,
                arguments: vec![COMPILE_COMMAND.to_owned()],
                cpu_seconds: settings.compile_cpu_seconds,
                memory_bytes: settings.compile_memory_bytes,
            },
            cancel_grace: settings.cancel_grace,
        })
        .context("set up the sandbox")?;
        let sandbox = Arc::new(sandbox);
        let executor: Arc<dyn Executor> = Arc::<Sandbox>::clone(&sandbox);
        let services = Services {
            catalog: Catalog::default(),
            executor,
            scheduler: Scheduler::new(usize::try_from(settings.calls_at_once).unwrap_or(1)),
            hooks: settings.hooks,
            payloads: PayloadStore::new(settings.home.payloads()),
            listeners: settings.listeners.into(),
            source: concat!("hotcell/", env!("CARGO_PKG_VERSION")).into(),
            inline_bytes_max: settings.inline_bytes_max,
        };
        Ok(Self { sandbox, services })
    }

    /// Loads the component `bytes`, and puts its tools into the catalog. Loading it again changes nothing.
    pub async fn load(&self, bytes: &[u8]) -> Result<Loaded, Refusal> {
        let digest: Arc<str> = digest(bytes).into();
        let component = self.sandbox.load(&digest, bytes, &Limits::default()).await?;
        self.declare(component)
    }

    /// Loads the component in `file`. One that is in the cache is not read into memory, and not
    /// read at all if that was done before and nothing changed since.
    pub async fn load_file(&self, file: &Path) -> Result<Loaded, Refusal> {
        let unreadable = |error: std::io::Error| {
            let message = format!("read the component {}: {error}", file.display());
            Refusal::new(ErrorClass::SetupRequired, "component_unreadable", message)
        };
        let mut open = File::open(file).map_err(unreadable)?;
        let size = open.metadata().map_err(unreadable)?.len();
        if size > COMPONENT_BYTES_MAX {
            let message = format!("the component is larger than {COMPONENT_BYTES_MAX} bytes");
            return Err(Refusal::new(ErrorClass::SandboxViolation, "component_too_large", message));
        }
        let path = std::path::absolute(file).map_err(unreadable)?;
        if let Some(component) = self.sandbox.find(&path, &mut open)? {
            return self.declare(component);
        }
        let mut bytes = Vec::new();
        open.rewind().and_then(|()| open.take(COMPONENT_BYTES_MAX).read_to_end(&mut bytes)).map_err(unreadable)?;
        self.load(&bytes).await
    }

    fn declare(&self, component: Arc<LoadedComponent>) -> Result<Loaded, Refusal> {
        let digest: Arc<str> = component.digest().into();
        let tools = tools(&digest, &component).map_err(|error| {
            Refusal::new(ErrorClass::SetupRequired, "description_invalid", format!("the tool's description: {error:#}"))
        })?;
        self.services.catalog.add(tools.clone())?;
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

    /// The bytes of a payload that a result refers to by its digest, if there are at most `bytes_max`.
    pub fn payload(&self, digest: &str, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
        self.services.payloads.read(digest, bytes_max)
    }

    /// Calls a tool. Whatever happens, there is one terminal result.
    pub async fn call(&self, request: Request) -> CallRecord {
        pipeline::call(&self.services, request).await
    }
}

/// A component that was loaded.
pub struct Loaded {
    pub tools: Vec<Arc<Tool>>,
    component: Arc<LoadedComponent>,
}

impl Loaded {
    /// The interfaces that the component imports.
    pub fn imports(&self) -> &[String] {
        self.component.imports()
    }
}

fn tools(digest: &Arc<str>, component: &LoadedComponent) -> anyhow::Result<Vec<Arc<Tool>>> {
    let facts = Facts {
        component: Arc::clone(digest),
        imports: component.imports().to_vec(),
        validates: component.exports().validation,
    };
    Tool::from_toolkit(agent_tool::toolkit(component.toolkit())?, &facts)
}
