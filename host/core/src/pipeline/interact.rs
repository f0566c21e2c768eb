//! Between two runs of phase 9: the tool's questions to its caller's user, and the run that goes on with the answers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::approval::{EXPIRE_MAX, Inquiry, Requested, Respondent, legible};
use crate::executor::{Execution, GuestOutcome, InputRequest, NeededInput, Resumed, Run, canceled};
use crate::policy::Permit;
use crate::record::{
    AbortReason, ErrorClass, EventType, InputResponse, InputResponses, Mode, ProgressStatus, Refusal, Status, Timestamp,
};
use crate::search::Meter;

use super::children::{self, Tree};
use super::journey::Journey;
use super::schedule;

/// Maximum number of times that a call that a client made may ask, with all calls below it, in all attempts, and with
/// repeated questions after invalid answers.
const INQUIRIES_MAX: usize = 16;
/// Number of invalid answers to one round of questions that ends the call.
const UNFIT_MAX: usize = 4;
/// Maximum characters of the questions that an error quotes.
const QUOTED_CHARS_MAX: usize = 300;

/// Asks, and runs the tool again with the answers, until it asks no more.
pub(super) async fn go_on(
    journey: &mut Journey<'_>,
    permit: &Permit,
    run: &mut Run,
    mut execution: Execution,
) -> Execution {
    loop {
        let needed = match execution.outcome {
            Ok(GuestOutcome::NeedsInput(needed)) => needed,
            outcome => return Execution { outcome, ..execution },
        };
        let resume_state = needed.resume_state.clone();
        let again = async {
            schedule::step_aside(journey);
            answer(journey, needed).await?;
            schedule::step_back(journey);
            let place = schedule::place(journey, permit.limits()).await?;
            journey.advance(Status::Running)?;
            Ok(place)
        };
        let place = match again.await {
            Ok(place) => place,
            Err(refusal) => return Execution { outcome: Err(refusal), ..execution },
        };
        let answers = journey.responses.values().map(action).collect::<Vec<_>>();
        journey.trail.emit(EventType::Resumed, json!({ "answers": answers }));
        let responses = json!(journey.responses).to_string();
        let (spent, partial_bytes) = (execution.usage, execution.partial_bytes);
        run.resumed = Some(Arc::new(Resumed { responses, resume_state, spent, partial_bytes }));
        let next = children::invoke(journey, permit, run.clone()).await;
        drop(place);
        let (mut logs, redacted) = (execution.logs, execution.redacted || next.redacted);
        logs.extend(next.logs);
        execution = Execution { logs, redacted, ..next };
    }
}

/// Adds an answer for each request to those of the call. A call that waits holds no place in the scheduler.
async fn answer(journey: &mut Journey<'_>, needed: NeededInput) -> Result<(), Refusal> {
    let mut open = read(journey, needed).await?;
    let attended = journey.request.policy.mode != Mode::NonInteractive;
    let respondent = journey.request.respondent.clone().filter(|_| attended).ok_or_else(|| nobody_to_ask(&open))?;
    let expires_at = Timestamp::now().plus(journey.request.approval.expire.min(EXPIRE_MAX));
    // A new question with a key that was answered before needs a new answer.
    open.iter().for_each(|request| drop(journey.responses.remove(request.key())));
    let tree = Tree::of(journey);
    too_often(tree.asked())?;
    let mut unfit = 0;
    journey.advance(Status::NeedsInput)?;
    journey.trail.emit(EventType::NeedsInput, json!({ "requests": open.len(), "expires_at": expires_at }));
    journey.trail.reached(ProgressStatus::WaitingForInput);
    while !open.is_empty() {
        too_often(tree.asked())?;
        tree.ask();
        let inquiry = Inquiry {
            invocation_id: journey.invocation.invocation_id,
            tool_id: journey.invocation.tool_id.clone(),
            requests: open,
            expires_at,
        };
        let mut given = wait(journey, respondent.as_ref(), &inquiry).await?;
        open = Vec::new();
        for mut request in inquiry.requests {
            let Some(response) = given.remove(request.key()) else {
                open.push(request);
                continue;
            };
            match request.check(&response) {
                Ok(()) => drop(journey.responses.insert(request.key().to_owned(), response)),
                Err(why) => {
                    unfit += 1;
                    // A client that repeats an invalid answer would only get the form's error again, so the call ends.
                    if unfit >= UNFIT_MAX {
                        return Err(unfit_answers(&request, &why));
                    }
                    request.refuse(why);
                    open.push(request);
                }
            }
        }
    }
    Ok(())
}

fn unfit_answers(request: &Requested, why: &str) -> Refusal {
    let message = format!(
        "{UNFIT_MAX} answers to the tool's questions did not fit their forms, the last one to the question {}: {why}; call \
         again and fill in the form",
        request.key()
    );
    Refusal::new(ErrorClass::InvalidArguments, "answer_invalid", message)
}

/// Reads the tool's questions, with secrets and sensitive values redacted.
async fn read(journey: &Journey<'_>, needed: NeededInput) -> Result<Vec<Requested>, Refusal> {
    let invalid = |why: String| {
        let message = format!("the tool asked its user what cannot be asked: {why}");
        Refusal::new(ErrorClass::ExecutionFailed, "question_invalid", message)
    };
    let (requests, redactor) = (needed.requests, journey.redaction.redactor());
    // Searching for the tool's own patterns, and compiling those of a form, can take long enough to delay other calls.
    let work = move || {
        let mut meter = Meter::aside();
        let read = |mut request: InputRequest| {
            // Redacts before the text is made legible, because a value may look different afterwards.
            for text in [&mut request.key, &mut request.message, &mut request.schema] {
                redactor.redact_text_within(text, &mut meter);
            }
            Requested::read(&request.key, &request.message, &request.schema)
        };
        requests.into_iter().map(read).collect::<Result<Vec<Requested>, String>>()
    };
    let read = journey.checks.run("reading the tool's questions", work).await?;
    let read = read.map_err(invalid)?;
    let keys: BTreeSet<&str> = read.iter().map(Requested::key).collect();
    if keys.len() < read.len() {
        return Err(invalid("two questions have the same key".to_owned()));
    }
    Ok(read)
}

/// Waits for the answers, until the question expires or the call is canceled.
async fn wait(
    journey: &Journey<'_>,
    respondent: &dyn Respondent,
    inquiry: &Inquiry,
) -> Result<InputResponses, Refusal> {
    let cancellation = &journey.request.cancellation;
    let left = Duration::from_millis(inquiry.expires_at.millis_since(Timestamp::now()));
    tokio::select! {
        biased;
        () = cancellation.cancelled() => {
            Err(canceled(cancellation.requested().unwrap_or(AbortReason::UserInterruption)))
        }
        responses = respondent.respond(inquiry) => responses.ok_or_else(gone),
        () = tokio::time::sleep(left) => {
            let message = "the tool's question was not answered in time; call again to be asked";
            Err(Refusal::new(ErrorClass::Timeout, "input_expired", message))
        }
    }
}

fn too_often(asked: usize) -> Result<(), Refusal> {
    if asked < INQUIRIES_MAX || !guard!("question_limit") {
        return Ok(());
    }
    let message =
        format!("this call, with those that it makes, asked its user {INQUIRIES_MAX} times, which is all it may");
    Err(Refusal::new(ErrorClass::SandboxViolation, "question_limit", message))
}

fn nobody_to_ask(requests: &[Requested]) -> Refusal {
    let quoted: String = requests.iter().map(Requested::message).collect::<Vec<_>>().join("; ");
    let quoted = legible(&quoted.chars().take(QUOTED_CHARS_MAX).collect::<String>());
    let message = format!(
        "the tool has to ask its user a question, and no user can be asked; call it in a terminal, or through a client \
         that can ask. It wants to know: {quoted}"
    );
    Refusal::new(ErrorClass::CapabilityGap, "nobody_to_ask", message)
}

/// The refusal when the respondent is gone: the same as if the user had canceled the call.
fn gone() -> Refusal {
    canceled(AbortReason::UserInterruption)
}

fn action(response: &InputResponse) -> &'static str {
    match response {
        InputResponse::Accept { .. } => "accept",
        InputResponse::Decline => "decline",
        InputResponse::Cancel => "cancel",
    }
}
