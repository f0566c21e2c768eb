//! Between two attempts of phase 9: repeating a failed one, and the wait.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::scheduler::RunPlace;
use toolcell_executor::{Execution, GuestOutcome, ResumedState, RunInput, unless_canceled};
use toolcell_policy::{Limits, Permit};
use toolcell_spec::{ErrorClass, EventType, OutputRetention, Refusal, Status};

use super::call_state::CallState;
use super::{children, interact, schedule};

/// Lists the repeated attempts in an invocation.
pub(super) const ATTEMPTS: &str = "discarded_attempts";

/// Repeats failed attempts by the call's policy within its limits, which all attempts share; waits count as time. Every
/// attempt has the same permit and the earlier answers.
pub(super) async fn go_on(
    journey: &mut CallState<'_>,
    permit: &Permit,
    mut run: RunInput,
    mut execution: Box<Execution>,
) -> Box<Execution> {
    loop {
        let Some(wait) = next(journey, permit, &run, &execution) else {
            return execution;
        };
        discard(journey, &run, &execution, wait);
        let place = match again(journey, permit, wait).await {
            Ok(place) => place,
            Err(refusal) => {
                execution.outcome = Err(refusal);
                return execution;
            }
        };
        let mut spent = execution.usage.clone();
        spent.wall_ms.used = spent.wall_ms.used.saturating_add(millis(wait));
        // An attempt that asked its user begins where the answers were given.
        let before = run.resumed.as_deref();
        run.resumed = Some(Arc::new(ResumedState {
            responses: before.map_or_else(|| "{}".to_owned(), |before| before.responses.clone()),
            resume_state: before
                .map(|before| before.resume_state.clone())
                .unwrap_or_default(),
            spent,
            partial_bytes: execution.partial_bytes,
        }));
        run.attempt += 1;
        journey.trail.emit(
            EventType::Started,
            started(&children::limits(journey, permit), run.attempt),
        );
        let mut later = children::invoke(journey, permit, run.clone()).await;
        drop(place);
        if matches!(later.outcome, Ok(GuestOutcome::NeedsInput(_))) {
            later = interact::go_on(journey, permit, &mut run, later, None).await;
        }
        execution = later.after(*execution);
    }
}

pub(super) fn started(limits: &Limits, attempt: u32) -> Value {
    json!({
        "attempt": attempt,
        "fuel_limit": limits.fuel,
        "cpu_ms_limit": millis(limits.cpu),
        "wall_ms_limit": millis(limits.wall),
        "memory_limit_bytes": limits.memory_bytes,
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn failure(execution: &Execution) -> Option<&Refusal> {
    match &execution.outcome {
        Ok(GuestOutcome::Failure(refusal)) | Err(refusal) => Some(refusal),
        // A partial output is of use, and another attempt might give less.
        Ok(GuestOutcome::Success(_) | GuestOutcome::Partial(..) | GuestOutcome::NeedsInput(_)) => {
            None
        }
    }
}

fn next(
    journey: &CallState<'_>,
    permit: &Permit,
    run: &RunInput,
    execution: &Execution,
) -> Option<Duration> {
    let policy = &journey.request.policy.retry;
    let refusal = failure(execution)?;
    // A call that does not run failed because of its user, whose answer does not change by asking again.
    let ran = journey.invocation.status() == Status::Running;
    let canceled = journey.request.cancellation.requested().is_some();
    if !ran || canceled || !policy.repeats(refusal.class, run.attempt) {
        return None;
    }
    // The condition of `retry.safe` in the error: an attempt that could have changed something is never repeated.
    if journey.changes || !refusal.to_error().retry.safe {
        return None;
    }
    let wait = policy.wait(
        run.attempt,
        refusal.retry_after,
        RandomState::new().build_hasher().finish(),
    );
    // Without time, fuel or CPU time left, the next attempt could only hide why this one failed.
    let left = permit.limits().less(&execution.usage);
    (wait < left.wall && left.fuel > 0 && !left.cpu.is_zero()).then_some(wait)
}

/// Records a replaced attempt (AT-EC-21).
fn discard(journey: &mut CallState<'_>, run: &RunInput, execution: &Execution, wait: Duration) {
    let Some(refusal) = failure(execution) else {
        return;
    };
    let error = refusal.to_error();
    // The guest chose it, so that it counts as output.
    let mut code = if journey.keeping() == OutputRetention::default() {
        json!(error.error_code)
    } else {
        json!(refusal.code)
    };
    if let Some(redactor) = journey.redaction.active() {
        redactor.redact(&mut code);
    }
    let attempt = json!({
        "attempt": run.attempt,
        "error_class": error.error_class,
        "error_code": code,
        "discarded_as": ErrorClass::StreamingFallbackDiscarded,
        "retry_in_ms": millis(wait),
    });
    journey
        .trail
        .emit(EventType::AttemptDiscarded, attempt.clone());
    journey.invocation.note_item(ATTEMPTS, attempt);
}

/// Takes a new turn and place after waiting: a waiting call keeps no other one waiting.
async fn again(
    journey: &mut CallState<'_>,
    permit: &Permit,
    wait: Duration,
) -> Result<Option<RunPlace>, Refusal> {
    schedule::step_aside(journey);
    unless_canceled(&journey.request.cancellation, tokio::time::sleep(wait)).await?;
    schedule::step_back(journey);
    schedule::place(journey, permit.limits()).await
}
