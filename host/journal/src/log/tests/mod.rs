mod damage;
mod events;
mod share;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;
use tempfile::TempDir;

use toolcell_spec::{Input, InvocationId, Status, ToolInvocation};

use super::line::Kind;
use super::{CallLog, CallQuery, LogSettings, Start, segment};

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
    log.started(Start::new(running(tool), false), false)
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

fn remove_database(folder: &TempDir) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(folder.path().join(format!("journal.db{suffix}")));
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
    let damage = log(&folder, small).verify().unwrap().unwrap_err().remove(0);
    assert_eq!(damage.what, "the file was removed");
}

/// Ends of many calls can make a segment larger than one read.
#[tokio::test]
async fn nothing_of_a_large_segment_is_cut_off_when_it_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = segment::path(&folder.path().join("calls"), 1);
    let writer = log(&folder, LogSettings::default());
    let call = running("a");
    writer
        .started(Start::new(call.clone(), false), false)
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

async fn start_again(folder: &TempDir) {
    start(&log(folder, LogSettings::default()), "b").await;
    assert_eq!(files(folder), [1, 2]);
}

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

fn large(tool: &str) -> ToolInvocation {
    let mut call = running(tool);
    call.model_input = Arc::new(json!("x".repeat(1 << 20)));
    call
}

async fn run_through(log: &CallLog, call: &mut ToolInvocation) {
    call.invocation_id = InvocationId::new();
    log.started(Start::new(call.clone(), false), true)
        .await
        .unwrap();
    log.append(Kind::Dropped, Some(call.invocation_id), &())
        .unwrap();
    settle(log);
}

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
        .started(Start::new(long.clone(), false), false)
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

#[test]
fn calls_at_once_have_their_lines_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(&folder, LogSettings::default());
    let calls = || {
        let call = |count: usize| {
            let call = running("a");
            writer
                .start(Kind::Started, Start::new(call.clone(), false))
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
