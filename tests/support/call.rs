use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use toolcell::{Home, Host, HostBuilder};
use toolcell_engine::approval::{Respondent, Terms};
use toolcell_engine::pipeline::Request;
use toolcell_executor::Cancellation;
use toolcell_policy::secret::{SecretValue, Secrets};
use toolcell_policy::{Grants, Limits, Policy};
use toolcell_spec::{AbortReason, CallRecord, Refusal};

use super::{check_record, fixture, kept, wat};

/// A host with changed settings.
pub(crate) fn host(change: impl FnOnce(HostBuilder) -> HostBuilder) -> Host {
    let settings = Host::builder()
        .home(Home::at(kept("home")))
        .compiler(env!("CARGO_BIN_EXE_toolcell"))
        .calls_at_once(16);
    change(settings).build().unwrap()
}

/// The host that most tests share.
fn shared() -> Arc<Host> {
    static HOST: OnceLock<Arc<Host>> = OnceLock::new();
    Arc::clone(HOST.get_or_init(|| Arc::new(host(|settings| settings))))
}

/// One call: its tool, its grants and limits, and how it must end.
pub(crate) struct Test {
    host: Arc<Host>,
    component: Vec<u8>,
    tool: Option<String>,
    typed: Option<String>,
    native_call_id: Option<String>,
    grants: Grants,
    policy: Policy,
    limits: Limits,
    actor: Option<String>,
    approval: Terms,
    cancellation: Cancellation,
    respondent: Option<Arc<dyn Respondent>>,
    secrets: Secrets,
}

impl Test {
    /// The tool of a test guest (`probe#read`), or the only tool of a WAT file (`wat:spin`).
    pub(crate) fn new(tool: &str) -> Self {
        if let Some(name) = tool.strip_prefix("wat:") {
            return Self::of_bytes(wat(name), None);
        }
        let (guest, name) = tool
            .split_once('#')
            .unwrap_or_else(|| panic!("{tool}: name a tool, as in probe#echo"));
        Self::of_file(&fixture(guest), Some(name))
    }

    /// A tool of a component file.
    pub(crate) fn of_file(file: &Path, name: Option<&str>) -> Self {
        Self::of_bytes(std::fs::read(file).unwrap(), name)
    }

    pub(crate) fn of_bytes(component: Vec<u8>, name: Option<&str>) -> Self {
        Self {
            host: shared(),
            component,
            tool: name.map(str::to_owned),
            typed: None,
            native_call_id: None,
            grants: Grants::default(),
            policy: Policy::default(),
            limits: Limits::default(),
            actor: None,
            approval: Terms::default(),
            cancellation: Cancellation::new(),
            respondent: None,
            secrets: Secrets::default(),
        }
    }

    pub(crate) fn on(mut self, host: &Arc<Host>) -> Self {
        self.host = Arc::clone(host);
        self
    }

    /// Calls by exactly this name: a qualified name, a bare one, an alias, or an unknown one.
    pub(crate) fn typed(mut self, name: &str) -> Self {
        self.typed = Some(name.to_owned());
        self
    }

    /// The caller's own id for the call.
    pub(crate) fn native_call_id(mut self, id: &str) -> Self {
        self.native_call_id = Some(id.to_owned());
        self
    }

    /// Changes the grants; the default grants nothing.
    pub(crate) fn grant(mut self, grant: impl FnOnce(&mut Grants)) -> Self {
        grant(&mut self.grants);
        self
    }

    /// Changes the mode and the rules; the default mode asks, without rules.
    pub(crate) fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.policy);
        self
    }

    pub(crate) fn read(self, folder: &Path) -> Self {
        self.grant(|grants| grants.allow_read(folder.to_str().unwrap()).unwrap())
    }

    pub(crate) fn write(self, folder: &Path) -> Self {
        self.grant(|grants| grants.allow_write(folder.to_str().unwrap()).unwrap())
    }

    /// Grants network requests, as `--allow-net` does.
    pub(crate) fn net(self, spec: &str) -> Self {
        self.grant(|grants| grants.allow_net(spec).unwrap())
    }

    pub(crate) fn limit(mut self, limit: impl FnOnce(&mut Limits)) -> Self {
        limit(&mut self.limits);
        self
    }

    /// The actor that makes the call.
    pub(crate) fn actor(mut self, actor: &str) -> Self {
        self.actor = Some(actor.to_owned());
        self
    }

    /// Changes the terms of an approval of the call.
    pub(crate) fn asking(mut self, change: impl FnOnce(&mut Terms)) -> Self {
        change(&mut self.approval);
        self
    }

    /// Sets the respondent to the tool's questions.
    pub(crate) fn answered_by(mut self, respondent: Arc<dyn Respondent>) -> Self {
        self.respondent = Some(respondent);
        self
    }

    /// Sets values of secrets for this call alone.
    pub(crate) fn secrets(mut self, values: &[(&str, &str)]) -> Self {
        let value = |(name, value): &(&str, &str)| {
            ((*name).to_owned(), SecretValue::new((*value).to_owned()))
        };
        self.secrets = Secrets::new(values.iter().map(value).collect());
        self
    }

    pub(crate) fn timeout_ms(self, ms: u64) -> Self {
        self.limit(|limits| limits.wall = Duration::from_millis(ms))
    }

    /// The deadline of the call.
    pub(crate) fn wall(&self) -> Duration {
        self.limits.wall
    }

    /// The handle that cancels the call while it runs.
    pub(crate) fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// Cancels the call after a while.
    pub(crate) fn cancel_after(self, delay: Duration) -> Self {
        let cancellation = self.cancellation();
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            cancellation.cancel(AbortReason::UserInterruption);
        });
        self
    }

    /// Loads the component, for tests of loading.
    pub(crate) async fn load(&self) -> Result<Vec<String>, Refusal> {
        let loaded = self.host.load(&self.component).await?;
        Ok(loaded
            .tools
            .iter()
            .map(|tool| tool.declaration().qualified_name())
            .collect())
    }

    /// Calls the tool with JSON arguments. Every record is validated against the schemas.
    pub(crate) async fn call(self, input: Value) -> Called {
        self.call_text(&input.to_string()).await
    }

    /// Calls the tool with arguments that need not be JSON.
    pub(crate) async fn call_text(self, input: &str) -> Called {
        let loaded = match self.host.load(&self.component).await {
            Ok(loaded) => loaded,
            Err(refusal) => panic!("load the component: {refusal:?}"),
        };
        let names: Vec<String> = loaded
            .tools
            .iter()
            .map(|tool| tool.declaration().qualified_name())
            .collect();
        let tool = match (self.typed, &self.tool) {
            (Some(typed), _) => typed,
            (None, Some(name)) => names
                .iter()
                .find(|known| known.ends_with(&format!(".{name}")))
                .cloned()
                .unwrap_or(name.clone()),
            (None, None) => names.first().cloned().unwrap(),
        };
        let mut request = Request::new(tool, input)
            .grants(self.grants)
            .policy(self.policy)
            .limits(self.limits)
            .approval(self.approval)
            .actor(self.actor)
            .respondent(self.respondent)
            .cancellation(self.cancellation)
            .secrets(self.secrets);
        request.native_call_id = self.native_call_id;
        let record = self.host.call(request).await;
        check_record(&serde_json::to_value(&record).unwrap());
        Called(record)
    }
}

/// The outcome of a call.
#[derive(Debug)]
pub(crate) struct Called(pub(crate) CallRecord);

impl Called {
    /// The structured output of a call that must have succeeded.
    #[track_caller]
    pub(crate) fn succeeded(&self) -> Value {
        let result = &self.0.result;
        assert!(!result.is_error, "the call failed: {:?}", result.error);
        result.structured_content.clone().unwrap_or_default()
    }

    /// Asserts that the call ended with this error class and code.
    #[track_caller]
    pub(crate) fn failed(&self, class: &str, code: &str) -> &Self {
        let error = self
            .0
            .result
            .error
            .as_ref()
            .unwrap_or_else(|| panic!("the call succeeded: {:?}", self.0.result));
        let found = serde_json::to_value(error.error_class).unwrap();
        assert_eq!(
            (found.as_str().unwrap(), error.error_code.as_str()),
            (class, code),
            "{}",
            error.message
        );
        self
    }

    /// Asserts that no guest code ran.
    #[track_caller]
    pub(crate) fn never_ran(&self) -> &Self {
        assert!(
            self.0.invocation.started_at().is_none(),
            "the guest was started"
        );
        assert!(self.0.result.usage.is_none());
        self
    }

    /// Asserts `tool_result.status` and `tool_invocation.status`, which the only terminal event must confirm.
    #[track_caller]
    pub(crate) fn ended(&self, result: &str, invocation: &str) -> &Self {
        assert_eq!(self.statuses(), (result.to_owned(), invocation.to_owned()));
        let mut events = self.events();
        let last = match invocation {
            "denied" | "blocked" => "failed",
            other => other,
        };
        assert_eq!(events.pop().unwrap(), format!("tool.invocation.{last}"));
        if last != invocation {
            assert_eq!(
                events.pop().unwrap(),
                format!("tool.invocation.{invocation}")
            );
        }
        assert_eq!(events.pop().unwrap(), "tool.result.created");
        assert_eq!(self.0.events.last().unwrap().data["status"], invocation);
        self
    }

    /// `tool_result.status` and `tool_invocation.status`.
    pub(crate) fn statuses(&self) -> (String, String) {
        let word = |value: Value| value.as_str().unwrap().to_owned();
        let result = word(serde_json::to_value(self.0.result.status).unwrap());
        (result, self.0.invocation.status().as_str().to_owned())
    }

    /// The message of the error.
    #[track_caller]
    pub(crate) fn message(&self) -> &str {
        &self.0.result.error.as_ref().unwrap().message
    }

    /// The types of all events, in order.
    pub(crate) fn events(&self) -> Vec<&'static str> {
        self.0
            .events
            .iter()
            .map(|event| event.event_type.as_str())
            .collect()
    }

    pub(crate) fn record(&self) -> Value {
        serde_json::to_value(&self.0).unwrap()
    }
}

/// A folder for one test, removed on drop.
pub(crate) fn scratch() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = std::fs::canonicalize(dir.path()).unwrap();
    (dir, path)
}
