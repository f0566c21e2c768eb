use std::io::Write;

use serde_json::{Value, json};

use crate::host::{Kept, Summary, Whitespace, visible};
use crate::record::{Answer, Approval, InvocationId};

use super::super::exit::Exit;
use super::super::show;
use super::{Desk, unknown};

impl Desk {
    pub(super) fn list(&self, all: bool, json: bool) -> anyhow::Result<Exit> {
        let found = if self.journal.exists() {
            self.close_unattended()?;
            self.journal.with(|store| store.list(all))?
        } else {
            Vec::new()
        };
        let text = match json {
            true => format!("{}\n", json!({ "approvals": found })),
            false if found.is_empty() => "nothing waits for an approval\n".to_owned(),
            false => found.iter().map(line).collect(),
        };
        std::io::stdout().write_all(text.as_bytes()).map(|()| Exit::Succeeded).or_else(show::closed)
    }

    pub(super) fn forget(&self, json: bool) -> anyhow::Result<Exit> {
        let forgotten = if self.journal.exists() { self.journal.with(|store| store.forget_sessions())? } else { 0 };
        let text = match json {
            true => format!("{}\n", json!({ "forgotten": forgotten })),
            false => format!("{forgotten} approvals for sessions forgotten\n"),
        };
        std::io::stdout().write_all(text.as_bytes()).map(|()| Exit::Succeeded).or_else(show::closed)
    }

    pub(super) fn show(&self, id: InvocationId, full: bool, json: bool) -> anyhow::Result<Exit> {
        if !self.journal.exists() {
            return Err(unknown(id));
        }
        self.close_unattended()?;
        let kept = self.journal.with(|store| store.kept(id))?.ok_or_else(|| unknown(id))?;
        let text = if json { format!("{}\n", record(&kept)?) } else { for_people(&kept, full) };
        std::io::stdout().write_all(text.as_bytes()).map(|()| Exit::Succeeded).or_else(show::closed)
    }
}

fn line(summary: &Summary) -> String {
    let Summary { invocation_id, tool_id, state, expires_at, actor_ref, .. } = summary;
    let one_line = |text: &str| visible(text, Whitespace::WrittenOut);
    let caller = actor_ref.as_deref().map(|actor| format!(", called by {}", one_line(actor))).unwrap_or_default();
    format!("{invocation_id}  {state:<9}  {}, open until {expires_at}{caller}\n", one_line(tool_id))
}

/// Everything that is stored, as the records that it was stored as.
pub(super) fn record(kept: &Kept) -> anyhow::Result<Value> {
    let result: Option<Value> = kept.result.as_deref().map(serde_json::from_str).transpose()?;
    Ok(json!({
        "state": kept.state,
        "approval": approval(kept),
        "answer": answer(kept),
        "invocation": kept.invocation,
        "decisions": kept.history.decisions,
        "mutations": kept.history.mutations,
        "hooks": kept.history.hook_runs,
        "events": kept.history.events,
        "result": result,
    }))
}

/// The approval as it may be shown.
fn approval(kept: &Kept) -> Approval {
    let mut approval = kept.approval.clone();
    if let Some(shown) = &approval.plan.shown_input {
        approval.plan.permission_input.clone_from(shown);
        approval.plan.model_input.clone_from(shown);
        // The digest of a short value is as good as the value.
        "[redacted]".clone_into(&mut approval.binding.arguments);
    }
    approval.plan.reference_key = None;
    approval
}

/// The answer as it may be shown: what was said of arguments that are not shown is not shown either.
fn answer(kept: &Kept) -> Option<Answer> {
    let hidden = kept.approval.plan.shown_input.is_some();
    kept.answer.clone().map(|answer| Answer {
        edit: answer.edit.filter(|_| !hidden),
        feedback: answer.feedback.filter(|_| !hidden),
        ..answer
    })
}

fn for_people(kept: &Kept, full: bool) -> String {
    let one_line = |text: &str| visible(text, Whitespace::WrittenOut);
    let mut text: String = kept.approval.prompt.iter().filter_map(|block| block.as_text()).collect();
    if full {
        text.push_str(&format!("  in full    {}\n", one_line(&approval(kept).plan.permission_input)));
    }
    text.push_str(&format!("  now        {}, {}\n", kept.state, kept.invocation.status().as_str()));
    if let Some(answer) = &answer(kept) {
        let verb = if answer.approved { "approved" } else { "denied" };
        let by = one_line(&answer.approver);
        text.push_str(&format!(
            "  answer     {verb} by {by} ({}) at {}\n",
            one_line(&answer.channel),
            answer.answered_at
        ));
        for (name, said) in [("edit", &answer.edit), ("note", &answer.feedback)] {
            if let Some(said) = said {
                text.push_str(&format!("  {name:<10} {}\n", one_line(said)));
            }
        }
    }
    if let Some(result) = &kept.result {
        text.push_str(&format!("  result     {}\n", one_line(result)));
    }
    text
}
