//! `toolcell batch`, killed at random moments again and again: what the journal knows afterwards.
//!
//! `TOOLCELL_KILLS=200` kills as often as that, `TOOLCELL_SEED=7` repeats a workload. The seed is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};

use super::guest;
use crate::support::{Ran, Toolcell, scratch, share_compiled};

const KILLS: u64 = 16;
/// Calls of one process.
const CALLS: u64 = 60;

/// The splitmix64 generator: a workload can be repeated from its seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

pub(super) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap())
}

struct Place {
    _guard: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let (_guard, root) = scratch();
        for folder in ["home", "one", "two"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        share_compiled(&root.join("home"));
        Self { _guard, root }
    }

    fn toolcell(&self, arguments: &[&str]) -> Toolcell {
        Toolcell::at(&self.root.join("home"), arguments)
    }

    /// A random call. One that writes appends its own id to a file, so that the file tells how often it ran.
    fn call(&self, random: &mut Random, id: &str) -> Value {
        let (tool, input) = match random.below(4) {
            0 => (
                "probe#echo",
                json!({ "text": "x".repeat([1, 100, 70_000][random.below(3) as usize]) }),
            ),
            1 => ("probe#hold", json!({ "ms": random.below(20) })),
            _ => {
                let file = self
                    .root
                    .join(["one", "two"][random.below(2) as usize])
                    .join("ran");
                (
                    "probe#append",
                    json!({ "path": file, "text": format!("{id}\n") }),
                )
            }
        };
        json!({ "id": id, "tool": guest(tool), "input": input })
    }

    /// Bytes of all segments of the log.
    fn log_bytes(&self) -> u64 {
        let files = fs::read_dir(self.root.join("home/journal/calls"))
            .into_iter()
            .flatten()
            .map(Result::unwrap);
        let segments = files.filter(|file| file.path().extension().is_some_and(|of| of == "log"));
        segments
            .map(|file| file.metadata().map_or(0, |file| file.len()))
            .sum()
    }

    /// The ids of the writing calls that ran, as their tools left them.
    fn ran(&self) -> Vec<String> {
        let read = |folder: &str| {
            fs::read_to_string(self.root.join(folder).join("ran")).unwrap_or_default()
        };
        [read("one"), read("two")]
            .concat()
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

fn is_writing(call: &Value) -> bool {
    call["tool"].as_str().unwrap().ends_with("#append")
}

/// The records of which the client saw all.
fn seen(ran: &Ran) -> Vec<Value> {
    let whole = ran.stdout.rfind('\n').map_or("", |end| &ran.stdout[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Runs a batch of `calls`, and kills it `life` after the log has grown by `bytes`.
fn killed(place: &Place, calls: &[Value], bytes: u64, life: Duration) -> Ran {
    let text: String = calls.iter().map(|call| format!("{call}\n")).collect();
    let grant = format!("--allow-write={}", place.root.display());
    let arguments = [
        "batch",
        "-",
        "--print-record",
        "--max-parallel=4",
        "--memory=16MiB",
        "--no-config",
        &grant,
    ];
    let begun = place.log_bytes();
    let mut child = place.toolcell(&arguments).stdin(&text).spawn();
    let mut stdout = child.stdout.take().unwrap();
    // A client that reads: a full pipe would stop the batch.
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).map(|_| bytes)
    });
    while place.log_bytes() < begun + bytes && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(life);
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    Ran::from(Output {
        stdout: reading.join().unwrap().unwrap(),
        ..output
    })
}

fn native_id(record: &Value) -> &str {
    record["invocation"]["native_call_id"].as_str().unwrap()
}

/// Every record of the journal, by the caller's id.
fn kept(place: &Place) -> BTreeMap<String, Value> {
    let listed = place
        .toolcell(&["calls", "--json", "--limit=1000000"])
        .run()
        .exits(0)
        .json();
    let mut kept = BTreeMap::new();
    for call in listed["calls"].as_array().unwrap() {
        let id = call["invocation_id"].as_str().unwrap();
        let record = place
            .toolcell(&["show", id, "--json"])
            .run()
            .exits(0)
            .json();
        let again = kept.insert(native_id(&record).to_owned(), record);
        assert!(again.is_none(), "two calls for one request: {again:?}");
    }
    kept
}

fn is_terminal(status: &str) -> bool {
    [
        "succeeded",
        "failed",
        "denied",
        "canceled",
        "timed_out",
        "blocked",
    ]
    .contains(&status)
}

#[test]
fn nothing_is_lost_or_done_twice_however_often_the_host_is_killed() {
    let seed = number("TOOLCELL_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let kills = number("TOOLCELL_KILLS").unwrap_or(KILLS);
    println!("TOOLCELL_SEED={seed} TOOLCELL_KILLS={kills}");
    let mut random = Random(seed);
    let place = Place::new();
    let mut planned = BTreeMap::new();
    let mut saw = BTreeMap::new();
    for round in 0..=kills {
        let calls: Vec<Value> = (0..CALLS)
            .map(|n| place.call(&mut random, &format!("{round}-{n}")))
            .collect();
        // However fast the machine is, some are killed before a call begins, and most while calls run.
        let (bytes, life) = match random.below(5) {
            // The last one ends by itself, and removes the line that a kill cut off.
            _ if round == kills => (u64::MAX >> 1, 0),
            0 => (0, random.below(100)),
            _ => (random.below(150_000), random.below(20)),
        };
        let ran = killed(&place, &calls, bytes, Duration::from_millis(life));
        saw.extend(
            seen(&ran)
                .into_iter()
                .map(|record| (native_id(&record).to_owned(), record)),
        );
        planned.extend(
            calls
                .into_iter()
                .map(|call| (call["id"].as_str().unwrap().to_owned(), call)),
        );
    }
    let verified = place.toolcell(&["log", "verify"]).run().exits(0);
    assert!(
        verified.stdout.contains("as they were written"),
        "{}",
        verified.stdout
    );

    let kept = kept(&place);
    for (id, record) in &kept {
        let status = record["invocation"]["status"].as_str().unwrap();
        assert!(
            is_terminal(status) && planned.contains_key(id),
            "{id}: {status}"
        );
        if status == "canceled" {
            assert_eq!(
                record["result"]["error"]["error_code"], "runtime_shutdown",
                "{id}"
            );
        }
    }
    for (id, record) in &saw {
        let known = kept
            .get(id)
            .unwrap_or_else(|| panic!("{id}: the client saw a result that is lost"));
        assert_eq!(known["result"], record["result"], "{id}");
    }
    let ran = place.ran();
    let once: BTreeSet<&str> = ran.iter().map(String::as_str).collect();
    assert_eq!(once.len(), ran.len(), "a call ran twice: {ran:?}");
    // What had an effect is on record, and what succeeded had its effect.
    assert!(
        once.iter().all(|id| kept.contains_key(*id)),
        "an effect without a record"
    );
    for (id, call) in planned.iter().filter(|(_, call)| is_writing(call)) {
        let succeeded = kept
            .get(id)
            .is_some_and(|record| record["invocation"]["status"] == "succeeded");
        assert!(
            !succeeded || once.contains(id.as_str()),
            "{id} succeeded without its effect: {call}"
        );
    }
    assert!(
        kept.len() > planned.len() / 10,
        "of {} calls, {} began",
        planned.len(),
        kept.len()
    );
    println!(
        "{} calls planned, {} begun, {} results seen",
        planned.len(),
        kept.len(),
        saw.len()
    );
}
