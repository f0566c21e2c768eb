//! Hooks that fail, crash or hang: the owner decides the consequence, and a call always ends.
//!
//! Promise: A hook never hangs a call, and a call cannot go around it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::Notify;
use toolcell_executor::hook::{Hook, HookCall, HookFuture, OnFailure, Registration};
use toolcell_spec::{AbortReason, HookEvent, HookOutcome};

use crate::support::{Called, Test};

use super::doubles::{RecordingHook, own_host};

/// A hook that never answers.
struct Stuck {
    events: [HookEvent; 1],
    how: How,
    entered: Arc<Notify>,
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// Its future is never ready.
    Pending,
    /// It blocks its thread.
    Blocking,
    Panicking,
}

impl Stuck {
    fn at(event: HookEvent, how: How) -> Arc<Self> {
        Arc::new(Self {
            events: [event],
            how,
            entered: Arc::default(),
        })
    }
}

impl Hook for Stuck {
    fn id(&self) -> &str {
        "stuck"
    }

    fn events(&self) -> &[HookEvent] {
        &self.events
    }

    fn handle<'a>(&'a self, _: &'a HookCall) -> HookFuture<'a> {
        self.entered.notify_one();
        match self.how {
            How::Pending => Box::pin(std::future::pending()),
            How::Blocking => loop {
                std::thread::park();
            },
            How::Panicking => panic!("a hook crashed, as the test wants it"),
        }
    }
}

async fn called(tool: &str, registration: Registration) -> Called {
    let host = own_host(|settings| settings.hook(registration));
    Test::new(tool).on(&host).call(json!({})).await
}

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_hook_that_never_answers_blocks_before_the_tool_within_its_time() {
    for event in [
        HookEvent::PreToolUse,
        HookEvent::PermissionRequest,
        HookEvent::PermissionDecision,
    ] {
        for how in [How::Pending, How::Blocking] {
            let began = Instant::now();
            let called = called(
                "probe#counter",
                Registration::new(Stuck::at(event, how)).within(SHORT),
            )
            .await;
            called
                .failed("hook_blocked", "hook_timed_out")
                .ended("denied", "blocked")
                .never_ran();
            assert!(began.elapsed() < Duration::from_secs(30), "{how:?}");
            assert_eq!(called.0.hooks[0].outcome, HookOutcome::TimedOut);
            assert_eq!(
                called.message(),
                "the hook stuck did not answer within 50 ms, and so the call may not go on"
            );
        }
    }
}

#[tokio::test]
async fn a_hook_that_never_answers_is_noted_after_the_tool() {
    for event in [HookEvent::PostToolUse, HookEvent::ResultPersistence] {
        let called = called(
            "probe#counter",
            Registration::new(Stuck::at(event, How::Blocking)).within(SHORT),
        )
        .await;
        assert_eq!(called.succeeded(), json!({"count": 1}));
        assert_eq!(called.0.hooks[0].outcome, HookOutcome::TimedOut);
    }
}

#[tokio::test]
async fn a_hook_that_crashes_has_failed() {
    let called = called(
        "probe#counter",
        Registration::new(Stuck::at(HookEvent::PreToolUse, How::Panicking)),
    )
    .await;
    called.failed("hook_blocked", "hook_failed").never_ran();
    assert_eq!(
        called.0.hooks[0].error.as_deref(),
        Some("the hook panicked")
    );
}

#[tokio::test]
async fn the_owner_says_what_a_failure_means() {
    for event in [
        HookEvent::PreToolUse,
        HookEvent::PermissionRequest,
        HookEvent::PermissionDecision,
    ] {
        let hook = RecordingHook::hearing("broken", &[event])
            .failing(event, "no")
            .shared();
        let called = called(
            "probe#counter",
            Registration::new(hook).on_failure(OnFailure::Warn),
        )
        .await;
        assert_eq!(called.succeeded(), json!({"count": 1}), "{event:?}");
        assert_eq!(
            (
                called.0.hooks[0].outcome,
                called.0.hooks[0].error.as_deref()
            ),
            (HookOutcome::Failed, Some("no"))
        );
    }
    for event in [HookEvent::PostToolUse, HookEvent::ResultPersistence] {
        let hook = RecordingHook::hearing("broken", &[event])
            .failing(event, "no")
            .shared();
        let called = called(
            "probe#counter",
            Registration::new(hook).on_failure(OnFailure::Block),
        )
        .await;
        called
            .failed("execution_failed", "post_hook_failed")
            .ended("failed", "failed");
        let result = serde_json::to_string(&called.0.result).unwrap();
        assert!(
            !result.contains("count\\\"") && called.0.result.structured_content.is_none(),
            "withheld: {result}"
        );
    }
}

#[tokio::test]
async fn a_blocking_failure_after_a_failed_tool_keeps_the_error_and_withholds_the_words() {
    let event = HookEvent::PostToolUseFailure;
    let hook = RecordingHook::hearing("broken", &[event])
        .failing(event, "no")
        .shared();
    let host =
        own_host(|settings| settings.hook(Registration::new(hook).on_failure(OnFailure::Block)));
    let called = Test::new("probe#fail")
        .on(&host)
        .call(json!({"class": "rate_limited", "message": "words of the tool", "code": "own"}))
        .await;
    called.failed("rate_limited", "tool_failed");
    assert!(
        !serde_json::to_string(&called.0.result)
            .unwrap()
            .contains("words of the tool")
    );
}

#[tokio::test]
async fn a_hook_that_could_not_be_loaded_blocks_unless_its_owner_says_otherwise() {
    let guard = || Registration::not_loaded("guard", "the file is gone");
    let blocked = called("probe#counter", guard()).await;
    blocked
        .failed("hook_blocked", "hook_not_loaded")
        .ended("denied", "blocked")
        .never_ran();
    assert_eq!(
        blocked.record()["invocation"]["error_detail"],
        "the file is gone"
    );
    let warned = called("probe#counter", guard().on_failure(OnFailure::Warn)).await;
    warned.succeeded();
    assert_eq!(warned.0.hooks[0].outcome, HookOutcome::NotLoaded);
}

/// A call that is canceled while a hook at `event` runs; `wall` is the hook's deadline.
async fn canceled_in(event: HookEvent, how: How, wall: Duration, on_failure: OnFailure) -> Called {
    let hook = Stuck::at(event, how);
    let entered = Arc::clone(&hook.entered);
    let registration = Registration::new(hook).within(wall).on_failure(on_failure);
    let host = own_host(|settings| settings.hook(registration));
    let test = Test::new("probe#counter").on(&host);
    let cancellation = test.cancellation();
    let cancel = async {
        entered.notified().await;
        cancellation.cancel(AbortReason::UserInterruption);
    };
    tokio::join!(test.call(json!({})), cancel).0
}

#[tokio::test]
async fn a_call_can_be_canceled_while_a_hook_runs_before_the_tool() {
    for how in [How::Pending, How::Blocking] {
        let called = canceled_in(
            HookEvent::PreToolUse,
            how,
            Duration::from_secs(600),
            OnFailure::Warn,
        )
        .await;
        called
            .failed("canceled", "canceled")
            .ended("canceled", "canceled")
            .never_ran();
        assert_eq!(called.0.hooks[0].outcome, HookOutcome::Canceled);
    }
}

#[tokio::test]
async fn canceling_does_not_get_an_output_past_a_hook() {
    let wall = Duration::from_millis(300);
    let called = canceled_in(HookEvent::PostToolUse, How::Pending, wall, OnFailure::Block).await;
    called.failed("execution_failed", "post_hook_failed");
    assert!(called.0.result.structured_content.is_none());
    assert_eq!(called.0.hooks[0].outcome, HookOutcome::TimedOut);
}

#[tokio::test]
async fn two_hooks_cannot_have_one_id() {
    let hook = || Registration::new(RecordingHook::new("same").shared());
    let settings = toolcell::Host::builder()
        .home(crate::support::kept("home"))
        .compiler(env!("CARGO_BIN_EXE_toolcell"))
        .pooled(false)
        .hooks(vec![hook(), hook()]);
    let error = settings.build().err().unwrap();
    assert!(
        error.to_string().contains("two hooks are called same"),
        "{error:#}"
    );
}
