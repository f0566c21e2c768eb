//! A TOCTOU race: a folder is swapped for a link to a closed one, as fast as the kernel does it, while a call uses names
//! in it.
//!
//! Promise: Denials hold inside grants.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::{snapshot, text};
use crate::support::{Test, scratch};

const SECRET: &str = "secret-4e51-nobody-may-read-this";
const MS: u64 = 1_500;

/// Races until both did enough to show something: on a busy machine one of them may hardly run.
async fn race(deny: impl Fn(&mut toolcell_policy::Grants, &str)) {
    let mut met = Vec::new();
    for _ in 0..10 {
        let [swaps, rounds] = race_once(&deny).await;
        if swaps > 1_000 && rounds > 20 {
            return;
        }
        met.push((swaps, rounds));
    }
    panic!("too little was swapped or used, so this test shows nothing: {met:?}");
}

/// Returns how often the folder was swapped, and how often its names were used. The link has the same names behind it as
/// the open folder.
async fn race_once(deny: &impl Fn(&mut toolcell_policy::Grants, &str)) -> [u64; 2] {
    let (_guard, root) = scratch();
    for folder in [
        "closed/empty",
        "swapped/empty",
        "closed/movable",
        "swapped/movable",
    ] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for name in ["file", "victim"] {
        fs::write(root.join("closed").join(name), SECRET).unwrap();
        fs::write(root.join("swapped").join(name), "mine").unwrap();
    }
    std::os::unix::fs::symlink("closed", root.join("link")).unwrap();
    let closed = root.join("closed");
    let before = snapshot(&closed);
    let over = Arc::new(AtomicBool::new(false));
    let swapping = thread::spawn({
        let root = root.clone();
        let over = Arc::clone(&over);
        move || swap(&root, &over)
    });
    let used = Test::new("hostile#use_swapped")
        .write(&root)
        .grant(|grants| deny(grants, text(&closed)));
    let used = used.call(json!({ "path": root, "ms": MS })).await;
    over.store(true, Ordering::Relaxed);
    let swaps = swapping.join().unwrap();
    let used = used.succeeded();
    assert_eq!(
        snapshot(&closed),
        before,
        "what is closed was changed in {swaps} swaps: {used}"
    );
    assert!(
        !used.to_string().contains(SECRET) || !is_closed_for_reading(deny),
        "the secret was read: {used}"
    );
    [swaps, used["rounds"].as_u64().unwrap()]
}

/// Exchanges the folder `swapped` and the link until it is over. No name is ever absent, so each use meets one of both.
fn swap(root: &Path, over: &AtomicBool) -> u64 {
    let swapped = root.join("swapped");
    let link = root.join("link");
    let mut swaps = 0;
    while !over.load(Ordering::Relaxed) {
        renameat_with(CWD, &swapped, CWD, &link, RenameFlags::EXCHANGE).unwrap();
        swaps += 1;
    }
    swaps
}

fn is_closed_for_reading(deny: &impl Fn(&mut toolcell_policy::Grants, &str)) -> bool {
    let mut grants = toolcell_policy::Grants::default();
    deny(&mut grants, "/closed");
    !grants.deny_read.is_empty()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_closed_is_read_or_changed_through_a_folder_that_becomes_a_link() {
    race(|grants, closed| grants.deny_read(closed).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_closed_for_writing_is_changed_through_a_folder_that_becomes_a_link() {
    race(|grants, closed| grants.deny_write(closed).unwrap()).await;
}
