//! Limits on time: fuel, which is deterministic, and the clock.
//!
//! Promise: Every call ends at its deadline.
//! Promise: Memory of one call is bounded.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcell::Host;

use crate::support::{Called, Test, fixture, host};

/// Maximum delay after a deadline, in milliseconds. The host promises much less; this machine may be busy.
const SLACK_MS: u64 = 1_250;

async fn called_for_200_ms(tool: &str, code: &str) -> Called {
    let called = Test::new(tool).timeout_ms(200).call(json!({})).await;
    called.failed("timeout", code);
    assert_eq!(called.statuses(), ("timed_out".into(), "timed_out".into()));
    let wall = called.0.result.usage.as_ref().unwrap().wall_ms;
    assert_eq!(wall.limit, 200);
    assert!(
        (200..200 + SLACK_MS).contains(&wall.used),
        "{tool} ran for {} ms",
        wall.used
    );
    called
}

#[tokio::test]
async fn a_spinning_tool_ends_at_its_deadline() {
    let called = called_for_200_ms("hostile#spin", "epoch_deadline").await;
    assert!(called.message().contains("200 ms"));
    called_for_200_ms("hostile#spin_fuel", "epoch_deadline").await;
    called_for_200_ms("wat:spin", "epoch_deadline").await;
}

#[tokio::test]
async fn a_tool_that_blocks_in_the_clock_of_the_host_ends_at_its_deadline() {
    called_for_200_ms("hostile#sleep", "deadline_exceeded").await;
    called_for_200_ms("hostile#sleep_ignore_cancel", "deadline_exceeded").await;
}

#[tokio::test]
async fn a_tool_that_copies_memory_for_ever_ends_at_its_deadline() {
    called_for_200_ms("hostile#memcpy_loop", "epoch_deadline").await;
}

#[tokio::test]
async fn a_tool_that_floods_the_host_with_calls_ends_at_its_deadline() {
    called_for_200_ms("hostile#clock_flood", "epoch_deadline").await;
}

#[tokio::test]
async fn a_tool_that_spins_while_its_arguments_are_copied_in_ends_at_its_deadline() {
    called_for_200_ms("wat:spin-realloc", "epoch_deadline").await;
}

#[tokio::test]
async fn a_tool_that_spins_after_its_answer_was_read_ends_at_its_deadline() {
    called_for_200_ms("wat:spin-post-return", "epoch_deadline").await;
}

#[tokio::test]
async fn a_component_that_spins_when_it_is_instantiated_does_not_load() {
    let refusal = Test::new("wat:spin-start").load().await.unwrap_err();
    assert_eq!(serde_json::to_value(refusal.class).unwrap(), "timeout");
}

#[tokio::test]
async fn the_shortest_of_all_timeouts_counts() {
    let own = Test::new("probe#timeboxed")
        .call(json!({ "ms": 10_000 }))
        .await;
    own.failed("timeout", "deadline_exceeded");
    assert_eq!(own.0.result.usage.as_ref().unwrap().wall_ms.limit, 300);
    let both = Test::new("probe#timeout_in_interface")
        .call(json!({}))
        .await;
    both.failed("timeout", "deadline_exceeded");
    assert_eq!(both.0.result.usage.as_ref().unwrap().wall_ms.limit, 200);
    let callers = Test::new("probe#timeboxed")
        .timeout_ms(50)
        .call(json!({ "ms": 10_000 }))
        .await;
    assert_eq!(callers.0.result.usage.as_ref().unwrap().wall_ms.limit, 50);
}

#[tokio::test]
async fn fuel_runs_out_at_the_same_point_each_time() {
    let mut points = Vec::new();
    for _ in 0..20 {
        let called = Test::new("hostile#flood_progress")
            .limit(|limits| {
                limits.fuel = 5_000_000;
                limits.progress_updates = 5;
            })
            .call(json!({ "count": 1_000_000 }))
            .await;
        called.failed("timeout", "fuel_exhausted");
        assert_eq!(called.statuses(), ("timed_out".into(), "timed_out".into()));
        let usage = called.0.result.usage.as_ref().unwrap();
        assert_eq!((usage.fuel.used, usage.fuel.limit), (5_000_000, 5_000_000));
        points.push(
            called
                .0
                .progress
                .iter()
                .rev()
                .find_map(|update| update.line_count)
                .unwrap(),
        );
    }
    assert!(points[0] > 100, "{points:?}");
    assert!(points.iter().all(|point| *point == points[0]), "{points:?}");
}

/// A host that meters the tools of `guest` by time.
async fn by_time(guest: &str) -> Arc<Host> {
    let host = host(|settings| settings.pooled(false).metered_by_time(|_| true));
    host.load_file(&fixture(guest)).await.unwrap();
    Arc::new(host)
}

#[tokio::test]
async fn a_tool_that_is_metered_by_time_ends_at_its_cpu_time() {
    let host = by_time("hostile").await;
    let called = Test::new("hostile#spin_fuel")
        .on(&host)
        .timeout_ms(20_000)
        .limit(|limits| limits.cpu = Duration::from_millis(200))
        .call(json!({}))
        .await;
    called.failed("timeout", "cpu_time_exhausted");
    assert_eq!(called.statuses(), ("timed_out".into(), "timed_out".into()));
    assert!(called.message().contains("200 ms"), "{}", called.message());
    let usage = called.0.result.usage.as_ref().unwrap();
    let cpu = usage.cpu_ms.unwrap();
    assert_eq!((cpu.limit, usage.fuel.used), (200, 0));
    assert!((200..300).contains(&cpu.used), "{} ms", cpu.used);
    assert!(usage.wall_ms.used >= cpu.used, "{usage:?}");
}

#[tokio::test]
async fn a_tool_that_is_metered_by_time_and_waits_ends_at_its_deadline() {
    let host = by_time("hostile").await;
    for (tool, code, cpu_ms) in [
        ("hostile#sleep", "deadline_exceeded", 0..200),
        ("hostile#spin", "epoch_deadline", 50..1_000),
        ("hostile#memcpy_loop", "epoch_deadline", 50..1_000),
        ("hostile#clock_flood", "epoch_deadline", 50..1_000),
    ] {
        let called = Test::new(tool)
            .on(&host)
            .timeout_ms(400)
            .limit(|limits| limits.cpu = Duration::from_secs(20))
            .call(json!({}))
            .await;
        called.failed("timeout", code);
        let used = called.0.result.usage.as_ref().unwrap().cpu_ms.unwrap().used;
        assert!(cpu_ms.contains(&used), "{tool}: {used} ms");
    }
}

#[tokio::test]
async fn a_tool_that_is_metered_by_time_needs_no_fuel() {
    let host = by_time("probe").await;
    let called = Test::new("probe#counter")
        .on(&host)
        .limit(|limits| limits.fuel = 0)
        .call(json!({}))
        .await;
    called.succeeded();
    let usage = called.0.result.usage.as_ref().unwrap();
    assert_eq!((usage.fuel.used, usage.fuel.limit), (0, 0));
    let counted = Test::new("probe#counter").call(json!({})).await;
    assert_eq!(counted.0.result.usage.as_ref().unwrap().cpu_ms, None);
}

#[tokio::test]
async fn the_same_call_uses_the_same_fuel_each_time() {
    let mut used = Vec::new();
    for _ in 0..20 {
        let called = Test::new("wat:echo")
            .call(json!({ "text": "the same each time" }))
            .await;
        called.succeeded();
        used.push(called.0.result.usage.as_ref().unwrap().fuel.used);
    }
    assert!(used[0] > 0);
    assert!(used.iter().all(|fuel| *fuel == used[0]), "{used:?}");
}

#[tokio::test]
async fn what_a_call_used_is_reported_however_it_ends() {
    let ends: [(&str, Value); 4] = [
        ("probe#counter", json!({})),
        ("probe#fail", json!({ "class": "rate_limited" })),
        ("hostile#panic", json!({})),
        ("hostile#exit", json!({ "code": 1 })),
    ];
    for (tool, input) in ends {
        let called = Test::new(tool).call(input).await;
        let usage = called.0.result.usage.as_ref().unwrap();
        assert!(
            usage.fuel.used > 0 && usage.fuel.used < usage.fuel.limit,
            "{tool}: {usage:?}"
        );
        assert!(
            usage.memory_bytes.used > 0 && usage.memory_bytes.used < usage.memory_bytes.limit,
            "{tool}: {usage:?}"
        );
        assert!(
            usage.wall_ms.used <= usage.wall_ms.limit,
            "{tool}: {usage:?}"
        );
    }
    let timed_out = Test::new("hostile#spin")
        .timeout_ms(100)
        .call(json!({}))
        .await;
    assert!(timed_out.0.result.usage.as_ref().unwrap().fuel.used > 0);
}
