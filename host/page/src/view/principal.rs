//! A principal of a server, with its tools, grants, limits and quotas; for the user of the home, a list of all.

use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use super::{list, text};
use crate::layout::{PageProblem, Place, fact};
use crate::text::line;
use crate::{OwnPage, PagePrincipal, PageState};

pub(crate) async fn show(OwnPage(state): OwnPage) -> Result<Response, PageProblem> {
    let body = match (state.user.principal(), state.actions.commands()) {
        (Some(own), _) => of_one(own, &state.actions.facts()),
        (None, Some(commands)) => of_all(&commands.principals().await?),
        (None, None) => return Err(PageProblem::unknown("there is nothing here")),
    };
    let shown = move |state: &PageState| state.page("Principals", Place::Principal, &body);
    state.aside(shown).await
}

fn of_one(own: &PagePrincipal, facts: &[(&str, String)]) -> Markup {
    html! {
        h1 { "Principal " span class="said" { (line(&own.name)) } }
        section id="content" data-live="principal" {
            dl class="facts" {
                @for (name, value) in facts { (fact(name, &html! { span class="said" { (line(value)) } })) }
            }
        }
    }
}

fn of_all(principals: &[Value]) -> Markup {
    html! {
        h1 { "Principals" }
        @if principals.is_empty() {
            p class="empty" { "No caller of a server has rules of its own: " code { "[[principal]]" } " in toolcell.toml gives them." }
        } @else {
            div class="scroll" tabindex="0" {
                table {
                    thead { tr { @for name in ["Name", "Known by", "Tools", "Approves", "Quotas"] { th scope="col" { (name) } } } }
                    tbody { @for one in principals { (row(one)) } }
                }
            }
        }
    }
}

fn row(one: &Value) -> Markup {
    let texts = |field: &str| -> String {
        let texts = list(one, field).iter().filter_map(Value::as_str);
        line(&texts.collect::<Vec<_>>().join(", "))
    };
    let tokens = one
        .get("tokens")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    let has_all = one.get("tools").is_none_or(Value::is_null);
    html! {
        tr {
            td class="said" { (line(text(one, "name"))) }
            td class="said" {
                (crate::words::counted(tokens, "token"))
                @if !text(one, "issuer").is_empty() { ", " (line(text(one, "issuer"))) }
            }
            td class="said" { @if has_all { "all" } @else { (texts("tools")) } }
            td class="said" { (texts("approves")) }
            td { @for quota in list(one, "quotas") { (used(quota)) } }
        }
    }
}

fn used(quota: &Value) -> Markup {
    let number = |field: &str| quota.get(field).and_then(Value::as_f64);
    let limit = number("limit").unwrap_or_default();
    let name = text(quota, "name").replace('_', " ");
    html! {
        div {
            (line(&name)) ": "
            @if let Some(used) = number("used").map(|used| (used * 10.0).round() / 10.0) {
                (used) " of " (limit) " "
                meter min="0" max=(limit.max(1.0)) value=(used) aria-label=(line(&name)) {}
            } @else { (limit) }
        }
    }
}
