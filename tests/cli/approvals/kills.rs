//! Promise: At most once, and never lost.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::{Place, kill, said_id};

/// Rounds of this test; each kills the asking and the approving process, each at a random moment.
const ROUNDS: u64 = 60;

#[test]
fn whenever_processes_are_killed_nothing_that_was_said_is_lost_and_nothing_runs_twice() {
    // The component is compiled beforehand, so that the random moments fall into the call.
    let warm = Place::new();
    warm.orphan("warm", &[]);
    let seed = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64;
    println!("seed {seed}");
    std::thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || {
                (0..ROUNDS / 4).for_each(|turn| {
                    let _ = round(&Place::new(), seed ^ (worker << 40) ^ (turn << 20));
                })
            });
        }
    });
}

/// Asks and approves, and kills both processes at random moments. Returns what the journal holds of the call in the
/// end; `None` if the asking process was killed before it stored anything.
pub(crate) fn round(place: &Place, seed: u64) -> Option<Value> {
    let mut chance = Chance(seed);
    let mut asking = place.call("one", &["--json"]).spawn();
    // Half of the asking processes are killed before they print the id, or just then.
    let id = if chance.below(2) == 0 {
        chance.pause(120);
        kill(asking);
        let listed = place.list(&["--all"]);
        assert!(listed.len() <= 1, "{listed:?}");
        match listed.first() {
            Some((id, state)) => {
                assert_eq!(state, "pending", "no approver answered");
                id.clone()
            }
            // The process was killed before it stored the call, and so before it printed the id.
            None => {
                assert!(place.lines().is_empty());
                return None;
            }
        }
    } else {
        let id = said_id(&mut asking).unwrap();
        if chance.below(2) == 0 {
            kill(asking);
        } else {
            std::thread::spawn(move || {
                Chance(seed).pause(300);
                kill(asking);
            });
        }
        id
    };
    // A call whose id was printed is stored, whatever happens to the process that printed it.
    assert!(place.lines().is_empty());
    let approving = place.toolcell(&["approvals", "approve", &id]).spawn();
    chance.pause(150);
    kill(approving);
    // Repeated until the call has a result.
    let mut told_it_ran = false;
    for _ in 0..50 {
        let ran = place.run(&["approvals", "approve", &id]);
        told_it_ran |= ran.code == Some(0);
        let shown = place.show(&id);
        if !shown["result"].is_null() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let shown = place.show(&id);
    assert!(
        !shown["result"].is_null(),
        "seed {seed}: it has no end: {shown:#}"
    );
    let lines = place.lines();
    assert!(lines.len() <= 1, "seed {seed}: {lines:?}");
    let transitions = shown["invocation"]["status_transitions"]
        .as_array()
        .unwrap();
    let approvals = transitions
        .iter()
        .filter(|step| step["to"] == "approved")
        .count();
    match (
        shown["state"].as_str().unwrap(),
        shown["invocation"]["status"].as_str().unwrap(),
    ) {
        ("finished", "succeeded") => assert_eq!((lines.len(), approvals), (1, 1), "seed {seed}"),
        // The process was killed between claim and result, so the outcome is recorded as unknown.
        ("finished", "canceled") => assert_eq!(
            shown["result"]["error"]["error_code"], "interrupted",
            "seed {seed}"
        ),
        other => panic!("seed {seed}: {other:?}, told {told_it_ran}"),
    }
    if told_it_ran && lines.is_empty() {
        assert_eq!(
            shown["result"]["error"]["error_code"], "interrupted",
            "seed {seed}"
        );
    }
    Some(shown)
}

/// Random numbers, the same for the same seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn pause(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_micros(self.below(ms * 1_000)));
    }
}
