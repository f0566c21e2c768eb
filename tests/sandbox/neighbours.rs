//! The effect of a hostile guest on the others: none that they notice.
//!
//! Promise: Neighbours keep running.

use std::sync::Arc;

use serde_json::json;
use toolcell_spec::{AbortReason, EventType};

use crate::support::{Test, host};

use super::Heard;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_call_is_answered_while_more_guests_spin_than_there_are_threads() {
    let heard = Heard::new();
    let mut events = heard.events();
    let host = Arc::new(host(|settings| settings.calls_at_once(8).listener(heard)));
    // Loaded beforehand, so that the test measures only the call.
    Test::new("probe#counter").on(&host).load().await.unwrap();
    let spinners: Vec<_> = [
        "hostile#spin",
        "hostile#memcpy_loop",
        "hostile#clock_flood",
        "hostile#spin_fuel",
    ]
    .map(|tool| {
        let test = Test::new(tool).on(&host).timeout_ms(20_000);
        (test.cancellation(), tokio::spawn(test.call(json!({}))))
    })
    .into_iter()
    .collect();
    for _ in 0..spinners.len() {
        events.wait_for(EventType::Started).await;
    }
    for _ in 0..10 {
        Test::new("probe#counter")
            .on(&host)
            .call(json!({}))
            .await
            .succeeded();
    }
    // The spinners are still running, so the calls did not wait for them.
    for (cancellation, spinner) in spinners {
        cancellation.cancel(AbortReason::UserInterruption);
        spinner.await.unwrap().failed("canceled", "canceled");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_takes_all_its_memory_leaves_its_neighbours_theirs() {
    let calls = (0..4).map(|number| {
        let mib = if number % 2 == 0 { 1_000 } else { 8 };
        tokio::spawn(
            Test::new("hostile#memory")
                .limit(|limits| limits.memory_bytes = 32 << 20)
                .call(json!({ "mib": mib })),
        )
    });
    for (number, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
        let called = call.await.unwrap();
        if number % 2 == 0 {
            called.failed("sandbox_violation", "memory_limit");
        } else {
            assert_eq!(called.succeeded()["mib"], 8);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_see_nothing_of_each_other() {
    let calls: Vec<_> = (0..12)
        .map(|number| {
            tokio::spawn(
                Test::new("probe#echo")
                    .call(json!({ "number": number, "text": "x".repeat(2_000) })),
            )
        })
        .collect();
    for (number, call) in calls.into_iter().enumerate() {
        let called = call.await.unwrap();
        assert_eq!(called.succeeded()["input"]["number"], number);
        assert_eq!(
            called.succeeded()["invocation_id"],
            called.record()["invocation"]["invocation_id"]
        );
    }
}
