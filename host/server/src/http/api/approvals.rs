//! `/v1/approvals`: questions about the calls of this server, for the holders of an approver's token.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use serde_json::json as value;
use toolcell_dialect::http::{ApprovalAnswer, ApprovalDocument, ApprovalState};
use toolcell_journal::StoredApproval;
use toolcell_spec::text::{Whitespace, visible, visible_json};
use toolcell_spec::{ErrorCode, InvocationId};

use super::ApiState;
use super::answer::{PathParams, RequestApprover, call_id, json, read};
use crate::http::problem::Problem;

const CHANNEL: &str = "http";

/// Lists the calls that wait for an approval, or were approved and have not ended.
#[utoipa::path(
    get, path = "/v1/approvals", tag = "approvals",
    responses((status = 200, description = "The questions, newest first", body = ref("#/components/schemas/approvals-list"))),
)]
pub(super) async fn list(
    State(shared): State<Arc<ApiState>>,
    approver: RequestApprover,
) -> Result<Response<Body>, Problem> {
    let found = shared.server.questions(&approver.callers).await?;
    Ok(json(StatusCode::OK, &value!({ "approvals": found })))
}

/// Shows a question about a call.
#[utoipa::path(
    get, path = "/v1/approvals/{id}", tag = "approvals",
    params(("id" = String, Path, description = "The id of the call")),
    responses((status = 200, description = "The question", body = ApprovalDocument), (status = 404, description = "There is no question about such a call")),
)]
pub(super) async fn show(
    State(shared): State<Arc<ApiState>>,
    approver: RequestApprover,
    PathParams(id): PathParams<String>,
) -> Result<Response<Body>, Problem> {
    let StoredApproval {
        approval, state, ..
    } = find(&shared, &approver, question_id(&id)?).await?;
    let prompt: String = approval
        .prompt
        .iter()
        .filter_map(|block| block.as_text())
        .collect();
    let arguments = approval
        .plan
        .shown_input
        .as_ref()
        .unwrap_or(&approval.plan.permission_input);
    let document = ApprovalDocument {
        invocation_id: approval.invocation_id,
        arguments: visible_json(arguments).into_owned(),
        prompt: visible(&prompt, Whitespace::Kept),
        tool_id: approval.tool_id,
        state: value!(state),
        actor_ref: approval.actor_ref,
        asked_at: value!(approval.asked_at),
        expires_at: value!(approval.expires_at),
        cut: approval.cut,
    };
    Ok(json(StatusCode::OK, &document))
}

/// Answers a question: the call runs once, or ends.
#[utoipa::path(
    post, path = "/v1/approvals/{id}", tag = "approvals", request_body = ApprovalAnswer,
    params(("id" = String, Path, description = "The id of the call")),
    responses(
        (status = 200, description = "The answer was taken", body = ApprovalState),
        (status = 404, description = "There is no question about such a call"),
        (status = 409, description = "The question is not open any more, or shows a part of the call only"),
        (status = 422, description = "The tool cannot be called with the changed arguments"),
    ),
)]
pub(super) async fn answer(
    State(shared): State<Arc<ApiState>>,
    approver: RequestApprover,
    PathParams(id): PathParams<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    let answer: ApprovalAnswer = read(&headers, &body)?;
    let id = question_id(&id)?;
    let state = approver.answer(&shared, id, answer, CHANNEL).await?;
    Ok(json(StatusCode::OK, &state))
}

impl RequestApprover {
    /// Answers the question about the call. `channel` is what brought the answer, for its record.
    pub(super) async fn answer(
        &self,
        shared: &ApiState,
        id: InvocationId,
        answer: ApprovalAnswer,
        channel: &str,
    ) -> Result<ApprovalState, Problem> {
        let stored = find(shared, self, id).await?;
        let server = &shared.server;
        let state = server
            .answer_approval(stored, &self.name, answer, channel)
            .await?;
        Ok(ApprovalState {
            invocation_id: id,
            state,
        })
    }
}

fn question_id(id: &str) -> Result<InvocationId, Problem> {
    call_id(id).map_err(|_| ErrorCode::UnknownRequest.into())
}

async fn find(
    shared: &ApiState,
    approver: &RequestApprover,
    id: InvocationId,
) -> Result<StoredApproval, Problem> {
    let found = shared.server.question(id, &approver.callers).await?;
    Ok(found.ok_or(ErrorCode::UnknownRequest)?)
}
