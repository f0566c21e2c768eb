//! A canceled call ends at once, or after a grace period if the guest imports `cancellation`.
//!
//! Promise: Every call ends at its deadline.
//! Promise: Cancellation is real.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_spec::{AbortReason, EventType};

use crate::support::{Called, Test, host};

use super::Heard;

const SOON: Duration = Duration::from_millis(100);
/// Far more than a grace period, far less than these tools would run.
const LONG: Duration = Duration::from_secs(3);

async fn canceled(tool: &str, input: Value) -> Called {
    // The tool is compiled before the clock starts.
    Test::new(tool).load().await.unwrap();
    let began = Instant::now();
    let called = Test::new(tool).cancel_after(SOON).call(input).await;
    called.failed("canceled", "canceled");
    assert_eq!(
        called.statuses(),
        ("canceled".into(), "canceled".into()),
        "{tool}"
    );
    assert!(began.elapsed() < LONG, "{tool} was not stopped");
    let events = called.events();
    assert!(
        events.contains(&"tool.invocation.started"),
        "{tool} was canceled before it ran"
    );
    assert!(
        events.contains(&"tool.invocation.cancel_requested"),
        "{events:?}"
    );
    called
}

/// The party that acknowledged the cancellation: the guest, or only the host.
fn acknowledged_by(called: &Called) -> Vec<Value> {
    let record = called.record();
    let events = record["events"].as_array().unwrap().iter();
    events
        .filter(|event| event["event_type"] == "tool.invocation.cancel_acknowledged")
        .map(|event| event["data"]["by"].clone())
        .collect()
}

#[tokio::test]
async fn a_tool_that_cannot_hear_a_stop_is_stopped_at_once() {
    for tool in [
        "hostile#sleep",
        "hostile#sleep_ignore_cancel",
        "hostile#spin",
        "hostile#memcpy_loop",
    ] {
        let called = canceled(tool, json!({})).await;
        assert_eq!(acknowledged_by(&called), ["host"], "{tool}");
        assert!(called.0.result.usage.is_some());
    }
}

#[tokio::test]
async fn what_a_cooperative_tool_still_says_is_kept() {
    for tool in ["cancellable#cooperative", "cancellable#polling"] {
        let called = canceled(tool, json!({})).await;
        assert_eq!(acknowledged_by(&called), ["guest"], "{tool}");
        let said = called.0.result.structured_content.as_ref().unwrap();
        assert_eq!(
            *said,
            json!({ "finished": false, "reason": "user_interruption" }),
            "{tool}"
        );
    }
}

#[tokio::test]
async fn a_partial_answer_to_a_stop_is_kept_and_an_error_is_not_taken_for_a_failure() {
    let partial = canceled("cancellable#cooperative", json!({ "answer": "partial" })).await;
    assert_eq!(
        partial.0.result.structured_content.as_ref().unwrap()["finished"],
        false
    );
    let failure = canceled("cancellable#cooperative", json!({ "answer": "canceled" })).await;
    assert!(failure.0.result.structured_content.is_none());
}

#[tokio::test]
async fn a_tool_that_only_pretends_to_stop_is_stopped_after_its_grace() {
    for (tool, by) in [
        ("cancellable#acknowledge_never", "host"),
        ("cancellable#acknowledge_and_stay", "guest"),
        ("cancellable#sleep_ignore_cancel", "host"),
        ("cancellable#spin_ignore_cancel", "host"),
    ] {
        assert_eq!(
            acknowledged_by(&canceled(tool, json!({})).await),
            [by],
            "{tool}"
        );
    }
}

#[tokio::test]
async fn a_cleanup_that_takes_longer_than_the_grace_is_cut_off() {
    let called = canceled("cancellable#cooperative", json!({ "cleanup_ms": 60_000 })).await;
    assert!(called.0.result.structured_content.is_none());
}

#[tokio::test]
async fn a_tool_that_traps_when_it_is_stopped_was_canceled_all_the_same() {
    canceled("cancellable#trap_when_asked", json!({})).await;
}

#[tokio::test]
async fn a_tool_cannot_claim_that_it_was_asked_to_stop() {
    let called = Test::new("cancellable#acknowledge_unasked")
        .call(json!({}))
        .await;
    assert_eq!(called.succeeded(), json!({ "requested": null }));
    assert!(acknowledged_by(&called).is_empty());
}

#[tokio::test]
async fn a_tool_that_nobody_stops_finishes() {
    let called = Test::new("cancellable#cooperative")
        .call(json!({ "ms": 5 }))
        .await;
    assert_eq!(called.succeeded(), json!({ "finished": true }));
}

async fn timed_out(tool: &str, input: Value) -> Called {
    let began = Instant::now();
    let called = Test::new(tool).timeout_ms(150).call(input).await;
    let spins = tool.ends_with("#spin_ignore_cancel");
    let code = if spins {
        "epoch_deadline"
    } else {
        "deadline_exceeded"
    };
    called.failed("timeout", code);
    assert_eq!(
        called.statuses(),
        ("timed_out".into(), "timed_out".into()),
        "{tool}"
    );
    assert!(began.elapsed() < LONG, "{tool} was not stopped");
    // Nobody asked for it.
    assert!(
        !called.record()["events"]
            .to_string()
            .contains("tool.invocation.cancel_"),
        "{tool}"
    );
    called
}

#[tokio::test]
async fn a_tool_that_listens_hears_of_its_deadline_and_what_it_still_says_is_kept() {
    for tool in ["cancellable#cooperative", "cancellable#polling"] {
        for answer in ["success", "partial"] {
            let called = timed_out(tool, json!({ "answer": answer })).await;
            let said = called.0.result.structured_content.as_ref().unwrap();
            assert_eq!(
                *said,
                json!({ "finished": false, "reason": "timeout" }),
                "{tool}"
            );
        }
    }
    let failure = timed_out("cancellable#cooperative", json!({ "answer": "canceled" })).await;
    assert!(failure.0.result.structured_content.is_none());
}

#[tokio::test]
async fn the_time_after_a_deadline_ends_too() {
    let tools = [
        "acknowledge_never",
        "acknowledge_and_stay",
        "sleep_ignore_cancel",
        "spin_ignore_cancel",
        "trap_when_asked",
    ];
    for tool in tools {
        timed_out(&format!("cancellable#{tool}"), json!({})).await;
    }
    let called = timed_out("cancellable#cooperative", json!({ "cleanup_ms": 60_000 })).await;
    assert!(called.0.result.structured_content.is_none());
}

#[tokio::test]
async fn a_call_that_is_canceled_before_it_starts_never_runs() {
    let test = Test::new("probe#counter");
    test.cancellation().cancel(AbortReason::UserInterruption);
    let called = test.call(json!({})).await;
    called.failed("canceled", "canceled").never_ran();
    assert!(!called.events().contains(&"tool.invocation.started"));
}

#[tokio::test]
async fn a_call_that_is_canceled_while_it_waits_never_runs() {
    let heard = Heard::new();
    let mut events = heard.events();
    let host = Arc::new(host(|settings| settings.calls_at_once(1).listener(heard)));
    Test::new("probe#counter").on(&host).load().await.unwrap();
    let first = Test::new("hostile#sleep").on(&host);
    let waiting = Test::new("probe#counter").on(&host);
    let stop_first = first.cancellation();
    let stop_waiting = waiting.cancellation();
    let story = async {
        events.wait_for(EventType::Started).await;
        let meanwhile = async {
            events.wait_for(EventType::Queued).await;
            stop_waiting.cancel(AbortReason::UserInterruption);
        };
        let (called, ()) = tokio::join!(waiting.call(json!({})), meanwhile);
        stop_first.cancel(AbortReason::UserInterruption);
        called
    };
    let (first, waited) = tokio::join!(first.call(json!({})), story);
    waited.failed("canceled", "canceled").never_ran();
    first.failed("canceled", "canceled");
    // The place is free again.
    Test::new("probe#counter")
        .on(&host)
        .call(json!({}))
        .await
        .succeeded();
}

#[tokio::test]
async fn the_reason_of_a_stop_decides_its_class() {
    for (reason, class, code) in [
        (
            AbortReason::SiblingError,
            "sibling_canceled",
            "sibling_canceled",
        ),
        (
            AbortReason::Fallback,
            "streaming_fallback_discarded",
            "fallback",
        ),
        (AbortReason::RuntimeShutdown, "canceled", "host_stopped"),
    ] {
        let heard = Heard::new();
        let mut events = heard.events();
        let host = Arc::new(host(|settings| settings.pooled(false).listener(heard)));
        let test = Test::new("hostile#sleep").on(&host);
        let cancellation = test.cancellation();
        let stop = async {
            events.wait_for(EventType::Started).await;
            cancellation.cancel(reason);
        };
        let (called, ()) = tokio::join!(test.call(json!({})), stop);
        called.failed(class, code);
        assert_eq!(called.statuses().1, "canceled");
        let record = called.record();
        let reason = json!(reason);
        let last = record["invocation"]["status_transitions"]
            .as_array()
            .unwrap()
            .last()
            .unwrap();
        let said = [&record["result"], &record["result"]["error"], last]
            .map(|place| &place["abort_reason"]);
        assert_eq!(said, [&reason; 3]);
    }
}

#[tokio::test]
async fn a_canceled_writer_writes_no_more() {
    let (_dir, dir) = crate::support::scratch();
    let file = dir.join("beats");
    Test::new("hostile#busy_write").load().await.unwrap();
    let test = Test::new("hostile#busy_write")
        .write(&dir)
        .cancel_after(Duration::from_millis(150));
    test.call(json!({ "path": super::text(&file) }))
        .await
        .failed("canceled", "canceled");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.starts_with("1\n"), "{written:?}");
    Test::new("probe#hold")
        .call(json!({ "ms": 60 }))
        .await
        .succeeded();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
}
