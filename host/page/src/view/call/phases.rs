//! The phases of a call as a waterfall, and its events as sentences.

use maud::{Markup, html};
use serde_json::Value;
use toolcell_spec::Timestamp;

use super::super::{list, text, time};
use crate::text::line;
use crate::words::sentence;

const WIDTH: f64 = 100.0;
/// So that a short phase is seen.
const NARROWEST: f64 = 0.5;
const EVENTS_MAX: usize = 1_000;

struct Phase<'a> {
    name: &'a str,
    begins: u64,
    lasts: u64,
}

pub(super) fn show(record: &Value) -> Markup {
    let invocation = record.get("invocation").unwrap_or(&Value::Null);
    let Some(began) = invocation.get("created_at").and_then(time) else {
        return html! {};
    };
    let phases = phases(invocation, began);
    let end = phases.iter().map(|phase| phase.begins + phase.lasts).max();
    let total = end.unwrap_or(0).max(1);
    html! {
        section aria-labelledby="phases" {
            h2 id="phases" { "Phases" }
            div class="scroll" tabindex="0" {
            table class="phases" {
                thead { tr { th scope="col" { "Phase" } th scope="col" class="number" { "Begins" } th scope="col" class="number" { "Takes" } td {} } }
                tbody {
                    @for phase in &phases { (row(phase, total)) }
                }
            }
            }
            (events(record, began))
        }
    }
}

/// A status lasts until the next one; the last of a call that runs, until now.
fn phases(invocation: &Value, began: Timestamp) -> Vec<Phase<'_>> {
    let transitions = list(invocation, "status_transitions");
    let mut phases = Vec::new();
    let mut name = "planned";
    let mut from = 0;
    for transition in transitions {
        let at = transition.get("at").and_then(time);
        let at = at.map_or(from, |at| at.millis_since(began));
        phases.push(Phase {
            name,
            begins: from,
            lasts: at.saturating_sub(from),
        });
        name = text(transition, "to");
        from = at;
    }
    if invocation.get("ended_at").is_none_or(Value::is_null) {
        let lasts = Timestamp::now().millis_since(began).saturating_sub(from);
        phases.push(Phase {
            name,
            begins: from,
            lasts,
        });
    }
    phases
}

fn row(phase: &Phase<'_>, total: u64) -> Markup {
    let part = |ms: u64| ms as f64 * WIDTH / total as f64;
    let width = part(phase.lasts).max(NARROWEST);
    let x = part(phase.begins).min(WIDTH - width);
    html! {
        tr {
            th scope="row" { (line(&phase.name.replace('_', " "))) }
            td class="number" { (phase.begins) " ms" }
            td class="number" { (phase.lasts) " ms" }
            td class="bar" {
                svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" {
                    rect class={ "phase " (phase.name) } x=(format!("{x:.2}")) y="0" width=(format!("{width:.2}")) height="4" {}
                }
            }
        }
    }
}

fn events(record: &Value, began: Timestamp) -> Markup {
    let events = list(record, "events");
    let more = events.len().saturating_sub(EVENTS_MAX);
    html! {
        details {
            summary { (events.len()) " events" }
            ol class="events" {
                @for event in events.iter().take(EVENTS_MAX) {
                    @let at = event.get("time").and_then(time).map_or(0, |at| at.millis_since(began));
                    li { span class="number" { (at) " ms" } " " span class="said" { (line(&sentence(event))) } }
                }
                @if more > 0 { li { ".. and " (more) " more" } }
            }
        }
    }
}
