//! The setting of one attack, and the measurements around it.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell::{Approver, Home, Host, HostBuilder, NetworkSettings, Prompt, Reply};
use toolcell_policy::Limits;
use toolcell_spec::Refusal;

use crate::pipeline::doubles::home_with_own_payloads;
use crate::support::{Called, ScriptedResolver, Test, kept, root, wat};

use super::canary::{self, Canary, Listeners};
use super::table::Attack;
use super::{SECRET, STRICT, meters};

pub(super) type Fight<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

const KIB: u64 = 1 << 10;
/// What the host may use on top of the memory of its guests.
const HOST_KIB: u64 = 64 * KIB;
const BACK_KIB: u64 = 16 * KIB;
/// Maximum delay of a verdict after its deadline.
const PROMISE: Duration = Duration::from_millis(250);
/// Added to that delay if other tests run at the same time.
const ALLOWANCE: Duration = Duration::from_millis(1_500);
/// Time for a return to the idle state.
const BACK: Duration = Duration::from_secs(2);
/// The longest echo in any run; the promised latency is checked over all runs together.
const ECHO_US_MAX: u64 = 1_000_000;
const BEAT: Duration = Duration::from_millis(10);
const IDLE_BEATS: usize = 60;

/// The environment variable with the path of a guest that was built for the driver.
pub(super) fn guest_variable(name: &str) -> String {
    format!("TOOLCELL_GUEST_{}", name.to_uppercase())
}

pub(super) struct Arena {
    host: Arc<Host>,
    pub(super) home: Home,
    dir: tempfile::TempDir,
    canary: PathBuf,
    pub(super) listeners: Listeners,
    /// The answers to look-ups of names.
    pub(super) names: Arc<ScriptedResolver>,
    /// The approver.
    pub(super) person: Arc<Person>,
    pub(super) secret: String,
    /// Runs alone on the machine: the promises are checked without allowance.
    strict: bool,
    verdicts: Mutex<Vec<String>>,
    wrong: Mutex<Vec<String>>,
    slowest_us: AtomicU64,
}

impl Arena {
    fn new(canary: &Path, dir: tempfile::TempDir) -> Self {
        let folder = std::fs::canonicalize(dir.path()).unwrap().join("home");
        std::fs::create_dir(&folder).unwrap();
        let home = home_with_own_payloads(&folder);
        let names = Arc::<ScriptedResolver>::default();
        let person = Arc::<Person>::default();
        Self {
            host: host(|settings| at_home(settings, &home, &names, &person)),
            home,
            dir,
            canary: canary.to_owned(),
            listeners: Listeners::open(),
            names,
            person,
            secret: std::env::var(SECRET).unwrap(),
            strict: std::env::var_os(STRICT).is_some(),
            verdicts: Mutex::default(),
            wrong: Mutex::default(),
            slowest_us: AtomicU64::new(0),
        }
    }

    /// A new folder for a grant, beside the canary.
    pub(super) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.root().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    pub(super) fn root(&self) -> PathBuf {
        std::fs::canonicalize(self.dir.path()).unwrap()
    }

    /// The file that no guest may read.
    pub(super) fn canary(&self) -> &Path {
        &self.canary
    }

    /// A host with the same home, like the next process would be.
    pub(super) fn next_host(&self) -> Arc<Host> {
        host(|settings| at_home(settings, &self.home, &self.names, &self.person).pooled(false))
    }

    /// The component of a guest that was built for the driver.
    pub(super) fn guest(name: &str) -> PathBuf {
        std::env::var_os(guest_variable(name)).unwrap().into()
    }

    /// The tool `hostile#spin`, `probe#net` or `wat:echo`, on the host that the neighbour uses.
    pub(super) fn test(&self, tool: &str) -> Test {
        let test = match tool.split_once('#') {
            Some((guest, name)) => Test::of_file(&Self::guest(guest), Some(name)),
            None => Test::new(tool),
        };
        test.on(&self.host)
    }

    pub(super) fn test_of(&self, component: &[u8]) -> Test {
        Test::of_bytes(component.to_vec(), None).on(&self.host)
    }

    /// Calls the tool, and notes the verdict.
    pub(super) async fn call(&self, test: Test, input: Value) -> Called {
        self.call_text(test, &input.to_string()).await
    }

    pub(super) async fn call_text(&self, test: Test, input: &str) -> Called {
        test.load()
            .await
            .unwrap_or_else(|refusal| panic!("load: {refusal:?}"));
        let allowed = self.allowed(test.wall());
        let begun = Instant::now();
        let called = test.call_text(input).await;
        self.in_time(begun.elapsed(), allowed);
        self.verdict(match &called.0.result.error {
            Some(error) => format!("{}/{}", word(error.error_class), error.error_code),
            None => "ok".to_owned(),
        });
        self.shown(&called.record().to_string());
        called
    }

    /// Loads the component, and notes the verdict, which must come `within` this time.
    pub(super) async fn load(&self, test: Test, within: Duration) {
        let begun = Instant::now();
        let loaded = test.load().await;
        self.in_time(begun.elapsed(), self.allowed(within));
        match loaded {
            Ok(_) => self.verdict("ok".to_owned()),
            Err(refusal) => self.refused(&refusal),
        }
    }

    pub(super) fn refused(&self, refusal: &Refusal) {
        self.verdict(format!("{}/{}", word(refusal.class), refusal.code));
        self.shown(&format!(
            "{} {}",
            refusal.message,
            refusal.detail.as_deref().unwrap_or_default()
        ));
    }

    pub(super) fn verdict(&self, verdict: String) {
        self.verdicts.lock().unwrap().push(verdict);
    }

    /// Notes `said` as a failure if `what` is false.
    pub(super) fn holds(&self, what: bool, said: impl Into<String>) {
        if !what {
            self.wrong.lock().unwrap().push(said.into());
        }
    }

    /// Checks text that left the host: it may contain neither the secret nor the canary.
    pub(super) fn shown(&self, text: &str) {
        for spelling in canary::spellings(&self.secret) {
            self.holds(
                !text.contains(&spelling),
                format!("Z: the secret was shown, as {spelling}"),
            );
        }
        self.holds(!text.contains(canary::CONTENT), "X: the canary was shown");
    }

    /// The maximum duration of a call with `deadline`.
    pub(super) fn allowed(&self, deadline: Duration) -> Duration {
        deadline
            + PROMISE
            + if self.strict {
                Duration::ZERO
            } else {
                ALLOWANCE
            }
    }

    pub(super) fn in_time(&self, took: Duration, allowed: Duration) {
        self.slowest_us
            .fetch_max(took.as_micros() as u64, Ordering::Relaxed);
        self.holds(
            took <= allowed,
            format!("D: the verdict took {took:?}, allowed are {allowed:?}"),
        );
    }
}

/// An approver who gives the reply that the attack sets, by default a no.
#[derive(Default)]
pub(super) struct Person {
    reply: Mutex<Reply>,
    asked: Mutex<Vec<Prompt>>,
}

impl Person {
    /// Sets the reply.
    pub(super) fn says(&self, reply: Reply) {
        *self.reply.lock().unwrap() = reply;
    }

    /// The questions since the last call of this function.
    pub(super) fn asked(&self) -> Vec<Prompt> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

impl Approver for Person {
    fn principal(&self) -> &str {
        "user:person"
    }

    fn channel(&self) -> &str {
        "test"
    }

    fn ask<'a>(
        &'a self,
        prompt: &'a Prompt,
    ) -> Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'a>> {
        self.asked.lock().unwrap().push(prompt.clone());
        Box::pin(async { Some(self.reply.lock().unwrap().clone()) })
    }
}

fn at_home(
    settings: HostBuilder,
    home: &Home,
    names: &Arc<ScriptedResolver>,
    person: &Arc<Person>,
) -> HostBuilder {
    settings
        .home(home.clone())
        .approver(Arc::<Person>::clone(person))
        .network(NetworkSettings {
            resolver: Arc::<ScriptedResolver>::clone(names),
            ..NetworkSettings::default()
        })
}

/// A host with the settings of a server.
pub(super) fn host(change: impl FnOnce(HostBuilder) -> HostBuilder) -> Arc<Host> {
    let settings = Host::builder()
        .home(Home::at(kept("home")))
        .compiler(env!("CARGO_BIN_EXE_toolcell"))
        .calls_at_once(16);
    Arc::new(change(settings).build().unwrap())
}

/// The echo tool with more items in its module, more memory, and code that runs before it answers.
pub(super) fn assembled(pages: u32, items: &str, locals: &str, body: &str) -> Vec<u8> {
    let text = std::fs::read_to_string(root().join("tests/guests/wat/echo.wat")).unwrap();
    let memory = "(memory (export \"memory\") 1)";
    let answer = "        ;; At 64, an outcome";
    assert!(text.contains(memory) && text.contains(answer));
    // A unique name, because the neighbour's echo has the old one.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("m{:03}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let text = text
        .replace("wat.echo", &format!("wat.{name}"))
        .replace(
            "\\\"name\\\":\\\"echo\\\"",
            &format!("\\\"name\\\":\\\"{name}\\\""),
        )
        .replacen(
            memory,
            &format!("(memory (export \"memory\") {pages}) {items}"),
            1,
        )
        .replacen(answer, &format!("{locals}\n{body}\n{answer}"), 1);
    wat::parse_str(text).unwrap()
}

fn word(class: impl serde::Serialize) -> String {
    serde_json::to_value(class)
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

/// The neighbour: an echo every 10 ms, and the duration of each from its due time.
async fn beat(host: &Host, component: &[u8], beats: &mut Vec<u64>, failures: &AtomicU64) {
    let due = Instant::now();
    let called = neighbour(host, component).await;
    if called.is_none() {
        failures.fetch_add(1, Ordering::Relaxed);
    }
    beats.push(due.elapsed().as_micros() as u64);
    tokio::time::sleep_until((due + BEAT).into()).await;
}

async fn neighbour(host: &Host, component: &[u8]) -> Option<()> {
    let loaded = host.load(component).await.ok()?;
    let tool = loaded.tools.first()?.declaration().qualified_name();
    let record = host
        .call(toolcell::Request::new(tool, r#"{"beat": 1}"#))
        .await;
    (record.result.structured_content == Some(json!({ "beat": 1 }))).then_some(())
}

/// Runs `attack` in this process. Returns the measurements as JSON.
pub(super) fn run(attack: &Attack) -> Value {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // Idle blocking threads exit soon, so that leaked threads are seen.
        .thread_keep_alive(Duration::from_millis(100))
        .enable_all()
        .build()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let canary_dir = std::fs::canonicalize(dir.path()).unwrap().join("canary");
    let canary = Canary::place(&canary_dir);
    let arena = Arena::new(&canary.file(), dir);
    let report = runtime.block_on(measure(&arena, attack));
    arena.wrong.lock().unwrap().extend(canary.harmed());
    let hits = arena.listeners.hits();
    arena.holds(hits == 0, format!("E: {hits} connections or packets came"));
    let mut report = report;
    report["verdicts"] = json!(*arena.verdicts.lock().unwrap());
    report["wrong"] = json!(*arena.wrong.lock().unwrap());
    report
}

async fn measure(arena: &Arena, attack: &Attack) -> Value {
    let echo = wat("echo");
    let failures = AtomicU64::new(0);
    for tool in ["wat:echo", "hostile#spin", "probe#echo", "act#spin"] {
        arena.test(tool).load().await.unwrap();
    }
    let from_us = meters::now_us();
    let mut idle = Vec::new();
    for _ in 0..IDLE_BEATS {
        beat(&arena.host, &echo, &mut idle, &failures).await;
    }
    // The first beats also fill caches, and do not count.
    let idle = idle.split_off(10);
    let idle_us = meters::p99(&idle);
    crate::support::prepare_schemas();
    settle(|| meters::threads() <= 8).await;
    let rss = meters::resident_kib();
    let threads = meters::threads();
    let thread_names = meters::thread_names();
    let descriptors = meters::descriptors();
    meters::forget_peak();
    let peak = meters::DescriptorPeak::watch();
    let over = Arc::new(AtomicBool::new(false));
    let neighbour = tokio::spawn({
        let host = Arc::clone(&arena.host);
        let over = Arc::clone(&over);
        async move {
            let mut beats = Vec::new();
            let failures = AtomicU64::new(0);
            while !over.load(Ordering::Relaxed) || beats.is_empty() {
                beat(&host, &echo, &mut beats, &failures).await;
            }
            (beats, failures.into_inner())
        }
    });
    let began_us = meters::now_us();
    (attack.fight)(arena).await;
    let ended_us = meters::now_us();
    over.store(true, Ordering::Relaxed);
    let (beats, failed) = neighbour.await.unwrap();
    let attacked_us = meters::p99(&beats);
    let peak_kib = meters::peak_kib().saturating_sub(rss);
    let descriptors_peak = peak.end();
    arena.holds(
        failures.into_inner() + failed == 0,
        format!("N: {failed} of {} echoes failed", beats.len()),
    );
    arena.holds(
        attacked_us <= ECHO_US_MAX,
        format!("N: an echo took {attacked_us} us, {idle_us} us when idle"),
    );
    let allowed = attack.memory / KIB + HOST_KIB;
    arena.holds(
        peak_kib <= allowed,
        format!("M: memory grew by {peak_kib} KiB, allowed are {allowed} KiB"),
    );
    let cap = descriptors + Limits::default().descriptors + 16;
    arena.holds(
        descriptors_peak <= cap,
        format!("F: {descriptors_peak} files were open, allowed are {cap}"),
    );
    settle(|| meters::resident_kib() <= rss + BACK_KIB).await;
    let left = meters::resident_kib().saturating_sub(rss);
    arena.holds(left <= BACK_KIB, format!("M: {left} KiB stayed"));
    settle(|| meters::descriptors() <= descriptors && meters::threads() <= threads).await;
    let left = meters::descriptors();
    let stayed = meters::threads();
    arena.holds(
        left <= descriptors,
        format!("F: {left} files are open, {descriptors} were when idle"),
    );
    arena.holds(
        stayed <= threads,
        format!(
            "T: {stayed} threads are there, {threads} were when idle: {}; before: {thread_names}",
            meters::thread_names()
        ),
    );
    let alive = self::neighbour(&arena.host, &wat("echo")).await;
    arena.holds(alive.is_some(), "A: the host does not answer any more");
    json!({
        "peak_kib": peak_kib,
        "idle": idle,
        "attacked": beats,
        "from_us": from_us,
        "began_us": began_us,
        "ended_us": ended_us,
        "slowest_us": arena.slowest_us.load(Ordering::Relaxed),
    })
}

/// Waits until `is` returns true, for the time of a return to the idle state at most.
async fn settle(is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() && begun.elapsed() < BACK {
        tokio::time::sleep(BEAT).await;
    }
}
