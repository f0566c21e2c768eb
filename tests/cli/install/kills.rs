//! `toolcell install`, killed at random moments again and again: what is left of the store and of the lock.
//!
//! `TOOLCELL_KILLS=1000` kills as often as that, `TOOLCELL_SEED=7` repeats a workload. The seed is printed.
//!
//! Promise: A killed install leaves a store that verifies.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_custom;

use super::super::kills::{Random, number};
use super::super::policy::Place;
use super::project;
use crate::pipeline::doubles::echoing;
use crate::support::{Mirror, response};

const KILLS: u64 = 100;
/// Longer than an install takes, so that some end by themselves.
const LIFE_MS: u64 = 250;

/// A component that differs from all others, and is large enough that it is not written at once.
fn component(at: u64) -> Vec<u8> {
    let filler = vec![u8::try_from(at % 251).unwrap(); 1 << 19];
    let one = with_custom(&echoing("greet", |_| {}), "filler", &filler).unwrap();
    with_custom(&one, "number", &at.to_le_bytes()).unwrap()
}

/// Fails unless every component is whole, and every name of the lock can be used. Returns the latter.
fn is_sound(place: &Place) -> Vec<Value> {
    place.run(&["store", "verify"]).exits(0);
    let listed = place.run(&["list", "--json"]).exits(0).json();
    let mut installed = listed["installed"].as_array().unwrap().clone();
    // A process that was killed before it replaced the lock has confirmed a name that the lock does not have.
    installed.retain(|one| one["state"] != "not_installed");
    assert!(
        installed.iter().all(|one| one["state"] == "ready"),
        "{listed}"
    );
    installed
}

#[test]
fn a_killed_install_leaves_a_store_that_verifies() {
    let seed = number("TOOLCELL_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let kills = number("TOOLCELL_KILLS").unwrap_or(KILLS);
    println!("TOOLCELL_SEED={seed} TOOLCELL_KILLS={kills}");
    let place = project();
    let mut random = Random(seed);
    let current = Arc::new(AtomicU64::new(0));
    let served = Arc::clone(&current);
    let server = Mirror::new(move |request| {
        if request.starts_with("GET /greet.wasm ") {
            response(&[], &component(served.load(Ordering::SeqCst)))
        } else {
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
        }
    });
    let url = format!("{}/greet.wasm", server.origin());
    let mut ended = 0;
    for at in 0..kills {
        current.store(at, Ordering::SeqCst);
        fs::write(place.project.join("greet.wasm"), component(at)).unwrap();
        // New names, and updates of one that is there.
        let arguments = match random.below(3) {
            0 => vec!["install", "./greet.wasm", "--name=file", "--yes"],
            1 => vec!["install", &url, "--name=web", "--allow-unsigned", "--yes"],
            _ => vec!["update", "--yes"],
        };
        let mut child = place.toolcell(&arguments).spawn();
        std::thread::sleep(Duration::from_millis(random.below(LIFE_MS)));
        child.kill().unwrap();
        ended += u64::from(child.wait_with_output().unwrap().status.success());
        if at % 10 == 9 {
            is_sound(&place);
        }
    }
    println!("{ended} of {kills} ended by themselves");
    // The next one removes what they left, and does its work.
    place
        .run(&["install", "./greet.wasm", "--name=last", "--yes"])
        .exits(0);
    assert_eq!(
        fs::read_dir(place.home.join("store/drafts"))
            .unwrap()
            .count(),
        0
    );
    let confirmed = fs::read_dir(place.home.join("installed")).unwrap();
    let files: Vec<_> = confirmed.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let installed = is_sound(&place);
    assert!(
        installed
            .iter()
            .any(|one| one["tool"]["name"] == json!("last"))
    );
    for one in &installed {
        place
            .run(&["call", one["tool"]["name"].as_str().unwrap()])
            .exits(0);
    }
    let left = fs::read_dir(&place.project)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut left: Vec<String> = left.filter(|name| name.contains("lock")).collect();
    left.sort();
    assert_eq!(left, ["toolcell.lock"]);
}
