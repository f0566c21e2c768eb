//! Approvals: the question as the terminal shows it, and its answer.

use axum::extract::{Form, Path};
use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use toolcell_engine::approval::pretty;
use toolcell_journal::{StoredApproval, Summary};
use toolcell_spec::text::{Whitespace, visible, visible_json};
use toolcell_spec::{ApprovalState, Input, InvocationId, Timestamp};

use super::call::plain;
use super::moment;
use crate::diff::{between, edits};
use crate::layout::{PageProblem, Place, badge};
use crate::route::see;
use crate::text::{block, in_url, line};
use crate::{OwnPage, PageAnswer, PageState};

const EDITED_BYTES_MAX: usize = 256 << 10;
const FEEDBACK_BYTES_MAX: usize = 16 << 10;
const LISTED_MAX: usize = 200;

pub(crate) async fn list(OwnPage(state): OwnPage) -> Result<Response, PageProblem> {
    let work = |state: &PageState| {
        let mut known = Vec::new();
        if state.journal.exists() {
            let callers = state.user.asked_by();
            known = (state.journal).with(|store| store.list_of(true, callers.as_deref()))?;
        }
        let now = Timestamp::now();
        let is_open =
            |call: &Summary| call.state == ApprovalState::Pending && call.expires_at > now;
        let (open, over): (Vec<Summary>, Vec<Summary>) = known.into_iter().partition(is_open);
        let body = html! {
            h1 { "Approvals" }
            section id="content" data-live="approvals" {
                @if open.is_empty() { p class="empty" { "No call waits for an approval." } }
                @else { (table(&open)) }
                @if !over.is_empty() { h2 { "Earlier" } (table(&over)) }
            }
        };
        state.page("Approvals", Place::Approvals, &body)
    };
    state.aside(work).await
}

fn table(calls: &[Summary]) -> Markup {
    html! {
        div class="scroll" tabindex="0" {
            table {
                thead { tr { @for name in ["Asked", "State", "Tool", "Caller", "Until"] { th scope="col" { (name) } } } }
                tbody {
                    @for call in calls.iter().take(LISTED_MAX) {
                        tr {
                            td {
                                a class="open" href={ "/approvals/" (in_url(&call.invocation_id.to_string())) } {
                                    (moment(&call.asked_at.to_string()))
                                }
                            }
                            td { (badge(call.state.as_str())) }
                            td class="said" { (line(&call.tool_id)) }
                            td class="said" { (line(call.actor_ref.as_deref().unwrap_or_default())) }
                            td { (moment(&call.expires_at.to_string())) }
                        }
                    }
                }
            }
        }
    }
}

fn find(state: &PageState, id: &str) -> Result<StoredApproval, PageProblem> {
    let unknown = || PageProblem::unknown("there is no approval request for such a call");
    let id: InvocationId = id.parse().map_err(|_| unknown())?;
    if !state.journal.exists() {
        return Err(unknown());
    }
    let callers = state.user.asked_by();
    let kept = state.journal.with(|store| match &callers {
        Some(callers) => store.kept_of(id, callers),
        None => store.kept(id),
    })?;
    kept.ok_or_else(unknown)
}

/// As they may be shown.
fn arguments(kept: &StoredApproval) -> &str {
    let plan = &kept.approval.plan;
    plan.shown_input.as_ref().unwrap_or(&plan.permission_input)
}

pub(crate) async fn show(
    OwnPage(state): OwnPage,
    Path(id): Path<String>,
) -> Result<Response, PageProblem> {
    let work = move |state: &PageState| {
        let kept = find(state, &id)?;
        let body = body(state, &kept);
        state.page("Approval", Place::Approvals, &body)
    };
    state.aside(work).await
}

fn body(state: &PageState, kept: &StoredApproval) -> Markup {
    let approval = &kept.approval;
    let actor = approval.actor_ref.as_deref();
    let is_open = kept.state == ApprovalState::Pending && approval.expires_at > Timestamp::now();
    let prompt = approval.prompt.iter().filter_map(|block| block.as_text());
    let prompt: String = prompt.collect();
    let id = approval.invocation_id.to_string();
    let edits = edits(&serde_json::from_str(arguments(kept)).unwrap_or_default());
    html! {
        h1 { "Approval of " span class="said" { (line(&approval.tool_id)) } }
        section id="content" data-live=[is_open.then_some("approval")] {
            p {
                (badge(kept.state.as_str()))
                @if state.user.has_call(actor) { " " a href={ "/calls/" (in_url(&id)) } { "The call" } }
            }
            pre class="prompt said" tabindex="0" { (visible(&prompt, Whitespace::Kept)) }
            @if !edits.is_empty() {
                h2 { "Edit" }
                @for edit in edits { (edit) }
            }
            @if is_open && state.user.answers(actor) { (form(state, kept, &id)) }
            @else if is_open { p class="note" { "It waits for an approver: nobody approves calls of their own." } }
            @else { (answered(kept)) }
        }
    }
}

/// All of the arguments, as plain text.
pub(crate) async fn whole(
    OwnPage(state): OwnPage,
    Path(id): Path<String>,
) -> Result<Response, PageProblem> {
    let work = move |state: &PageState| {
        let kept = find(state, &id)?;
        Ok(plain(pretty(arguments(&kept)).into_owned()))
    };
    state.aside(work).await
}

fn form(state: &PageState, kept: &StoredApproval, id: &str) -> Markup {
    let approval = &kept.approval;
    let is_hidden = approval.plan.shown_input.is_some();
    let shown = pretty(arguments(kept));
    let shown = visible_json(&shown);
    let whole = format!("/approvals/{}/arguments", in_url(id));
    html! {
        form class="answer" method="post" action={ "/approvals/" (in_url(id)) } {
            @if !is_hidden && shown.len() <= EDITED_BYTES_MAX {
                label {
                    "Arguments. Change them to run the call with others"
                    textarea name="edit" rows="12" spellcheck="false" autocomplete="off" class="said" { (shown) }
                }
                textarea name="shown" hidden aria-hidden="true" tabindex="-1" { (shown) }
            } @else {
                h2 { "Arguments" }
                (block(&shown, &whole))
                p class="note" {
                    @if is_hidden { "Some of them are hidden, so they cannot be edited here." }
                    @else if state.user.principal().is_some() { "They are too long to be edited here." }
                    @else { "They are too long to be edited here: " code { "toolcell approvals approve --edit" } " takes others." }
                }
            }
            label { "Note for the caller" input name="feedback" maxlength="2000" autocomplete="off"; }
            @if approval.cut {
                label class="check" {
                    input type="checkbox" name="accept_partial_view" value="yes";
                    " The question shows a part of the call. I have read all of the arguments above"
                }
            }
            @if approval.session.is_some() && state.actions.commands().is_some() {
                label class="check" {
                    input type="checkbox" name="always" value="yes";
                    " Do not ask again for this tool with this access in this session"
                }
            }
            p class="buttons" {
                button name="answer" value="approve" class="approve" data-key="a" { "Approve" }
                " " button name="answer" value="deny" class="deny" data-key="d" { "Deny" }
            }
        }
    }
}

/// The answer, and what an edit changed.
fn answered(kept: &StoredApproval) -> Markup {
    let Some(answer) = &kept.answer else {
        return html! { p class="note" { "The question is not open any more: it is " (kept.state.as_str()) "." } };
    };
    let is_whole = kept.approval.plan.shown_input.is_none();
    let edit = answer.edit.as_ref().filter(|_| is_whole);
    let changed = edit.and_then(|edit| between(&pretty(arguments(kept)), &pretty(edit)));
    html! {
        p {
            (if answer.approved { "Approved" } else { "Denied" }) " by " span class="said" { (line(&answer.approver)) }
            " at " (moment(&answer.answered_at.to_string())) " through " (line(&answer.channel)) "."
        }
        @if let Some(feedback) = answer.feedback.as_ref().filter(|_| is_whole) {
            p { "Note: " span class="said" { (line(feedback)) } }
        }
        @if let Some(changed) = changed { h2 { "Edited arguments" } (changed) }
    }
}

#[derive(Deserialize)]
pub(crate) struct AnswerForm {
    answer: String,
    #[serde(default)]
    edit: String,
    #[serde(default)]
    shown: String,
    #[serde(default)]
    feedback: String,
    accept_partial_view: Option<String>,
    always: Option<String>,
}

impl AnswerForm {
    /// The new arguments, if they were changed. A form ends lines as no editor does.
    fn edit(&self) -> Option<String> {
        let plain = |text: &str| text.replace("\r\n", "\n").trim().to_owned();
        Some(plain(&self.edit)).filter(|edit| !edit.is_empty() && *edit != plain(&self.shown))
    }

    fn read(self) -> Result<PageAnswer, PageProblem> {
        let approves = match self.answer.as_str() {
            "approve" => true,
            "deny" => false,
            _ => return Err(PageProblem::bad("the answer is approve or deny")),
        };
        if self.feedback.len() > FEEDBACK_BYTES_MAX {
            let why = format!("a note has at most {FEEDBACK_BYTES_MAX} bytes");
            return Err(PageProblem::bad(why));
        }
        let edit = self.edit().filter(|_| approves);
        if let Some(edit) = &edit {
            let parsed = Input::from_text(edit.as_str());
            let wrong = |error| {
                PageProblem::bad(format!(
                    "the arguments are not valid JSON: {error}; nothing was answered"
                ))
            };
            parsed.value().map_err(wrong)?;
        }
        Ok(PageAnswer {
            approves,
            edit,
            feedback: Some(self.feedback).filter(|feedback| !feedback.is_empty()),
            accept_partial_view: approves && self.accept_partial_view.is_some(),
            always: approves && self.always.is_some(),
        })
    }
}

pub(crate) async fn answer(
    OwnPage(state): OwnPage,
    Path(id): Path<String>,
    Form(form): Form<AnswerForm>,
) -> Result<Response, PageProblem> {
    let kept = state.aside(move |state| find(state, &id)).await?;
    let id = kept.approval.invocation_id;
    if !state.user.answers(kept.approval.actor_ref.as_deref()) {
        let why = "nobody approves calls of their own; nothing was changed";
        return Err(PageProblem::new(StatusCode::FORBIDDEN, why));
    }
    let is_open = kept.state == ApprovalState::Pending;
    if !is_open {
        let why = format!(
            "the question is not open any more: it is {}; nothing was changed",
            kept.state
        );
        return Err(PageProblem::new(StatusCode::CONFLICT, why));
    }
    state.actions.answer(id, form.read()?).await?;
    see(&format!("/approvals/{}", in_url(&id.to_string())))
}
