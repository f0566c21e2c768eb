//! Following the events of the log from an embedding program.

use serde_json::{Value, json};
use toolcell::{EventReader, FollowedEvent};

use crate::support::Test;

use super::doubles::own_host;

#[tokio::test]
async fn a_host_follows_the_numbered_events_of_its_log_from_any_of_them() {
    let host = own_host(|settings| settings);
    let mut follower = host.follow(None).unwrap();
    let first = follower.position();
    let called = Test::new("probe#echo")
        .on(&host)
        .call(json!({ "text": "one" }))
        .await;
    let seen = read(&mut follower);
    // Other tests write to the same log.
    assert!(
        seen.iter()
            .map(|(sequence, _)| *sequence)
            .eq(first..first + seen.len() as u64),
        "{seen:?}"
    );
    let id = &called.record()["invocation"]["invocation_id"];
    let of_call = seen
        .iter()
        .map(|(_, event)| event)
        .filter(|event| event["invocation_id"] == *id);
    assert_eq!(
        of_call.cloned().collect::<Vec<_>>(),
        *called.record()["events"].as_array().unwrap()
    );
    let later = read(&mut host.follow(Some(first + 3)).unwrap());
    assert_eq!(later[..seen.len() - 3], seen[3..]);
}

/// Reads until there is no more: the numbers of events, and the events.
fn read(reader: &mut EventReader) -> Vec<(u64, Value)> {
    let mut seen = Vec::new();
    loop {
        let found = reader.read().unwrap();
        if found.is_empty() {
            return seen;
        }
        for followed in found {
            let FollowedEvent::Event(logged) = followed else {
                panic!("{followed:?}")
            };
            seen.push((
                logged.sequence,
                serde_json::to_value(&logged.event).unwrap(),
            ));
        }
    }
}
