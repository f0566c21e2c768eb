//! The state behind a server of Open Tool Calling, without its transport: which tools there are, which execution ran
//! already, and which authorization a call waits for (requirements 2.3, O-19). A [`Worker`] knows an Arcade engine by its
//! token.
//!
//! A method takes what a client sent, and gives the status and the JSON of the answer. The call itself is a function of the
//! caller's, so that it goes through the same pipeline as through every other door.

mod authorizations;
mod digest;
mod executions;
mod registration;
mod token;
mod worker;

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Value, json};
use toolcell_dialect::ListedTool;
use toolcell_dialect::otc::{
    OtcMode, OtcReply, OtcRequest, OtcToolName, OtcToolNames, RequestReading, Requirement,
    definition, refused, result, secrets,
};
use toolcell_policy::secret::SecretValue;
use toolcell_spec::{CallRecord, ErrorCode, Refusal, Timestamp};

use authorizations::Authorizations;
use digest::RequestDigests;
use executions::{ClaimRefusal, ExecutionKey, Executions};

pub use token::WorkerSecret;
pub use worker::{ENGINE, Worker};

/// The settings of a service.
#[derive(Clone, Debug)]
pub struct OtcSettings {
    /// How exactly requests have to be what the format demands.
    pub reading: RequestReading,
    /// The address of an authorization, up to its id.
    pub authorizations: String,
    /// The address of a call, up to its id; its artifacts are below it.
    pub calls: String,
}

/// An answer to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtcAnswer {
    /// The status code of HTTP.
    pub status: u16,
    /// JSON.
    pub body: Arc<str>,
    /// `true` if the body is a problem (RFC 9457): the request did not ask for an execution.
    pub is_problem: bool,
}

impl OtcAnswer {
    fn new(status: u16, body: &Value) -> Self {
        Self {
            status,
            body: body.to_string().into(),
            is_problem: false,
        }
    }

    /// The answer to a request that names no execution.
    fn problem(status: u16, refusal: &Refusal) -> Self {
        let title = http::StatusCode::from_u16(status)
            .ok()
            .and_then(|status| status.canonical_reason());
        let problem = json!({
            "type": "about:blank", "title": title.unwrap_or("Error"), "status": status, "detail": refusal.message,
            "code": refusal.code,
        });
        Self {
            is_problem: true,
            ..Self::new(status, &problem)
        }
    }

    /// The answer to a request about a tool that is not there.
    pub(crate) fn unknown_tool() -> Self {
        let refusal = Refusal::new(ErrorCode::UnknownTool, "there is no tool of that name here");
        Self::problem(404, &refusal)
    }

    /// The answer to an execution that led to no call: a response, because a client expects one.
    fn refused(status: u16, refusal: &Refusal, mode: OtcMode, execution_id: &str) -> Self {
        Self::new(
            status,
            &refused(refusal, &OtcReply::new(mode, execution_id)),
        )
    }
}

/// A call that a request asks for.
#[derive(Clone, Debug)]
pub struct ParsedCall {
    /// The caller, authenticated by the transport.
    pub principal: Arc<str>,
    /// The tool as the request names it: `Toolkit.Tool`.
    pub requested: String,
    /// The tool, or the refusal that the record of the call ends in. The component has to be the named version.
    pub tool: Result<OtcToolName, Refusal>,
    /// The arguments as they were sent.
    pub input: String,
    /// `execution_id`, for `native_call_id`.
    pub execution_id: Option<String>,
    pub run_id: Option<String>,
    /// The user for whom the caller acts, as the caller says.
    pub user_id: Option<String>,
    /// The request's data about that user, for the record only: no tool gets it.
    pub user_info: Option<Value>,
    /// Secrets for this call only, by the names of the tool's credentials: none that the tool does not declare.
    pub secrets: Vec<(String, SecretValue)>,
    /// The number of secrets that the tool does not declare, and that go nowhere.
    pub ignored_secrets: usize,
}

/// The tools of a service.
#[derive(Default)]
struct OtcTools {
    tools: Vec<OtcTool>,
    names: OtcToolNames,
}

/// One tool of a service, in the terms of each format.
pub struct OtcTool {
    named: OtcToolName,
    /// In the order of [`OtcMode::ALL`].
    definitions: Vec<(OtcMode, Value)>,
    secrets: Vec<String>,
    requirement: Option<Requirement>,
    expects_artifact: bool,
}

impl OtcTool {
    /// Describes a tool.
    pub fn new(listed: &ListedTool<'_>) -> Self {
        let contract = listed.declaration.output_contract.as_ref();
        Self {
            named: OtcToolName::new(listed.declaration, listed.component),
            definitions: OtcMode::ALL
                .iter()
                .map(|mode| (*mode, definition(listed, *mode)))
                .collect(),
            secrets: secrets(listed.permission)
                .into_iter()
                .map(str::to_owned)
                .collect(),
            requirement: Requirement::from_profile(listed.permission),
            expects_artifact: contract
                .is_some_and(|contract| !contract.artifact_expectations.is_empty()),
        }
    }

    fn definition(&self, mode: OtcMode) -> Option<&Value> {
        self.definitions
            .iter()
            .find_map(|(known, definition)| (*known == mode).then_some(definition))
    }

    /// A request's secrets for the credentials of the tool, and the number of its undeclared secrets: no tool gets
    /// those (OTC-Q-07).
    fn secrets_of(&self, request: &OtcRequest) -> (Vec<(String, SecretValue)>, usize) {
        let is_declared =
            |name: &str| self.secrets.iter().any(|known| known == name) || !guard!("otc_secrets");
        let given = request
            .secrets
            .iter()
            .filter(|(name, _)| is_declared(name))
            .cloned();
        let mut secrets: Vec<_> = given.collect();
        let ignored = request.secrets.len() - secrets.len();
        let token = self.requirement.as_ref().zip(request.token.clone());
        secrets.extend(token.map(|(requirement, token)| (requirement.credential.clone(), token)));
        (secrets, ignored)
    }
}

/// Serves tools to clients of Open Tool Calling. What it remembers of calls outlives a change of its tools.
pub struct OtcService {
    settings: OtcSettings,
    tools: RwLock<Arc<OtcTools>>,
    executions: Executions,
    authorizations: Authorizations,
}

impl OtcService {
    /// Serves no tools yet.
    pub fn new(settings: OtcSettings) -> Self {
        let authorizations = Authorizations::new(settings.authorizations.clone());
        Self {
            settings,
            tools: RwLock::default(),
            executions: Executions::default(),
            authorizations,
        }
    }

    /// Replaces the tools. Running calls keep the tools they began with.
    pub fn offer(&self, tools: Vec<OtcTool>) {
        let names = OtcToolNames::new(tools.iter().map(|tool| tool.named.clone()).collect());
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(OtcTools { tools, names });
    }

    fn tools(&self) -> Arc<OtcTools> {
        Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The definitions of the tools that `is_listed` (OTC-D-15).
    pub fn list(&self, mode: OtcMode, is_listed: impl Fn(&OtcToolName) -> bool) -> OtcAnswer {
        let tools = self.tools();
        let listed = tools.tools.iter().filter(|tool| is_listed(&tool.named));
        OtcAnswer::new(
            200,
            &json!(
                listed
                    .filter_map(|tool| tool.definition(mode))
                    .collect::<Vec<_>>()
            ),
        )
    }

    /// The tool with this fully qualified name.
    pub fn find(&self, name: &str) -> Option<OtcToolName> {
        let tools = self.tools();
        tools
            .names
            .find(name)
            .and_then(|at| tools.tools.get(at))
            .map(|tool| tool.named.clone())
    }

    /// The definition of the tool with this fully qualified name.
    pub fn definition(&self, name: &str, mode: OtcMode) -> OtcAnswer {
        let tools = self.tools();
        let tool = tools.names.find(name).and_then(|at| tools.tools.get(at));
        match tool.and_then(|tool| tool.definition(mode)) {
            Some(definition) => OtcAnswer::new(200, definition),
            None => OtcAnswer::unknown_tool(),
        }
    }

    /// Reads a request to call a tool. Fails with the answer to what is none.
    pub fn read(&self, text: &str, mode: OtcMode) -> Result<OtcRequest, OtcAnswer> {
        OtcRequest::read(text, mode, self.settings.reading)
            .map_err(|refusal| OtcAnswer::problem(400, &refusal))
    }

    /// Answers a request to call a tool, which `principal` sent. `call` makes the call, at most once for each execution id
    /// of a run: the same request again gets the same answer, also while the first one runs (OTC-Q-02). It gives `None` if
    /// the host lost the call.
    pub async fn execute<F, R>(
        &self,
        principal: &Arc<str>,
        request: OtcRequest,
        mode: OtcMode,
        call: F,
    ) -> OtcAnswer
    where
        F: FnOnce(ParsedCall) -> R,
        R: Future<Output = Option<CallRecord>>,
    {
        let Some(execution_id) = request.execution_id.clone() else {
            return self.run(principal, request, None, mode, call).await.0;
        };
        let key = ExecutionKey {
            run_id: request.run_id.clone().unwrap_or_default(),
            execution_id,
        };
        match self
            .executions
            .claim(
                principal,
                &key,
                RequestDigests::from_request(&request, mode),
            )
            .await
        {
            Ok(ticket) => {
                let (answer, ended) = self.run(principal, request, Some(&key), mode, call).await;
                ticket.end(ended);
                answer
            }
            Err(ClaimRefusal::Answered(answer)) => answer,
            Err(ClaimRefusal::Refused(status, refusal)) => {
                OtcAnswer::refused(status, &refusal, mode, &key.execution_id)
            }
        }
    }

    /// Makes the call. Also returns how its execution id is used up; `None` if the same id may be used again.
    async fn run<F, R>(
        &self,
        principal: &Arc<str>,
        request: OtcRequest,
        key: Option<&ExecutionKey>,
        mode: OtcMode,
        call: F,
    ) -> (OtcAnswer, Option<OtcAnswer>)
    where
        F: FnOnce(ParsedCall) -> R,
        R: Future<Output = Option<CallRecord>>,
    {
        let tools = self.tools();
        let found = tools.names.resolve(&request.tool);
        let tool = found.as_ref().ok().and_then(|at| tools.tools.get(*at));
        let unknown = || Refusal::new(ErrorCode::UnknownTool, "there is no such tool here");
        let (secrets, ignored_secrets) = tool
            .map(|tool| tool.secrets_of(&request))
            .unwrap_or_default();
        let parsed = ParsedCall {
            principal: Arc::clone(principal),
            requested: format!("{}.{}", request.tool.toolkit, request.tool.name),
            tool: match (&found, tool) {
                (Ok(_), Some(tool)) => Ok(tool.named.clone()),
                (Err(refusal), _) => Err(refusal.clone()),
                (Ok(_), None) => Err(unknown()),
            },
            secrets,
            ignored_secrets,
            input: request.inputs,
            execution_id: request.execution_id,
            run_id: request.run_id,
            user_id: request.user_id,
            user_info: request.user_info,
        };
        let Some(record) = call(parsed).await else {
            let lost = Refusal::host_fault(
                "the call was lost; it is not repeated, because it may have had effects",
            );
            let id = key.map(|key| key.execution_id.as_str()).unwrap_or_default();
            let answer = OtcAnswer::refused(500, &lost, mode, id);
            return (answer.clone(), Some(answer));
        };
        let missing = tool.and_then(|tool| tool.requirement.as_ref());
        let missing = missing.filter(|requirement| requirement.is_missing_in(&record.result));
        let opened = missing.map(|needed| {
            self.authorizations
                .open(principal, key, needed, Timestamp::now())
        });
        let authorization = match opened.transpose() {
            Ok(authorization) => authorization,
            Err(refusal) => {
                let id = key.map(|key| key.execution_id.as_str()).unwrap_or_default();
                return (OtcAnswer::refused(500, &refusal, mode, id), None);
            }
        };
        if let (None, Some(key)) = (missing, key) {
            self.authorizations.complete(principal, key);
        }
        let id = key.map_or_else(
            || record.invocation.invocation_id.to_string(),
            |key| key.execution_id.clone(),
        );
        let artifacts = format!(
            "{}{}/artifacts/",
            self.settings.calls, record.invocation.invocation_id
        );
        let reply = OtcReply {
            expects_artifact: tool.is_some_and(|tool| tool.expects_artifact),
            // The token of an engine opens only a worker's routes.
            artifacts: Some(artifacts.as_str()).filter(|_| **principal != *ENGINE),
            authorization: missing.zip(authorization.as_ref()),
            ..OtcReply::new(mode, &id)
        };
        let answer = OtcAnswer::new(200, &result(&record.invocation, &record.result, &reply));
        // If the tool never ran, the same request may come again once the authorization is there.
        let has_run = record.invocation.started_at().is_some();
        let ended = (missing.is_none() || has_run).then(|| answer.clone());
        (answer, ended)
    }

    /// The status of an authorization of `principal`. `is_set` says whether the host has a credential of that name.
    pub fn authorization(
        &self,
        principal: &str,
        id: &str,
        mode: OtcMode,
        is_set: impl Fn(&str) -> bool,
    ) -> OtcAnswer {
        match self
            .authorizations
            .poll(principal, id, Timestamp::now(), is_set)
        {
            Some(authorization) => OtcAnswer::new(200, &authorization.to_value(mode)),
            None => {
                let message = "there is no authorization of that id; it may have been too long ago";
                let refusal = Refusal::new(ErrorCode::UnknownAuthorization, message);
                OtcAnswer::problem(404, &refusal)
            }
        }
    }

    /// Answers a client that registers the tool of the definition `text` (OTC-D-15).
    pub fn register(&self, text: &str, mode: OtcMode) -> OtcAnswer {
        registration::register(text, mode, &self.tools().names)
    }
}

#[cfg(test)]
#[path = "../../../dialect/src/otc/samples.rs"]
mod samples;
#[cfg(test)]
mod tests;
