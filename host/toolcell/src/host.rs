//! Loads tools, and calls them.

use std::fs::File;
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolcell_engine::approval::declaration_digest;
use toolcell_engine::catalog::{Catalog, ComponentFacts, Tool};
use toolcell_engine::pipeline::{self, Batch, CallExplanation, CancelOutcome, Request, Services};
use toolcell_engine::scheduler::SchedulerUsage;
use toolcell_engine::scheduler::batch::PlanError;
use toolcell_executor::hook::{Hook, Registration};
use toolcell_journal as journal;
use toolcell_policy::{Grants, HookPermit, Limits};
use toolcell_sandbox::{Interpreter, Judge, LoadedComponent, Meter, Sandbox, SandboxedHook};
use toolcell_spec::dialect::agent_tool;
use toolcell_spec::{
    AbortReason, Approval, CallRecord, ErrorCode, EventType, Finding, InvocationId,
    OutputRetention, Refusal, ToolEvent, digest,
};
use toolcell_system::component_file::{open_component, read_open, unreadable};
use toolcell_system::file_state::FileState;

use crate::HostBuilder;
use crate::imports;
use crate::recall::{self, RecalledComponent};

/// Loads tools and calls them.
///
/// ```no_run
/// use toolcell::{Host, Request};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let host = Host::builder().calls_at_once(8).build()?;
/// host.load_file("jq.wasm".as_ref()).await?;
/// let record = host.call(Request::new("jq.jq", r#"{"filter": ".a", "input": {"a": 1}}"#)).await;
/// println!("{}", record.result.text());
/// # Ok(())
/// # }
/// ```
pub struct Host {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) services: Services,
    /// Events of tools that were loaded since the last surface was announced.
    pub(crate) declared: Mutex<Vec<ToolEvent>>,
    /// The folder of a host in memory, removed after everything that could use it.
    pub(crate) _folder: Option<TempDir>,
}

impl Host {
    /// A builder with defaults for a long-running host.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// A host that keeps nothing, for tests and for programs with a log of their own: no log of calls, no cache of
    /// compiled code and no home. What must be a file during a call is in a private temporary folder, which is removed
    /// with the host.
    ///
    /// ```
    /// let host = toolcell::Host::in_memory().compiler("toolcell").build();
    /// assert!(host.is_ok());
    /// ```
    pub fn in_memory() -> HostBuilder {
        HostBuilder::in_memory()
    }

    /// Makes a component of an interpreter: its module, the archive of its library, and the folder where it looks for that.
    /// It takes minutes, and nothing is loaded.
    ///
    /// # Errors
    ///
    /// Those of [`Sandbox::interpreter`](toolcell_sandbox::Sandbox::interpreter).
    pub async fn interpreter(
        &self,
        module: &[u8],
        library: &[u8],
        place: &str,
    ) -> Result<Vec<u8>, Refusal> {
        let given = Interpreter {
            module,
            library,
            place,
        };
        self.sandbox.interpreter(&given).await
    }

    /// Loads a component, and puts its tools into the catalog. Loading it again changes nothing.
    ///
    /// # Errors
    ///
    /// `bytes` are not a component, compilation exceeds its time or memory limit, the description is invalid, no tool
    /// declares an import, or another component has a tool with the same name or id.
    pub async fn load(&self, bytes: &[u8]) -> Result<ComponentTools, Refusal> {
        let digest: Arc<str> = digest(bytes).into();
        let limits = Limits::default();
        let component = self
            .sandbox
            .load(&digest, bytes, Meter::Fuel, &limits)
            .await?;
        let read = |component: &LoadedComponent| tools(component, None);
        self.declare(component, &digest, read).await
    }

    /// Loads a file. A cached component is not read into memory, and not read at all if it was read before and has not
    /// changed since.
    ///
    /// # Errors
    ///
    /// Those of [`Self::load`], and a file that cannot be read, is not a regular file, or is too large.
    pub async fn load_file(&self, file: &Path) -> Result<ComponentTools, Refusal> {
        let (open, _) = open_component(file)?;
        let path = absolute(file)?;
        let from = path.display().to_string();
        let place = path.clone();
        if let Some(component) = self.sandbox.recall(&path, &open)? {
            let read = move |component: &LoadedComponent| recall::tools(component, &place);
            return self.declare(component, &from, read).await;
        }
        let sandbox = Arc::clone(&self.sandbox);
        let named = file.to_owned();
        let meter = sandbox.meter(&path);
        // A large file, or one on a slow disk, must not keep a worker from the calls that run.
        let (read, state) = pipeline::load(move || read(&sandbox, &named, open, meter)).await??;
        let is_new = matches!(read, ReadComponent::Bytes(..));
        let component = match read {
            ReadComponent::Cached(component) => component,
            ReadComponent::Bytes(digest, bytes) => {
                let limits = Limits::default();
                self.sandbox.load(&digest, &bytes, meter, &limits).await?
            }
        };
        let read = move |component: &LoadedComponent| tools(component, Some(&place));
        let loaded = self.declare(component, &from, read).await?;
        if is_new {
            self.log_loaded(&loaded).await;
        }
        self.sandbox.accept(&path, state, &loaded.component).await;
        Ok(loaded)
    }

    /// Does what [`Self::load_file`] does for many files, in their order; those loaded before and unchanged are
    /// recalled at once.
    ///
    /// # Errors
    ///
    /// Those of [`Self::load_file`], with the index of the first file that fails.
    pub async fn load_files(
        &self,
        files: &[PathBuf],
    ) -> Result<Vec<ComponentTools>, (usize, Refusal)> {
        let mut recalled = recall::all(&self.sandbox, files)
            .await
            .map_err(|refusal| (0, refusal))?;
        let mut loaded = Vec::with_capacity(files.len());
        for (at, file) in files.iter().enumerate() {
            let one = self
                .load_recalled(recalled.get_mut(at).and_then(Option::take), file)
                .await;
            loaded.push(one.map_err(|refusal| (at, refusal))?);
        }
        Ok(loaded)
    }

    /// Goes on after a failure, unlike [`Self::load_files`]. Returns the outcomes in order, with the errors of
    /// [`Self::load_file`].
    pub async fn load_each(&self, files: &[PathBuf]) -> Vec<Result<ComponentTools, Refusal>> {
        // If they cannot be recalled together, each is recalled at its turn.
        let mut recalled = recall::all(&self.sandbox, files).await.unwrap_or_default();
        let mut loaded = Vec::with_capacity(files.len());
        for (at, file) in files.iter().enumerate() {
            loaded.push(
                self.load_recalled(recalled.get_mut(at).and_then(Option::take), file)
                    .await,
            );
        }
        loaded
    }

    async fn load_recalled(
        &self,
        recalled: Option<RecalledComponent>,
        file: &Path,
    ) -> Result<ComponentTools, Refusal> {
        match recalled {
            Some(recalled) => {
                let from = recalled.path.display().to_string();
                self.join(recalled.component, recalled.tools, &from)
            }
            None => self.load_file(file).await,
        }
    }

    /// Adds the tools of a component, which `read` takes from its description, to the catalog, unless they are there; `from`
    /// says where it was found, for messages.
    async fn declare(
        &self,
        component: Arc<LoadedComponent>,
        from: &str,
        read: impl FnOnce(&LoadedComponent) -> Result<Vec<Arc<Tool>>, Vec<Finding>> + Send + 'static,
    ) -> Result<ComponentTools, Refusal> {
        if let Some(tools) = self.services.catalog.of_component(component.digest()) {
            return Ok(ComponentTools { tools, component });
        }
        // The schemas come from a guest: compiling them takes time, and stack.
        let described = Arc::clone(&component);
        let tools = pipeline::load(move || read(&described)).await?;
        self.join(component, tools.map_err(|errors| unusable(&errors))?, from)
    }

    fn join(
        &self,
        component: Arc<LoadedComponent>,
        tools: Vec<Arc<Tool>>,
        from: &str,
    ) -> Result<ComponentTools, Refusal> {
        if let Some(tools) = self.services.catalog.of_component(component.digest()) {
            return Ok(ComponentTools { tools, component });
        }
        imports::check(&component, &tools)?;
        self.services.catalog.add(tools.clone(), from)?;
        for tool in &tools {
            let id = Some(tool.declaration().tool_id.as_str());
            let declaration = declaration_digest(tool);
            let data = json!({ "component": component.digest(), "declaration": declaration });
            let source = &self.services.source;
            let declared = journal::of_no_call(source, EventType::Declared, id, data);
            self.services.announce(&declared);
            let known = self.declared.lock();
            known.unwrap_or_else(PoisonError::into_inner).push(declared);
        }
        Ok(ComponentTools { tools, component })
    }

    /// Adds a hook around every call that it matches. Fails, and adds nothing, if another hook has the same id.
    pub fn add_hook(&mut self, hook: Registration) -> Result<(), String> {
        self.services.hooks.add(hook)
    }

    /// Loads a hook. Each run of it takes at most `wall`, under `grants`: folders and variables alone, because a hook
    /// has no network and no secrets.
    ///
    /// # Errors
    ///
    /// Bytes that are not a component of the world `hook`, and `grants` that a hook cannot have.
    pub async fn load_hook(
        &self,
        id: &str,
        bytes: &[u8],
        grants: &Grants,
        wall: Duration,
    ) -> Result<Arc<dyn Hook>, Refusal> {
        // The pipeline gives up at `wall`, and drops the run; the sandbox's own limit is a fallback, one second later.
        let permit = HookPermit::standing(
            grants,
            &self.services.protected,
            wall + Duration::from_secs(1),
        )?;
        let hook = SandboxedHook::load(&self.sandbox, id, bytes, permit).await?;
        Ok(Arc::new(hook))
    }

    /// Loads a judge of agents' runs. Each question takes at most `wall`, in an empty world, with the limits of a hook.
    ///
    /// # Errors
    ///
    /// Bytes that are not a component of the world `judge`.
    pub async fn load_judge(&self, bytes: &[u8], wall: Duration) -> Result<Judge, Refusal> {
        let permit = HookPermit::standing(&Grants::default(), &self.services.protected, wall)?;
        self.sandbox.load_judge(bytes, permit).await
    }

    /// Places and memory that calls of this host take now.
    pub fn usage(&self) -> SchedulerUsage {
        self.services.scheduler.usage()
    }

    pub fn catalog(&self) -> &Catalog {
        &self.services.catalog
    }

    /// The event belongs to no call; it is also written to the log of calls. `tool_id` is `None` if it is not about one
    /// tool; `data` is an object.
    pub(crate) async fn announce(
        &self,
        event_type: EventType,
        tool_id: Option<&str>,
        data: Value,
        session: Option<String>,
    ) {
        let event = journal::of_no_call(&self.services.source, event_type, tool_id, data);
        self.services.announce(&event);
        // It reports what has happened already, so a log that cannot be written stops nothing here; calls it does.
        let _ = self.services.calls.announced(vec![event], session).await;
    }

    pub fn keeping(&self) -> OutputRetention {
        self.services.keeping
    }

    /// Returns the payload with the digest `sha256:<hex>` that a result refers to.
    ///
    /// # Errors
    ///
    /// A payload that is missing, was changed on disk, or has more than `bytes_max` bytes.
    pub async fn payload(&self, digest: &str, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
        self.services.payloads.fetch(digest, bytes_max).await
    }

    /// Returns at most `bytes_max` bytes from `offset` on; none after the end. They are not checked against the digest.
    ///
    /// # Errors
    ///
    /// A payload that is missing.
    pub async fn payload_part(
        &self,
        digest: &str,
        offset: u64,
        bytes_max: u64,
    ) -> anyhow::Result<Vec<u8>> {
        self.services
            .payloads
            .fetch_part(digest, offset, bytes_max)
            .await
    }

    /// Copies a payload of any size, in chunks.
    ///
    /// # Errors
    ///
    /// A payload that is missing or was changed on disk, and a `target` that cannot be written. `target` may then hold
    /// a part.
    pub async fn copy_payload(&self, digest: &str, target: File) -> anyhow::Result<()> {
        self.services.payloads.copy(digest, target).await
    }

    /// Returns the decision on a call and its reasons, without running the tool. Only the tool's description and
    /// argument checks run.
    ///
    /// # Errors
    ///
    /// The refusal that ends the call before a decision, such as `unknown_tool` or `schema_validation_failed`.
    pub async fn explain(&self, request: Request) -> Result<CallExplanation, Refusal> {
        pipeline::explain(&self.services, request).await
    }

    /// Calls a tool. Every call ends in one terminal result.
    pub async fn call(&self, request: Request) -> CallRecord {
        *pipeline::call(&self.services, request).await
    }

    /// Runs calls in parallel where they cannot conflict, otherwise in order, also across concurrent batches of this
    /// host. The batch's listener gets one terminal result of each. Dropping the future cancels the calls that run,
    /// without a result.
    ///
    /// # Errors
    ///
    /// Too many calls, unknown or duplicate ids, or ids that depend on each other. Nothing runs then.
    pub async fn batch(self: &Arc<Self>, batch: Batch) -> Result<(), PlanError> {
        pipeline::batch(Arc::clone(self), Self::services, batch).await
    }

    /// Requests cancellation; the call's result says how it ended. If the id is unknown, or the call has ended or runs
    /// in another process, the log gets a `tool.invocation.cancel_failed` event.
    pub async fn cancel(&self, id: InvocationId, reason: AbortReason) -> CancelOutcome {
        self.cancel_noting(id, reason, || true).await
    }

    /// Puts a request that changes nothing on record only if `notes` returns `true`, unlike [`cancel`](Self::cancel):
    /// each takes two lines of the log, so that a host bounds how many a client causes.
    pub async fn cancel_noting(
        &self,
        id: InvocationId,
        reason: AbortReason,
        notes: impl FnOnce() -> bool,
    ) -> CancelOutcome {
        pipeline::cancel(&self.services, id, reason, notes).await
    }

    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    /// Ends a call with `refusal`, so that one whose component cannot be loaded has a result and a record too.
    pub async fn refuse(&self, request: Request, refusal: Refusal) -> CallRecord {
        *pipeline::refuse(&self.services, request, refusal).await
    }

    /// Fails with what is wrong with `edit`, the arguments that should run instead of those asked about. `Ok` if the
    /// tool was not loaded, or has another component by now, because such a call does not run anyway.
    pub async fn check_edit(&self, approval: &Approval, edit: &str) -> Result<(), String> {
        pipeline::check_edit(&self.services, approval, edit).await
    }
}

/// A loaded component's tools.
///
/// ```
/// use toolcell::ComponentTools;
///
/// fn listed(loaded: &ComponentTools) -> Vec<String> {
///     let tools = loaded.tools.iter().map(|tool| tool.declaration().qualified_name());
///     tools.chain(ComponentTools::notes(&loaded.tools).iter().map(|note| format!("no effect: {note}"))).collect()
/// }
/// ```
pub struct ComponentTools {
    /// The tools are in the order of declaration.
    pub tools: Vec<Arc<Tool>>,
    pub(crate) component: Arc<LoadedComponent>,
}

impl ComponentTools {
    /// Parts of the records of `tools` that have no effect on this host, without duplicates.
    pub fn notes(tools: &[Arc<Tool>]) -> Vec<&Finding> {
        let mut notes: Vec<&Finding> = Vec::new();
        for note in tools.iter().flat_map(|tool| tool.notes()) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }

    pub fn imports(&self) -> &[String] {
        self.component.imports()
    }

    /// The folders that the component carries, and its calls see read-only: the path, the number of files, and their bytes.
    pub fn own_files(&self) -> Vec<(&str, u64, u64)> {
        let folders = self.component.own_files().iter();
        folders
            .map(|folder| (folder.guest.as_str(), folder.files, folder.bytes))
            .collect()
    }

    /// The tools are the component's functions, by their types and their documentation.
    pub fn is_of_plain_functions(&self) -> bool {
        self.component.is_of_plain_functions()
    }
}

fn tools(component: &LoadedComponent, file: Option<&Path>) -> Result<Vec<Arc<Tool>>, Vec<Finding>> {
    let described = agent_tool::toolkit(&component.toolkit(file))?;
    let placed = described.placing();
    let wall = Limits::default().wall;
    Tool::from_toolkit(described.toolkit, &described.notes, &facts(component), wall).map_err(placed)
}

pub(crate) fn facts(component: &LoadedComponent) -> ComponentFacts {
    ComponentFacts {
        component: component.digest().into(),
        imports: component.imports().to_vec(),
        validates: component.exports().validation,
        classifies: component.exports().classification,
        configures: component.exports().configuration,
        leaves_files: component.leaves_files(),
        takes_granted_files: component.takes_granted_files(),
    }
}

/// Lists everything that keeps a component from being loaded, one a line.
fn unusable(errors: &[Finding]) -> Refusal {
    let listed: String = errors.iter().map(|error| format!("\n  {error}")).collect();
    let message = format!(
        "the component's description cannot be used; correct it, or ask its author to:{listed}\n"
    );
    Refusal::new(ErrorCode::DescriptionInvalid, message.trim_end())
}

/// A component that was read.
enum ReadComponent {
    /// Its compiled code is in the cache.
    Cached(Arc<LoadedComponent>),
    Bytes(Arc<str>, Vec<u8>),
}

/// Reads the component in `file`, which is open. The state of the file was taken before it was read; `None` if a later
/// change may not show in it.
fn read(
    sandbox: &Sandbox,
    file: &Path,
    mut open: File,
    meter: Meter,
) -> Result<(ReadComponent, Option<FileState>), Refusal> {
    let state = FileState::lasting(&open);
    if let Some(component) = sandbox.find(&mut open, meter)? {
        return Ok((ReadComponent::Cached(component), state));
    }
    open.rewind().map_err(|error| unreadable(file, &error))?;
    let bytes = read_open(file, open)?;
    Ok((ReadComponent::Bytes(digest(&bytes).into(), bytes), state))
}

pub(crate) fn absolute(file: &Path) -> Result<PathBuf, Refusal> {
    std::path::absolute(file).map_err(|error| unreadable(file, &error))
}
