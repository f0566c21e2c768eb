//! The state behind Open Tool Calling, without its transport (requirements 2.3, O-19). Calls are a function of the
//! caller's, so that they go through the same pipeline as through every other door.

mod authorizations;
mod digest;
mod registration;
mod token;

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use toolcell_dialect::ListedTool;
use toolcell_dialect::otc::{
    OtcMode, OtcReply, OtcRequest, OtcToolName, OtcToolNames, Requirement, definition, refused,
    result, secrets,
};
use toolcell_policy::secret::SecretValue;
use toolcell_spec::{CallRecord, ErrorCode, Refusal, Timestamp};

use crate::executions::{
    ClaimRefusal, ExecutionAnswer, ExecutionClaim, ExecutionKey, Executions, RUNNING_MAX,
    RequestDigests,
};
use crate::http::{Problem, told};

use authorizations::Authorizations;
pub(crate) use authorizations::SecretAccess;
pub use token::WorkerSecret;

/// The principal of all its calls.
pub(crate) const ENGINE: &str = "arcade:engine";

/// Answers that are kept, of all principals.
const ANSWERS_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtcAnswer {
    pub(crate) status: u16,
    pub(crate) body: Arc<str>,
}

impl ExecutionAnswer for OtcAnswer {
    fn bytes(&self) -> usize {
        self.body.len()
    }
}

impl OtcAnswer {
    fn new(status: u16, body: &Value) -> Self {
        let body = body.to_string().into();
        Self { status, body }
    }

    /// Clients expect a response, also for an execution that led to no call.
    fn refused(status: u16, refusal: &Refusal, mode: OtcMode, execution_id: &str) -> Self {
        Self::new(
            status,
            &refused(refusal, &OtcReply::new(mode, execution_id)),
        )
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ParsedCall {
    pub(crate) request: OtcRequest,
    pub(crate) tool: Result<OtcToolName, Refusal>,
    /// Secrets for this call only, by credential; none that the tool does not declare.
    pub(crate) secrets: Vec<(String, SecretValue)>,
    /// The tool does not declare them, and they go nowhere.
    pub(crate) ignored_secrets: usize,
}

pub(crate) struct OtcTool {
    pub(crate) named: OtcToolName,
    definitions: Vec<(OtcMode, Value)>,
    secrets: Vec<String>,
    requirement: Option<Requirement>,
    expects_artifact: bool,
}

impl OtcTool {
    pub(crate) fn new(listed: &ListedTool<'_>) -> Self {
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

    pub(crate) fn definition(&self, mode: OtcMode) -> Option<&Value> {
        self.definitions
            .iter()
            .find_map(|(known, definition)| (*known == mode).then_some(definition))
    }

    /// The number counts undeclared secrets: no tool gets those (OTC-Q-07).
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

pub(crate) struct OtcTools {
    pub(crate) all: Vec<OtcTool>,
    names: OtcToolNames,
}

impl OtcTools {
    pub(crate) fn new(all: Vec<OtcTool>) -> Self {
        let names = OtcToolNames::new(all.iter().map(|tool| tool.named.clone()).collect());
        Self { all, names }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&OtcTool> {
        self.all.get(self.names.find(name)?)
    }

    fn resolve(&self, request: &OtcRequest) -> Result<&OtcTool, Refusal> {
        let at = self.names.resolve(&request.tool)?;
        let unknown = || Refusal::new(ErrorCode::UnknownTool, "there is no such tool here");
        self.all.get(at).ok_or_else(unknown)
    }

    /// Acknowledges the tool of the definition `text` (OTC-D-15).
    pub(crate) fn register(&self, text: &str, mode: OtcMode) -> Result<Value, Problem> {
        registration::register(text, mode, &self.names)
    }
}

/// Remembers the calls of Open Tool Calling.
pub(crate) struct OtcService {
    /// A call's address, up to its id; its artifacts are below it.
    calls: String,
    executions: Arc<Executions<OtcAnswer>>,
    authorizations: Authorizations,
}

impl OtcService {
    pub(crate) fn new(base: &str) -> Self {
        Self {
            calls: format!("{base}/v1/calls/"),
            executions: Executions::new(ANSWERS_BYTES_MAX),
            authorizations: Authorizations::new(format!("{base}{AUTHORIZATIONS}")),
        }
    }

    /// `call` runs at most once for each execution id of a run: the same request again gets the same answer, also while
    /// the first one runs (OTC-Q-02). `workspace` is the name that the client gave.
    pub(crate) async fn execute<F, R>(
        &self,
        tools: &OtcTools,
        principal: &Arc<str>,
        request: OtcRequest,
        (mode, workspace): (OtcMode, &[u8]),
        call: F,
    ) -> OtcAnswer
    where
        F: FnOnce(ParsedCall) -> R,
        R: Future<Output = Option<CallRecord>>,
    {
        let Some(execution_id) = request.execution_id.clone() else {
            let run = self.run(tools, principal, request, None, mode, call);
            return run.await.0;
        };
        let key = ExecutionKey {
            run_id: request.run_id.clone().unwrap_or_default(),
            execution_id,
        };
        let digests = RequestDigests::from_request(&request, mode, workspace);
        match self.executions.claim(principal, &key, digests).await {
            Ok(ExecutionClaim::First(ticket)) => {
                let run = self.run(tools, principal, request, Some(&key), mode, call);
                let (answer, ended) = run.await;
                ticket.end(ended);
                answer
            }
            Ok(ExecutionClaim::Answered(answer)) => answer,
            Err(refused) => {
                let (status, refusal) = refusal(refused);
                OtcAnswer::refused(status, &refusal, mode, &key.execution_id)
            }
        }
    }

    /// Returns also how the execution id is used up; `None` if it may be used again.
    async fn run<F, R>(
        &self,
        tools: &OtcTools,
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
        let found = tools.resolve(&request);
        let tool = found.as_ref().ok();
        let (secrets, ignored_secrets) = tool
            .map(|tool| tool.secrets_of(&request))
            .unwrap_or_default();
        let parsed = ParsedCall {
            request,
            tool: found
                .as_ref()
                .map(|tool| tool.named.clone())
                .map_err(Clone::clone),
            secrets,
            ignored_secrets,
        };
        let failed = |refusal: &Refusal| {
            let id = key.map(|key| key.execution_id.as_str());
            OtcAnswer::refused(500, refusal, mode, id.unwrap_or_default())
        };
        let Some(record) = call(parsed).await else {
            let lost = Refusal::host_fault(
                "the call was lost; it is not repeated, because it may have had effects",
            );
            let answer = failed(&lost);
            return (answer.clone(), Some(answer));
        };
        let missing = tool.and_then(|tool| tool.requirement.as_ref());
        let missing = missing.filter(|requirement| requirement.is_missing_in(&record.result));
        let opened = tool.zip(missing).map(|(tool, needed)| {
            self.authorizations
                .open(principal, key, (&tool.named, needed), Timestamp::now())
        });
        let authorization = match opened.transpose() {
            Ok(authorization) => authorization,
            Err(refusal) => return (failed(&refusal), None),
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
            self.calls, record.invocation.invocation_id
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

    pub(crate) fn authorization(
        &self,
        principal: &str,
        id: &str,
        mode: OtcMode,
        access: impl FnOnce(&OtcToolName, &str) -> SecretAccess,
    ) -> Result<Value, Problem> {
        let found = self
            .authorizations
            .poll(principal, id, Timestamp::now(), access);
        let unknown = || {
            let why = "there is no authorization of that id; it may have been too long ago";
            Problem::new(ErrorCode::UnknownAuthorization, why).with_status(404)
        };
        found
            .map(|authorization| authorization.to_value(mode))
            .ok_or_else(unknown)
    }
}

fn refusal(why: ClaimRefusal) -> (u16, Refusal) {
    let code = match why {
        ClaimRefusal::OtherRequest => ErrorCode::ExecutionIdReused,
        ClaimRefusal::NotKept => ErrorCode::ResponseNotKept,
        ClaimRefusal::Lost => ErrorCode::ExecutionLost,
        ClaimRefusal::TooMany => {
            let message = format!("{RUNNING_MAX} executions run already; try again");
            return (503, Refusal::new(ErrorCode::TooManyCalls, message));
        }
    };
    (409, Refusal::new(code, told(code)))
}

/// The pages of authorizations, up to the id.
pub(crate) const AUTHORIZATIONS: &str = "/authorizations/";

impl OtcService {
    pub(crate) fn has_authorization(&self, id: &str) -> bool {
        self.authorizations.has(id)
    }

    /// Tells a person how to give the access (OTC-R-07).
    pub(crate) fn authorization_page(
        &self,
        id: &str,
        access: impl FnOnce(&OtcToolName, &str) -> SecretAccess,
    ) -> Option<String> {
        self.authorizations.page(id, Timestamp::now(), access)
    }
}

#[cfg(test)]
#[path = "../../../dialect/src/otc/tests/samples.rs"]
mod samples;
#[cfg(test)]
mod tests;
