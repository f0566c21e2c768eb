//! A recorded call, run again without any grant.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use super::super::{list, text};
use super::find;
use crate::json_tree::tree;
use crate::layout::{PageProblem, Place};
use crate::route::see;
use crate::text::{in_url, line};
use crate::{OwnPage, PageState};

/// For a call that ended.
pub(super) fn offer(state: &PageState, invocation: &Value) -> Markup {
    if state.actions.commands().is_none() {
        return html! {};
    }
    let id = text(invocation, "invocation_id");
    let replay = invocation.get("replay").unwrap_or(&Value::Null);
    let blocked = list(replay, "blocked_by").iter().filter_map(Value::as_str);
    let blocked: Vec<String> = blocked.map(|word| word.replace('_', " ")).collect();
    html! {
        @if invocation.get("ended_at").is_some_and(|at| !at.is_null()) {
            @if blocked.is_empty() {
                form method="post" action={ "/calls/" (in_url(id)) "/replay" } { button { "Replay" } }
            } @else { p class="note" { "It cannot be replayed: " (line(&blocked.join(", "))) "." } }
        }
    }
}

pub(crate) async fn run(
    OwnPage(state): OwnPage,
    Path(id): Path<String>,
) -> Result<Response, PageProblem> {
    let unknown = || PageProblem::unknown("calls are replayed by a command of toolcell alone");
    let commands = state.actions.commands().ok_or_else(unknown)?;
    let record = state.aside(move |state| find(state, &id)).await?;
    let invocation = record.get("invocation").unwrap_or(&Value::Null);
    let id = text(invocation, "invocation_id");
    let Some(report) = commands.replay(id).await? else {
        return see("/");
    };
    let body = told(id, &report);
    let shown = move |state: &PageState| state.page("Replay", Place::Calls, &body);
    state.aside(shown).await
}

fn told(id: &str, report: &Value) -> Markup {
    let verdict = match text(report, "verdict") {
        "same" => "The output of the replay is the same.",
        "differs" => "The output of the replay differs.",
        _ => "The call cannot be replayed.",
    };
    let new = text(report, "invocation_id");
    html! {
        h1 { "Replay" }
        p { strong { (verdict) } }
        @if let Some(difference) = report.get("difference") { (tree(difference, None)) }
        ul {
            @for reason in list(report, "reasons") { li class="said" { (line(text(reason, "message"))) } }
            li { a href={ "/calls/" (in_url(id)) } { "The recorded call" } }
            @if !new.is_empty() { li { a href={ "/calls/" (in_url(new)) } { "The replay" } } }
        }
    }
}
