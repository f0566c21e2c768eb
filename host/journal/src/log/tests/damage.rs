//! Damage of a log, and how it is found.

use std::fs;

use tempfile::TempDir;

use crate::log::line::{Kind, NO_CALL};
use crate::log::{CallQuery, LogSettings, Start, segment, verify};

use super::{files, large, log, remove, remove_database, run_through, running, start, statuses};

#[tokio::test]
async fn a_torn_line_is_removed_when_its_segment_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    start(&log(&folder, LogSettings::default()), "a").await;
    let path = segment::path(&folder.path().join("calls"), 1);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"0123"].concat()).unwrap();
    let reader = log(&folder, LogSettings::default());
    let damage = reader.verify().unwrap().unwrap_err().remove(0);
    assert!(
        damage.line == 3 && damage.what.starts_with("it is incomplete"),
        "{damage}"
    );
    start(&reader, "b").await;
    assert!(reader.verify().unwrap().is_ok());
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
    let damage = reader.verify().unwrap().unwrap_err().remove(0);
    assert_eq!(damage.what, "the lines after it were removed");
}

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
                let damage = next.verify().unwrap().unwrap_err().remove(0);
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
        .started(Start::new(call.clone(), false), false)
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
        let damage = writer.verify().unwrap().unwrap_err().remove(0);
        assert_eq!(
            (damage.what, damage.call.as_deref()),
            ("its row was changed", Some(id.as_str())),
            "{forged}"
        );
    }
    let head = writer.0.head_file();
    let text = fs::read_to_string(&head).unwrap();
    fs::write(&head, text.replacen(",\"ends\":[[1,", ",\"ends\":[[2,", 1)).unwrap();
    let damage = writer.verify().unwrap().unwrap_err().remove(0);
    assert_eq!(damage.what, "it was changed");
}

#[tokio::test]
async fn a_log_of_an_earlier_toolcell_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    start(&log(&folder, LogSettings::default()), "a").await;
    let path = segment::path(&folder.path().join("calls"), 1);
    let text = fs::read_to_string(&path).unwrap();
    let format = format!("\"format\":{}", crate::database::VERSION);
    fs::write(&path, text.replace(&format, "\"format\":4")).unwrap();
    let later = log(&folder, LogSettings::default());
    let query = CallQuery::default();
    let read = later.calls(&query).unwrap_err();
    let written = later
        .started(Start::new(running("a"), false), false)
        .await
        .unwrap_err();
    for error in [read, written] {
        let said = error.to_string();
        assert!(said.contains("remove it: rm -r '"), "{said}");
    }
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
    let damage = writer.verify().unwrap().unwrap_err().remove(0);
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
        .unwrap_err()
        .remove(0);
    assert_eq!(
        (damage.file, damage.what),
        (segment::name(2), "the file was removed")
    );
}

#[tokio::test]
async fn every_line_that_was_changed_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(&folder, LogSettings::default());
    for tool in ["a", "b", "c", "d"] {
        start(&writer, tool).await;
    }
    assert!(writer.verify().unwrap().is_ok());
    let path = segment::path(writer.dir(), 1);
    let mut lines: Vec<String> = fs::read_to_string(&path)
        .unwrap()
        .split_inclusive('\n')
        .map(str::to_owned)
        .collect();
    lines[1] = lines[1].replace("\"changes\":false", "\"changes\":true ");
    lines[3] = "no line\n".to_owned();
    fs::write(&path, lines.concat()).unwrap();
    let findings = writer.verify().unwrap().unwrap_err();
    let places: Vec<(u64, bool)> = findings
        .iter()
        .filter(|damage| damage.file == segment::name(1))
        .map(|damage| (damage.line, damage.call.is_some()))
        .collect();
    assert_eq!(places[..2], [(2, true), (4, false)], "{findings:?}");
}

#[tokio::test]
async fn a_file_with_the_highest_number_is_found_and_the_check_ends() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(&folder, LogSettings::default());
    start(&writer, "a").await;
    fs::write(segment::path(writer.dir(), u64::MAX), "").unwrap();
    let findings = writer.verify().unwrap().unwrap_err();
    assert_eq!(
        (findings[0].file.as_str(), findings[0].what),
        (segment::name(2).as_str(), "the file was removed")
    );
}

/// Such a line can be one of another place.
#[test]
fn what_a_segment_says_of_removed_ones_behind_a_changed_line_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(&folder, LogSettings::default());
    let key = writer.key().unwrap();
    let mut segment = segment::Segment::take(writer.dir(), &key).unwrap();
    for removed in 2..=3 {
        let said = format!("{{\"removed_segments\":[{removed}]}}");
        segment.append(&key, Kind::Pruned, NO_CALL, &said).unwrap();
        let text = "{\"first\":0,\"events\":[]}";
        segment.append(&key, Kind::Noted, NO_CALL, text).unwrap();
    }
    drop(segment);
    let told = |numbers: &[u64]| {
        let mut told = verify::with_earlier(writer.dir(), &key, numbers).unwrap();
        told.removed_segments.retain(|number| *number != 1);
        told.removed_segments
    };
    assert_eq!(told(&[1]), [2, 3]);
    let path = segment::path(writer.dir(), 1);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"first\":0", "\"first\":1", 1)).unwrap();
    assert_eq!(told(&[1]), [2]);
}
