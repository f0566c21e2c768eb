//! A component is compiled once.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::echo_in;
use crate::support::{Toolcell, scratch};

/// The compiled components of `home`, with the time at which each was written.
fn compiled(home: &Path) -> Vec<(String, SystemTime)> {
    let entries = std::fs::read_dir(home.join("cache/components")).unwrap().map(Result::unwrap);
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().modified().unwrap()))
        .collect()
}

#[test]
fn a_second_run_compiles_nothing() {
    let (_guard, folder) = scratch();
    let (home, tool) = (folder.join("home"), echo_in(&folder));
    for command in [["call", &tool], ["describe", &tool], ["call", &tool]] {
        let before = compiled_if_any(&home);
        Toolcell::at(&home, command).run().exits(0);
        let after = compiled(&home);
        assert_eq!(after.len(), 1);
        assert!(before.is_empty() || before == after, "{before:?} {after:?}");
    }
    // The same bytes elsewhere are the same component.
    let copy = folder.join("copy.wasm");
    std::fs::copy(&tool, &copy).unwrap();
    let before = compiled(&home);
    Toolcell::at(&home, ["call", copy.to_str().unwrap()]).run().exits(0);
    assert_eq!(compiled(&home), before);
}

fn compiled_if_any(home: &Path) -> Vec<(String, SystemTime)> {
    if home.join("cache/components").is_dir() { compiled(home) } else { Vec::new() }
}

#[test]
fn a_compiled_component_that_was_tampered_with_is_not_run() {
    let (_guard, folder) = scratch();
    let (home, tool) = (folder.join("home"), echo_in(&folder));
    Toolcell::at(&home, ["call", &tool]).run().exits(0);
    let file = home.join("cache/components").join(&compiled(&home)[0].0);
    let good = std::fs::read(&file).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    std::fs::write(&file, &bad).unwrap();
    Toolcell::at(&home, ["call", &tool]).run().exits(0);
    assert_eq!(std::fs::read(&file).unwrap(), good, "it was compiled anew");
}

/// Calls `tool` until toolcell has noted that its files were read and settled.
fn call_until_noted(home: &Path, tool: &str) -> PathBuf {
    let notes = home.join("cache/components.notes");
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        Toolcell::at(home, ["call", tool]).run().exits(0);
        if let Some(note) = std::fs::read_dir(&notes).ok().and_then(|mut notes| notes.next()) {
            return note.unwrap().path();
        }
    }
    panic!("no note was kept");
}

/// Changes bytes of a file, and makes it look as if it had not been touched: its size and its times are the same.
fn change_unseen(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let modified = std::fs::metadata(file).unwrap().modified().unwrap();
    let mut bytes = std::fs::read(file).unwrap();
    change(&mut bytes);
    std::fs::write(file, bytes).unwrap();
    std::fs::File::options().write(true).open(file).unwrap().set_modified(modified).unwrap();
}

#[test]
fn a_file_that_changed_under_the_same_size_and_times_is_read_again() {
    let (_guard, folder) = scratch();
    let (home, tool) = (folder.join("home"), echo_in(&folder));
    call_until_noted(&home, &tool);
    // The compiled code: it is authenticated again, found wanting, and compiled anew.
    let entry = home.join("cache/components").join(&compiled(&home)[0].0);
    let good = std::fs::read(&entry).unwrap();
    change_unseen(&entry, |bytes| bytes[good.len() / 2] ^= 1);
    Toolcell::at(&home, ["call", &tool]).run().exits(0);
    assert_eq!(std::fs::read(&entry).unwrap(), good, "it was compiled anew");
    // The component: it is another one now, and no component at all.
    call_until_noted(&home, &tool);
    change_unseen(Path::new(&tool), |bytes| bytes[0] ^= 1);
    Toolcell::at(&home, ["call", &tool]).run().exits(2);
}

#[test]
fn a_note_that_toolcell_did_not_write_counts_for_nothing() {
    let (_guard, folder) = scratch();
    let (home, tool) = (folder.join("home"), echo_in(&folder));
    let note = call_until_noted(&home, &tool);
    let entry = home.join("cache/components").join(&compiled(&home)[0].0);
    let good = std::fs::read(&entry).unwrap();
    // Neither changed, nor cut, nor as it was does it vouch for code that was tampered with.
    let noted = std::fs::read(&note).unwrap();
    let flipped = |at: usize| {
        let mut bytes = noted.clone();
        bytes[at] ^= 1;
        bytes
    };
    for forged in [flipped(0), flipped(40), noted[..63].to_vec(), Vec::new(), noted.clone()] {
        change_unseen(&entry, |bytes| bytes[good.len() / 2] ^= 1);
        std::fs::write(&note, forged).unwrap();
        Toolcell::at(&home, ["call", &tool]).run().exits(0);
        assert_eq!(std::fs::read(&entry).unwrap(), good, "it was compiled anew");
    }
}

#[test]
fn what_toolcell_keeps_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    call_until_noted(&home, &echo_in(&folder));
    for path in ["cache/components", "cache/components.notes", "keys", "keys/components"] {
        let mode = std::fs::metadata(home.join(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{path} has mode {mode:o}");
    }
}
