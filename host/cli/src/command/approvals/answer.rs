use std::time::Duration;

use serde_json::json;
use toolcell_engine::approval::legible;
use toolcell_journal::{AnswerOutcome, Role, StoredApproval};
use toolcell_spec::{Answer, ApprovalState, InvocationId, Timestamp};

use crate::ask;
use crate::exit::{BadRequest, Exit};
use crate::show::{self, Form};

use super::{ApprovalCommands, Approve, unknown};

const LOOK_EVERY: Duration = Duration::from_millis(50);

impl ApprovalCommands {
    /// Ensures that the answer takes effect: in the waiting process, or here if that has exited.
    pub(super) fn answer(&self, words: Approve, approved: bool) -> anyhow::Result<Exit> {
        let id = self.find(&words.id)?;
        if !self.journal.exists() || self.journal.with(|store| store.standing(id))?.is_none() {
            return Err(unknown(id));
        }
        // Only one process at a time answers a call, so an approved call that is not claimed has a living process that
        // waits for it, or is orphaned.
        let Some(answering) = self.journal.hold(id, Role::Approver)? else {
            return refused(&format!("another process is answering {id} right now"));
        };
        self.close_unattended()?;
        let done = self.answer_alone(id, words, approved);
        answering.retire();
        done
    }

    fn answer_alone(
        &self,
        id: InvocationId,
        words: Approve,
        approved: bool,
    ) -> anyhow::Result<Exit> {
        if approved {
            self.check(id, words.edit.as_deref(), words.accept_partial_view)?;
        }
        let again = approved && words.edit.is_none() && !words.always && words.feedback.is_none();
        let answer = Answer {
            approved,
            approver: ask::principal(),
            channel: "command".to_owned(),
            edit: words.edit,
            feedback: words.feedback,
            always: words.always,
            answered_at: Timestamp::now(),
        };
        match self.journal.with(|store| store.answer(id, &answer))? {
            AnswerOutcome::Taken => {}
            // Approved earlier, by a process that ended before the call ran: it can still run, once.
            AnswerOutcome::TooLate(ApprovalState::Approved)
                if again && self.journal.hold(id, Role::Runner)?.is_some() => {}
            AnswerOutcome::TooLate(state) => {
                return refused(&format!(
                    "{id} is not open: it is {state}; nothing was changed, and nothing ran"
                ));
            }
            AnswerOutcome::OwnCall => {
                let caller = &answer.approver;
                return refused(&format!("{caller} called {id}, and so cannot approve it"));
            }
            AnswerOutcome::Unknown => return Err(unknown(id)),
        }
        self.see_to_it(id, words.json)
    }

    /// Refuses an edit that the tool rejects, or an approval without `--accept-partial-view` of a question that shows
    /// only a part of the call.
    fn check(
        &self,
        id: InvocationId,
        edit: Option<&str>,
        accept_partial_view: bool,
    ) -> anyhow::Result<()> {
        let open = |kept: &StoredApproval| kept.state == ApprovalState::Pending;
        let Some(kept) = self.journal.with(|store| store.kept(id))?.filter(open) else {
            return Ok(());
        };
        if kept.approval.cut && !accept_partial_view {
            let message = format!(
                "the question shows a part of the call only; read all of it with `toolcell approvals show {id} --full`, \
                 then approve it with --accept-partial-view; nothing was answered"
            );
            return Err(BadRequest(message).into());
        }
        match edit.map(|edit| self.check_edit(&kept, edit)) {
            Some(Err(why)) => {
                let why = legible(&why);
                let message = format!(
                    "--edit: the tool cannot be called with these arguments: {why}; nothing was answered"
                );
                Err(BadRequest(message).into())
            }
            _ => Ok(()),
        }
    }

    fn see_to_it(&self, id: InvocationId, json: bool) -> anyhow::Result<Exit> {
        loop {
            // The state is read after the attempt to take the role, because an ending process releases its role last.
            let held = self.journal.hold(id, Role::Runner)?;
            let kept = self
                .journal
                .with(|store| store.kept(id))?
                .ok_or_else(|| unknown(id))?;
            match (kept.state, held) {
                (ApprovalState::Approved, Some(held)) => {
                    let record = self.resume(&kept, held).map_err(|error| {
                        BadRequest(format!(
                            "{id} is approved, and could not be run: {error:#}; fix that, and approve it again"
                        ))
                    })?;
                    return show::record(&record, if json { Form::Result } else { Form::People });
                }
                (ApprovalState::Rejected, Some(held)) => {
                    self.close(id, held)?;
                    return said(id, ApprovalState::Rejected, "denied", json);
                }
                (ApprovalState::Rejected, None) => return said(id, kept.state, "denied", json),
                (ApprovalState::Running | ApprovalState::Finished, held) => {
                    if let Some(held) = held.filter(|_| kept.result.is_some()) {
                        held.retire();
                    }
                    return said(
                        id,
                        kept.state,
                        "approved; the process that asked runs it",
                        json,
                    );
                }
                (ApprovalState::Approved, None) if kept.approval.expires_at > Timestamp::now() => {
                    std::thread::sleep(LOOK_EVERY);
                }
                (state, _) => {
                    let state = match &kept.result {
                        Some(_) => kept.invocation.status().as_str(),
                        None => state.as_str(),
                    };
                    return refused(&format!("{id} ended before it was run: it is {state}"));
                }
            }
        }
    }
}

fn said(id: InvocationId, state: ApprovalState, what: &str, json: bool) -> anyhow::Result<Exit> {
    if json {
        return show::print_json(&json!({ "invocation_id": id, "state": state }));
    }
    show::say(&format!("{id}: {what}"));
    Ok(Exit::Succeeded)
}

fn refused(why: &str) -> anyhow::Result<Exit> {
    show::say(why);
    Ok(Exit::Refused)
}
