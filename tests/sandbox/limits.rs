use serde_json::json;

use crate::support::Test;

#[tokio::test]
async fn a_spinning_tool_ends_at_its_deadline() {
    let called = Test::new("hostile#spin").timeout_ms(200).call(json!({})).await;
    called.failed("timeout", "deadline_exceeded");
    assert_eq!(called.statuses(), ("timed_out".into(), "timed_out".into()));
}

#[tokio::test]
async fn fuel_runs_out_at_the_same_point_each_time() {
    for _ in 0..3 {
        let called = Test::new("wat:spin").limit(|limits| limits.fuel = 5_000_000).call(json!({})).await;
        called.failed("timeout", "fuel_exhausted");
        assert_eq!(called.0.result.usage.as_ref().unwrap().fuel.used, 5_000_000);
    }
}
