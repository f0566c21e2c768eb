//! The tool uses of one session as calls of the worker's tools.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use toolcell::{CallContext, CallSpec, CallWorkspace, Cancellation, Home, Listener, LogSettings};
use toolcell_dialect::{DialectNames, NameRule};
use toolcell_engine::approval::Session;
use toolcell_engine::pipeline::StartGate;
use toolcell_journal::CallLog;
use toolcell_server::{Server, ServerTools};
use toolcell_spec::{
    CallRecord, ErrorCode, ExternalMapping, Extra, Refusal, ToolEvent, TraceContext,
};
use toolcell_system::BoxFuture;

use super::answer::{AnswerForm, answer};
use super::builtin::{self, FILES, PlannedCall, SHELLS};
use super::claims::Claims;
use super::locked;
use super::wire::{Answer, ToolUse};

/// For the record: the protocol that carried the call.
const SOURCE: &str = "anthropic";
const LOST: &str = "the worker was lost during this call, which may have had an effect, and is not run again: look at its \
                    files before you repeat it";

/// The tools of the worker under the names that agents know.
pub(super) struct Toolbox {
    offering: Arc<ServerTools>,
    /// Of the Messages API, which are also those of custom tools.
    names: DialectNames,
    qualified: Vec<String>,
    shell: Option<&'static str>,
    has_files: bool,
}

impl Toolbox {
    pub(super) fn new(offering: Arc<ServerTools>) -> Self {
        let tools = offering.offers.describe(|listed, _| {
            let declaration = listed.declaration;
            let name = listed.name.to_owned();
            (
                name,
                declaration.tool_id.clone(),
                declaration.qualified_name(),
            )
        });
        let entries = tools
            .iter()
            .map(|(name, id, _)| (name.as_str(), id.as_str()));
        let names = DialectNames::new(NameRule::Function, entries);
        let qualified: Vec<String> = tools.into_iter().map(|(.., name)| name).collect();
        let has = |name: &str| qualified.iter().any(|known| known == name);
        Self {
            shell: SHELLS.into_iter().find(|name| has(name)),
            has_files: has(FILES),
            names,
            qualified,
            offering,
        }
    }

    /// What an operator should know who wants the builtin tools.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let shell = self.shell.is_none().then_some(
            "no tool `shell` is offered: the agent's calls of bash are answered with an error",
        );
        let files = (!self.has_files).then_some(
            "no tool `files` is offered: the agent's calls of read, write, edit, glob and grep are answered with an error",
        );
        shell.into_iter().chain(files).collect()
    }

    /// Another client of the session answers the others.
    fn is_own(&self, tool_use: &ToolUse) -> bool {
        if tool_use.is_custom {
            self.custom(&tool_use.name).is_some()
        } else {
            builtin::is_builtin(&tool_use.name)
        }
    }

    fn custom(&self, name: &str) -> Option<&str> {
        let at = self.names.find(name);
        let at = at.or_else(|| self.offering.offers.position(name))?;
        self.qualified.get(at).map(String::as_str)
    }

    fn plan(&self, tool_use: &ToolUse) -> Result<PlannedCall, String> {
        let ToolUse { name, input, .. } = tool_use;
        if tool_use.is_custom {
            let tool = self.custom(name);
            let tool = tool.ok_or_else(|| format!("there is no tool {name}"))?;
            return Ok(PlannedCall::custom(tool, input));
        }
        let absent = |tool: &str| {
            format!("{name}: this worker has no tool `{tool}`: its operator has to add it")
        };
        match self.shell {
            None if name == "bash" => Err(absent("shell")),
            _ if name != "bash" && !self.has_files => Err(absent("files")),
            shell => builtin::plan(name, input, shell.unwrap_or_default()),
        }
    }
}

/// Who calls, and with what.
pub(super) struct SessionCalls {
    pub(super) server: Arc<Server>,
    pub(super) home: Home,
    pub(super) environment: String,
    pub(super) work: String,
    pub(super) session: String,
    pub(super) workspace: CallWorkspace,
    pub(super) claims: Arc<Mutex<Claims>>,
    pub(super) toolbox: Mutex<Arc<Toolbox>>,
}

impl SessionCalls {
    pub(super) fn is_own(&self, tool_use: &ToolUse) -> bool {
        self.toolbox().is_own(tool_use)
    }

    /// The tools and settings of now.
    fn toolbox(&self) -> Arc<Toolbox> {
        let offering = self.server.offering();
        let mut toolbox = locked(&self.toolbox);
        if !Arc::ptr_eq(&toolbox.offering, &offering) {
            *toolbox = Arc::new(Toolbox::new(offering));
        }
        Arc::clone(&toolbox)
    }

    /// The call began in an earlier process, or of an earlier lease.
    pub(super) fn has_begun(&self, tool_use: &ToolUse) -> bool {
        locked(&self.claims).begun(&tool_use.id).is_some()
    }

    /// Runs the call, unless it began before.
    pub(super) async fn answer(
        &self,
        tool_use: &ToolUse,
        start: Arc<CallStart>,
        cancellation: Cancellation,
    ) -> Answer {
        let toolbox = self.toolbox();
        let planned = match toolbox.plan(tool_use) {
            Ok(planned) => planned,
            Err(why) => return Answer::error(&why),
        };
        let begun = locked(&self.claims).begun(&tool_use.id).map(str::to_owned);
        if let Some(invocation) = begun {
            return self.recorded(invocation, planned.form).await;
        }
        let form = planned.form;
        let spec = self.spec(tool_use, planned, toolbox.offering.telemetry.as_deref());
        let context = CallContext {
            cancellation,
            approver: Some(self.server.approver_elsewhere()),
            listener: Some(Arc::clone(&start) as _),
            keeper: self.server.keeper(),
            workspace: Some(self.workspace.clone()),
            start_gate: Some(start),
            ..CallContext::default()
        };
        let record = toolbox.offering.tools.call(spec, context).await;
        self.server.keep(&record).await;
        answer(&record, form)
    }

    fn spec(
        &self,
        tool_use: &ToolUse,
        planned: PlannedCall,
        telemetry: Option<&toolcell_server::telemetry::Telemetry>,
    ) -> CallSpec {
        let session = format!("{SOURCE}:{}", self.session);
        let fields = [
            ("environment_id", &self.environment),
            ("work_id", &self.work),
            ("session_id", &self.session),
            ("tool_use_id", &tool_use.id),
            ("tool_name", &tool_use.name),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.as_str().into()));
        let mapping = ExternalMapping {
            source: SOURCE.to_owned(),
            fields: Extra::from_iter(fields),
        };
        let trace = telemetry
            .and_then(|telemetry| -> Option<TraceContext> { telemetry.trace(Some(&session)) });
        let actor = format!("{SOURCE}:{}", self.environment);
        CallSpec {
            native_call_id: Some(tool_use.id.clone()),
            idempotency_key: Some(tool_use.id.clone()),
            timeout: Some(planned.time),
            is_loaded: Some(true),
            mapping: Some(mapping),
            trace,
            session: Session::Named(session),
            ..CallSpec::new(planned.tool, planned.input).actor(Some(actor))
        }
    }

    /// The answer of a call that ended, although its worker did not tell it.
    async fn recorded(&self, invocation: String, form: AnswerForm) -> Answer {
        let log = CallLog::new(
            self.home.journal(),
            self.home.calls_key(),
            LogSettings::default(),
        );
        let read = tokio::task::spawn_blocking(move || log.record(&invocation));
        let found = read.await.ok().and_then(Result::ok).flatten();
        let record = found.and_then(|found| serde_json::from_value::<CallRecord>(found).ok());
        match record {
            Some(record) if !is_orphan(&record) => answer(&record, form),
            _ => Answer::error(LOST),
        }
    }
}

/// Its process was killed, so that the record does not know what it did.
fn is_orphan(record: &CallRecord) -> bool {
    let error = record.result.error.as_ref();
    error.is_some_and(|error| error.error_code == ErrorCode::RuntimeShutdown.as_str())
}

/// Writes the call down before its guest runs.
pub(super) struct CallStart {
    claims: Arc<Mutex<Claims>>,
    tool_use: String,
    invocation: OnceLock<String>,
    has_started: AtomicBool,
    /// Another machine had the session, and nobody knows what it began.
    is_suspect: bool,
}

impl CallStart {
    pub(super) fn new(
        claims: &Arc<Mutex<Claims>>,
        tool_use: &ToolUse,
        suspects: &HashSet<String>,
    ) -> Self {
        Self {
            claims: Arc::clone(claims),
            tool_use: tool_use.id.clone(),
            invocation: OnceLock::new(),
            has_started: AtomicBool::new(false),
            is_suspect: suspects.contains(&tool_use.id),
        }
    }

    pub(super) fn has_started(&self) -> bool {
        self.has_started.load(Ordering::SeqCst)
    }

    fn begin(&self) -> Result<(), Refusal> {
        if self.is_suspect {
            return Err(Refusal::new(ErrorCode::CallTaken, LOST));
        }
        let mut claims = locked(&self.claims);
        // A tool that calls others asks for each of them.
        if claims.begun(&self.tool_use).is_some() {
            return Ok(());
        }
        let invocation = self.invocation.get().map(String::as_str);
        let begun = claims.begin(&self.tool_use, invocation.unwrap_or_default());
        begun.map_err(|error| {
            Refusal::host_fault(format!(
                "the call cannot be written down, and so does not run: {error}"
            ))
        })
    }
}

impl StartGate for CallStart {
    fn start(&self, changes: bool) -> BoxFuture<'_, Result<(), Refusal>> {
        let begun = if changes { self.begin() } else { Ok(()) };
        self.has_started.fetch_or(begun.is_ok(), Ordering::SeqCst);
        Box::pin(async { begun })
    }
}

impl Listener for CallStart {
    fn event(&self, event: &ToolEvent) {
        // The first one is of the call itself.
        if let Some(id) = event.invocation_id {
            let _ = self.invocation.set(id.to_string());
        }
    }
}
