//! Promise: A call that needs an approval waits for it.

use std::fs;

use serde_json::json;

use super::Place;

/// Whatever damage the journal has, nothing runs, and the approver gets an error.
#[track_caller]
fn stays_closed(place: &Place, id: &str, what: &str) {
    let ran = place.run(&["approvals", "approve", id]);
    assert!(matches!(ran.code, Some(1..=3)), "{what}: {ran:?}");
    assert!(place.lines().is_empty(), "{what}");
}

#[test]
fn a_damaged_journal_approves_nothing_and_says_so() {
    for (what, damage) in [
        (
            "noise at the start",
            (|bytes: &mut Vec<u8>| bytes[..100].fill(0x55)) as fn(&mut Vec<u8>),
        ),
        ("no database", |bytes| {
            *bytes = b"{\"approved\": true}".repeat(100)
        }),
        ("half of it", |bytes| bytes.truncate(bytes.len() / 2)),
        ("noise in every page", |bytes| {
            bytes
                .chunks_mut(4096)
                .skip(1)
                .for_each(|page| page[..64].fill(0x55))
        }),
    ] {
        let place = Place::new();
        let id = place.orphan("one", &[]);
        let database = place.home.join("journal/journal.db");
        settle(&place);
        let mut bytes = fs::read(&database).unwrap();
        damage(&mut bytes);
        fs::write(&database, bytes).unwrap();
        stays_closed(&place, &id, what);
        // A new question cannot be stored, so it is not asked.
        let ran = place
            .call("two", &["--json", "--approval-timeout=2s"])
            .run();
        assert_ne!(ran.code, Some(0), "{what}");
        let error = ran.json()["error"]["error_code"].clone();
        assert_eq!(error, "approval_store_damaged", "{what}");
        assert!(place.lines().is_empty());
        let listed = place.run(&["approvals", "list"]).exits(3);
        assert!(
            listed.stderr.contains("damaged"),
            "{what}: {}",
            listed.stderr
        );
    }
}

#[test]
fn a_row_that_was_changed_behind_the_journals_back_runs_nothing() {
    let place = Place::new();
    let id = place.orphan("one", &[]);
    settle(&place);
    let database = place.home.join("journal/journal.db");
    let whole = fs::read(&database).unwrap();
    // The call itself is encrypted; each of these values is in plain text in the file, and authenticated.
    for (old, new) in [("pending", "running"), ("sha256:", "sha256;")] {
        let changed = replaced(&whole, old.as_bytes(), new.as_bytes());
        assert_ne!(changed, whole, "{old} is not in the file");
        fs::write(&database, changed).unwrap();
        stays_closed(&place, &id, old);
    }
    fs::write(&database, whole).unwrap();
    place.run(&["approvals", "approve", &id]).exits(0);
    assert_eq!(place.lines(), ["one"]);
}

#[test]
fn a_journal_of_a_newer_toolcell_is_left_alone() {
    let place = Place::new();
    let id = place.orphan("one", &[]);
    settle(&place);
    let database = place.home.join("journal/journal.db");
    let mut bytes = fs::read(&database).unwrap();
    // `user_version` in the header of the file.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&database, &bytes).unwrap();
    let ran = place.run(&["approvals", "approve", &id]).exits(3);
    assert!(ran.stderr.contains("newer toolcell"), "{}", ran.stderr);
    assert_eq!(fs::read(&database).unwrap()[60..64], 99_u32.to_be_bytes());
    assert!(place.lines().is_empty());
}

#[test]
fn a_journal_of_an_earlier_toolcell_or_another_program_is_left_alone() {
    let place = Place::new();
    let id = place.orphan("one", &[]);
    settle(&place);
    let database = place.home.join("journal/journal.db");
    let whole = fs::read(&database).unwrap();
    // `user_version` and `application_id` in the header of the file.
    for (at, value, words) in [
        (68, *b"else", "damaged"),
        (60, *b"\0\0\0\x03", "remove it: "),
    ] {
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&value);
        fs::write(&database, &bytes).unwrap();
        let refused = place.run(&["approvals", "approve", &id]).exits(3);
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
        assert_eq!(fs::read(&database).unwrap()[at..at + 4], value);
    }
    assert!(place.lines().is_empty());
    // Who calls learns no path of this machine, and the command that the operator is told removes no record of a call.
    let called = place.call("two", &["--json"]).run().exits(3).json();
    assert_eq!(called["error"]["error_code"], "approval_store_older");
    let message = called["error"]["message"].as_str().unwrap();
    assert!(!message.contains(place.home.to_str().unwrap()), "{message}");
    let told = place.run(&["approvals", "list"]).exits(3).stderr;
    let command = told.split("remove it: ").nth(1).unwrap().trim_end();
    let removed = std::process::Command::new("sh")
        .args(["-c", command])
        .status();
    assert!(removed.unwrap().success(), "{command}");
    assert!(place.list(&["--all"]).is_empty());
    place.run(&["log", "verify"]).exits(0);
    let refused = called["invocation_id"].as_str().unwrap();
    let shown = place.run(&["show", refused, "--json"]).exits(0).json();
    assert_eq!(shown["invocation"]["invocation_id"], json!(refused));
}

#[test]
fn a_journal_that_cannot_be_written_asks_nobody() {
    let place = Place::new();
    fs::write(place.home.join("journal"), "in the way").unwrap();
    let ran = place.call("one", &["--json"]).run().exits(1);
    let result = ran.json();
    assert_eq!(result["error"]["error_class"], "dependency_unavailable");
    assert!(!ran.stderr.contains("Run this call?"), "{}", ran.stderr);
    assert!(place.lines().is_empty());
}

/// Opens and closes the journal, which moves everything from its write-ahead log into its file.
fn settle(place: &Place) {
    place.list(&[]);
    assert!(!place.home.join("journal/journal.db-wal").exists());
}

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut changed = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = changed[at..]
        .windows(old.len())
        .position(|window| window == old)
    {
        changed[at + found..at + found + old.len()].copy_from_slice(new);
        at += found + old.len();
    }
    changed
}
