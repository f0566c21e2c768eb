//! The parts of a call's record: who, why, with what, and how much of its limits.

use maud::{Markup, html};
use serde_json::Value;

use super::super::{list, moment, text, time};
use crate::PageState;
use crate::diff::{between, edits};
use crate::json_tree::{tree, whole};
use crate::layout::{badge, fact};
use crate::text::{in_url, laid_out, line};
use crate::words::quoted;

const CHILDREN_MAX: usize = 200;
const PROGRESS_MAX: usize = 500;
const TOUCHED_MAX: usize = 500;
/// The rules of a decision that are options of a call.
const GRANT: &str = "--allow-";

pub(super) fn head(state: &PageState, invocation: &Value) -> Markup {
    let id = text(invocation, "invocation_id");
    let status = text(invocation, "status");
    let times = ["created_at", "ended_at"].map(|name| invocation.get(name).and_then(time));
    let took = match times {
        [Some(began), Some(ended)] => format!("{} ms", ended.millis_since(began)),
        _ => String::new(),
    };
    let linked = |name: &str| {
        let other = invocation.get(name).and_then(Value::as_str);
        other.map(|other| html! { a href={ "/calls/" (in_url(other)) } { (line(other)) } })
    };
    let waits = status == "awaiting_approval"
        && state.journal.exists()
        && state
            .user
            .answers(invocation.get("actor_ref").and_then(Value::as_str));
    html! {
        dl class="facts" {
            (fact("Status", &html! { (badge(status)) @if !took.is_empty() { " after " (took) } }))
            @if waits { (fact("Approval", &html! { a href={ "/approvals/" (in_url(id)) } { "Answer the question" } })) }
            (fact("Id", &html! { code { (line(id)) } }))
            (fact("Began", &html! { (moment(text(invocation, "created_at"))) }))
            @for (label, name) in [("Caller", "actor_ref"), ("Session", "session_ref")] {
                @if let Some(value) = invocation.get(name).and_then(Value::as_str) {
                    (fact(label, &html! { span class="said" { (line(value)) } }))
                }
            }
            @if let Some(link) = linked("replay_of") { (fact("Replay of", &link)) }
            @for (name, label) in [("runtime_refs", "Ran with")] {
                @let values: Vec<String> = list(invocation, name).iter().filter_map(Value::as_str).map(line).collect();
                @if !values.is_empty() { (fact(label, &html! { span class="said" { (values.join(", ")) } })) }
            }
        }
        (command(invocation))
        p { a href=(whole(id, "record")) { "Record as JSON" } }
    }
}

/// The call as a command. The name of the tool is the one that it is installed as, most often.
fn command(invocation: &Value) -> Markup {
    let tool_id = text(invocation, "tool_id");
    let tool = tool_id.replacen('.', "#", 1);
    let input = invocation
        .get("model_input")
        .filter(|input| input.is_object());
    let Some(input) = input else {
        return html! {};
    };
    let rules = list(invocation, "policy_refs").iter();
    let rules = rules.filter_map(Value::as_str);
    let grants: Vec<String> = rules
        .filter(|rule| rule.starts_with(GRANT))
        .map(quoted)
        .collect();
    let mut words = vec!["toolcell call".to_owned()];
    words.extend(grants);
    // A caller chose the name: it is no option.
    words.extend(["--".to_owned(), quoted(&tool), quoted(&input.to_string())]);
    let command = words.join(" ");
    html! {
        @if command.len() <= 4_000 {
            p class="command" {
                code id="command" class="said" { (toolcell_spec::text::visible(&command, toolcell_spec::text::Whitespace::WrittenOut)) }
                " " button type="button" data-copy="command" hidden { "Copy" }
            }
        }
    }
}

pub(super) fn decisions(record: &Value) -> Markup {
    html! {
        section aria-labelledby="decision" {
            h2 id="decision" { "Decision" }
            @for decision in list(record, "decisions") { (one_decision(decision)) }
            @if list(record, "decisions").is_empty() { p class="empty" { "Nothing was decided: the call ended before." } }
            (denied(record))
            (hooks(record))
        }
    }
}

fn one_decision(decision: &Value) -> Markup {
    let reason = decision.get("reason").unwrap_or(&Value::Null);
    let verdict = match text(decision, "behavior") {
        "allow" => "allowed",
        "deny" => "denied",
        "ask" => "needs an approval",
        other => other,
    };
    let words = |name: &str| -> Vec<String> {
        let values = list(decision, name).iter().filter_map(Value::as_str);
        values.map(line).collect()
    };
    let shown = |label: &str, values: Vec<String>| {
        html! {
            @if !values.is_empty() {
                (fact(label, &html! { @for value in values { code class="said" { (value) } " " } }))
            }
        }
    };
    html! {
        p { strong { (line(verdict)) } ": " span class="said" { (line(text(reason, "message"))) } }
        dl class="facts" {
            (shown("Rules that matched", words("rule_refs")))
            (shown("Granted and applied", words("policy_refs")))
            (shown("Narrowed", words("notes")))
            @for (label, name) in [("Sandbox", "sandbox_profile"), ("Blocked", "blocked_path"), ("Mode", "mode"),
                ("Decided by", "source"), ("Approver", "approver_ref")] {
                @if let Some(value) = decision.get(name).and_then(Value::as_str) {
                    (fact(label, &html! { span class="said" { (line(&value.replace('_', " "))) } }))
                }
            }
        }
    }
}

/// Refusals of the sandbox while the call ran.
fn denied(record: &Value) -> Markup {
    let events = list(record, "events").iter();
    let refused: Vec<&Value> = events
        .filter(|event| text(event, "event_type") == "tool.sandbox.denied")
        .filter_map(|event| event.get("data"))
        .collect();
    html! {
        @if !refused.is_empty() {
            h3 { "Refused by the sandbox" }
            ul {
                @for data in refused.iter().take(TOUCHED_MAX) {
                    li class="said" {
                        (line(text(data, "capability"))) ": " (line(text(data, "target"))) " (" (line(text(data, "rule"))) ")"
                    }
                }
            }
        }
    }
}

fn hooks(record: &Value) -> Markup {
    let hooks = list(record, "hooks");
    html! {
        @if !hooks.is_empty() {
            h3 { "Hooks" }
            ul { @for hook in hooks { li class="said" { (line(text(hook, "hook_id"))) ": " (line(text(hook, "outcome"))) } } }
        }
    }
}

pub(super) fn arguments(record: &Value) -> Markup {
    let invocation = record.get("invocation").unwrap_or(&Value::Null);
    let id = text(invocation, "invocation_id");
    let sent = invocation.get("model_input").unwrap_or(&Value::Null);
    let called = invocation
        .get("call_input")
        .or(invocation.get("permission_input"));
    let changed = called.filter(|called| *called != sent);
    let changed = changed.and_then(|called| between(&laid_out(sent), &laid_out(called)));
    let result = record.get("result").unwrap_or(&Value::Null);
    html! {
        section aria-labelledby="arguments" {
            h2 id="arguments" { "Arguments" }
            (tree(sent, Some(&whole(id, "arguments"))))
            @for edit in edits(sent) { h3 { "Edit" } (edit) }
            @if let Some(changed) = changed {
                h3 { "Changed before the call" }
                (changed)
                ul {
                    @for mutation in list(result, "input_mutations") {
                        li class="said" {
                            (line(text(mutation, "source_type"))) " " (line(text(mutation, "source_ref")))
                            @if !text(mutation, "reason").is_empty() { ": " (line(text(mutation, "reason"))) }
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn progress(record: &Value) -> Markup {
    let updates = list(record, "progress");
    html! {
        @if !updates.is_empty() {
            section aria-labelledby="progress" {
                h2 id="progress" { "Progress" }
                ol class="events" {
                    @for update in updates.iter().take(PROGRESS_MAX) {
                        @let said = update.get("message").or(update.get("current_step")).and_then(Value::as_str);
                        li {
                            @if let Some(percent) = update.get("percent").and_then(Value::as_f64) {
                                progress max="100" value=(percent) aria-label="Progress" {} " " (percent.round()) " % "
                            }
                            span class="said" { (line(said.unwrap_or_default())) }
                        }
                    }
                    @if updates.len() > PROGRESS_MAX { li { ".. and " (updates.len() - PROGRESS_MAX) " more" } }
                }
            }
        }
    }
}

pub(super) fn usage(result: &Value) -> Markup {
    let Some(usage) = result.get("usage").and_then(Value::as_object) else {
        return html! {};
    };
    let own = usage.iter().map(|(name, meter)| (name.clone(), meter));
    let inner = ["files", "network", "artifacts"]
        .into_iter()
        .flat_map(|group| {
            let fields = usage.get(group).and_then(Value::as_object);
            let fields = fields.into_iter().flatten();
            fields.map(move |(name, meter)| (format!("{group} {name}"), meter))
        });
    let meters = own.chain(inner).filter_map(|(name, meter)| {
        let used = meter.get("used")?.as_u64()?;
        Some((name.replace('_', " "), used, meter.get("limit")?.as_u64()?))
    });
    let meters: Vec<(String, u64, u64)> = meters.collect();
    html! {
        section aria-labelledby="usage" {
            h2 id="usage" { "Usage" }
            div class="scroll" tabindex="0" {
            table class="usage" {
                thead { tr { th scope="col" { "Of" } th scope="col" class="number" { "Used" } th scope="col" class="number" { "Limit" } td {} } }
                tbody {
                    @for (name, used, limit) in &meters {
                        tr {
                            th scope="row" { (line(name)) }
                            td class="number" { (used) }
                            td class="number" { (limit) }
                            td { meter min="0" max=((*limit).max(1)) value=(used) aria-label=(format!("{name} used")) {} }
                        }
                    }
                }
            }
            }
            (touched(result))
        }
    }
}

fn touched(result: &Value) -> Markup {
    let touched = result.pointer("/usage/touched").unwrap_or(&Value::Null);
    let things = list(touched, "listed");
    let more = touched.get("more").and_then(Value::as_u64).unwrap_or(0);
    html! {
        @if !things.is_empty() {
            h3 { "Files and requests" }
            ul {
                @for thing in things.iter().take(TOUCHED_MAX) {
                    li class="said" { (line(text(thing, "how"))) " " (line(text(thing, "what"))) }
                }
                @if more > 0 { li { ".. and " (more) " more" } }
            }
        }
        @if let Some(changes) = result.get("workspace") {
            h3 { "Workspace" }
            (tree(changes, None))
        }
    }
}

pub(super) fn family(state: &PageState, invocation: &Value) -> Markup {
    let parent = invocation
        .get("parent_invocation_id")
        .and_then(Value::as_str);
    let children = list(invocation, "child_invocation_ids").iter();
    let children: Vec<&str> = children.filter_map(Value::as_str).collect();
    if parent.is_none() && children.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="family" {
            h2 id="family" { "Calls above and below" }
            ul {
                @if let Some(parent) = parent { li { "Made by " (relative(state, parent)) } }
                @for child in children.iter().take(CHILDREN_MAX) { li { "Called " (relative(state, child)) } }
                @if children.len() > CHILDREN_MAX { li { ".. and " (children.len() - CHILDREN_MAX) " more" } }
            }
        }
    }
}

fn relative(state: &PageState, id: &str) -> Markup {
    let record = super::find(state, id).unwrap_or_default();
    let invocation = record.get("invocation").unwrap_or(&Value::Null);
    html! {
        a href={ "/calls/" (in_url(id)) } { (line(id)) }
        " " span class="said" { (line(text(invocation, "tool_id"))) } " " (badge(text(invocation, "status")))
    }
}
