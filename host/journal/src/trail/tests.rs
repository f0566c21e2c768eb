use std::time::Instant;

use super::*;
use crate::{FollowedEvent, LogSettings};
use toolcell_spec::Input;

fn log(folder: &tempfile::TempDir) -> CallLog {
    CallLog::new(
        folder.path().join("journal"),
        folder.path().join("keys/key"),
        LogSettings::default(),
    )
}

fn trail(log: &CallLog) -> Trail {
    let outlet = Outlet {
        log: log.clone(),
        session: Some("s".into()),
    };
    let invocation = ToolInvocation::planned("a.b", &Input::from_text("{}"));
    Trail::begin(
        &invocation,
        "toolcell/test".into(),
        Arc::default(),
        Some(outlet),
    )
}

/// No thread notes its events.
fn unserved(log: &CallLog) -> Trail {
    let trail = trail(log);
    trail.kept().noted.is_due = true;
    trail
}

#[track_caller]
fn wait_for(log: &CallLog, events: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while noted(log).len() < events {
        assert!(Instant::now() < deadline, "not all was noted");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn noted(log: &CallLog) -> Vec<EventType> {
    let event = |one| match one {
        FollowedEvent::Event(logged) => logged.event.event_type,
        FollowedEvent::Missed(count) => panic!("{count} are missing"),
    };
    log.follow(Some(1))
        .unwrap()
        .read()
        .unwrap()
        .into_iter()
        .map(event)
        .collect()
}

#[test]
fn a_call_that_says_nothing_while_it_runs_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(&folder);
    let trail = trail(&log);
    for of in [
        EventType::Planned,
        EventType::Started,
        EventType::ResultCreated,
    ] {
        trail.emit(of, json!({}));
    }
    assert!(!trail.kept().noted.is_due);
}

#[test]
fn what_a_follower_wants_is_noted_soon_with_all_events_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(&folder);
    let trail = trail(&log);
    trail.emit(EventType::Planned, json!({}));
    trail.emit(EventType::Progress, json!({}));
    wait_for(&log, 2);
    assert_eq!(noted(&log), [EventType::Planned, EventType::Progress]);
}

#[test]
fn no_call_waits_for_its_notes_and_they_are_few_lines() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(&folder);
    let silent = unserved(&log);
    silent.emit(EventType::Progress, json!({}));
    assert!(!log.dir().exists(), "the call wrote it");
    let trail = trail(&log);
    let began = Instant::now();
    for _ in 0..150 {
        trail.emit(EventType::Progress, json!({}));
        std::thread::sleep(Duration::from_millis(2));
    }
    wait_for(&log, 150);
    let segment = std::fs::read_dir(log.dir()).unwrap().next().unwrap();
    let text = std::fs::read_to_string(segment.unwrap().path()).unwrap();
    let lines = text.lines().filter(|line| line.contains(" n ")).count();
    let ticks = began.elapsed().as_millis() as usize / 100;
    assert!(
        (1..=ticks).contains(&lines),
        "{lines} lines in {ticks} ticks"
    );
}

#[test]
fn all_events_of_a_call_that_is_left_are_noted_and_none_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(&folder);
    let trail = unserved(&log);
    trail.emit(EventType::Planned, json!({}));
    trail.emit(EventType::PermissionRequested, json!({}));
    drop(trail.leaving());
    let left = [EventType::Planned, EventType::PermissionRequested];
    assert_eq!(noted(&log), left);
    trail.emit(EventType::Progress, json!({}));
    trail.note();
    assert_eq!(noted(&log), left);
}

#[test]
fn nothing_is_noted_of_a_call_that_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(&folder);
    let trail = trail(&log);
    trail.emit(EventType::Planned, json!({}));
    trail.finish();
    trail.emit(EventType::CancelRequested, json!({}));
    assert!(!trail.kept().noted.is_due);
    trail.note();
    drop(trail.leaving());
    assert!(!log.dir().exists());
}

#[test]
fn what_is_noted_of_one_call_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(&folder);
    let trail = unserved(&log);
    for _ in 0..10 {
        trail.emit(
            EventType::PartialResult,
            json!({ "progress": "x".repeat(NOTED_BYTES_MAX * 3 / 10) }),
        );
    }
    trail.note();
    trail.emit(EventType::PartialResult, json!({}));
    trail.note();
    assert_eq!(noted(&log), [EventType::PartialResult; 3]);
    assert_eq!(trail.events().len(), 11);
}
