//! The first set of attacks, each with its expected verdicts and the invariants around it.
//!
//! Every attack runs in a separate process (this test binary, started again), so that it has its own memory, threads
//! and open files, and a crash of the host fails only one attack. [`table`] holds the expectations; [`arena`] measures.
//!
//! | letter | invariant around every attack |
//! |---|---|
//! | verdict | every call ends with the class and code of the table |
//! | A | the host survives: the driver exits cleanly, and an echo is answered afterwards |
//! | D | each verdict comes at most 250 ms after the deadline (more is allowed if other tests run at the same time) |
//! | M | memory peaks at most at idle + the profile's memory + 64 MiB, and is back at idle + 16 MiB within 2 s |
//! | F, T | open files and threads are back at idle within 2 s; files never exceed idle + the caps |
//! | X | the canary folder keeps its bytes and times, and the kernel reports no access to its file |
//! | E | listeners on 127.0.0.1 and ::1 receive no connection and no packet |
//! | Z | the canary secret of the host's environment appears nowhere, in six spellings |
//! | L | the output contains no character that controls a terminal |
//! | C | one terminal record for each call (checked for every call of every test) |
//! | N | an echo every 10 ms beside the attack never fails; its 99th percentile is measured and reported |
//!
//! A bystander, which shares only the machine with the host, is measured as well: a delay that an attack causes for
//! both is not the host's fault.
//!
//! `cargo test` leaves the attacks out, because they take long and need most of the machine: `just attacks` runs each
//! once, as `just nightly` does. `TOOLCELL_ATTACKS=CPU-1,MEM-2` selects attacks, `TOOLCELL_ATTACK_RUNS=20` repeats each; `just
//! hostile` does the latter, alone on the machine.

mod arena;
mod artifacts;
mod canary;
mod files;
mod loading;
mod meters;
#[cfg(feature = "mutants")]
mod mutants;
mod network;
mod output;
mod secrets;
mod space;
mod surface;
mod table;
mod time;
mod trust;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{fixture, scratch};
use table::{ATTACKS, Attack};

/// The environment variable that names the driver's attack.
const ATTACK: &str = "TOOLCELL_ATTACK";
/// The guests that are built for the driver.
const GUESTS: [&str; 5] = ["act", "hostile", "probe", "egress", "courier"];
/// A value in the environment of the host that no guest may ever see.
const SECRET: &str = "TOOLCELL_CANARY_SECRET";
/// Set if the attack runs alone on the machine: the promises are checked without allowance.
const STRICT: &str = "TOOLCELL_ATTACKS_STRICT";
const REPORT: &str = "HOSTILE-REPORT ";
/// Seconds after which a driver counts as hanging. `TOOLCELL_ATTACK_WATCHDOG_SECONDS` overrides it.
const WATCHDOG_SECONDS: u64 = 60;

/// Runs all attacks, or those in `TOOLCELL_ATTACKS`; in a process that [`run`] started, only its attack.
#[test]
#[ignore = "an attack: just hostile, or cargo test -- --ignored"]
fn the_first_set_ends_as_its_table_says() {
    if let Ok(id) = std::env::var(ATTACK) {
        let attack = ATTACKS.iter().find(|attack| attack.id == id).unwrap();
        println!("\n{REPORT}{}", arena::run(attack));
        return;
    }
    first_set(&GUESTS.map(|guest| (arena::guest_variable(guest), fixture(guest))));
}

/// They run in the engine that has more features, and no pool.
#[test]
#[ignore = "an attack: just hostile, or cargo test -- --ignored"]
fn the_first_set_ends_so_with_guests_that_have_exceptions() {
    let (_guard, folder) = scratch();
    let module = wat::parse_str("(module (tag (param i32)))").unwrap();
    let throwing = |guest: &str| {
        let mut component = std::fs::read(fixture(guest)).unwrap();
        let section = [1, u8::try_from(module.len()).unwrap()];
        component.extend([&section, &module[..]].concat());
        let file = folder.join(guest).with_extension("wasm");
        std::fs::write(&file, component).unwrap();
        file
    };
    first_set(&GUESTS.map(|guest| (arena::guest_variable(guest), throwing(guest))));
}

/// By the variables that name their files to the driver.
type GuestFiles = [(String, PathBuf)];

/// One set at a time: each measures the whole machine.
#[allow(clippy::print_stdout, reason = "it is a part of tests")]
fn first_set(guests: &GuestFiles) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let chosen = std::env::var("TOOLCELL_ATTACKS").ok();
    let runs = std::env::var("TOOLCELL_ATTACK_RUNS").map_or(1, |runs| runs.parse().unwrap());
    let attacks: Vec<&Attack> = ATTACKS
        .iter()
        .filter(|attack| {
            chosen
                .as_ref()
                .is_none_or(|chosen| chosen.split(',').any(|id| id == attack.id))
        })
        .collect();
    assert!(!attacks.is_empty(), "no attack has such an id: {chosen:?}");
    let strict = std::env::var_os(STRICT).is_some();
    let mut wrong = Vec::new();
    println!(
        "{:<6} {:<58} {:>7}  {:>9}  {:^21}   {:^13}",
        "attack", "verdict", "sound", "peak", "neighbour", "bystander"
    );
    println!(
        "{:84}  {:>6} {:>6} {:>6}   {:>6} {:>6}",
        "p99 in ms", "idle", "beside", "", "idle", "beside"
    );
    for attack in attacks {
        let ran: Vec<Ran> = (0..runs).map(|_| run(attack, guests)).collect();
        let sound = ran.iter().filter(|ran| ran.wrong.is_empty()).count();
        let neighbours = Neighbours::of(&ran);
        if strict && !neighbours.is_promised() {
            wrong.push(format!(
                "{}: N: the neighbour noticed: {neighbours}",
                attack.id
            ));
        }
        let peak = ran.iter().map(|ran| ran.peak_kib).max().unwrap_or(0) >> 10;
        println!(
            "{:<6} {:<58} {sound:>3}/{runs:<3}  {peak:>5} MiB  {}",
            attack.id,
            ran.last()
                .map(|ran| ran.verdicts.as_str())
                .unwrap_or_default(),
            neighbours,
        );
        for (number, ran) in ran.into_iter().enumerate() {
            wrong.extend(
                ran.wrong
                    .into_iter()
                    .map(|what| format!("{} run {}: {what}", attack.id, number + 1)),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The findings of one run of an attack.
struct Ran {
    verdicts: String,
    wrong: Vec<String>,
    peak_kib: u64,
    neighbour: Waits,
    bystander: Waits,
}

/// Delays beside an attack, in microseconds.
#[derive(Default)]
struct Waits {
    idle: Vec<u64>,
    attacked: Vec<u64>,
}

impl Waits {
    /// The 99th percentiles over all runs, in milliseconds, because a single run is too short for one.
    fn slowest<'a>(all: impl Iterator<Item = &'a Self>) -> (f64, f64) {
        let mut idle = Vec::new();
        let mut attacked = Vec::new();
        for waits in all {
            idle.extend(&waits.idle);
            attacked.extend(&waits.attacked);
        }
        let ms = |waits: &[u64]| meters::p99(waits) as f64 / 1_000.0;
        (ms(&idle), ms(&attacked))
    }
}

/// The delays of the neighbour and the bystander: 99th percentiles over all runs, in milliseconds.
struct Neighbours {
    idle: f64,
    attacked: f64,
    before: f64,
    beside: f64,
}

impl Neighbours {
    fn of(ran: &[Ran]) -> Self {
        let (idle, attacked) = Waits::slowest(ran.iter().map(|ran| &ran.neighbour));
        let (before, beside) = Waits::slowest(ran.iter().map(|ran| &ran.bystander));
        Self {
            idle,
            attacked,
            before,
            beside,
        }
    }

    /// Whether the neighbour waits at most three times as long as when idle, plus the bystander's delay.
    fn is_promised(&self) -> bool {
        self.attacked <= 3.0 * self.idle + (self.beside - self.before).max(0.0)
    }
}

impl std::fmt::Display for Neighbours {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            idle,
            attacked,
            before,
            beside,
        } = self;
        let over = if self.is_promised() { "" } else { "  OVER" };
        write!(
            f,
            "{idle:>6.1} {attacked:>6.1} {:>5.1}x   {before:>6.1} {beside:>6.1}{over}",
            attacked / idle.max(0.001)
        )
    }
}

/// Runs `attack` once, in a separate process.
fn run(attack: &Attack, guests: &GuestFiles) -> Ran {
    let secret = format!("s3cr3t/{:016x}+\"quoted\"", meters::random());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "hostile::the_first_set_ends_as_its_table_says",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ATTACK, attack.id)
        .env(SECRET, &secret)
        .env("RUST_BACKTRACE", "1")
        // As in the program: what is measured is memory in use, not the allocator's reserve.
        .env("MIMALLOC_PURGE_DELAY", "0")
        .envs(guests.iter().map(|(variable, file)| (variable, file)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut err = child.stderr.take().unwrap();
    let readers = [
        std::thread::spawn(move || text(&mut out)),
        std::thread::spawn(move || text(&mut err)),
    ];
    let bystander = meters::Bystander::watch();
    let begun = Instant::now();
    let patience = std::env::var("TOOLCELL_ATTACK_WATCHDOG_SECONDS")
        .map_or(WATCHDOG_SECONDS, |text| text.parse().unwrap());
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if begun.elapsed() > Duration::from_secs(patience) => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let [out, err] = readers.map(|reader| reader.join().unwrap());
    let report = out
        .lines()
        .find_map(|line| line.strip_prefix(REPORT))
        .map(|line| line.parse::<Value>().unwrap());
    let mut ran = judge(attack, report.unwrap_or_default(), &bystander.end());
    match status {
        None => ran.wrong.push("A: the driver had to be killed".to_owned()),
        Some(status) if !status.success() => ran
            .wrong
            .push(format!("A: the driver ended with {status}: {out}\n{err}")),
        Some(_) => {}
    }
    for spelling in canary::spellings(&secret) {
        if out.contains(&spelling) || err.contains(&spelling) {
            ran.wrong
                .push(format!("Z: the secret was printed, as {spelling}"));
        }
    }
    ran
}

fn text(pipe: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Compares the verdicts of a report with the table. The report already contains the failed invariants.
fn judge(attack: &Attack, report: Value, bystander: &[(u64, u64)]) -> Ran {
    let texts = |field: &str| -> Vec<String> {
        let list = report[field].as_array().cloned().unwrap_or_default();
        list.into_iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    };
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for verdict in texts("verdicts") {
        *seen.entry(verdict).or_default() += 1;
    }
    let mut wrong = texts("wrong");
    if seen.is_empty() {
        wrong.push("there is no verdict".to_owned());
    }
    for verdict in seen
        .keys()
        .filter(|verdict| !attack.verdicts.contains(&verdict.as_str()))
    {
        wrong.push(format!("ended as {verdict}, not as {:?}", attack.verdicts));
    }
    let number = |field: &str| report[field].as_u64().unwrap_or(0);
    let numbers = |field: &str| -> Vec<u64> {
        report[field]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_u64)
            .collect()
    };
    let from = number("from_us");
    let began = number("began_us");
    let ended = number("ended_us");
    let at = |phase: &dyn Fn(u64) -> bool| {
        bystander
            .iter()
            .filter(|(when, _)| phase(*when))
            .map(|(_, us)| *us)
            .collect()
    };
    Ran {
        verdicts: seen
            .into_iter()
            .map(|(verdict, times)| format!("{times} {verdict}"))
            .collect::<Vec<_>>()
            .join(", "),
        wrong,
        peak_kib: number("peak_kib"),
        neighbour: Waits {
            idle: numbers("idle"),
            attacked: numbers("attacked"),
        },
        bystander: Waits {
            idle: at(&|when| (from..began).contains(&when)),
            attacked: at(&|when| (began..=ended).contains(&when)),
        },
    }
}
