mod share;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;
use tempfile::TempDir;

use crate::journal::of_no_call;
use crate::record::{EventType, Input, InvocationId, Status, ToolEvent, ToolInvocation};

use super::line::Kind;
use super::{CallLog, CallQuery, EventReader, FollowedEvent, LogSettings, Start, segment};

fn log(folder: &TempDir, settings: LogSettings) -> CallLog {
    CallLog::new(
        folder.path().to_owned(),
        folder.path().join("keys/key"),
        settings,
    )
}

fn running(tool: &str) -> ToolInvocation {
    let mut invocation = ToolInvocation::planned(tool, &Input::from_text("{}"));
    for status in [
        Status::Selected,
        Status::ArgumentsReady,
        Status::Approved,
        Status::Running,
    ] {
        invocation.advance(status, None).unwrap();
    }
    invocation
}

async fn start(log: &CallLog, tool: &str) {
    log.started(Start::new(&running(tool), false), false)
        .await
        .unwrap();
}

fn statuses(log: &CallLog) -> Vec<String> {
    let calls = log
        .calls(&CallQuery {
            limit: 1_000,
            ..CallQuery::default()
        })
        .unwrap();
    calls.into_iter().map(|call| call.status).collect()
}

fn files(folder: &TempDir) -> Vec<u64> {
    segment::numbers(&folder.path().join("calls")).unwrap()
}

#[tokio::test]
async fn all_who_ask_a_new_log_at_once_get_an_answer() {
    for _ in 0..50 {
        let folder = tempfile::tempdir().unwrap();
        let one = log(&folder, LogSettings::default());
        start(&one, "a").await;
        let asked = std::sync::Barrier::new(6);
        let ask = || {
            asked.wait();
            statuses(&one)
        };
        let found: Vec<Vec<String>> = std::thread::scope(|scope| {
            let asking: Vec<_> = (0..6).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(found, vec![vec!["running"]; 6]);
    }
}

#[tokio::test]
async fn each_living_writer_has_a_segment_and_a_dead_ones_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let one = log(&folder, LogSettings::default());
    let two = log(&folder, LogSettings::default());
    start(&one, "a").await;
    start(&two, "b").await;
    assert_eq!(files(&folder), [1, 2]);
    one.close_orphans().unwrap();
    assert_eq!(statuses(&one), ["running", "running"]);
    drop(two);
    let three = log(&folder, LogSettings::default());
    start(&three, "c").await;
    assert_eq!(files(&folder), [1, 2]);
    let mut now = statuses(&three);
    now.sort();
    assert_eq!(now, ["canceled", "running", "running"]);
    drop((one, three));
    let reader = log(&folder, LogSettings::default());
    reader.close_orphans().unwrap();
    assert_eq!(statuses(&reader), ["canceled"; 3]);
    assert_eq!(reader.verify().unwrap().unwrap().segments, 2);
}

#[tokio::test]
async fn a_torn_line_is_removed_when_its_segment_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    start(&log(&folder, LogSettings::default()), "a").await;
    let path = segment::path(&folder.path().join("calls"), 1);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"0123"].concat()).unwrap();
    let reader = log(&folder, LogSettings::default());
    let damage = reader.verify().unwrap().unwrap_err();
    assert!(
        damage.line == 3 && damage.what.starts_with("it is incomplete"),
        "{damage}"
    );
    start(&reader, "b").await;
    assert!(reader.verify().unwrap().is_ok());
}

fn remove_database(folder: &TempDir) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(folder.path().join(format!("journal.db{suffix}")));
    }
}

#[tokio::test]
async fn the_index_is_made_again_and_knows_lines_that_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(&folder, LogSettings::default());
    start(&writer, "a").await;
    start(&writer, "b").await;
    assert_eq!(statuses(&writer).len(), 2);
    drop(writer);
    remove_database(&folder);
    let reader = log(&folder, LogSettings::default());
    assert_eq!(statuses(&reader).len(), 2);
    let path = segment::path(&folder.path().join("calls"), 1);
    let lines = fs::read(&path).unwrap();
    let cut = lines[..lines.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    fs::write(&path, &lines[..cut]).unwrap();
    let damage = reader.verify().unwrap().unwrap_err();
    assert_eq!(damage.what, "the lines after it were removed");
}

/// Removes the last `count` lines of the first segment.
fn cut(folder: &TempDir, count: usize) {
    let path = segment::path(&folder.path().join("calls"), 1);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&path, lines[..lines.len() - count].concat()).unwrap();
}

#[tokio::test]
async fn a_cut_tail_is_found_also_after_new_calls_took_its_place() {
    for is_grown in [false, true] {
        for is_index_removed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let writer = log(&folder, LogSettings::default());
            let mut call = running("a");
            for _ in 0..3 {
                run_through(&writer, &mut call).await;
            }
            assert!(writer.verify().unwrap().is_ok());
            assert_eq!(statuses(&writer).len(), 0);
            drop(writer);
            cut(&folder, 4);
            if is_index_removed {
                remove_database(&folder);
            }
            let next = log(&folder, LogSettings::default());
            if is_grown {
                for _ in 0..5 {
                    run_through(&next, &mut call).await;
                }
                start(&next, "new").await;
            }
            for _ in 0..2 {
                assert_eq!(statuses(&next).len(), usize::from(is_grown));
                let damage = next.verify().unwrap().unwrap_err();
                assert!(damage.what.contains("lines"), "{damage}");
            }
        }
    }
}

#[tokio::test]
async fn a_row_or_a_head_that_others_changed_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(&folder, LogSettings::default());
    let call = running("a");
    writer
        .started(Start::new(&call, false), false)
        .await
        .unwrap();
    start(&writer, "b").await;
    assert!(writer.verify().unwrap().is_ok());
    let index = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    let id = call.invocation_id.to_string();
    for forged in [
        "UPDATE calls SET status = 'succeeded' WHERE id = ?1",
        "UPDATE calls SET caller = 'another' WHERE id = ?1",
        "DELETE FROM calls WHERE id = ?1",
    ] {
        index.execute(forged, [&id]).unwrap();
        let damage = writer.verify().unwrap().unwrap_err();
        assert_eq!(
            (damage.what, damage.call.as_deref()),
            ("its row was changed", Some(id.as_str())),
            "{forged}"
        );
    }
    let head = writer.0.head_file();
    let text = fs::read_to_string(&head).unwrap();
    fs::write(&head, text.replacen(",\"ends\":[[1,", ",\"ends\":[[2,", 1)).unwrap();
    let damage = writer.verify().unwrap().unwrap_err();
    assert_eq!(damage.what, "it was changed");
}

#[tokio::test]
async fn a_log_of_an_earlier_toolcell_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    start(&log(&folder, LogSettings::default()), "a").await;
    let path = segment::path(&folder.path().join("calls"), 1);
    let text = fs::read_to_string(&path).unwrap();
    let format = format!("\"format\":{}", crate::journal::database::VERSION);
    fs::write(&path, text.replace(&format, "\"format\":4")).unwrap();
    let later = log(&folder, LogSettings::default());
    let query = CallQuery::default();
    let read = later.calls(&query).unwrap_err();
    let written = later
        .started(Start::new(&running("a"), false), false)
        .await
        .unwrap_err();
    for error in [read, written] {
        let said = error.to_string();
        assert!(said.contains("remove it: rm -r '"), "{said}");
    }
}

#[tokio::test]
async fn the_oldest_segments_go_when_the_log_is_too_large_and_no_other_may_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("calls");
    let small = LogSettings {
        bytes_max: 6 << 20,
        ..LogSettings::default()
    };
    let writer = log(&folder, small);
    let mut call = large("a");
    for _ in 0..16 {
        run_through(&writer, &mut call).await;
    }
    let kept = files(&folder);
    assert!(kept.len() <= 3 && kept[0] > 1, "{kept:?}");
    assert!(writer.verify().unwrap().is_ok());
    drop(writer);
    remove(&dir, kept[kept.len() - 2]);
    let damage = log(&folder, small).verify().unwrap().unwrap_err();
    assert_eq!(damage.what, "the file was removed");
}

#[tokio::test]
async fn the_removal_of_a_segment_is_found_also_after_others_were_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("calls");
    let small = LogSettings {
        bytes_max: 14 << 20,
        ..LogSettings::default()
    };
    let writer = log(&folder, small);
    let mut call = large("a");
    for _ in 0..9 {
        run_through(&writer, &mut call).await;
    }
    assert_eq!(files(&folder), [1, 2, 3]);
    remove(&dir, 2);
    // Until the segments that told of the first removals are removed too.
    for _ in 0..32 {
        run_through(&writer, &mut call).await;
    }
    let kept = files(&folder);
    assert!(kept[0] > 5, "{kept:?}");
    let damage = writer.verify().unwrap().unwrap_err();
    assert_eq!(
        (damage.file, damage.what),
        (segment::name(2), "the file was removed")
    );
}

#[tokio::test]
async fn the_removal_of_the_last_segment_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let one = log(&folder, LogSettings::default());
    let two = log(&folder, LogSettings::default());
    start(&one, "a").await;
    start(&two, "b").await;
    assert_eq!(statuses(&one).len(), 2);
    drop((one, two));
    remove(&folder.path().join("calls"), 2);
    let damage = log(&folder, LogSettings::default())
        .verify()
        .unwrap()
        .unwrap_err();
    assert_eq!(
        (damage.file, damage.what),
        (segment::name(2), "the file was removed")
    );
}

/// The ends of many calls can make a segment larger than what is read of it at once.
#[tokio::test]
async fn nothing_of_a_large_segment_is_cut_off_when_it_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = segment::path(&folder.path().join("calls"), 1);
    let writer = log(&folder, LogSettings::default());
    let call = running("a");
    writer
        .started(Start::new(&call, false), false)
        .await
        .unwrap();
    writer
        .append(Kind::Dropped, Some(call.invocation_id), &())
        .unwrap();
    drop(writer);
    let lines = fs::read(&path).unwrap();
    let (start, end) = lines.split_at(
        lines[..lines.len() - 1]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .unwrap()
            + 1,
    );
    let file = fs::File::options().write(true).open(&path).unwrap();
    let mut at = start.len() as u64;
    file.set_len(at).unwrap();
    while at < segment::LINE_BYTES_MAX + (8 << 20) {
        at += 16 << 20;
        // The hole before it takes no space on the disk.
        file.write_all_at(b"\n", at - 1).unwrap();
    }
    file.write_all_at(end, at).unwrap();
    let bytes = file.metadata().unwrap().len();
    drop(file);
    start_again(&folder).await;
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
}

/// A call of another process, which takes over what the last one left.
async fn start_again(folder: &TempDir) {
    start(&log(folder, LogSettings::default()), "b").await;
    assert_eq!(files(folder), [1, 2]);
}

/// Says that a segment was last written so many hours ago.
fn written(folder: &TempDir, number: u64, hours: u64) {
    let path = segment::path(&folder.path().join("calls"), number);
    let time = SystemTime::now() - Duration::from_secs(hours * 60 * 60);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(time))
        .unwrap();
}

#[tokio::test]
async fn segments_that_are_too_old_go_unless_they_are_written_or_the_clock_jumped() {
    const DAY: u64 = 24;
    // The hours since the last line before the old ones were removed.
    for (hours, left) in [(2, vec![2, 3, 4]), (100 * DAY, vec![1, 2, 3, 4])] {
        let folder = tempfile::tempdir().unwrap();
        let writers = [(); 4].map(|()| log(&folder, LogSettings::default()));
        for writer in &writers {
            start(writer, "a").await;
        }
        let [one, two, three, four] = writers;
        drop((one, three, four));
        written(&folder, 1, 100 * DAY);
        written(&folder, 2, 100 * DAY);
        written(&folder, 3, hours);
        // Takes the last one.
        let next = log(&folder, LogSettings::default());
        start(&next, "b").await;
        assert_eq!(files(&folder), left, "{hours}");
        assert!(next.verify().unwrap().is_ok());
        drop(two);
    }
}

#[tokio::test]
async fn lines_come_into_the_index_although_nobody_asks() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(&folder, LogSettings::default());
    for _ in 0..3 {
        start(&writer, "a").await;
    }
    let bytes = fs::metadata(segment::path(writer.dir(), 1)).unwrap().len();
    let indexed = || -> rusqlite::Result<(u64, u64)> {
        let index = rusqlite::Connection::open(folder.path().join("journal.db"))?;
        let sql = "SELECT sum(bytes), (SELECT count(*) FROM calls) FROM segments";
        index.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while indexed().ok() != Some((bytes, 3)) {
        assert!(Instant::now() < deadline, "{:?}", indexed());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn remove(dir: &Path, number: u64) {
    fs::remove_file(segment::path(dir, number)).unwrap();
}

#[tokio::test]
async fn what_is_turned_off_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    start(
        &log(
            &folder,
            LogSettings {
                keep: super::Keep::None,
                ..LogSettings::default()
            },
        ),
        "a",
    )
    .await;
    assert!(!folder.path().join("calls").exists());
}

/// A call whose lines take more than a megabyte.
fn large(tool: &str) -> ToolInvocation {
    let mut call = running(tool);
    call.model_input = Arc::new(json!("x".repeat(1 << 20)));
    call
}

/// Starts `call` and ends it, under a new id.
async fn run_through(log: &CallLog, call: &mut ToolInvocation) {
    call.invocation_id = InvocationId::new();
    log.started(Start::new(call, false), true).await.unwrap();
    log.append(Kind::Dropped, Some(call.invocation_id), &())
        .unwrap();
    settle(log);
}

/// Waits until no thread removes segments.
fn settle(log: &CallLog) {
    while log.0.upkeep.is_pruning() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test]
async fn a_running_call_of_a_full_segment_is_not_taken_for_that_of_a_killed_process() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("calls");
    let writer = log(&folder, LogSettings::default());
    let reader = log(&folder, LogSettings::default());
    let long = running("long");
    writer
        .started(Start::new(&long, false), false)
        .await
        .unwrap();
    let mut call = large("a");
    for _ in 0..5 {
        run_through(&writer, &mut call).await;
    }
    assert_eq!(files(&folder), [1, 2]);
    assert_eq!(statuses(&reader), ["running"]);
    // Its end is where it started, and then nothing is added there any more.
    assert!(!segment::is_closed(&dir, 1));
    writer
        .append(Kind::Dropped, Some(long.invocation_id), &())
        .unwrap();
    assert!(segment::is_closed(&dir, 1) && !segment::is_closed(&dir, 2));
    assert_eq!(statuses(&reader).len(), 0);
    assert!(reader.verify().unwrap().is_ok());
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
        hooks: &hooks,
        events: &[planned.clone(), started.clone()],
        ..Start::new(&call, true)
    };
    writer.started(start, false).await.unwrap();
    note(&writer, call.invocation_id, 2, &[progress.clone()]);
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
    assert_eq!(
        record["invocation"]["model_input"],
        json!(*call.model_input)
    );
}

#[tokio::test]
async fn a_killed_process_has_no_running_calls_left_once_another_one_writes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("calls");
    let writer = log(&folder, LogSettings::default());
    start(&writer, "long").await;
    let mut call = large("a");
    for _ in 0..4 {
        run_through(&writer, &mut call).await;
    }
    drop(writer);
    let ends = || {
        fs::read_to_string(segment::path(&dir, 1))
            .unwrap()
            .matches("runtime_shutdown")
            .count()
    };
    assert_eq!(ends(), 0);
    let next = log(&folder, LogSettings::default());
    start(&next, "b").await;
    assert!(ends() > 0 && segment::is_closed(&dir, 1));
    assert_eq!(statuses(&next), ["running", "canceled"]);
    assert!(next.verify().unwrap().is_ok());
}

/// Events of the call `id`, as its trail would have them.
fn events<const N: usize>(id: InvocationId, types: [EventType; N]) -> [ToolEvent; N] {
    let source: Arc<str> = "toolcell/test".into();
    types.map(|of| ToolEvent {
        invocation_id: Some(id),
        ..of_no_call(&source, of, Some("a"), json!({}))
    })
}

/// Reads on: the numbers and types of events, and how many were missed.
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

#[tokio::test]
async fn records_are_read_one_by_one_and_together_they_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(&folder, LogSettings::default());
    for tool in ["a", "b", "c"] {
        start(&log, tool).await;
    }
    let calls = log
        .calls(&CallQuery {
            limit: 10,
            ..CallQuery::default()
        })
        .unwrap();
    // The earliest first.
    let ids: Vec<String> = calls
        .into_iter()
        .rev()
        .map(|call| call.invocation_id)
        .collect();
    let read = |bytes_max: u64, limit: u32| {
        let mut read = Vec::new();
        let query = CallQuery {
            limit,
            ..CallQuery::default()
        };
        let id = |record: serde_json::Value| {
            read.push(
                record["invocation"]["invocation_id"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            );
        };
        let count = log.each_record(&query, bytes_max, id).unwrap();
        assert_eq!(count, read.len());
        read
    };
    assert_eq!(read(u64::MAX, 10), ids);
    assert_eq!(read(u64::MAX, 2), ids[1..]);
    // The latest call alone is larger.
    assert_eq!(read(0, 10), ids[2..]);
    let counts: Vec<usize> = (0..40).map(|step| read(step * 250, 10).len()).collect();
    assert!(
        counts.is_sorted() && [1, 2, 3].iter().all(|count| counts.contains(count)),
        "{counts:?}"
    );
}

#[tokio::test]
async fn a_record_whose_segment_is_removed_while_others_are_read_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let writers = [(); 3].map(|()| log(&folder, LogSettings::default()));
    for writer in &writers {
        start(writer, "a").await;
    }
    let mut read = 0;
    let query = CallQuery {
        limit: 10,
        ..CallQuery::default()
    };
    let count = writers[0].each_record(&query, u64::MAX, |_| {
        read += 1;
        if read == 1 {
            remove(&folder.path().join("calls"), 2);
        }
    });
    assert_eq!((count.unwrap(), read), (2, 2));
}

fn note(log: &CallLog, id: InvocationId, first: usize, events: &[ToolEvent]) {
    log.noted(id, Some("s"), first, events).unwrap();
}

#[tokio::test]
async fn every_event_is_read_once_while_its_call_runs_and_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(&folder, LogSettings::default());
    let other = log(&folder, LogSettings::default());
    assert_eq!(read(&mut other.follow(Some(1)).unwrap()), (vec![], vec![]));
    let call = running("a");
    writer
        .started(Start::new(&call, false), false)
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
            .started(Start::new(&call, false), false)
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

/// A reader that waits for the index must not take a segment that came meanwhile for one that is gone: its events would
/// be numbered again.
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

#[test]
fn calls_at_once_have_their_lines_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(&folder, LogSettings::default());
    let calls = || {
        let call = |count: usize| {
            let call = running("a");
            writer
                .start(Kind::Started, Start::new(&call, false))
                .unwrap();
            writer
                .append(Kind::Dropped, Some(call.invocation_id), &())
                .unwrap();
            if count.is_multiple_of(50) {
                assert!(writer.verify().unwrap().is_ok());
            }
            call.invocation_id.to_string()
        };
        (0..300).map(call).collect::<Vec<_>>()
    };
    let ids: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(calls)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let text = fs::read_to_string(segment::path(writer.dir(), 1)).unwrap();
    let mut kinds: HashMap<&str, String> = HashMap::new();
    for line in text.lines() {
        let mut parts = line.split(' ').skip(1);
        let kind = parts.next().unwrap();
        kinds
            .entry(parts.next().unwrap())
            .or_default()
            .push_str(kind);
    }
    assert_eq!(kinds.len(), 1 + ids.len());
    assert!(ids.iter().all(|id| kinds[id.as_str()] == "sx"));
}
