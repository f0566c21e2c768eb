//! `/v1/dialects/{otc|otc-seed|arcade}/tools/{name}/status`: what the host knows of a tool, and what an agent reports
//! of it (OTC-D-16).

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use toolcell_dialect::http::{ToolReport, ToolReportReceipt, ToolStatusDocument};
use toolcell_dialect::otc::OtcMode;
use toolcell_spec::LoadingState;

use crate::http::problem::Problem;

use super::answer::{CallerRequest, PathParams, json, read, unreadable};
use super::otc::find;

/// The message becomes one line of the server's log.
const MESSAGE_BYTES_MAX: usize = 1_024;

/// Shows whether the caller can call a tool, and how its own latest calls ended. It loads nothing.
#[utoipa::path(
    get, path = "/v1/dialects/{dialect}/tools/{name}/status", tag = "open tool calling",
    params(
        ("dialect" = String, Path, description = "`otc`, `otc-seed` or `arcade`"),
        ("name" = String, Path, description = "`Toolkit.Tool@version`, or `Toolkit.Tool`"),
    ),
    responses(
        (status = 200, description = "The status of the tool", body = ToolStatusDocument),
        (status = 404, description = "There is no such dialect or tool"),
    ),
)]
pub(super) async fn show(
    CallerRequest(shared, caller, offering): CallerRequest,
    PathParams((dialect, name)): PathParams<(OtcMode, String)>,
) -> Result<Response<Body>, Problem> {
    let (tool, offer) = find(&offering, &name)?;
    let standing = if caller.has_loaded(offer) {
        offer.standing.after_loading()
    } else {
        offer.standing
    };
    let recent_calls = shared
        .server
        .recent_statuses(&offer.tool.declaration().tool_id, caller.name())
        .await?;
    let document = ToolStatusDocument {
        id: tool.named.fully_qualified(dialect),
        available: matches!(
            standing.state,
            LoadingState::Loaded | LoadingState::Discoverable
        ),
        loading_state: standing.state,
        reason: standing.told(),
        recent_calls,
    };
    Ok(json(StatusCode::OK, &document))
}

/// Takes the report of an agent on how a tool fared: one line of the server's log. It changes nothing.
#[utoipa::path(
    post, path = "/v1/dialects/{dialect}/tools/{name}/status", tag = "open tool calling",
    params(
        ("dialect" = String, Path, description = "`otc`, `otc-seed` or `arcade`"),
        ("name" = String, Path, description = "`Toolkit.Tool@version`, or `Toolkit.Tool`"),
    ),
    request_body = ToolReport,
    responses(
        (status = 202, description = "The report was taken", body = ToolReportReceipt),
        (status = 404, description = "There is no such dialect or tool"),
    ),
)]
pub(super) async fn report(
    CallerRequest(shared, caller, offering): CallerRequest,
    PathParams((dialect, name)): PathParams<(OtcMode, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    let (tool, offer) = find(&offering, &name)?;
    let ToolReport { status, message } = read(&headers, &body)?;
    let message = message.unwrap_or_default();
    if message.len() > MESSAGE_BYTES_MAX {
        let why = format!("message has more than {MESSAGE_BYTES_MAX} bytes");
        return Err(unreadable(why));
    }
    if let Some(log) = &shared.server.settings.log {
        let tool_id = &offer.tool.declaration().tool_id;
        log.report(tool_id, caller.name(), status, &message);
    }
    let receipt = ToolReportReceipt {
        id: tool.named.fully_qualified(dialect),
        status: "acknowledged",
    };
    Ok(json(StatusCode::ACCEPTED, &receipt))
}
