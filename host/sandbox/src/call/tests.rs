use std::cell::Cell;
use std::future::pending;
use std::task::{Context, Waker};

use super::*;
use toolcell_core::executor::{GuestOutput, NeededInput};

#[tokio::test]
async fn a_guest_that_ends_at_once_needs_no_timer_and_one_that_waits_is_stopped() {
    let unused = poll_fn(|_| -> Poll<Stop> { panic!("the timer was registered") });
    assert_eq!(unless(unused, pin!(async { Ok(7) }), true).await.unwrap(), 7);
    let error = unless(async { Stop::Deadline }, pin!(pending::<wasmtime::Result<()>>()), true).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(Stop::Deadline)));
    let canceled = poll_fn(|_| -> Poll<wasmtime::Result<()>> { panic!("a call that was canceled before started") });
    unless(async { Stop::Canceled(AbortReason::UserInterruption) }, pin!(canceled), false).await.unwrap_err();
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
    let output = || GuestOutput { content: "[]".to_owned(), structured: Some("1".to_owned()), ui_summary: None };
    let failure = || Refusal::new(ErrorClass::Timeout, "deadline_exceeded", "too slow");
    let Ok(GuestOutcome::Partial(kept, refusal)) = unfinished(Ok(GuestOutcome::Success(output()))) else { panic!() };
    assert_eq!(kept.structured.as_deref(), Some("1"));
    assert_eq!((refusal.class, refusal.code), (ErrorClass::PartialFailure, "file_operation_unfinished"));
    assert!(refusal.message.contains(UNFINISHED), "{}", refusal.message);
    let question = NeededInput { requests: Vec::new(), resume_state: Vec::new() };
    let refusal = unfinished(Ok(GuestOutcome::NeedsInput(question))).unwrap_err();
    assert_eq!(refusal.code, "file_operation_unfinished");
    for failed in [Err(failure()), Ok(GuestOutcome::Failure(failure())), Ok(GuestOutcome::Partial(output(), failure()))]
    {
        let (Err(refusal) | Ok(GuestOutcome::Failure(refusal) | GuestOutcome::Partial(_, refusal))) =
            unfinished(failed)
        else {
            panic!()
        };
        assert_eq!((refusal.code, refusal.message), ("deadline_exceeded", format!("too slow; {UNFINISHED}")));
    }
}
