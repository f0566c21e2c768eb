use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::record::{InvocationId, ToolInvocation};

use super::super::line::Kind;
use super::super::ring::SUFFIX;
use super::super::{CallLog, CallQuery, LogSettings, ring, segment};
use super::{log, running, statuses};

/// Lines that make a log busy, with some more.
const MANY: usize = 40;
const NONE: [u64; 0] = [];

/// A folder on a file system that a ring can be on, whatever this machine has otherwise.
fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// Starts a call and ends it. Returns it.
async fn run(log: &CallLog) -> ToolInvocation {
    let call = running("a");
    log.started(&call, false, false).await.unwrap();
    log.append(Kind::Dropped, Some(call.invocation_id), &()).unwrap();
    call
}

async fn busy(folder: &TempDir) -> CallLog {
    busy_with(folder, LogSettings::default()).await
}

async fn busy_with(folder: &TempDir, settings: LogSettings) -> CallLog {
    let log = log(folder, settings);
    for _ in 0..MANY {
        run(&log).await;
    }
    assert_eq!(rings(folder.path()), [1]);
    log
}

fn rings(home: &Path) -> Vec<u64> {
    ring::numbers(&home.join("calls"), SUFFIX).unwrap()
}

/// The calls of the lines of the first segment, with their kinds.
fn lines(home: &Path) -> Vec<(char, String)> {
    let text = fs::read_to_string(segment::path(&home.join("calls"), 1)).unwrap();
    let parts = text.lines().map(|line| line.split(' ').skip(1).take(2).collect::<Vec<_>>());
    parts.map(|parts| (parts[0].chars().next().unwrap(), parts[1].to_owned())).collect()
}

/// A copy of the log, as its process would leave it if it were killed now.
fn killed(folder: &TempDir) -> TempDir {
    let copy = memory();
    fs::create_dir(copy.path().join("calls")).unwrap();
    for file in ["key", "calls/0000000001.ring", "calls/0000000001.log"] {
        fs::copy(folder.path().join(file), copy.path().join(file)).unwrap();
    }
    copy
}

/// Calls that a busy process just started and ended, and one that it started, none of which is in the segment. With the
/// folder as a kill leaves it.
async fn killed_in_between() -> (TempDir, Vec<InvocationId>, InvocationId, Vec<u8>) {
    let folder = memory();
    let log = busy(&folder).await;
    let (mut ended, open) = (Vec::new(), running("a"));
    let left = {
        // Nothing is put into the segment meanwhile.
        let _writer = log.0.writer();
        for _ in 0..3 {
            ended.push(run(&log).await.invocation_id);
        }
        log.started(&open, false, false).await.unwrap();
        killed(&folder)
    };
    log.gather().unwrap();
    let whole = fs::read(segment::path(&folder.path().join("calls"), 1)).unwrap();
    (left, ended, open.invocation_id, whole)
}

#[tokio::test]
async fn a_line_of_a_busy_process_is_read_by_others_as_soon_as_it_is_written() {
    let folder = memory();
    let (writer, reader) = (busy(&folder).await, log(&folder, LogSettings::default()));
    for count in 1..=20 {
        let call = running("a");
        writer.started(&call, false, false).await.unwrap();
        let by = if count % 2 == 0 { &reader } else { &writer };
        assert_eq!(statuses(by).len(), count);
    }
    assert_eq!(rings(folder.path()), [1]);
    assert!(reader.verify().unwrap().is_ok());
    drop(writer);
    assert_eq!(rings(folder.path()), NONE);
    assert_eq!(statuses(&reader), ["canceled"; 20]);
}

#[tokio::test]
async fn there_is_no_ring_where_lines_are_rare_or_wait_for_the_disk() {
    let folder = memory();
    let flushed = log(&folder, LogSettings { flush: true, ..LogSettings::default() });
    let slow = log(&folder, LogSettings::default());
    for _ in 0..MANY {
        run(&flushed).await;
    }
    for _ in 0..3 {
        run(&slow).await;
        std::thread::sleep(Duration::from_millis(12));
    }
    assert_eq!(rings(folder.path()), NONE);
    for _ in 0..MANY {
        run(&slow).await;
    }
    assert_eq!(rings(folder.path()), [2]);
    let end = Instant::now() + Duration::from_secs(60);
    while rings(folder.path()) != NONE {
        assert!(Instant::now() < end, "the ring stays");
        std::thread::sleep(Duration::from_millis(50));
    }
    run(&slow).await;
    assert!(slow.verify().unwrap().is_ok());
}

#[tokio::test]
async fn a_killed_process_loses_no_line_and_none_comes_twice_wherever_it_was_killed() {
    let (left, ended, open, whole) = killed_in_between().await;
    let path = segment::path(&left.path().join("calls"), 1);
    let before = fs::read(&path).unwrap().len();
    let ring = fs::read(left.path().join("calls/0000000001.ring")).unwrap();
    assert!(whole.len() > before + 1_000);
    for cut in (before..=whole.len()).step_by(61).chain([whole.len()]) {
        fs::write(&path, &whole[..cut]).unwrap();
        fs::write(left.path().join("calls/0000000001.ring"), &ring).unwrap();
        let _ = fs::remove_file(left.path().join("calls/index.db"));
        let reader = log(&left, LogSettings::default());
        assert!(reader.verify().unwrap().is_ok(), "{cut}");
        let lines = lines(left.path());
        let kinds = |id: &InvocationId| -> String {
            lines.iter().filter(|(_, of)| *of == id.to_string()).map(|(kind, _)| kind).collect()
        };
        assert!(ended.iter().all(|id| kinds(id) == "sx"), "{cut}: {lines:?}");
        assert_eq!(kinds(&open), "se", "{cut}");
        assert_eq!(statuses(&reader), ["canceled"], "{cut}");
        assert_eq!(rings(left.path()), NONE);
    }
}

#[tokio::test]
async fn a_byte_that_is_changed_after_a_kill_is_found_and_no_call_stays_open() {
    let (left, ended, open, _) = killed_in_between().await;
    let (dir, ring) = (left.path().join("calls"), left.path().join("calls/0000000001.ring"));
    let (whole, segment) = (fs::read(&ring).unwrap(), fs::read(segment::path(&dir, 1)).unwrap());
    let first = place(&whole, &ended[0]);
    let last = place(&whole, &open) + 26;
    let mut named = 0;
    // The header but for the position after the last frame, and all frames.
    for at in (0..8).chain(16..32).chain((first - 26..last).step_by(7)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        fs::write(&ring, &bytes).unwrap();
        fs::write(segment::path(&dir, 1), &segment).unwrap();
        let _ = fs::remove_file(dir.join("index.db"));
        let reader = log(&left, LogSettings::default());
        let damage = reader.verify().unwrap().expect_err(&at.to_string());
        assert_eq!(damage.file, "0000000001.ring", "{at}");
        named += usize::from(damage.call.is_some());
        assert!(!statuses(&reader).contains(&"running".to_owned()), "{at}");
        // It is still found afterwards.
        assert!(reader.verify().unwrap().is_err());
        fs::remove_file(dir.join("0000000001.changed")).unwrap();
    }
    assert!(named > 20, "{named}");
}

/// The last place of a call's id in the ring.
fn place(ring: &[u8], id: &InvocationId) -> usize {
    let id = id.to_string();
    ring.windows(id.len()).position(|part| part == id.as_bytes()).unwrap()
}

/// Runs calls of 60 kB each.
async fn run_large(log: &CallLog, count: usize) {
    let mut call = running("a");
    call.model_input = Arc::new(json!("x".repeat(60 << 10)));
    for _ in 0..count {
        call.invocation_id = InvocationId::new();
        log.started(&call, false, false).await.unwrap();
        log.append(Kind::Dropped, Some(call.invocation_id), &()).unwrap();
    }
}

#[tokio::test]
async fn a_busy_process_removes_segments_beside_its_calls() {
    let folder = memory();
    let log = busy_with(&folder, LogSettings { bytes_max: 6 << 20, ..LogSettings::default() }).await;
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        run_large(&log, 100).await;
        let kept = segment::numbers(log.dir()).unwrap();
        if kept[0] > 2 && kept.len() <= 3 {
            break;
        }
        assert!(Instant::now() < end, "{kept:?}");
    }
    // Until the last removal has ended, too.
    while log.0.is_pruned.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(log.verify().unwrap().is_ok());
    let kept = segment::numbers(log.dir()).unwrap();
    drop(log);
    fs::remove_file(segment::path(&folder.path().join("calls"), kept[0])).unwrap();
    assert!(super::log(&folder, LogSettings::default()).verify().unwrap().is_err());
}

#[tokio::test]
async fn a_busy_process_goes_on_in_the_next_segment_when_one_is_full() {
    let folder = memory();
    let log = busy(&folder).await;
    let long = running("long");
    log.started(&long, false, false).await.unwrap();
    run_large(&log, 75).await;
    assert_eq!(segment::numbers(log.dir()).unwrap(), [1, 2]);
    assert_eq!(statuses(&log), ["running"]);
    log.append(Kind::Dropped, Some(long.invocation_id), &()).unwrap();
    assert!(segment::is_closed(log.dir(), 1));
    assert!(log.verify().unwrap().is_ok());
    assert_eq!(statuses(&log).len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_at_once_have_their_lines_once_and_in_order() {
    let folder = memory();
    let writer = log(&folder, LogSettings::default());
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let writer = writer.clone();
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for count in 0..300 {
                    let call = run(&writer).await;
                    ids.push(call.invocation_id.to_string());
                    if count % 50 == 0 {
                        assert!(writer.verify().unwrap().is_ok());
                    }
                }
                ids
            })
        })
        .collect();
    let mut ids = Vec::new();
    for call in calls {
        ids.extend(call.await.unwrap());
    }
    drop(writer);
    let lines = lines(folder.path());
    assert_eq!(lines.len(), 1 + 2 * ids.len());
    let mut of: HashMap<&str, String> = HashMap::new();
    lines.iter().for_each(|(kind, id)| of.entry(id.as_str()).or_default().push(*kind));
    assert!(ids.iter().all(|id| of[id.as_str()] == "sx"));
}

/// What cannot be written to the segment stays on record, and nothing new starts.
#[tokio::test]
async fn a_ring_that_cannot_be_emptied_takes_no_more_calls_and_loses_none() {
    let folder = memory();
    let log = busy(&folder).await;
    let call = running("a");
    let lock = {
        let mut writer = log.0.writer();
        log.started(&call, false, false).await.unwrap();
        let read_only = fs::File::open(segment::path(log.dir(), 1)).unwrap();
        writer.as_mut().unwrap().current.replace_file(read_only)
    };
    assert!(log.calls(&CallQuery { limit: 10, ..CallQuery::default() }).is_err());
    assert!(log.started(&running("a"), false, false).await.is_err());
    let left: PathBuf = folder.path().join("calls/0000000001.ring");
    drop((log, lock));
    assert!(left.exists());
    let reader = super::log(&folder, LogSettings::default());
    assert_eq!(statuses(&reader), ["canceled"]);
    assert!(reader.verify().unwrap().is_ok() && !left.exists());
}
