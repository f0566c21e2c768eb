use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::record::{InvocationId, ToolInvocation};

use super::super::line::Kind;
use super::super::{CallLog, CallQuery, LogSettings, Start, ring, segment};
use super::{log, running, statuses};

/// Lines that make a log busy, with some more.
const MANY: usize = 40;
const NONE: [u64; 0] = [];

/// A folder on a file system that a ring can be on, whatever this machine has otherwise.
fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn begin(log: &CallLog, call: &ToolInvocation) {
    log.start(Kind::Started, Start::new(call, false)).unwrap();
}

/// Starts a call and ends it. Returns it.
fn run(log: &CallLog) -> ToolInvocation {
    let call = running("a");
    begin(log, &call);
    log.append(Kind::Dropped, Some(call.invocation_id), &())
        .unwrap();
    call
}

fn busy(folder: &TempDir) -> CallLog {
    busy_with(folder, LogSettings::default())
}

fn busy_with(folder: &TempDir, settings: LogSettings) -> CallLog {
    let log = log(folder, settings);
    for _ in 0..MANY {
        run(&log);
    }
    assert_eq!(rings(folder.path()), [1]);
    log
}

/// Drops `log`, and waits for its thread, which may have it for a moment.
fn close(log: CallLog) {
    let segment = segment::path(log.dir(), 1);
    drop(log);
    let end = Instant::now() + Duration::from_secs(60);
    while fs::File::open(&segment).unwrap().try_lock().is_err() {
        assert!(Instant::now() < end, "the segment stays locked");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn rings(home: &Path) -> Vec<u64> {
    ring::numbers(&home.join("calls")).unwrap()
}

/// The calls of the lines of the first segment, with their kinds.
fn lines(home: &Path) -> Vec<(char, String)> {
    let text = fs::read_to_string(segment::path(&home.join("calls"), 1)).unwrap();
    let parts = text
        .lines()
        .map(|line| line.split(' ').skip(1).take(2).collect::<Vec<_>>());
    parts
        .map(|parts| (parts[0].chars().next().unwrap(), parts[1].to_owned()))
        .collect()
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
fn killed_in_between() -> (TempDir, Vec<InvocationId>, InvocationId, Vec<u8>) {
    let folder = memory();
    let log = busy(&folder);
    let mut ended = Vec::new();
    let open = running("a");
    let left = {
        // Nothing is put into the segment meanwhile.
        let _writer = log.0.writer();
        for _ in 0..3 {
            ended.push(run(&log).invocation_id);
        }
        begin(&log, &open);
        killed(&folder)
    };
    log.gather().unwrap();
    let whole = fs::read(segment::path(&folder.path().join("calls"), 1)).unwrap();
    (left, ended, open.invocation_id, whole)
}

#[test]
fn a_line_of_a_busy_process_is_read_by_others_as_soon_as_it_is_written() {
    let folder = memory();
    let writer = busy(&folder);
    let reader = log(&folder, LogSettings::default());
    for count in 1..=20 {
        let call = running("a");
        begin(&writer, &call);
        let by = if count % 2 == 0 { &reader } else { &writer };
        assert_eq!(statuses(by).len(), count);
    }
    assert_eq!(rings(folder.path()), [1]);
    assert!(reader.verify().unwrap().is_ok());
    close(writer);
    assert_eq!(rings(folder.path()), NONE);
    assert_eq!(statuses(&reader), ["canceled"; 20]);
}

#[test]
fn there_is_no_ring_where_lines_are_rare_or_wait_for_the_disk() {
    let folder = memory();
    let flushed = log(
        &folder,
        LogSettings {
            flush: true,
            ..LogSettings::default()
        },
    );
    let slow = log(&folder, LogSettings::default());
    for _ in 0..MANY {
        run(&flushed);
    }
    for _ in 0..3 {
        run(&slow);
        std::thread::sleep(Duration::from_millis(12));
    }
    assert_eq!(rings(folder.path()), NONE);
    for _ in 0..MANY {
        run(&slow);
    }
    assert_eq!(rings(folder.path()), [2]);
    let end = Instant::now() + Duration::from_secs(60);
    while rings(folder.path()) != NONE {
        assert!(Instant::now() < end, "the ring stays");
        std::thread::sleep(Duration::from_millis(50));
    }
    run(&slow);
    assert!(slow.verify().unwrap().is_ok());
}

#[test]
fn a_killed_process_loses_no_line_and_none_comes_twice_wherever_it_was_killed() {
    let (left, ended, open, whole) = killed_in_between();
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
            lines
                .iter()
                .filter(|(_, of)| *of == id.to_string())
                .map(|(kind, _)| kind)
                .collect()
        };
        assert!(ended.iter().all(|id| kinds(id) == "sx"), "{cut}: {lines:?}");
        assert_eq!(kinds(&open), "se", "{cut}");
        assert_eq!(statuses(&reader), ["canceled"], "{cut}");
        assert_eq!(rings(left.path()), NONE);
    }
}

#[test]
fn a_byte_that_is_changed_after_a_kill_is_found_and_no_call_stays_open() {
    let (left, ended, open, _) = killed_in_between();
    let dir = left.path().join("calls");
    let ring = left.path().join("calls/0000000001.ring");
    let whole = fs::read(&ring).unwrap();
    let segment = fs::read(segment::path(&dir, 1)).unwrap();
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
        assert_eq!(damage.file, "0000000001.changed", "{at}");
        named += usize::from(damage.call.is_some());
        assert!(!statuses(&reader).contains(&"running".to_owned()), "{at}");
        // It is still found afterwards.
        assert!(reader.verify().unwrap().is_err());
        fs::remove_file(dir.join("0000000001.changed")).unwrap();
    }
    assert!(named > 20, "{named}");
}

#[test]
fn what_a_loss_of_power_left_of_a_ring_is_no_forgery() {
    let (left, ended, open, _) = killed_in_between();
    let ring = left.path().join("calls/0000000001.ring");
    let mut bytes = fs::read(&ring).unwrap();
    // Another boot, and a page that did not reach the disk.
    bytes[32..40].fill(7);
    let lost = place(&bytes, &ended[2]);
    bytes[lost..lost + 100].fill(0);
    fs::write(&ring, &bytes).unwrap();
    let reader = log(&left, LogSettings::default());
    assert!(reader.verify().unwrap().is_ok());
    assert_eq!(rings(left.path()), NONE);
    let kept = lines(left.path());
    assert!(
        kept.iter().any(|(_, id)| *id == ended[1].to_string()),
        "{kept:?}"
    );
    assert!(
        !kept
            .iter()
            .any(|(_, id)| [ended[2], open].iter().any(|lost| *id == lost.to_string())),
        "{kept:?}"
    );
}

#[test]
fn the_ring_of_one_segment_is_none_of_another_and_needs_the_lines_before_it() {
    let (left, ended, ..) = killed_in_between();
    let dir = left.path().join("calls");
    let ring = fs::read(dir.join("0000000001.ring")).unwrap();
    let segment = fs::read(segment::path(&dir, 1)).unwrap();
    // Another dead process, with a longer segment.
    fs::remove_file(dir.join("0000000001.ring")).unwrap();
    let other = log(&left, LogSettings::default());
    (0..3).for_each(|_| drop(run(&other)));
    close(other);
    fs::write(dir.join("0000000001.ring"), &ring).unwrap();
    let reader = log(&left, LogSettings::default());
    assert!(
        !lines_have(&left, &ended),
        "lines came to a place that is not theirs"
    );
    assert!(reader.verify().unwrap().is_err() && !lines_have(&left, &ended));
    fs::remove_file(dir.join("0000000001.changed")).unwrap();
    // A line before the ring's own ones was cut off.
    let cut = segment[..segment.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    fs::write(segment::path(&dir, 1), &segment[..cut]).unwrap();
    fs::write(dir.join("0000000001.ring"), &ring).unwrap();
    let _ = fs::remove_file(dir.join("index.db"));
    assert!(reader.verify().unwrap().is_err() && !lines_have(&left, &ended));
}

fn lines_have(home: &TempDir, ids: &[InvocationId]) -> bool {
    lines(home.path())
        .iter()
        .any(|(_, id)| ids.iter().any(|one| *id == one.to_string()))
}

#[test]
fn what_others_leave_in_the_place_of_a_ring_stops_no_reader() {
    let folder = memory();
    close(busy(&folder));
    let dir = folder.path().join("calls");
    let reader = log(&folder, LogSettings::default());
    let ring = dir.join("0000000001.ring");
    // Larger than any ring, and a number without a segment.
    let file = fs::File::create(&ring).unwrap();
    file.set_len(1 << 40).unwrap();
    fs::write(dir.join("0000000099.ring"), b"toolring").unwrap();
    assert!(reader.verify().unwrap().is_ok());
    assert!(!ring.exists());
    // Frames that were written without the key.
    let forged: Vec<u8> = [u64::from_le_bytes(*b"toolring"), 64, 0, 0, 0]
        .map(u64::to_le_bytes)
        .concat();
    fs::write(&ring, [forged, vec![1; 300 << 10]].concat()).unwrap();
    let before = lines(folder.path());
    reader.close_orphans().unwrap();
    assert_eq!(lines(folder.path()), before);
    // No file at all.
    std::os::unix::fs::symlink("/dev/zero", &ring).unwrap();
    reader.close_orphans().unwrap();
    assert!(!ring.exists() && lines(folder.path()) == before);
    fs::remove_file(dir.join("0000000001.changed")).unwrap();
    fs::create_dir(&ring).unwrap();
    assert!(reader.verify().unwrap().is_err());
    assert!(!ring.exists() && lines(folder.path()) == before);
    // Other spellings of a number.
    for name in ["1.ring", "+0000000001.ring", "0.changed"] {
        fs::write(dir.join(name), b"toolring").unwrap();
    }
    assert!(statuses(&reader).is_empty() && reader.verify().unwrap().is_err());
    run(&log(&folder, LogSettings::default()));
    // A segment that its process closed has nothing to wait for.
    fs::set_permissions(segment::path(&dir, 1), fs::Permissions::from_mode(0o400)).unwrap();
    fs::write(&ring, b"toolring").unwrap();
    reader.close_orphans().unwrap();
    assert!(!ring.exists());
}

/// The last place of a call's id in the ring.
fn place(ring: &[u8], id: &InvocationId) -> usize {
    let id = id.to_string();
    ring.windows(id.len())
        .position(|part| part == id.as_bytes())
        .unwrap()
}

/// Runs calls of 60 kB each.
fn run_large(log: &CallLog, count: usize) {
    let mut call = running("a");
    call.model_input = Arc::new(json!("x".repeat(60 << 10)));
    for _ in 0..count {
        call.invocation_id = InvocationId::new();
        begin(log, &call);
        log.append(Kind::Dropped, Some(call.invocation_id), &())
            .unwrap();
    }
}

#[test]
fn a_busy_process_removes_segments_beside_its_calls() {
    let folder = memory();
    let log = busy_with(
        &folder,
        LogSettings {
            bytes_max: 6 << 20,
            ..LogSettings::default()
        },
    );
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        run_large(&log, 100);
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
    assert!(
        super::log(&folder, LogSettings::default())
            .verify()
            .unwrap()
            .is_err()
    );
}

#[test]
fn a_busy_process_goes_on_in_the_next_segment_when_one_is_full() {
    let folder = memory();
    let log = busy(&folder);
    let long = running("long");
    begin(&log, &long);
    run_large(&log, 75);
    assert_eq!(segment::numbers(log.dir()).unwrap(), [1, 2]);
    assert_eq!(statuses(&log), ["running"]);
    log.append(Kind::Dropped, Some(long.invocation_id), &())
        .unwrap();
    assert!(segment::is_closed(log.dir(), 1));
    assert!(log.verify().unwrap().is_ok());
    assert_eq!(statuses(&log).len(), 0);
}

#[test]
fn calls_at_once_have_their_lines_once_and_in_order() {
    let folder = memory();
    let writer = log(&folder, LogSettings::default());
    let calls = || {
        let call = |count: usize| {
            let call = run(&writer);
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
    close(writer);
    let lines = lines(folder.path());
    assert_eq!(lines.len(), 1 + 2 * ids.len());
    let mut of: HashMap<&str, String> = HashMap::new();
    lines
        .iter()
        .for_each(|(kind, id)| of.entry(id.as_str()).or_default().push(*kind));
    assert!(ids.iter().all(|id| of[id.as_str()] == "sx"));
}

/// Lines that cannot be written to the segment stay on record, and nothing new starts.
#[test]
fn a_ring_that_cannot_be_emptied_takes_no_more_calls_and_loses_none() {
    let folder = memory();
    let log = busy(&folder);
    let call = running("a");
    let lock = {
        let mut writer = log.0.writer();
        begin(&log, &call);
        let read_only = fs::File::open(segment::path(log.dir(), 1)).unwrap();
        writer.as_mut().unwrap().current.replace_file(read_only)
    };
    assert!(
        log.calls(&CallQuery {
            limit: 10,
            ..CallQuery::default()
        })
        .is_err()
    );
    assert!(
        log.start(Kind::Started, Start::new(&running("a"), false))
            .is_err()
    );
    let left: PathBuf = folder.path().join("calls/0000000001.ring");
    drop((log, lock));
    assert!(left.exists());
    let reader = super::log(&folder, LogSettings::default());
    assert_eq!(statuses(&reader), ["canceled"]);
    assert!(reader.verify().unwrap().is_ok() && !left.exists());
}
