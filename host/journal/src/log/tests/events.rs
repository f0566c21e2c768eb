//! Events on record of running, ended and killed calls.

use std::sync::Arc;

use serde_json::json;

use crate::log::{CallLog, EventReader, FollowedEvent, LogSettings, Start};
use crate::of_no_call;
use toolcell_spec::{EventType, InvocationId, ToolEvent};

use super::{files, log, remove, remove_database, running};

fn events<const N: usize>(id: InvocationId, types: [EventType; N]) -> [ToolEvent; N] {
    let source: Arc<str> = "toolcell/test".into();
    types.map(|of| ToolEvent {
        invocation_id: Some(id),
        ..of_no_call(&source, of, Some("a"), json!({}))
    })
}

/// Numbers and types, and missed events.
fn read(reader: &mut EventReader) -> (Vec<(u64, EventType)>, Vec<u64>) {
    let mut seen = Vec::new();
    let mut missed = Vec::new();
    for one in reader.read().unwrap() {
        match one {
            FollowedEvent::Event(logged) => seen.push((logged.sequence, logged.event.event_type)),
            FollowedEvent::Missed(count) => missed.push(count),
        }
    }
    (seen, missed)
}

fn note(log: &CallLog, id: InvocationId, first: usize, events: &[ToolEvent]) {
    log.noted(id, Some("s"), first, events).unwrap();
}

#[tokio::test]
async fn what_was_decided_and_done_before_a_kill_is_on_record() {
    let folder = tempfile::tempdir().unwrap();
    let call = running("a");
    let id = call.invocation_id.to_string();
    let at = call.created_at();
    let hook = json!({
        "schema_version": "0.2.0", "hook_id": "h", "hook_event": "pre_tool_use", "invocation_id": id, "tool_id": "a",
        "matcher": {}, "outputs": [{ "type": "message", "text": "seen" }], "started_at": at, "ended_at": at,
        "outcome": "completed",
    });
    let hooks = [serde_json::from_value(hook.clone()).unwrap()];
    let [planned, started, progress] = events(
        call.invocation_id,
        [EventType::Planned, EventType::Started, EventType::Progress],
    );
    let writer = log(&folder, LogSettings::default());
    let start = Start {
        hooks: hooks.into(),
        events: vec![planned.clone(), started.clone()],
        ..Start::new(call.clone(), true)
    };
    writer.started(start, false).await.unwrap();
    note(
        &writer,
        call.invocation_id,
        2,
        std::slice::from_ref(&progress),
    );
    drop(writer);
    let reader = log(&folder, LogSettings::default());
    let record = reader.record(&id).unwrap().unwrap();
    assert_eq!(record["hooks"], json!([hook]));
    let [first @ .., last] = record["events"].as_array().unwrap().as_slice() else {
        panic!("{record}")
    };
    let before = [planned, started, progress].map(|event| json!(event));
    assert_eq!(
        (first, &last["event_type"]),
        (&before[..], &json!("tool.invocation.canceled"))
    );
    assert_eq!(last["data"]["abort_reason"], "runtime_shutdown");
    assert_eq!(
        record["invocation"]["model_input"],
        json!(*call.model_input)
    );
}

#[tokio::test]
async fn every_event_is_read_once_while_its_call_runs_and_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(&folder, LogSettings::default());
    let other = log(&folder, LogSettings::default());
    assert_eq!(read(&mut other.follow(Some(1)).unwrap()), (vec![], vec![]));
    let call = running("a");
    writer
        .started(Start::new(call.clone(), false), false)
        .await
        .unwrap();
    let id = call.invocation_id;
    let told = events(
        id,
        [EventType::Planned, EventType::Started, EventType::Progress],
    );
    note(&writer, id, 0, &told[..2]);
    let mut reader = other.follow(Some(1)).unwrap();
    assert_eq!(
        read(&mut reader),
        (
            vec![(1, EventType::Planned), (2, EventType::Started)],
            vec![]
        )
    );
    assert_eq!(read(&mut reader), (vec![], vec![]));
    // A process that resumes a call notes all of its events again.
    note(&writer, id, 0, &told);
    assert_eq!(read(&mut reader), (vec![(3, EventType::Progress)], vec![]));
    // A killed process leaves what it noted.
    drop(writer);
    other.close_orphans().unwrap();
    assert_eq!(read(&mut reader), (vec![(4, EventType::Canceled)], vec![]));
    let record = other.record(&id.to_string()).unwrap().unwrap();
    assert_eq!(record["events"].as_array().unwrap().len(), 4);
    // Another reader has the same numbers.
    assert_eq!(
        read(&mut other.follow(Some(3)).unwrap()).0,
        [(3, EventType::Progress), (4, EventType::Canceled)]
    );
    let mut late = other.follow(None).unwrap();
    assert_eq!(
        (late.position(), late.end(), read(&mut late)),
        (5, 5, (vec![], vec![]))
    );
}

#[tokio::test]
async fn a_reader_is_told_how_many_events_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let one = log(&folder, LogSettings::default());
    let two = log(&folder, LogSettings::default());
    for writer in [&one, &two] {
        let call = running("a");
        writer
            .started(Start::new(call.clone(), false), false)
            .await
            .unwrap();
        note(
            writer,
            call.invocation_id,
            0,
            &events(call.invocation_id, [EventType::Planned, EventType::Started]),
        );
    }
    let types = |from: u64| vec![(from, EventType::Planned), (from + 1, EventType::Started)];
    assert_eq!(
        read(&mut two.follow(Some(1)).unwrap()),
        ([types(1), types(3)].concat(), vec![])
    );
    drop(one);
    remove(&folder.path().join("calls"), 1);
    assert_eq!(read(&mut two.follow(Some(1)).unwrap()), (types(3), vec![2]));
    // An index that is made again gives no number a second time.
    remove_database(&folder);
    let mut reader = two.follow(Some(1)).unwrap();
    assert_eq!(read(&mut reader), (types(5), vec![4]));
}

/// A reader waiting for the index must not take a new segment for one that is gone: its events would be numbered again.
#[test]
fn readers_that_update_the_index_at_once_number_each_event_once() {
    const READERS: usize = 6;
    const ROUNDS: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let writing = || {
        let writer = log(&folder, LogSettings::default());
        let id = InvocationId::new();
        note(
            &writer,
            id,
            0,
            &events(id, [EventType::Planned, EventType::Started]),
        );
        read(&mut writer.follow(Some(1)).unwrap());
        writer
    };
    let first = writing();
    // Each writer keeps its segment, so that the next one begins another.
    let writers: Vec<CallLog> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| scope.spawn(|| (0..ROUNDS).map(|_| writing()).collect::<Vec<_>>()))
            .collect();
        readers
            .into_iter()
            .flat_map(|reader| reader.join().unwrap())
            .collect()
    });
    assert_eq!(files(&folder).len(), writers.len() + 1);
    let (seen, missed) = read(&mut first.follow(Some(1)).unwrap());
    let numbers: Vec<u64> = seen.into_iter().map(|(number, _)| number).collect();
    let all = 2 * (writers.len() as u64 + 1);
    assert_eq!((numbers, missed), ((1..=all).collect(), vec![]));
}

#[tokio::test]
async fn events_of_no_call_are_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(&folder, LogSettings::default());
    let event = of_no_call(
        &"toolcell/test".into(),
        EventType::DeferredLoaded,
        Some("a"),
        json!({}),
    );
    log.announced(vec![event.clone()], Some("s".to_owned()))
        .await
        .unwrap();
    let found = log.follow(Some(1)).unwrap().read().unwrap();
    let [FollowedEvent::Event(logged)] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(
        (logged.sequence, logged.session.as_deref(), &logged.event),
        (1, Some("s"), &event)
    );
    assert!(log.verify().unwrap().is_ok());
}
