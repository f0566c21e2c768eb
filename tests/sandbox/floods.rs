//! Floods of output: the host's memory stays flat, and dropped output is reported.
//!
//! Promise: Memory of one call is bounded.
//! Promise: Output is data.

use serde_json::json;

use super::logged;
use crate::support::{Called, Test};

const MIB: u64 = 1 << 20;
/// Small enough for logs to stay inline in the result.
const LOG_BYTES: u64 = 20_000;

#[tokio::test]
async fn an_answer_over_the_limit_is_refused() {
    // Slightly over the limit, and so far over it that the answer is not even copied out of the guest.
    for mib in [2, 12] {
        for tool in ["hostile#flood_output", "hostile#flood_structured"] {
            let called = Test::new(tool)
                .limit(|limits| limits.output_bytes = MIB)
                .call(json!({ "mib": mib }))
                .await;
            called.failed("result_too_large", "output_limit");
            assert!(called.record().to_string().len() < 100_000, "{tool}");
        }
    }
}

#[tokio::test]
async fn an_answer_over_the_limit_is_not_copied_out_of_the_guest() {
    let called = Test::new("hostile#flood_output")
        .limit(|limits| limits.output_bytes = MIB)
        .call(json!({ "mib": 12 }))
        .await;
    called.failed("result_too_large", "output_limit");
    // If the host had copied the answer, its size would be recorded.
    assert_eq!(called.0.result.usage.as_ref().unwrap().output_bytes.used, 0);
}

#[tokio::test]
async fn the_same_text_counts_each_time_that_it_is_returned() {
    let called = Test::new("wat:aliased-strings").call(json!({})).await;
    called.failed("result_too_large", "output_limit");
}

#[tokio::test]
async fn an_answer_within_the_limit_is_kept_whole() {
    let called = Test::new("hostile#flood_output")
        .call(json!({ "mib": 4 }))
        .await;
    called.succeeded();
    assert_eq!(
        called.0.result.usage.as_ref().unwrap().output_bytes.used,
        4 * MIB + 27
    );
    let block = &called.record()["result"]["content"][0];
    assert_eq!(block["type"], "persisted_output_ref");
    assert_eq!(block["persisted_ref"]["size_bytes"], 4 * MIB);
}

#[tokio::test]
async fn printing_too_much_is_not_fatal_and_what_is_over_is_counted() {
    for (tool, stream) in [
        ("hostile#flood_stdout", "stdout"),
        ("hostile#flood_stderr", "stderr"),
    ] {
        let called = Test::new(tool)
            .limit(|limits| limits.log_bytes = LOG_BYTES)
            .call(json!({ "mib": 16 }))
            .await;
        assert_eq!(called.succeeded()["written"], 16 * MIB);
        holds_no_more_than_the_limit(&called, stream);
        assert_eq!(
            called.0.result.usage.as_ref().unwrap().log_bytes.used,
            16 * MIB
        );
    }
}

#[tokio::test]
async fn logging_too_much_is_not_fatal_and_what_is_over_is_counted() {
    let called = Test::new("hostile#flood_log")
        .limit(|limits| limits.log_bytes = LOG_BYTES)
        .call(json!({ "count": 50_000, "bytes": 90 }))
        .await;
    assert_eq!(called.succeeded()["logged"], 50_000);
    holds_no_more_than_the_limit(&called, "log");
    assert!(called.0.result.usage.as_ref().unwrap().log_bytes.used >= 50_000 * 90);
    let called = Test::new("hostile#flood_log")
        .limit(|limits| limits.log_bytes = LOG_BYTES)
        .call(json!({ "count": 50_000, "bytes": 1 }))
        .await;
    let logged = called.events().into_iter();
    let logged = logged.filter(|event| *event == "tool.invocation.logged");
    assert_eq!(
        logged.count(),
        1_001,
        "the last one says that there are more"
    );
}

#[tokio::test]
async fn one_huge_log_line_is_cut() {
    let called = Test::new("hostile#one_huge_log")
        .limit(|limits| limits.log_bytes = LOG_BYTES)
        .call(json!({ "mib": 4 }))
        .await;
    called.succeeded();
    holds_no_more_than_the_limit(&called, "log");
    assert!(called.0.result.usage.as_ref().unwrap().log_bytes.used >= 4 * MIB);
}

#[track_caller]
fn holds_no_more_than_the_limit(called: &Called, stream: &str) {
    let record = called.record();
    let kept = logged(&record, stream).len() as u64;
    assert!(
        kept > LOG_BYTES / 2 && kept <= LOG_BYTES,
        "{kept} bytes of {stream} were kept"
    );
    assert!(
        logged(&record, "host").contains("dropped"),
        "the record does not say that something is missing"
    );
}

#[tokio::test]
async fn writes_of_nothing_leave_nothing_behind() {
    let called = Test::new("hostile#flood_empty_writes")
        .call(json!({ "count": 500_000 }))
        .await;
    assert_eq!(called.succeeded()["writes"], 500_000);
    assert_eq!(
        called.0.result.usage.as_ref().unwrap().log_bytes.used,
        1_024
    );
}

#[tokio::test]
async fn a_flood_of_progress_is_bounded_and_its_last_update_is_kept() {
    let called = Test::new("hostile#flood_progress")
        .limit(|limits| limits.progress_updates = 50)
        .call(json!({ "count": 20_000 }))
        .await;
    assert_eq!(called.succeeded()["reported"], 20_000);
    let progress = &called.0.progress;
    // The last one is the host's: that the call has ended.
    assert_eq!(progress.len(), 51);
    assert_eq!(progress[0].line_count, Some(1));
    assert_eq!(progress[49].line_count, Some(20_000));
    assert!(progress.iter().map(|update| update.sequence).eq(1..=51));
    assert_eq!(
        called
            .events()
            .iter()
            .filter(|event| **event == "tool.invocation.progress")
            .count(),
        51
    );
}

#[tokio::test]
async fn a_flood_of_partial_results_is_bounded() {
    let called = Test::new("hostile#flood_partial")
        .limit(|limits| limits.progress_updates = 50)
        .call(json!({ "count": 20_000 }))
        .await;
    assert_eq!(called.succeeded()["handed_over"], 20_000);
    assert_eq!(called.0.progress.len(), 51);
}

#[tokio::test]
async fn all_partial_results_together_are_no_larger_than_an_answer_may_be() {
    let called = Test::new("hostile#flood_partial")
        .limit(|limits| limits.output_bytes = MIB)
        .call(json!({ "count": 100, "bytes": 100_000 }))
        .await;
    called.succeeded();
    let kept: usize = called
        .0
        .progress
        .iter()
        .filter_map(|update| update.partial_content.as_ref())
        .map(|c| c.to_string().len())
        .sum();
    assert!(
        kept > 500_000 && kept <= 1 << 20,
        "{kept} bytes of partial results were kept"
    );
    assert!(logged(&called.record(), "log").contains("a partial result was dropped"));
}

#[tokio::test]
async fn the_words_of_a_failure_are_cut() {
    let called = Test::new("hostile#huge_failure")
        .call(json!({ "mib": 2 }))
        .await;
    called.failed("execution_failed", "huge");
    assert_eq!(called.message().len(), 4_000);
    assert!(called.record().to_string().len() < 50_000);
}
