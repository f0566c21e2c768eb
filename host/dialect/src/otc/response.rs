use serde_json::{Map, Value, json};
use strum::IntoStaticStr;
use toolcell_spec::{
    ErrorClass, ErrorCode, Refusal, Timestamp, ToolError, ToolInvocation, ToolResult,
};

use super::error::error;
use super::output::output;
use super::{OtcMode, Requirement};

/// The published schema leaves the words open (O-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AuthorizationStatus {
    Pending,
    /// The same request can be sent again.
    Completed,
    /// The operator refused.
    Failed,
    /// It took too long.
    Expired,
}

/// `requires_authorization` of a response (OTC-R-07).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// Key for status requests.
    pub id: String,
    /// Where a person gets the access.
    pub url: String,
    pub scopes: Vec<String>,
    pub status: AuthorizationStatus,
}

impl Authorization {
    /// Has all four fields (O-13).
    pub fn to_value(&self, mode: OtcMode) -> Value {
        let (id, url) = match mode {
            OtcMode::Otc | OtcMode::OtcSeed => ("id", "url"),
            OtcMode::Arcade => ("authorization_id", "authorization_url"),
        };
        json!({ id: self.id, url: self.url, "scopes": self.scopes, "status": self.status.into_str() })
    }
}

/// Response data beyond the call's record.
#[derive(Clone, Copy, Debug)]
pub struct OtcReply<'a> {
    pub mode: OtcMode,
    pub execution_id: &'a str,
    /// `true` if the output contract promises artifacts: one is then the output.
    pub expects_artifact: bool,
    /// A payload's address up to its digest; `None` for the host's own URIs.
    pub artifacts: Option<&'a str>,
    pub authorization: Option<(&'a Requirement, &'a Authorization)>,
}

impl<'a> OtcReply<'a> {
    /// Without a promised artifact.
    pub fn new(mode: OtcMode, execution_id: &'a str) -> Self {
        Self {
            mode,
            execution_id,
            expects_artifact: false,
            artifacts: None,
            authorization: None,
        }
    }
}

/// A response (requirements 1.36, 3.4): `success` and the arm of `output` agree, with at most one arm.
pub fn result(invocation: &ToolInvocation, result: &ToolResult, reply: &OtcReply<'_>) -> Value {
    let finished = invocation.ended_at().unwrap_or(result.created_at);
    let started = invocation
        .started_at()
        .unwrap_or_else(|| invocation.created_at());
    let output = if result.is_error {
        Some(failure(invocation, result, reply))
    } else {
        output(result, reply)
    };
    response(
        reply,
        finished,
        finished.millis_since(started),
        !result.is_error,
        output,
    )
}

/// For a request that never became a call.
pub fn refused(refusal: &Refusal, reply: &OtcReply<'_>) -> Value {
    let output = json!({ "error": error(&refusal.to_error(), None, None, reply.mode) });
    response(reply, Timestamp::now(), 0, false, Some(output))
}

fn response(
    reply: &OtcReply<'_>,
    finished: Timestamp,
    millis: u64,
    success: bool,
    output: Option<Value>,
) -> Value {
    let mut response = Map::new();
    let mut say = |key: &str, value: Value| _ = response.insert(key.to_owned(), value);
    say("execution_id", reply.execution_id.into());
    say("duration", millis.into());
    say("finished_at", json!(finished));
    say("success", success.into());
    if let Some(output) = output {
        say("output", output);
    }
    Value::Object(response)
}

fn failure(invocation: &ToolInvocation, result: &ToolResult, reply: &OtcReply<'_>) -> Value {
    if let Some((requirement, authorization)) = reply.authorization
        && requirement.is_missing_in(result)
    {
        return json!({ "requires_authorization": authorization.to_value(reply.mode) });
    }
    let known = result.error.clone().unwrap_or_else(|| unexplained(result));
    let developer = for_developers(invocation, result, &known);
    json!({ "error": error(&known, Some(result), Some(&developer), reply.mode) })
}

/// Call, component and error code in the host's words. Only the operator gets the engine's and tool's texts: they may
/// have paths of this machine, and the tool's output.
fn for_developers(invocation: &ToolInvocation, result: &ToolResult, error: &ToolError) -> String {
    let mut said = format!(
        "call {} of {}",
        invocation.invocation_id, invocation.tool_id
    );
    if let Some(component) = &result.provenance.component {
        said.push_str(&format!(" ({component})"));
    }
    let last = invocation.status_transitions().last();
    let code = last
        .and_then(|step| step.reason.as_deref())
        .unwrap_or(ErrorCode::ToolFailed.as_str());
    said.push_str(&format!(
        "; the host says: {}/{code}",
        error.error_class.as_str()
    ));
    said
}

fn unexplained(result: &ToolResult) -> ToolError {
    let text = result.text();
    let message = if text.is_empty() {
        "the tool failed".to_owned()
    } else {
        text
    };
    Refusal::new(ErrorCode::ToolFailed, message).to_error()
}

impl Requirement {
    /// Returns whether the call failed only for lack of the token.
    pub fn is_missing_in(&self, result: &ToolResult) -> bool {
        let Some(error) = &result.error else {
            return false;
        };
        let is_missing = matches!(
            error.error_class,
            ErrorClass::CredentialMissing | ErrorClass::SetupRequired
        );
        let needed = error.needs_authorization.as_ref();
        is_missing
            && needed
                .is_some_and(|needed| needed.subject.as_deref() == Some(self.credential.as_str()))
    }
}
