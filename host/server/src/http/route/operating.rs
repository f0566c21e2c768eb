//! Answers to the operator's programs: probes, and metrics.

use axum::body::Body;
use axum::response::IntoResponse;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, SERVER, X_CONTENT_TYPE_OPTIONS};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use toolcell_spec::ErrorCode;

use super::refusals::{RefusalForm, RefusalResponse, get_only, noted};
use super::{API, Routes, WORKER, holder};
use crate::http::metrics::MetricValues;
use crate::http::problem::Problem;

const METRICS: &str = "/metrics";

/// A label for metrics: their number must not depend on what clients send.
pub(super) fn interface(path: &str) -> &'static str {
    match path {
        "/mcp" | "/mcp/" => "mcp",
        "/livez" | "/healthz" | "/readyz" => "probe",
        METRICS => "metrics",
        _ if path.starts_with(API) => "api",
        _ if path.starts_with(WORKER) => "worker",
        _ => "other",
    }
}

impl Routes {
    /// `None` for what is no probe. A probe comes by an address that the server does not know itself by, and learns from the
    /// answer which program it is, and no more; a page of another origin does not get one.
    pub(super) async fn probed<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let why = match request.uri().path() {
            "/livez" | "/healthz" => None,
            "/readyz" => self.unready().await,
            _ => return None,
        };
        if !self.gate.is_own_page(request.headers()) {
            return None;
        }
        Some(match (request.method(), why) {
            (&Method::GET | &Method::HEAD, None) => ([(SERVER, "toolcell")], "ok").into_response(),
            (&Method::GET | &Method::HEAD, Some(why)) => {
                (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
            }
            _ => get_only(),
        })
    }

    async fn unready(&self) -> Option<String> {
        if self.states.unready.is_cancelled() {
            return Some("ending".to_owned());
        }
        let why = self.server.unready().await?;
        Some(format!(
            "not ready: calls cannot be put on record, and so do not run: {why}"
        ))
    }

    /// For a person without a token: the id is all that it takes.
    pub(super) async fn authorization_page(&self, id: &str, method: &Method) -> Response<Body> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return get_only();
        }
        let headers = [
            (CONTENT_TYPE, "text/plain; charset=utf-8"),
            (CACHE_CONTROL, "no-store"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        match self.api.authorization_page(id).await {
            Some(page) => (headers, page).into_response(),
            None => {
                let why = "there is no authorization here; it may have been too long ago";
                (StatusCode::NOT_FOUND, headers, why).into_response()
            }
        }
    }

    /// The metrics name the tools of all callers: they are for the bearer of a token for them, and for callers only if there
    /// is neither such a token nor an address for metrics.
    pub(super) async fn metrics(
        &self,
        request: &Request<Incoming>,
    ) -> Result<Response<Body>, RefusalResponse> {
        if self.measured_apart {
            let why = "metrics have an address of their own here";
            return Ok((StatusCode::NOT_FOUND, why).into_response());
        }
        let table = self.table();
        let may_measure = self.tokens.lock().may_measure(request.headers());
        match may_measure {
            Some(true) => return Ok(self.measured(request.method()).await),
            Some(false) => {
                holder(&table, request, RefusalForm::Text).await?;
                if guard!("metrics_token") {
                    let why =
                        "metrics have a token of their own here, and this is that of another role";
                    return Err(noted((StatusCode::FORBIDDEN, why).into_response()).into());
                }
            }
            None => {}
        }
        let holder = holder(&table, request, RefusalForm::Text).await?;
        if holder.service.is_none() && guard!("metrics_role") {
            let why = "metrics are for callers, and this is the token of an approver";
            return Err(noted((StatusCode::FORBIDDEN, why).into_response()).into());
        }
        // They name the tools of all callers.
        if self.server.offering_of(Some(&holder.name)).is_narrowed && guard!("metrics_role") {
            let why = "metrics are of all callers, and this is the token of a principal with rules of its own";
            return Err(noted((StatusCode::FORBIDDEN, why).into_response()).into());
        }
        Ok(self.measured(request.method()).await)
    }

    /// A request to the address for metrics, which needs a token only if there is one.
    pub(in crate::http) async fn measure<B>(&self, request: &Request<B>) -> Response<Body> {
        if let Some(answer) = self.probed(request).await {
            return answer;
        }
        // A page that points its own name at this machine sends that name.
        if !self.gate.is_address(request.headers()) {
            let why = "metrics are read by an IP address, or a name of --allow-host";
            let problem = Problem::new(ErrorCode::HostOrOriginRefused, why);
            return RefusalForm::Text.answer(problem);
        }
        if request.uri().path() != METRICS {
            return (StatusCode::NOT_FOUND, "metrics are at /metrics").into_response();
        }
        let may_measure = self.tokens.lock().may_measure(request.headers());
        match may_measure {
            Some(false) => noted(RefusalForm::Text.answer(ErrorCode::Unauthorized.into())),
            _ => self.measured(request.method()).await,
        }
    }

    async fn measured(&self, method: &Method) -> Response<Body> {
        let offering = self.server.offering();
        let telemetry = offering.telemetry.as_ref();
        let Some(calls) = telemetry.and_then(|telemetry| telemetry.prometheus()) else {
            let why = "this server has no metrics; telemetry.metrics = true turns them on";
            return (StatusCode::NOT_FOUND, why).into_response();
        };
        if !matches!(*method, Method::GET | Method::HEAD) {
            return get_only();
        }
        let measured = MetricValues {
            calls,
            connections: self.connections.states(),
            budgets: self.tables.usage(),
            host: offering.tools.host.usage(),
            principals: offering.tools.host.quotas(),
            is_ready: self.server.unready().await.is_none(),
        };
        let media_type = "text/plain; version=0.0.4; charset=utf-8";
        ([(CONTENT_TYPE, media_type)], self.metrics.text(measured)).into_response()
    }
}
