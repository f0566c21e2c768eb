use serde_json::{Value, json};
use toolcell_engine::approval::PromptSheet;
use toolcell_journal::{StoredApproval, Summary};
use toolcell_spec::text::{Whitespace, visible};
use toolcell_spec::{Answer, Approval, ApprovalState, InvocationId};

use super::id::short;
use super::{ApprovalCommands, unknown};
use crate::exit::Exit;
use crate::show;

const ROWS_MAX: usize = 4;

impl ApprovalCommands {
    pub(super) fn list(&self, all: bool, json: bool) -> anyhow::Result<Exit> {
        let found = if self.journal.exists() {
            self.close_unattended()?;
            self.journal.with(|store| store.list(all))?
        } else {
            Vec::new()
        };
        if json {
            return show::print_json(&json!({ "approvals": found }));
        }
        if found.is_empty() {
            return show::print("no pending approvals\n");
        }
        // An id is shortened among all of them, because its end has to name it among all of them.
        let known = self.journal.with(|store| store.list(true))?;
        let known: Vec<String> = known
            .iter()
            .map(|call| call.invocation_id.to_string())
            .collect();
        let mut text = String::new();
        for call in &found {
            text += &line(call, &known, &self.lead(call)?);
        }
        show::print(text)
    }

    fn lead(&self, call: &Summary) -> anyhow::Result<String> {
        if call.state != ApprovalState::Pending {
            return Ok(String::new());
        }
        let kept = self.journal.with(|store| store.kept(call.invocation_id))?;
        Ok(kept.map(|kept| lead_of(&prompt(&kept))).unwrap_or_default())
    }

    pub(super) fn forget(&self, json: bool) -> anyhow::Result<Exit> {
        let forgotten = if self.journal.exists() {
            self.journal.with(|store| store.forget_sessions())?
        } else {
            0
        };
        if json {
            return show::print_json(&json!({ "forgotten": forgotten }));
        }
        let forgotten = show::counted(forgotten as u64, "approval");
        show::print(format!("{forgotten} for a session forgotten\n"))
    }

    pub(super) fn show(&self, id: InvocationId, full: bool, json: bool) -> anyhow::Result<Exit> {
        if !self.journal.exists() {
            return Err(unknown(id));
        }
        self.close_unattended()?;
        let kept = self
            .journal
            .with(|store| store.kept(id))?
            .ok_or_else(|| unknown(id))?;
        if json {
            show::print_json(&record(&kept)?)
        } else {
            show::print(for_people(&kept, full))
        }
    }
}

fn lead_of(prompt: &str) -> String {
    let mut rows = prompt.lines().skip_while(|row| !row.starts_with("| call "));
    let first = rows.next().into_iter();
    first
        .chain(rows.take_while(|row| row.starts_with("|  ")))
        .map(|row| format!("{row}\n"))
        .collect()
}

fn line(call: &Summary, known: &[String], lead: &str) -> String {
    // Untrusted text gets rows of its own, so that it cannot pass for the next call.
    let mut sheet = PromptSheet::new(show::columns());
    let id = call.invocation_id.to_string();
    let id = short(&id, known);
    sheet.host(&match call.state {
        ApprovalState::Pending => format!("{id}  waits for an answer until {}", call.expires_at),
        state => format!("{id}  {state}"),
    });
    if lead.is_empty() {
        sheet.value("tool", &call.tool_id, ROWS_MAX)
    } else {
        sheet.rows_of(lead)
    }
    if let Some(actor) = &call.actor_ref {
        sheet.value("caller", actor, ROWS_MAX);
    }
    sheet.into_text()
}

pub(super) fn record(kept: &StoredApproval) -> anyhow::Result<Value> {
    let mut result: Option<Value> = kept
        .result
        .as_deref()
        .map(serde_json::from_str)
        .transpose()?;
    result.iter_mut().for_each(show::represent_again);
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

fn approval(kept: &StoredApproval) -> Approval {
    let mut approval = kept.approval.clone();
    if let Some(shown) = &approval.plan.shown_input {
        approval.plan.permission_input.clone_from(shown);
        approval.plan.model_input.clone_from(shown);
        // A short value can be guessed from its digest.
        "[redacted]".clone_into(&mut approval.binding.arguments);
    }
    approval.plan.reference_key = None;
    approval
}

/// Redacted for display: if the arguments are hidden, so are the edit and the note.
fn answer(kept: &StoredApproval) -> Option<Answer> {
    let hidden = kept.approval.plan.shown_input.is_some();
    kept.answer.clone().map(|answer| Answer {
        edit: answer.edit.filter(|_| !hidden),
        feedback: answer.feedback.filter(|_| !hidden),
        ..answer
    })
}

fn prompt(kept: &StoredApproval) -> String {
    let prompt: String = kept
        .approval
        .prompt
        .iter()
        .filter_map(|block| block.as_text())
        .collect();
    visible(&prompt, Whitespace::Kept)
}

fn for_people(kept: &StoredApproval, full: bool) -> String {
    let mut sheet = PromptSheet::new(show::columns());
    let rows_max = if full { usize::MAX } else { ROWS_MAX };
    if full {
        sheet.host("All of the arguments:");
        sheet.value("in full", &approval(kept).plan.permission_input, usize::MAX);
    }
    // The prompt has rows with a gutter already; this display may be narrower than the one that showed it.
    sheet.rows_of(prompt(kept).trim_end());
    sheet.host(&format!(
        "now: {}, {}",
        kept.state,
        kept.invocation.status().as_str()
    ));
    if let Some(answer) = &answer(kept) {
        let verb = if answer.approved {
            "approved"
        } else {
            "denied"
        };
        sheet.host(&format!("{verb} at {}", answer.answered_at));
        sheet.value("by", &answer.approver, ROWS_MAX);
        sheet.value("through", &answer.channel, ROWS_MAX);
        for (name, said) in [("edit", &answer.edit), ("note", &answer.feedback)] {
            if let Some(said) = said {
                sheet.value(name, said, rows_max);
            }
        }
    }
    if let Some(result) = &kept.result {
        sheet.value("result", result, rows_max);
    }
    sheet.into_text()
}
