//! A recorded call, run again without any grant.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use super::super::{list, text};
use super::find;
use crate::json_tree::tree;
use crate::layout::{PageProblem, Place, page};
use crate::route::see;
use crate::text::{in_url, line};
use crate::{PageState, live};

/// A call that takes longer is found in the list.
const PATIENCE: Duration = Duration::from_secs(10);

/// For a call that ended.
pub(super) fn offer(invocation: &Value) -> Markup {
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
    State(state): State<Arc<PageState>>,
    Path(id): Path<String>,
) -> Result<Response, PageProblem> {
    let record = state.aside(move |state| find(state, &id)).await?;
    let invocation = record.get("invocation").unwrap_or(&Value::Null);
    let id = text(invocation, "invocation_id");
    let words = ["replay", id, "--json"].map(str::to_owned);
    let ran = state.program.run(&words, Vec::new(), PATIENCE).await;
    let Some(ran) = ran.map_err(|error| PageProblem::failed(&error))? else {
        return see("/");
    };
    let report: Option<Value> = serde_json::from_slice(&ran.stdout).ok();
    let report = report.ok_or_else(|| PageProblem::new(StatusCode::CONFLICT, ran.said()))?;
    let body = told(id, &report);
    let waiting = state.aside(live::waiting).await?;
    Ok(page("Replay", Place::Calls, waiting, &body))
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
