//! Between two runs of phase 9: the tool's questions to its user, and the run with the answers.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::approval::{Inquiry, RequestedInput, Respondent, legible};
use toolcell_executor::{
    Execution, GuestOutcome, InputRequest, NeededInput, ResumedState, RunInput, canceled, stopped,
};
use toolcell_policy::Permit;
use toolcell_spec::EXPIRE_MAX;
use toolcell_spec::regex_search::SearchMeter;
use toolcell_spec::{
    AbortReason, ErrorClass, ErrorCode, EventType, InputResponse, InputResponses, Mode,
    ProgressStatus, Refusal, Status, Timestamp,
};

use super::background::Background;
use super::call_state::CallState;
use super::children::{self, CallTree};
use super::schedule;
use super::suspend::{self, PausedRound, SoFar};

/// Includes all lower calls, attempts and repeated questions.
const INQUIRIES_MAX: usize = 16;
/// Invalid answers to one round that end the call.
const UNFIT_MAX: usize = 4;
const QUOTED_CHARS_MAX: usize = 300;

pub(super) struct QuestionRound {
    pub(super) requests: Vec<RequestedInput>,
    pub(super) expires_at: Timestamp,
    pub(super) unfit: usize,
    pub(super) shown: usize,
}

/// Asks and runs again until the tool asks no more. `asked` is another process's round.
pub(super) async fn go_on(
    journey: &mut CallState<'_>,
    permit: &Permit,
    run: &mut RunInput,
    mut execution: Box<Execution>,
    mut asked: Option<QuestionRound>,
) -> Box<Execution> {
    loop {
        let NeededInput {
            requests,
            resume_state,
        } = match &mut execution.outcome {
            Ok(GuestOutcome::NeedsInput(needed)) => std::mem::take(needed),
            _ => return execution,
        };
        let so_far = SoFar {
            permit,
            attempt: run.attempt,
            resume_state: &resume_state,
            execution: &execution,
        };
        let begun = asked.take();
        let again = async {
            schedule::step_aside(journey);
            let round = match begun {
                Some(round) => round,
                None => begin(journey, requests).await?,
            };
            answer(journey, round, &so_far).await?;
            schedule::step_back(journey);
            let place = schedule::place(journey, permit.limits()).await?;
            suspend::run_again(journey).await?;
            Ok(place)
        };
        let place = match again.await {
            Ok(place) => place,
            Err(refusal) => {
                execution.outcome = Err(refusal);
                return execution;
            }
        };
        let answers = journey.responses.values().map(action).collect::<Vec<_>>();
        journey
            .trail
            .emit(EventType::Resumed, json!({ "answers": answers }));
        run.resumed = Some(Arc::new(ResumedState {
            responses: json!(journey.responses).to_string(),
            resume_state,
            spent: execution.usage.clone(),
            partial_bytes: execution.partial_bytes,
        }));
        let next = children::invoke(journey, permit, run.clone()).await;
        drop(place);
        execution = next.after(*execution);
    }
}

async fn begin(
    journey: &mut CallState<'_>,
    requests: Vec<InputRequest>,
) -> Result<QuestionRound, Refusal> {
    let open = read(journey, requests).await?;
    respondent(journey, &open)?;
    let expires_at = Timestamp::now().plus(journey.request.approval.expire.min(EXPIRE_MAX));
    // A new question with a key that was answered before needs a new answer.
    open.iter()
        .for_each(|request| drop(journey.responses.remove(request.key())));
    too_often(CallTree::from_call(journey).asked())?;
    journey.advance(Status::NeedsInput)?;
    journey.trail.emit(
        EventType::NeedsInput,
        json!({ "requests": open.len(), "expires_at": expires_at }),
    );
    journey.trail.reached(ProgressStatus::WaitingForInput);
    Ok(QuestionRound {
        requests: open,
        expires_at,
        unfit: 0,
        shown: shown(journey),
    })
}

fn respondent(
    journey: &CallState<'_>,
    open: &[RequestedInput],
) -> Result<Arc<dyn Respondent>, Refusal> {
    let attended = journey.request.policy.mode != Mode::NonInteractive;
    journey
        .request
        .respondent
        .clone()
        .filter(|_| attended)
        .ok_or_else(|| nobody_to_ask(open))
}

/// A waiting call holds no place in the scheduler.
async fn answer(
    journey: &mut CallState<'_>,
    round: QuestionRound,
    so_far: &SoFar<'_>,
) -> Result<(), Refusal> {
    let QuestionRound {
        requests: mut open,
        expires_at,
        mut unfit,
        shown: mut before,
    } = round;
    let respondent = respondent(journey, &open)?;
    let tree = CallTree::from_call(journey);
    while !open.is_empty() {
        let asked = tree.asked();
        too_often(asked)?;
        tree.ask();
        let inquiry = Inquiry {
            invocation_id: journey.invocation.invocation_id,
            tool_id: journey.invocation.tool_id.clone(),
            requests: open,
            expires_at,
        };
        let paused = PausedRound {
            so_far,
            inquiry: &inquiry,
            unfit,
            asked,
            shown: before,
        };
        let mut given = wait(journey, respondent.as_ref(), &paused).await?;
        before = shown(journey);
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

fn unfit_answers(request: &RequestedInput, why: &str) -> Refusal {
    let message = format!(
        "{UNFIT_MAX} answers to the tool's questions did not fit their forms, the last one to the question {}: {why}; call \
         again and fill in the form",
        request.key()
    );
    Refusal::new(ErrorCode::AnswerInvalid, message)
}

/// Redacts secrets and sensitive values.
async fn read(
    journey: &CallState<'_>,
    requests: Vec<InputRequest>,
) -> Result<Vec<RequestedInput>, Refusal> {
    let invalid = |why: String| {
        let message = format!("the tool asked its user what cannot be asked: {why}");
        Refusal::new(ErrorCode::QuestionInvalid, message)
    };
    let redactor = journey.redaction.redactor.clone();
    // Searching for the tool's own patterns, and compiling a form's patterns, can take long enough to delay other calls.
    let work = move || {
        let mut meter = SearchMeter::aside();
        let read = |mut request: InputRequest| {
            // Redacts before the text is made legible, because a value may look different afterwards.
            for text in [&mut request.key, &mut request.message, &mut request.schema] {
                redactor.redact_text_within(text, &mut meter);
            }
            RequestedInput::read(&request.key, &request.message, &request.schema)
        };
        requests
            .into_iter()
            .map(read)
            .collect::<Result<Vec<RequestedInput>, String>>()
    };
    let read = journey
        .checks
        .run("reading the tool's questions", work)
        .await?;
    let read = read.map_err(invalid)?;
    let keys: BTreeSet<&str> = read.iter().map(RequestedInput::key).collect();
    if keys.len() < read.len() {
        return Err(invalid("two questions have the same key".to_owned()));
    }
    Ok(read)
}

fn shown(journey: &CallState<'_>) -> usize {
    journey
        .request
        .background
        .as_ref()
        .map_or(0, Background::rounds)
}

/// The call is stored once its caller can return in another process.
async fn wait(
    journey: &mut CallState<'_>,
    respondent: &dyn Respondent,
    paused: &PausedRound<'_>,
) -> Result<InputResponses, Refusal> {
    let inquiry = paused.inquiry;
    let cancellation = journey.request.cancellation.clone();
    let background = journey
        .request
        .background
        .clone()
        .filter(|_| suspend::is_possible(journey, paused.so_far));
    let mut can_suspend = background.is_some();
    let left = Duration::from_millis(inquiry.expires_at.millis_since(Timestamp::now()));
    let mut expiry = pin!(tokio::time::sleep(left));
    let mut responses = respondent.respond(inquiry);
    loop {
        tokio::select! {
            biased;
            () = cancellation.cancelled() => return Err(stopped(&cancellation)),
            // Before the question goes to the caller, so that one that was seen outlives the process.
            () = returns(background.as_ref()), if can_suspend => {
                can_suspend = false;
                suspend::suspend(journey, paused).await;
            }
            responses = &mut responses => return responses.ok_or_else(gone),
            () = &mut expiry => return Err(expired()),
        }
    }
}

async fn returns(background: Option<&Background>) {
    match background {
        Some(background) => background.returns().await,
        None => std::future::pending().await,
    }
}

pub(super) fn expired() -> Refusal {
    let message = "the tool's question was not answered in time; call again to be asked";
    Refusal::new(ErrorCode::InputExpired, message)
}

fn too_often(asked: usize) -> Result<(), Refusal> {
    if asked < INQUIRIES_MAX {
        return Ok(());
    }
    let message = format!(
        "this call, with those that it makes, asked its user {INQUIRIES_MAX} times, which is all it may"
    );
    Err(Refusal::new(ErrorCode::QuestionLimit, message))
}

fn nobody_to_ask(requests: &[RequestedInput]) -> Refusal {
    let quoted: String = requests
        .iter()
        .map(RequestedInput::message)
        .collect::<Vec<_>>()
        .join("; ");
    let quoted = legible(&quoted.chars().take(QUOTED_CHARS_MAX).collect::<String>());
    let message = format!(
        "the tool has to ask its user a question, and no user can be asked; call it in a terminal, or through a client \
         that can ask. It wants to know: {quoted}"
    );
    Refusal::new(ErrorCode::NobodyToAsk, message).with_class(ErrorClass::CapabilityGap)
}

/// The same as a cancellation by the user.
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
