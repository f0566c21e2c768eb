//! The settings of a host.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;
use toolcell_engine::approval::Approver;
use toolcell_engine::catalog::Catalog;
use toolcell_engine::pipeline::{ApprovalService, RunningCalls, Services};
use toolcell_engine::scheduler::{CallChains, MemoryBudget, Quotas, ResourceLocks, Scheduler};
use toolcell_executor::Executor;
use toolcell_executor::hook::{HookList, Registration};
use toolcell_journal::{Keep, Listener, LogSettings};
use toolcell_policy::Limits;
use toolcell_policy::secret::SecretStore;
use toolcell_sandbox::{
    CompileWatch, CompilerSettings, ENGINE_VERSION, MeteredByTime, NetworkSettings, Sandbox,
    SandboxSettings,
};
use toolcell_spec::OutputRetention;
use toolcell_system::machine;

use crate::compiling::{self, COMPILE_COMMAND};
use crate::recorded::Records;
use crate::{Home, Host};

/// How long a tool may still run after its cancellation or its deadline, if it imports the cancellation interface.
const CANCEL_GRACE: Duration = Duration::from_millis(100);
const CALLS_WAITING: u32 = 4_096;

/// Configuration of a host. [`Host::builder`] begins one.
///
/// ```
/// let host = toolcell::Host::builder().home(std::env::temp_dir().join("toolcell")).compiler("toolcell").build();
/// assert!(host.is_ok());
/// ```
pub struct HostBuilder {
    home: Option<Home>,
    /// Keeps nothing: without a home, the host has a temporary folder.
    in_memory: bool,
    calls_at_once: u32,
    callers: usize,
    pooled: bool,
    memory_bytes_max: u64,
    memory: Option<MemoryBudget>,
    calls_waiting: u32,
    locks: ResourceLocks,
    quotas: Quotas,
    compiler: Option<PathBuf>,
    cached: bool,
    cache_bytes_max: u64,
    compile_cpu_seconds: u64,
    compile_memory_bytes: u64,
    compile_watch: Option<CompileWatch>,
    metered_by_time: Option<MeteredByTime>,
    inline_bytes_max: u64,
    keeping: OutputRetention,
    network: NetworkSettings,
    hooks: Vec<Registration>,
    listeners: Vec<Arc<dyn Listener>>,
    journal: LogSettings,
    approvals: bool,
    approver: Option<Arc<dyn Approver>>,
}

impl Default for HostBuilder {
    fn default() -> Self {
        Self {
            home: None,
            in_memory: false,
            calls_at_once: Self::CALLS_AT_ONCE,
            callers: 1,
            pooled: true,
            memory_bytes_max: Limits::default().memory_bytes.max(1 << 30),
            memory: None,
            calls_waiting: CALLS_WAITING,
            locks: ResourceLocks::default(),
            quotas: Quotas::default(),
            compiler: None,
            cached: true,
            cache_bytes_max: Self::CACHE_BYTES,
            compile_cpu_seconds: Self::COMPILE_CPU_SECONDS,
            compile_memory_bytes: Self::COMPILE_MEMORY_BYTES,
            compile_watch: None,
            metered_by_time: None,
            inline_bytes_max: 64 << 10,
            keeping: OutputRetention::default(),
            network: NetworkSettings::default(),
            hooks: Vec::new(),
            listeners: Vec::new(),
            journal: LogSettings::default(),
            approvals: false,
            approver: None,
        }
    }
}

impl HostBuilder {
    pub(crate) fn in_memory() -> Self {
        Self {
            in_memory: true,
            cached: false,
            journal: LogSettings {
                keep: Keep::None,
                ..LogSettings::default()
            },
            ..Self::default()
        }
    }

    /// Default for a host that serves many.
    pub const CALLS_AT_ONCE: u32 = 64;

    /// Default size of the cache of compiled components: a large tool takes 30 MiB.
    pub const CACHE_BYTES: u64 = 2 << 30;

    /// Default CPU time of one compilation, for each started 64 MiB. A component that contains Python takes 22 s on a server, and a small
    /// machine is four times slower.
    pub const COMPILE_CPU_SECONDS: u64 = 120;

    /// Default address space of one compilation, likewise.
    pub const COMPILE_MEMORY_BYTES: u64 = 3 << 30;

    /// Folder of all state, in place of [`Home::find`] or of a temporary folder.
    #[must_use]
    pub fn home(mut self, home: impl Into<Home>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// The program that compiles: one whose `main` begins with [`compile_if_asked`](crate::compile_if_asked), such as
    /// `toolcell`. Default: this program, if its `main` does.
    #[must_use]
    pub fn compiler(mut self, program: impl Into<PathBuf>) -> Self {
        self.compiler = Some(program.into());
        self
    }

    /// Highest memory limit of a call. Default, and the least: 1 GiB.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = self.memory_bytes_max.max(bytes);
        self
    }

    /// A call waits for free memory until its deadline, and is then refused as `rate_limited`; other hosts can share
    /// the budget. Default: half of this machine's memory for a pooled host, and no limit for one that makes one call
    /// after another.
    #[must_use]
    pub fn memory(mut self, memory: MemoryBudget) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Told when a component is compiled because its code is not cached. It must not block.
    #[must_use]
    pub fn compile_watch(mut self, watch: CompileWatch) -> Self {
        self.compile_watch = Some(watch);
        self
    }

    /// Says for the absolute path of a component's file whether the calls of its tools are limited by CPU time
    /// ([`Limits::cpu`]) in place of fuel: they run faster, and are not stopped at the same point each time. It must not
    /// block. Default: no file's.
    #[must_use]
    pub fn metered_by_time(
        mut self,
        is_meant: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.metered_by_time = Some(Arc::new(is_meant));
        self
    }

    /// Adds a listener to the events of every call.
    #[must_use]
    pub fn listener(mut self, listener: Arc<dyn Listener>) -> Self {
        self.listeners.push(listener);
        self
    }

    /// Adds listeners to the events of every call.
    #[must_use]
    pub fn listeners(mut self, listeners: Vec<Arc<dyn Listener>>) -> Self {
        self.listeners.extend(listeners);
        self
    }

    /// Runs around every call that it matches; [`Host::add_hook`] adds more.
    #[must_use]
    pub fn hook(mut self, hook: Registration) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Adds hooks, in their order.
    #[must_use]
    pub fn hooks(mut self, hooks: Vec<Registration>) -> Self {
        self.hooks.extend(hooks);
        self
    }

    /// Sets the approver. A call that needs an approval waits until this approver or, with the feature `journal`,
    /// `toolcell approvals` answers.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approvals = true;
        self.approver = Some(approver);
        self
    }

    /// Other calls wait. Default: [`Self::CALLS_AT_ONCE`].
    #[must_use]
    pub fn calls_at_once(mut self, calls_at_once: u32) -> Self {
        self.calls_at_once = calls_at_once;
        self
    }

    /// Callers are distinguished by `actor_ref`. Each gets at most its share of the call slots and of the capacity for
    /// nested calls. Default: 1.
    #[must_use]
    pub fn callers(self, callers: usize) -> Self {
        Self { callers, ..self }
    }

    /// Pools instance memory: faster calls, slower startup. If not, each call allocates its own. Default: `true`.
    #[must_use]
    pub fn pooled(self, pooled: bool) -> Self {
        Self { pooled, ..self }
    }

    /// Calls that wait for their turn or for a place; more are refused as `rate_limited`. Several callers have shares.
    /// Default: 4,096.
    #[must_use]
    pub fn calls_waiting(mut self, calls_waiting: u32) -> Self {
        self.calls_waiting = calls_waiting;
        self
    }

    /// Serializes conflicting calls, also across hosts that share the locks.
    #[must_use]
    pub fn locks(self, locks: ResourceLocks) -> Self {
        Self { locks, ..self }
    }

    /// Bounds what single callers use, also across hosts that share the quotas. Default: none.
    #[must_use]
    pub fn quotas(self, quotas: Quotas) -> Self {
        Self { quotas, ..self }
    }

    /// Keeps compiled components on disk. Default: `true`.
    #[must_use]
    pub fn cached(self, cached: bool) -> Self {
        Self { cached, ..self }
    }

    /// Size of the cache of compiled components; the least recently used entry is evicted first. Default:
    /// [`Self::CACHE_BYTES`].
    #[must_use]
    pub fn cache_bytes_max(mut self, cache_bytes_max: u64) -> Self {
        self.cache_bytes_max = cache_bytes_max;
        self
    }

    /// CPU time of one compilation, for each started 64 MiB of the component; the wall time limit is twice as long. Default: [`Self::COMPILE_CPU_SECONDS`].
    #[must_use]
    pub fn compile_cpu_seconds(mut self, compile_cpu_seconds: u64) -> Self {
        self.compile_cpu_seconds = compile_cpu_seconds;
        self
    }

    /// Address space of one compilation. Default: [`Self::COMPILE_MEMORY_BYTES`].
    #[must_use]
    pub fn compile_memory_bytes(mut self, compile_memory_bytes: u64) -> Self {
        self.compile_memory_bytes = compile_memory_bytes;
        self
    }

    /// Output that stays inside a result; more is kept as a payload. Default: 64 KiB.
    #[must_use]
    pub fn inline_bytes_max(mut self, inline_bytes_max: u64) -> Self {
        self.inline_bytes_max = inline_bytes_max;
        self
    }

    /// Storage of outputs; tools and hooks can only restrict it. Default: decided by size.
    #[must_use]
    pub fn keeping(self, keeping: OutputRetention) -> Self {
        Self { keeping, ..self }
    }

    /// Network access of tools that may use it.
    #[must_use]
    pub fn network(self, network: NetworkSettings) -> Self {
        Self { network, ..self }
    }

    /// The calls that the log keeps. Default: all.
    #[cfg(feature = "journal")]
    #[must_use]
    pub fn journal(self, journal: LogSettings) -> Self {
        Self { journal, ..self }
    }

    /// Sets whether calls that need approval wait for it, stored in the journal; otherwise they are refused. Without an
    /// [`approver`](Self::approver), answers come from other processes. Without the feature `journal` they come from an approver
    /// of this process alone, and a call that has none is refused. Default: `false`.
    #[must_use]
    pub fn approvals(self, approvals: bool) -> Self {
        Self { approvals, ..self }
    }

    /// Sets up the sandbox, and returns the host.
    ///
    /// # Errors
    ///
    /// No folder for state or no program that compiles, a state folder that cannot be used, two hooks with one id, or
    /// an engine that does not work on this machine.
    pub fn build(self) -> Result<Host, SetupError> {
        self.set_up().map_err(SetupError)
    }

    fn set_up(self) -> anyhow::Result<Host> {
        let (home, folder) = state_folder(self.home, self.in_memory)?;
        let compiler = self.compiler.map_or_else(compiling::own_program, Ok)?;
        let sandbox = Sandbox::new(SandboxSettings {
            pool: self.pooled.then_some(self.calls_at_once),
            nested: CallChains::instances(self.calls_at_once),
            memory_bytes_max: self.memory_bytes_max,
            cache_dir: self.cached.then(|| home.components()),
            cache_bytes_max: self.cache_bytes_max,
            key_file: home.component_key(),
            scratch_dir: home.scratch(),
            compiler: CompilerSettings {
                program: compiler,
                arguments: vec![COMPILE_COMMAND.to_owned()],
                cpu_seconds: self.compile_cpu_seconds,
                memory_bytes: self.compile_memory_bytes,
                watch: self.compile_watch,
            },
            metered_by_time: self.metered_by_time,
            cancel_grace: CANCEL_GRACE,
            network: self.network,
        })
        .context("cannot set up the sandbox")?;
        let sandbox = Arc::new(sandbox);
        let executor: Arc<dyn Executor> = Arc::<Sandbox>::clone(&sandbox);
        let mut hooks = HookList::default();
        self.hooks
            .into_iter()
            .try_for_each(|hook| hooks.add(hook))
            .map_err(anyhow::Error::msg)?;
        let shared = || MemoryBudget::of_callers(machine::share_bytes(), self.callers);
        let memory = self.memory.or_else(|| self.pooled.then(shared));
        let Records {
            payloads,
            journal,
            calls,
        } = Records::open(&home, self.journal, self.callers)?;
        let services = Services {
            catalog: Catalog::default(),
            executor,
            scheduler: Scheduler::new(
                usize::try_from(self.calls_at_once).unwrap_or(1),
                self.callers,
                memory,
            )
            .waiting(usize::try_from(self.calls_waiting).unwrap_or(usize::MAX)),
            locks: self.locks,
            quotas: self.quotas,
            running: RunningCalls::default(),
            chains: CallChains::new(self.calls_at_once, self.callers),
            hooks,
            payloads,
            desk: self.approvals.then(|| ApprovalService {
                journal,
                approver: self.approver,
            }),
            protected: home.protected().into(),
            secrets: SecretStore::new(home.secrets(), home.secret_key()),
            calls,
            listeners: self.listeners.into(),
            source: concat!("toolcell/", env!("CARGO_PKG_VERSION")).into(),
            engine: ENGINE_VERSION.replace(' ', "/").into(),
            inline_bytes_max: self.inline_bytes_max,
            keeping: self.keeping,
        };
        Ok(Host {
            sandbox,
            services,
            declared: Mutex::default(),
            _folder: folder,
        })
    }
}

fn state_folder(home: Option<Home>, in_memory: bool) -> anyhow::Result<(Home, Option<TempDir>)> {
    if let Some(home) = home {
        return Ok((home, None));
    }
    if !in_memory {
        return Ok((Home::find()?, None));
    }
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    Ok((Home::at(folder.path()), Some(folder)))
}

/// A host could not be set up.
///
/// ```
/// let home = std::env::temp_dir().join("toolcell");
/// // The `main` of this program does not begin with `compile_if_asked`, and no other program compiles.
/// let error = toolcell::Host::builder().home(home).build().err().map(|error| error.to_string());
/// assert!(error.is_some_and(|error| error.contains("compile_if_asked")));
/// ```
#[derive(Debug)]
pub struct SetupError(anyhow::Error);

impl std::fmt::Display for SetupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for SetupError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(settings: HostBuilder) -> String {
        let home = tempfile::tempdir().unwrap();
        settings
            .home(home.path())
            .build()
            .err()
            .unwrap()
            .to_string()
    }

    #[test]
    fn a_host_without_a_compiler_names_both_ways_to_one() {
        let error = error(Host::builder());
        assert!(
            error.contains("compile_if_asked()") && error.contains("HostBuilder::compiler"),
            "{error}"
        );
    }

    #[test]
    fn two_hooks_with_one_id_are_named() {
        let hook = || Registration::not_loaded("guard", "no such file");
        let error = error(
            Host::builder()
                .compiler("toolcell")
                .hook(hook())
                .hook(hook()),
        );
        assert_eq!(
            error,
            "two hooks are called guard; give one of them another id"
        );
    }
}
