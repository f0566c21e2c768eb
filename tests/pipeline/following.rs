//! Following the events of the log from an embedding program.

use serde_json::{Value, json};
use toolcell::FollowedEvent;

use crate::support::Test;

use super::doubles::own_host;

#[tokio::test]
async fn a_host_follows_the_numbered_events_of_its_log_from_any_of_them() {
    let host = own_host(|_| {});
    let mut follower = host.follow(None).unwrap();
    let first = follower.position();
    let called = Test::new("probe#echo")
        .on(&host)
        .call(json!({ "text": "one" }))
        .await;
    let read = |found: Vec<FollowedEvent>| -> Vec<(u64, Value)> {
        found
            .into_iter()
            .map(|followed| {
                let FollowedEvent::Event(logged) = followed else {
                    panic!("{followed:?}")
                };
                (
                    logged.sequence,
                    serde_json::to_value(&logged.event).unwrap(),
                )
            })
            .collect()
    };
    let seen = read(follower.read().unwrap());
    assert!(
        seen.iter()
            .map(|(sequence, _)| *sequence)
            .eq(first..first + seen.len() as u64),
        "{seen:?}"
    );
    let of_calls = seen
        .iter()
        .map(|(_, event)| event)
        .filter(|event| !event["invocation_id"].is_null());
    assert_eq!(
        of_calls.cloned().collect::<Vec<_>>(),
        *called.record()["events"].as_array().unwrap()
    );
    let mut later = host.follow(Some(first + 3)).unwrap();
    assert_eq!(read(later.read().unwrap()), seen[3..]);
}
