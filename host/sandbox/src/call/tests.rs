use std::cell::Cell;
use std::future::pending;
use std::task::{Context, Waker};

use super::outcome::{has_failed, heed_denials};
use super::*;
use crate::bindings::tool::exports::toolcell::tool::guest::{Outcome, Output, PartialOutput};
use crate::bindings::tool::toolcell::tool::types::{
    ErrorClass as GuestClass, ToolError as GuestError,
};
use crate::trap::CallDenial;
use toolcell_executor::{GuestOutput, NeededInput};

#[tokio::test]
async fn a_guest_that_ends_at_once_needs_no_timer_and_one_that_waits_is_stopped() {
    let unused = poll_fn(|_| -> Poll<StopReason> { panic!("the timer was registered") });
    assert_eq!(
        unless(unused, pin!(async { Ok(7) }), true).await.unwrap(),
        7
    );
    let error = unless(
        async { StopReason::Deadline },
        pin!(pending::<wasmtime::Result<()>>()),
        true,
    )
    .await
    .unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(StopReason::Deadline)));
    let canceled = poll_fn(|_| -> Poll<wasmtime::Result<()>> {
        panic!("a call that was canceled before started")
    });
    unless(
        async { StopReason::Canceled(AbortReason::UserInterruption) },
        pin!(canceled),
        false,
    )
    .await
    .unwrap_err();
}

#[test]
fn a_guest_that_yields_is_polled_once_in_each_turn() {
    let polls = Cell::new(0);
    let guest = poll_fn(|_| {
        polls.set(polls.get() + 1);
        Poll::<wasmtime::Result<()>>::Pending
    });
    let guest = pin!(guest);
    let mut call = pin!(unless(pending(), guest, true));
    let mut context = Context::from_waker(Waker::noop());
    for turn in 1..4 {
        assert!(call.as_mut().poll(&mut context).is_pending());
        assert_eq!(polls.get(), turn);
    }
}

#[test]
fn no_call_succeeds_whose_last_file_operation_has_not_ended() {
    let output = || GuestOutput {
        content: "[]".to_owned(),
        structured: Some("1".to_owned()),
        ui_summary: None,
    };
    let failure = || Refusal::new(ErrorCode::DeadlineExceeded, "too slow");
    let Ok(GuestOutcome::Partial(kept, refusal)) = unfinished(Ok(GuestOutcome::Success(output())))
    else {
        panic!()
    };
    assert_eq!(kept.structured.as_deref(), Some("1"));
    assert_eq!(
        (refusal.class, refusal.code),
        (
            ErrorClass::PartialFailure,
            ErrorCode::FileOperationUnfinished
        )
    );
    assert!(refusal.message.contains(UNFINISHED), "{}", refusal.message);
    let question = NeededInput {
        requests: Vec::new(),
        resume_state: Vec::new(),
    };
    let refusal = unfinished(Ok(GuestOutcome::NeedsInput(question))).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::FileOperationUnfinished);
    for failed in [
        Err(failure()),
        Ok(GuestOutcome::Failure(failure())),
        Ok(GuestOutcome::Partial(output(), failure())),
    ] {
        let (Err(refusal) | Ok(GuestOutcome::Failure(refusal) | GuestOutcome::Partial(_, refusal))) =
            unfinished(failed)
        else {
            panic!()
        };
        assert_eq!(
            (refusal.code, refusal.message),
            (
                ErrorCode::DeadlineExceeded,
                format!("too slow; {UNFINISHED}")
            )
        );
    }
}

#[test]
fn a_failure_after_a_denial_has_the_verdict_of_the_sandbox_and_its_output() {
    let denied = || CallDenial {
        code: ErrorCode::NetworkDenied,
        message: "the sandbox did not let the tool send it".to_owned(),
    };
    let partial = |class| {
        let output = GuestOutput {
            content: "[]".to_owned(),
            structured: Some("1".to_owned()),
            ui_summary: None,
        };
        Ok(GuestOutcome::Partial(
            output,
            Refusal::new(ErrorCode::ExitN, "no answer").with_class(class),
        ))
    };
    let code = |outcome: Result<GuestOutcome, Refusal>| match outcome {
        Ok(GuestOutcome::Partial(output, refusal)) if output.structured.as_deref() == Some("1") => {
            refusal.code
        }
        _ => panic!("the output is lost"),
    };
    assert_eq!(
        code(heed_denials(
            partial(ErrorClass::PartialFailure),
            Some(denied()),
            true
        )),
        ErrorCode::NetworkDenied
    );
    for (class, denied, has_failed) in [
        (ErrorClass::PartialFailure, None, true),
        (ErrorClass::PartialFailure, Some(denied()), false),
        (ErrorClass::Canceled, Some(denied()), true),
    ] {
        assert_eq!(
            code(heed_denials(partial(class), denied, has_failed)),
            ErrorCode::ExitN
        );
    }
}

#[test]
fn only_a_partial_outcome_with_the_error_of_a_whole_call_has_failed() {
    let partial = |class| {
        let output = Output {
            content: "[]".to_owned(),
            structured: None,
            ui_summary: None,
        };
        let code = String::new();
        let message = String::new();
        let error = GuestError {
            class,
            code,
            message,
            detail: None,
            retry_after_ms: None,
        };
        Outcome::Partial(PartialOutput { output, error })
    };
    assert!(has_failed(&partial(GuestClass::ExecutionFailed)));
    assert!(
        !has_failed(&partial(GuestClass::PartialFailure))
            && !has_failed(&Outcome::Text(String::new()))
    );
}
