//! The frame of all views: the head, the way to the other views, and errors.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use maud::{DOCTYPE, Markup, html};
use toolcell_journal::{LogError, StoreError};
use toolcell_spec::{ErrorCode, Refusal};

use super::text::line;
use super::user::PageUser;

pub(crate) const HTML: &str = "text/html; charset=utf-8";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Calls,
    Approvals,
    Tools,
    Workspaces,
    Machines,
    Principal,
    Elsewhere,
}

const PLACES: [(Place, &str, &str); 5] = [
    (Place::Calls, "/", "Calls"),
    (Place::Approvals, "/approvals", "Approvals"),
    (Place::Tools, "/tools", "Tools"),
    (Place::Workspaces, "/workspaces", "Workspaces"),
    (Place::Machines, "/machines", "Machines"),
];

/// What every view of a user says.
pub(crate) struct ShownPage<'s> {
    pub(crate) user: &'s PageUser,
    /// Approvals that wait for an answer.
    pub(crate) waiting: usize,
    pub(crate) has_machines: bool,
}

impl Place {
    /// An approver without calls has no other views.
    fn is_for(self, shown: &ShownPage<'_>) -> bool {
        let is_there = self != Self::Machines || shown.has_machines;
        is_there && (shown.user.is_caller() || matches!(self, Self::Approvals | Self::Principal))
    }
}

/// Why a view cannot be shown, or a form has no effect.
#[derive(Debug)]
pub struct PageProblem {
    status: StatusCode,
    message: String,
}

impl PageProblem {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    pub fn failed(error: &dyn std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }

    /// Errors of the host name its folders, which concern its user alone.
    pub(crate) fn told_to(self, user: &PageUser) -> Self {
        let is_fault = self.status == StatusCode::INTERNAL_SERVER_ERROR;
        if is_fault && user.principal().is_some() {
            return Self::new(self.status, "the host failed; its operator can tell why");
        }
        self
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
            p { a href="/" { "Back to the page" } }
        };
        let page = page("Problem", Place::Elsewhere, None, &body);
        (self.status, page).into_response()
    }
}

/// The document of a view.
pub(crate) fn page(
    title: &str,
    place: Place,
    shown: Option<&ShownPage<'_>>,
    body: &Markup,
) -> Response {
    let waiting = shown.map_or(0, |shown| shown.waiting);
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
                @if shown.is_some() { script type="module" src="/page.js" {} }
            }
            body {
                a class="skip" href="#main" { "Skip to content" }
                @if let Some(shown) = shown { (header(shown, place)) }
                main id="main" tabindex="-1" { (body) }
            }
        }
    };
    ([(CONTENT_TYPE, HTML)], document.into_string()).into_response()
}

fn header(shown: &ShownPage<'_>, place: Place) -> Markup {
    let ShownPage { user, waiting, .. } = shown;
    let is_here = |at: Place| (at == place).then_some("page");
    html! {
        header {
            nav aria-label="Views" {
                @for (at, href, name) in PLACES.into_iter().filter(|(at, ..)| at.is_for(shown)) {
                    a href=(href) aria-current=[is_here(at)] {
                        (name)
                        @if at == Place::Approvals {
                            " " span id="waiting" class="count" hidden[*waiting == 0] { (waiting) }
                        }
                    }
                }
                a href="/principal" class="said" aria-current=[is_here(Place::Principal)] {
                    @match user.principal() {
                        Some(own) => (line(&own.name)),
                        None => "Principals",
                    }
                }
            }
            @if user.principal().is_some() {
                form method="post" action="/leave" { button { "Sign out" } }
            }
            p id="live" class="live" role="status" {}
        }
    }
}

/// The form that takes a token of the server. `problem` says why the last one was refused.
pub fn sign_in(problem: Option<&str>) -> Response {
    let body = html! {
        h1 { "Sign in to toolcell" }
        @if let Some(problem) = problem { p role="alert" class="problem" { (line(problem)) } }
        form class="answer" method="post" action="/enter" {
            label {
                "Your token, or an access token"
                input type="password" name="token" required autocomplete="current-password";
            }
            p class="buttons" { button { "Sign in" } }
        }
    };
    let page = page("Sign in", Place::Elsewhere, None, &body);
    (StatusCode::UNAUTHORIZED, page).into_response()
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
