//! A TOCTOU race of two calls: one keeps swapping a folder for a link to a closed one, the other uses names in it.

use std::fs;

use serde_json::json;

use super::{snapshot, text};
use crate::support::{Test, scratch};

const SECRET: &str = "secret-4e51-nobody-may-read-this";
const MS: u64 = 1_500;

/// Races until the calls met often enough to show something: on a busy machine one of them may hardly run.
async fn race(deny: impl Fn(&mut toolcell_core::policy::Grants, &str)) {
    let mut met = Vec::new();
    for _ in 0..10 {
        let [swaps, rounds] = race_once(&deny).await;
        if swaps > 20 && rounds > 20 {
            return;
        }
        met.push((swaps, rounds));
    }
    panic!("too little was swapped or used, so this test shows nothing: {met:?}");
}

/// Runs the two calls at the same time, and returns how often they did their part. The link leads to `to`, which has the
/// same names as the open folder.
async fn race_once(deny: &impl Fn(&mut toolcell_core::policy::Grants, &str)) -> [u64; 2] {
    let (_guard, root) = scratch();
    for folder in ["closed/empty", "swapped/empty", "closed/movable", "swapped/movable"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for name in ["file", "victim"] {
        fs::write(root.join("closed").join(name), SECRET).unwrap();
        fs::write(root.join("swapped").join(name), "mine").unwrap();
    }
    let closed = root.join("closed");
    let before = snapshot(&closed);
    let test = |tool| Test::new(tool).write(&root).grant(|grants| deny(grants, text(&closed)));
    let swap = test("hostile#swap").call(json!({ "path": root, "to": "closed", "ms": MS }));
    let used = test("hostile#use_swapped").call(json!({ "path": root, "ms": MS }));
    let (swapped, used) = tokio::join!(swap, used);
    let (swapped, used) = (swapped.succeeded(), used.succeeded());
    assert_eq!(snapshot(&closed), before, "what is closed was changed: {swapped} {used}");
    assert!(!used.to_string().contains(SECRET) || !is_closed_for_reading(deny), "the secret was read: {used}");
    [swapped["swaps"].as_u64().unwrap(), used["rounds"].as_u64().unwrap()]
}

fn is_closed_for_reading(deny: &impl Fn(&mut toolcell_core::policy::Grants, &str)) -> bool {
    let mut grants = toolcell_core::policy::Grants::default();
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
