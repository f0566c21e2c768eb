//! Following the events of a host in its own process.

use serde_json::{Value, json};
use toolcell::BusEvent;

use crate::support::Test;

use super::doubles::own_host;

#[tokio::test]
async fn a_host_numbers_the_events_of_its_calls_for_those_who_follow() {
    let host = own_host(|_| {});
    let mut follower = host.follow(None);
    let called = Test::new("probe#echo")
        .on(&host)
        .call(json!({ "text": "one" }))
        .await;
    let mut seen: Vec<(u64, Value)> = Vec::new();
    while let Some(followed) = follower.try_next() {
        let BusEvent::Event { sequence, event } = followed else {
            panic!("{followed:?}")
        };
        seen.push((sequence, serde_json::to_value(&*event).unwrap()));
    }
    assert!(
        seen.iter()
            .map(|(sequence, _)| *sequence)
            .eq(1..=seen.len() as u64),
        "{seen:?}"
    );
    assert_eq!(seen[0].1["event_type"], "tool.declared");
    let of_calls = seen
        .iter()
        .map(|(_, event)| event)
        .filter(|event| !event["invocation_id"].is_null());
    assert_eq!(
        of_calls.cloned().collect::<Vec<_>>(),
        *called.record()["events"].as_array().unwrap()
    );
    // Without a follower, the numbers go on.
    let next = follower.position();
    drop(follower);
    Test::new("probe#echo")
        .on(&host)
        .call(json!({ "text": "two" }))
        .await;
    assert!(host.follow(None).position() > next + 5);
}
