//! The machines of a cluster, for the user of the home: workers, tools that differ between them, and calls that are open.

use std::collections::BTreeMap;

use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use super::{list, moment, text};
use crate::layout::{PageProblem, Place};
use crate::text::line;
use crate::words::counted;
use crate::{OwnPage, PageState};

/// Rows of one table.
const ROWS_MAX: usize = 1_000;

pub(crate) async fn show(OwnPage(state): OwnPage) -> Result<Response, PageProblem> {
    let commands = state.actions.commands();
    let Some(commands) = commands.filter(|commands| commands.has_machines()) else {
        return Err(PageProblem::unknown("there is nothing here"));
    };
    let body = of_cluster(&commands.machines().await?);
    let shown = move |state: &PageState| state.page("Machines", Place::Machines, &body);
    state.aside(shown).await
}

fn of_cluster(cluster: &Value) -> Markup {
    let (workers, calls) = (list(cluster, "workers"), list(cluster, "calls"));
    let tools = components(workers);
    html! {
        h1 { "Machines" }
        p { "NATS " span class="said" { (line(text(cluster, "server"))) } ", " (counted(number(cluster, "queued"), "call")) " in the queue." }
        @if workers.is_empty() {
            p class="empty" { "No worker is there: " code { "toolcell work" } " on a machine makes one of it." }
        } @else {
            (table(&["Worker", "toolcell", "Protocol", "Busy places", "State", "Tools"], workers.iter().map(worker)))
            h2 { "Tools that differ" }
            @if tools.is_empty() { p class="empty" { "All workers have the same tools." } }
            @else { (table(&["Tool", "Component", "Workers"], tools.iter().map(component))) }
        }
        h2 { "Open calls" }
        @if calls.is_empty() { p class="empty" { "No call is open." } }
        @else { (table(&["Call", "Tool", "Stage", "Worker", "Last change"], calls.iter().map(call))) }
    }
}

fn table(names: &[&str], rows: impl ExactSizeIterator<Item = Markup>) -> Markup {
    let more = rows.len().saturating_sub(ROWS_MAX);
    html! {
        div class="scroll" tabindex="0" {
            table {
                thead { tr { @for name in names { th scope="col" { (name) } } } }
                tbody { @for row in rows.take(ROWS_MAX) { tr { (row) } } }
            }
        }
        @if more > 0 { p { ".. and " (more) " more" } }
    }
}

fn worker(worker: &Value) -> Markup {
    let drains = worker.get("drains").and_then(Value::as_bool);
    html! {
        td class="said" { (line(text(worker, "name"))) }
        td class="said" { (line(text(worker, "version"))) }
        td class="number" { (number(worker, "protocol")) }
        td class="number" { (number(worker, "busy")) " of " (number(worker, "places")) }
        td { @if drains == Some(true) { "takes no more calls" } @else { "takes calls" } }
        td class="number" { (list(worker, "tools").len()) }
    }
}

/// The workers of each component of a tool, for tools that not all have in the same version.
fn components(workers: &[Value]) -> Vec<((&str, &str), Vec<&str>)> {
    let mut all = BTreeMap::<(&str, &str), Vec<&str>>::new();
    for worker in workers {
        for tool in list(worker, "tools") {
            let one = (text(tool, "name"), text(tool, "component"));
            all.entry(one).or_default().push(text(worker, "name"));
        }
    }
    all.retain(|_, have| have.len() < workers.len());
    all.into_iter().collect()
}

fn component(((tool, component), workers): &((&str, &str), Vec<&str>)) -> Markup {
    html! {
        td class="said" { (line(tool)) }
        td class="said" { (line(component)) }
        td class="said" { (line(&workers.join(", "))) }
    }
}

fn call(call: &Value) -> Markup {
    let stage = call.get("stage").unwrap_or(&Value::Null);
    let holder = stage.get("holder").unwrap_or(&Value::Null);
    html! {
        td class="said" { (line(text(call, "call"))) }
        td class="said" { (line(text(call, "tool"))) }
        td { (line(text(stage, "stage"))) }
        td class="said" { (line(text(holder, "worker"))) }
        td { (moment(text(call, "changed_at"))) }
    }
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or_default()
}
