//! The list of calls: the latest first, filtered by the address.

use axum::extract::Query;
use axum::response::Response;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcell_journal::{CallQuery, CallSummary};
use toolcell_spec::{Status, Timestamp};

use super::moment;
use crate::layout::{PageProblem, Place, badge};
use crate::route::see;
use crate::text::{in_url, line};
use crate::{OwnPage, PageState, waiting};

const ROWS: usize = 100;
const STATUSES: [&str; 8] = [
    "awaiting_approval",
    "running",
    "succeeded",
    "failed",
    "denied",
    "blocked",
    "canceled",
    "timed_out",
];

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct CallFilters {
    tool: String,
    status: String,
    session: String,
    text: String,
    /// `TIME~ID` of the last call of the page before.
    before: String,
}

impl CallFilters {
    fn query(&self, caller: Option<String>) -> Result<CallQuery, PageProblem> {
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let status = given(&self.status).map(|status| {
            let status: Result<Status, _> = serde_json::from_value(Value::String(status));
            status.map_err(|_| PageProblem::bad("there is no such status; choose one of the list"))
        });
        let before = given(&self.before).map(|before| {
            let (time, id) = before.split_once('~').unwrap_or_default();
            let time: Result<Timestamp, _> = serde_json::from_value(Value::String(time.to_owned()));
            let wrong =
                |_| PageProblem::bad("the page of calls cannot be read: begin with the first");
            time.map(|time| (time, id.to_owned())).map_err(wrong)
        });
        Ok(CallQuery {
            caller,
            tool: given(&self.tool),
            status: status.transpose()?,
            session: given(&self.session),
            text: given(&self.text),
            before: before.transpose()?,
            limit: ROWS as u32 + 1,
            ..CallQuery::default()
        })
    }

    fn address(&self, before: &str) -> String {
        let fields = [
            ("tool", self.tool.as_str()),
            ("status", &self.status),
            ("session", &self.session),
            ("text", &self.text),
            ("before", before),
        ];
        let fields = fields.iter().filter(|(_, value)| !value.is_empty());
        let fields: Vec<String> = fields
            .map(|(name, value)| format!("{name}={}", in_url(value)))
            .collect();
        format!("/?{}", fields.join("&"))
    }

    fn is_empty(&self) -> bool {
        let fields = [&self.tool, &self.status, &self.session, &self.text];
        fields.iter().all(|field| field.is_empty())
    }
}

pub(crate) async fn show(
    OwnPage(state): OwnPage,
    Query(filters): Query<CallFilters>,
) -> Result<Response, PageProblem> {
    let work = move |state: &PageState| {
        if !state.user.is_caller() {
            return see("/approvals");
        }
        let query = filters.query(state.user.caller())?;
        let mut calls = state.log.calls(&query)?;
        waiting::add(&mut calls, &query, &state.journal)?;
        let evicted = match query.caller {
            None => state.log.evicted_calls()?,
            // The number is that of all callers.
            Some(_) => 0,
        };
        let body = body(&filters, &calls, evicted);
        state.page("Calls", Place::Calls, &body)
    };
    state.aside(work).await
}

fn body(filters: &CallFilters, calls: &[CallSummary], evicted: u64) -> Markup {
    let shown = calls.get(..ROWS).unwrap_or(calls);
    let older = shown.last().filter(|_| calls.len() > ROWS);
    let older = older.map(|call| format!("{}~{}", call.created_at, call.invocation_id));
    html! {
        h1 { "Calls" }
        (form(filters))
        section id="content" data-live="calls" {
            @if shown.is_empty() {
                p class="empty" {
                    @if filters.is_empty() { "No call is on record yet." }
                    @else { "No call matches. " a href="/" { "Show all calls" } }
                }
            } @else { (table(shown)) }
            nav class="pages" aria-label="Pages" {
                @if !filters.before.is_empty() { a href=(filters.address("")) { "Latest calls" } }
                @if let Some(older) = &older { a rel="next" href=(filters.address(older)) { "Older calls" } }
            }
            @if evicted > 0 && older.is_none() {
                p class="note" { (evicted) " earlier calls are no longer on record." }
            }
        }
    }
}

fn form(filters: &CallFilters) -> Markup {
    let field = |name: &str, label: &str, value: &str, hint: &str| {
        html! {
            label { (label) input name=(name) value=(value) placeholder=(hint) autocomplete="off"; }
        }
    };
    html! {
        form class="filters" method="get" action="/" role="search" {
            (field("text", "Text", &filters.text, "id, tool, caller, error"))
            (field("tool", "Tool", &filters.tool, "files.re*"))
            label {
                "Status"
                select name="status" {
                    option value="" { "any" }
                    @for status in STATUSES {
                        option value=(status) selected[filters.status == status] { (status.replace('_', " ")) }
                    }
                }
            }
            (field("session", "Session", &filters.session, "mcp:.."))
            button { "Filter" }
        }
    }
}

fn table(calls: &[CallSummary]) -> Markup {
    html! {
        div class="scroll" tabindex="0" {
            table class="calls" {
                thead {
                    tr {
                        @for name in ["Began", "Status", "Tool", "Took", "Caller", "Session"] {
                            th scope="col" { (name) }
                        }
                    }
                }
                tbody { @for call in calls { (row(call)) } }
            }
        }
    }
}

fn row(call: &CallSummary) -> Markup {
    let link = |name: &str, value: &Option<String>| {
        let value = value.as_deref();
        html! {
            @if let Some(value) = value {
                a href={ "/?" (name) "=" (in_url(value)) } { (line(value)) }
            }
        }
    };
    html! {
        tr {
            td { a class="open" href={ "/calls/" (in_url(&call.invocation_id)) } { (moment(&call.created_at)) } }
            td { (badge(&call.status)) @if let Some(code) = &call.error_code { " " span class="code" { (line(code)) } } }
            td class="said" { (line(&call.tool_id)) }
            td class="number" { @if let Some(ms) = call.elapsed_ms { (ms) " ms" } }
            td class="said" { @if let Some(caller) = &call.caller { (line(caller)) } }
            td class="said" { (link("session", &call.session)) }
        }
    }
}
