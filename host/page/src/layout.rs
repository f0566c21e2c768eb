//! The frame of all views: the head, the way to the other views, and errors.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use maud::{DOCTYPE, Markup, html};
use toolcell_journal::{LogError, StoreError};
use toolcell_spec::{ErrorCode, Refusal};

use super::text::line;

pub(crate) const HTML: &str = "text/html; charset=utf-8";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Calls,
    Approvals,
    Tools,
    Workspaces,
    Elsewhere,
}

const PLACES: [(Place, &str, &str); 4] = [
    (Place::Calls, "/", "Calls"),
    (Place::Approvals, "/approvals", "Approvals"),
    (Place::Tools, "/tools", "Tools"),
    (Place::Workspaces, "/workspaces", "Workspaces"),
];

/// Why a view cannot be shown, or a form has no effect.
#[derive(Debug)]
pub(crate) struct PageProblem {
    status: StatusCode,
    message: String,
}

impl PageProblem {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    pub(crate) fn failed(error: &dyn std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }

    pub(crate) fn refused(refusal: &Refusal) -> Self {
        let status = match refusal.code {
            ErrorCode::UnknownWorkspace
            | ErrorCode::UnknownWorkspaceFile
            | ErrorCode::UnknownSnapshot => 404,
            code => code.http_status(refusal.class),
        };
        let status = StatusCode::from_u16(status).ok();
        let message = format!("{} [{}]", refusal.message, refusal.code);
        Self::new(status.unwrap_or(StatusCode::CONFLICT), message)
    }
}

impl From<LogError> for PageProblem {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Ambiguous(_) => Self::unknown("several calls have an id that ends so"),
            error => Self::failed(&error),
        }
    }
}

impl From<StoreError> for PageProblem {
    fn from(error: StoreError) -> Self {
        Self::failed(&error)
    }
}

impl IntoResponse for PageProblem {
    fn into_response(self) -> Response {
        let body = html! {
            h1 { (self.status.as_u16()) " " (self.status.canonical_reason().unwrap_or_default()) }
            p role="alert" class="problem" { (line(&self.message)) }
            p { a href="/" { "All calls" } }
        };
        let page = page("Problem", Place::Elsewhere, 0, &body);
        (self.status, page).into_response()
    }
}

/// The document of a view. `waiting` is the number of approvals that wait.
pub(crate) fn page(title: &str, place: Place, waiting: usize, body: &Markup) -> Response {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { @if waiting > 0 { "(" (waiting) ") " } (line(title)) " - toolcell" }
                link rel="icon" href="/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/page.css";
                script type="module" src="/page.js" {}
            }
            body {
                a class="skip" href="#main" { "Skip to content" }
                header {
                    nav aria-label="Views" {
                        @for (at, href, name) in PLACES {
                            a href=(href) aria-current=[(at == place).then_some("page")] {
                                (name)
                                @if at == Place::Approvals {
                                    " " span id="waiting" class="count" hidden[waiting == 0] { (waiting) }
                                }
                            }
                        }
                    }
                    p id="live" class="live" role="status" {}
                }
                main id="main" tabindex="-1" { (body) }
            }
        }
    };
    ([(CONTENT_TYPE, HTML)], document.into_string()).into_response()
}

/// A label and its value.
pub(crate) fn fact(name: &str, value: &Markup) -> Markup {
    html! { dt { (name) } dd { (value) } }
}

/// The status of a call, in a word and a colour.
pub(crate) fn badge(status: &str) -> Markup {
    let kind = match status {
        "succeeded" | "approved" | "finished" | "ready" => "good",
        "failed" | "denied" | "blocked" | "timed_out" | "rejected" | "expired" => "bad",
        "awaiting_approval" | "needs_input" | "pending" => "waits",
        _ => "other",
    };
    html! { span class={ "badge " (kind) } { (line(&status.replace('_', " "))) } }
}
