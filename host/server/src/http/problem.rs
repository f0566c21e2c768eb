use axum::body::Body;
use axum::response::IntoResponse;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Serialize;
use toolcell_spec::{ErrorCode, Refusal};
use utoipa::ToSchema;

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An error of the API itself, as `application/problem+json` (RFC 9457). An error of a call is a result, not a problem.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Always `about:blank`: the status says what kind of problem it is, and `code` which one.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The reason phrase of the status.
    title: &'static str,
    pub(crate) status: u16,
    /// The problem, and the remedy.
    pub(super) detail: String,
    /// Stable, in snake_case.
    #[schema(value_type = String)]
    pub(super) code: ErrorCode,
    /// Seconds.
    #[serde(skip)]
    pub(super) retry_after: Option<u64>,
    /// Of the header `WWW-Authenticate`.
    #[serde(skip)]
    challenge: Option<HeaderValue>,
}

impl Problem {
    pub(crate) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let problem = Self {
            kind: "about:blank",
            title: "",
            status: 500,
            detail: detail.into(),
            code,
            retry_after: None,
            challenge: None,
        };
        let of_class = || code.classes().first().map(|class| class.http_status());
        problem.with_status(code.problem_status().or_else(of_class).unwrap_or(500))
    }

    #[must_use]
    pub(crate) fn with_status(self, status: u16) -> Self {
        let title = StatusCode::from_u16(status)
            .ok()
            .and_then(|status| status.canonical_reason());
        Self {
            title: title.unwrap_or("Error"),
            status,
            ..self
        }
    }

    #[must_use]
    pub(super) fn after(self, seconds: impl Into<Option<u64>>) -> Self {
        Self {
            retry_after: seconds.into(),
            ..self
        }
    }

    #[must_use]
    pub(super) fn challenge(self, challenge: Option<HeaderValue>) -> Self {
        Self { challenge, ..self }
    }

    /// A client of MCP expects no document.
    pub(super) fn into_text(self) -> Response<Body> {
        let (status, headers) = self.head();
        (status, headers, self.detail).into_response()
    }

    fn head(&self) -> (StatusCode, HeaderMap) {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut headers = HeaderMap::new();
        headers.extend(
            self.retry_after
                .map(|seconds| (RETRY_AFTER, seconds.into())),
        );
        let plain =
            (status == StatusCode::UNAUTHORIZED).then(|| HeaderValue::from_static("Bearer"));
        let challenge = self.challenge.clone().or(plain);
        headers.extend(challenge.map(|challenge| (WWW_AUTHENTICATE, challenge)));
        (status, headers)
    }
}

/// Says no more than the code.
impl From<ErrorCode> for Problem {
    fn from(code: ErrorCode) -> Self {
        Self::new(code, told(code))
    }
}

pub(crate) fn told(code: ErrorCode) -> String {
    let mut known = ErrorCode::explanations().iter();
    let said = known.find(|known| known.code == code);
    said.map_or_else(String::new, |said| {
        format!("{} {} {}", said.means, said.cause, said.remedy)
    })
}

/// No call was made. The detail for developers stays behind.
impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = refusal.code.problem_status();
        let status = status.unwrap_or_else(|| refusal.code.http_status(refusal.class));
        Self::new(refusal.code, refusal.message)
            .with_status(status)
            .after(refusal.retry_after.map(whole_seconds))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        // A problem has no map, and so can be written.
        let text = serde_json::to_vec(&self).unwrap_or_default();
        let (status, headers) = self.head();
        (status, headers, [(CONTENT_TYPE, MEDIA_TYPE)], text).into_response()
    }
}

/// `Retry-After` has no fractions.
pub(super) fn whole_seconds(seconds: f64) -> u64 {
    // A conversion of floats saturates.
    seconds.max(0.0).ceil() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcell_spec::{ErrorCode, Refusal};

    use super::{Problem, whole_seconds};

    #[test]
    fn a_problem_keeps_the_detail_for_developers_to_itself() {
        let refusal =
            Refusal::new(ErrorCode::UnknownTool, "there is no tool `x` here").detail("/srv/x");
        let said = json!(Problem::from(refusal));
        let meant = json!({
            "type": "about:blank", "title": "Not Found", "status": 404,
            "detail": "there is no tool `x` here", "code": "unknown_tool",
        });
        assert_eq!(said, meant);
    }

    #[test]
    fn fractions_of_a_second_are_rounded_up() {
        assert_eq!(
            [0.0, 0.2, 1.0, 1.5, -3.0, f64::NAN].map(whole_seconds),
            [0, 1, 1, 2, 0, 0]
        );
    }
}
