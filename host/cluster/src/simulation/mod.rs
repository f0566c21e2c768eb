//! The protocol in a world that a seed makes: processes that end, stop and start again, messages that are lost, late, doubled
//! or out of order, clocks that differ. The same seed gives the same schedule.
//!
//! Promise: A call on many machines has one result.
//! Promise: A call with effects starts once.
//!
//! `CLUSTER_SEED=n cargo test -p toolcell-cluster simulation::one` shows a schedule.

mod check;
mod executor;
mod node;
mod schedule;
mod world;

use std::cell::Cell;

use schedule::Schedule;

thread_local! {
    /// The fence that is left out.
    static LEFT_OUT: Cell<&'static str> = const { Cell::new("") };
}

/// Asked by `fence!`.
pub(crate) fn stands(fence: &str) -> bool {
    LEFT_OUT.get() != fence
}

fn run(seed: u64, is_traced: bool) -> Result<u64, String> {
    Schedule::new(seed, is_traced).run()
}

/// Panics at the first schedule that breaks a promise.
fn run_all(seeds: std::ops::Range<u64>) {
    let mut events = 0;
    let begun = std::time::Instant::now();
    let count = seeds.end - seeds.start;
    for seed in seeds {
        match run(seed, false) {
            Ok(some) => events += some,
            Err(promise) => panic!(
                "schedule {seed} breaks a promise: {promise}. To see it: CLUSTER_SEED={seed} cargo test -p \
                 toolcell-cluster simulation::one"
            ),
        }
    }
    let time = begun.elapsed().as_secs_f64();
    println!(
        "{count} schedules, {} events each, {:.0} a second",
        events / count.max(1),
        count as f64 / time
    );
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

#[test]
fn some_schedules_keep_every_promise() {
    run_all(0..3_000);
}

/// `CLUSTER_SCHEDULES` says how many.
#[test]
#[ignore = "a million schedules: `just nightly` runs it"]
fn a_million_schedules_keep_every_promise() {
    run_all(0..number("CLUSTER_SCHEDULES").unwrap_or(1_000_000));
}

/// The schedule of `CLUSTER_SEED`, or of the first seed, twice: it must be the same.
#[test]
fn one_seed_gives_one_schedule() {
    let seed = number("CLUSTER_SEED");
    let first = run(seed.unwrap_or_default(), seed.is_some());
    let again = run(seed.unwrap_or_default(), false);
    assert_eq!(first, again);
    first.unwrap();
}

/// The fences of the protocol; the last ones are a worker's and the store's.
const FENCES: &[&str] = &[
    "cluster_attempt",
    "cluster_cancel",
    "cluster_claims",
    "cluster_deadline",
    "cluster_done",
    "cluster_effects",
    "cluster_epoch",
    "cluster_holder",
    "cluster_late",
    "cluster_lease",
    "cluster_lost",
    "cluster_publish",
    "cluster_question",
    "cluster_queued",
    "cluster_request",
    "cluster_silence",
    "cluster_unknown",
    "cluster_waiting",
    "attempt_ids",
    "store_leader",
    "store_revision",
];

#[test]
fn a_fence_that_is_missing_is_found() {
    let mut missed = Vec::new();
    for fence in FENCES {
        LEFT_OUT.set(fence);
        let mut seeds = 0..20_000;
        match seeds.find_map(|seed| Some((seed, run(seed, false).err()?))) {
            Some((seed, promise)) => println!("{fence:<18} {seed:>6} {promise}"),
            None => missed.push(fence),
        }
    }
    LEFT_OUT.set("");
    assert!(
        missed.is_empty(),
        "no schedule shows the lack of {missed:?}"
    );
}
