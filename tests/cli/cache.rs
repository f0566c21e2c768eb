//! A component is compiled once.

use std::path::Path;
use std::time::SystemTime;

use super::echo_in;
use crate::support::{Hotcell, scratch};

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
        Hotcell::at(&home, command).run().exits(0);
        let after = compiled(&home);
        assert_eq!(after.len(), 1);
        assert!(before.is_empty() || before == after, "{before:?} {after:?}");
    }
    // The same bytes elsewhere are the same component.
    let copy = folder.join("copy.wasm");
    std::fs::copy(&tool, &copy).unwrap();
    let before = compiled(&home);
    Hotcell::at(&home, ["call", copy.to_str().unwrap()]).run().exits(0);
    assert_eq!(compiled(&home), before);
}

fn compiled_if_any(home: &Path) -> Vec<(String, SystemTime)> {
    if home.join("cache/components").is_dir() { compiled(home) } else { Vec::new() }
}

#[test]
fn a_compiled_component_that_was_tampered_with_is_not_run() {
    let (_guard, folder) = scratch();
    let (home, tool) = (folder.join("home"), echo_in(&folder));
    Hotcell::at(&home, ["call", &tool]).run().exits(0);
    let file = home.join("cache/components").join(&compiled(&home)[0].0);
    let good = std::fs::read(&file).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    std::fs::write(&file, &bad).unwrap();
    Hotcell::at(&home, ["call", &tool]).run().exits(0);
    assert_eq!(std::fs::read(&file).unwrap(), good, "it was compiled anew");
}

#[test]
fn what_hotcell_keeps_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    Hotcell::at(&home, ["call", &echo_in(&folder)]).run().exits(0);
    for path in ["cache/components", "keys", "keys/components"] {
        let mode = std::fs::metadata(home.join(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{path} has mode {mode:o}");
    }
}
