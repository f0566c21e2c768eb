use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::Client;

#[test]
fn calls_run_side_by_side() {
    let mut client = Client::of(&["probe#hold"]);
    client.call("hold", json!({ "ms": 1 }));
    let ids: Vec<Value> = (0..2)
        .map(|_| client.begin_call("hold", json!({ "ms": 500 })))
        .collect();
    let held: Vec<(u64, u64)> = ids
        .iter()
        .map(|id| client.answer(id)["result"]["structuredContent"].clone())
        .map(|held| {
            (
                held["entered_ns"].as_u64().unwrap(),
                held["left_ns"].as_u64().unwrap(),
            )
        })
        .collect();
    assert!(
        held[0].0 < held[1].1 && held[1].0 < held[0].1,
        "they took turns: {held:?}"
    );
}

#[test]
fn a_spinning_tool_does_not_hold_others_up() {
    let mut client = Client::with(&["hostile#spin", "probe#invocation"], ["--timeout", "30s"]);
    client.call("invocation", json!({}));
    client.begin_call("spin", json!({}));
    let quickest = (0..20)
        .map(|_| {
            let began = Instant::now();
            client.call("invocation", json!({}));
            began.elapsed()
        })
        .min()
        .unwrap();
    // The best of twenty, because other programs use the machine, too.
    assert!(quickest < Duration::from_millis(50), "{quickest:?}");
}
