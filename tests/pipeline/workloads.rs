//! Random batches through the real pipeline and the real scheduler, with an executor that only says when it runs. What
//! happened is compared with rules that were written from the specification (AT-SCHED-02, 03, 05, 06, 09, 10; 1.9.2), not
//! from the code. `TOOLCELL_SEED=N` repeats one workload.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolcell_engine::catalog::{Catalog, ComponentFacts, Tool};
use toolcell_engine::pipeline::{
    Batch, BatchCall, BatchListener, Request, RunningCalls, Services, batch,
};
use toolcell_engine::scheduler::batch::{
    BatchPolicy, InterruptBehavior, OrderingPolicy, SiblingFailurePolicy, YieldPolicy,
};
use toolcell_engine::scheduler::{CallChains, Quotas, ResourceLocks, Scheduler};
use toolcell_executor::hook::{Hook, HookCall, HookFuture, HookList, HookOutput, Registration};
use toolcell_executor::{
    Cancellation, Execution, Executor, GuestOutcome, GuestOutput, InputCheck, RunInput, canceled,
};
use toolcell_journal::{CallLog, Keep, LogSettings, PayloadStore};
use toolcell_policy::secret::SecretStore;
use toolcell_policy::{Grants, Permit, Policy, Provenance, Rule, RuleWords};
use toolcell_spec::dialect::agent_tool;
use toolcell_spec::{
    AbortReason, CallRecord, ContextModifier, ContextModifierPolicy, ErrorClass, ErrorCode,
    HookEvent, Mode, OutputRetention, Refusal, SafetyFacts, ToolEvent, Usage,
};
use toolcell_system::BoxFuture;

use crate::support::scratch;

use super::status::ENTERED_FROM;

const WORKLOADS: u64 = 2_000;
const FOLDERS: [&str; 4] = ["a", "a/b", "a/b/c", "d"];
/// Longer than a workload takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Random numbers that are the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[self.below(N)]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Reaches nothing.
    Pure,
    Reads,
    Writes,
    /// Reaches nothing, and does not say that it may run beside others.
    Loner,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Pure, Self::Reads, Self::Writes, Self::Loner];

    fn name(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Loner => "loner",
        }
    }
}

/// One call, and what it does.
#[derive(Clone, Debug)]
struct Script {
    kind: Kind,
    folder: usize,
    needs: BTreeSet<usize>,
    /// How often it lets others go on before it ends.
    steps: usize,
    fails: bool,
    /// A rule denies it.
    denied: bool,
    /// A hook stops it.
    stopped: bool,
    /// The call that it cancels when it begins.
    cancels: Option<usize>,
    /// Whether it interrupts the batch when it begins.
    interrupts: bool,
}

#[derive(Debug)]
struct Workload {
    seed: u64,
    scripts: Vec<Script>,
    policy: BatchPolicy,
    places: usize,
    hooked: bool,
}

impl Workload {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        // The first numbers of near seeds are alike.
        (0..4).for_each(|_| _ = random.below(2));
        let count = 1 + random.below(9);
        let hooked = random.one_in(8);
        let stormy = random.one_in(3);
        let scripts = (0..count).map(|at| Script {
            kind: random.of(Kind::ALL),
            folder: random.below(FOLDERS.len()),
            needs: (0..at).filter(|_| random.one_in(5)).collect(),
            steps: 1 + random.below(6),
            fails: random.one_in(6),
            denied: random.one_in(12),
            stopped: hooked && random.one_in(6),
            cancels: (stormy && random.one_in(4)).then(|| random.below(count)),
            interrupts: stormy && random.one_in(15),
        });
        let scripts = scripts.collect();
        let policy = BatchPolicy {
            max_parallel: 1 + random.below(5),
            ordering: random.of(OrderingPolicy::ALL),
            yields: random.of(YieldPolicy::ALL),
            interrupt: random.of(InterruptBehavior::ALL),
            siblings: random.of(SiblingFailurePolicy::ALL),
            context_modifiers: random.of(ContextModifierPolicy::ALL),
        };
        Self {
            seed,
            scripts,
            policy,
            places: 1 + random.below(5),
            hooked,
        }
    }

    /// Whether two calls could notice each other.
    fn conflict(&self, one: usize, other: usize) -> bool {
        let one = &self.scripts[one];
        let other = &self.scripts[other];
        let kinds = [one.kind, other.kind];
        if kinds.contains(&Kind::Loner) {
            return true;
        }
        let [one, other] = [one, other].map(|script| Path::new(FOLDERS[script.folder]));
        let meet = one.starts_with(other) || other.starts_with(one);
        meet && kinds.contains(&Kind::Writes) && !kinds.contains(&Kind::Pure)
    }

    fn changes(&self, at: usize) -> bool {
        matches!(self.scripts[at].kind, Kind::Writes | Kind::Loner)
    }

    fn at_once(&self) -> usize {
        if self.policy.ordering == OrderingPolicy::Serial {
            1
        } else {
            self.policy.max_parallel.min(self.places)
        }
    }
}

/// What happened, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Entered(usize),
    Left(usize),
    HandedOut(usize),
}

/// What happened in one workload: the tools, the listener and the hook tell it.
struct Stage {
    workload: Workload,
    cancellations: Vec<Cancellation>,
    interrupt: Cancellation,
    seen: Mutex<Vec<Seen>>,
    records: Mutex<Vec<Option<CallRecord>>>,
}

impl Stage {
    fn new(workload: Workload) -> Arc<Self> {
        let count = workload.scripts.len();
        Arc::new(Self {
            workload,
            cancellations: (0..count).map(|_| Cancellation::new()).collect(),
            interrupt: Cancellation::new(),
            seen: Mutex::default(),
            records: Mutex::new(vec![None; count]),
        })
    }

    fn tell(&self, seen: Seen) {
        self.seen.lock().unwrap().push(seen);
    }
}

/// Runs the scripts instead of guests.
struct Actors(Arc<Stage>);

impl Executor for Actors {
    fn validate<'a>(&'a self, _: InputCheck<'a>) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(async { Ok(()) })
    }

    fn classify<'a>(
        &'a self,
        _: InputCheck<'a>,
    ) -> BoxFuture<'a, Result<Option<SafetyFacts>, Refusal>> {
        Box::pin(async { Ok(None) })
    }

    fn invoke<'a>(&'a self, permit: &'a Permit, run: RunInput) -> BoxFuture<'a, Box<Execution>> {
        let input: Value = serde_json::from_str(permit.call_input().text()).unwrap();
        let at = usize::try_from(input["call"].as_u64().unwrap()).unwrap();
        Box::pin(async move {
            let stage = &self.0;
            let script = &stage.workload.scripts[at];
            stage.tell(Seen::Entered(at));
            if let Some(other) = script.cancels {
                stage.cancellations[other].cancel(AbortReason::UserInterruption);
            }
            if script.interrupts {
                stage.interrupt.cancel(AbortReason::UserInterruption);
            }
            for _ in 0..script.steps {
                tokio::task::yield_now().await;
            }
            stage.tell(Seen::Left(at));
            let outcome = match (run.cancellation.requested(), script.fails) {
                (Some(reason), _) => Err(canceled(reason)),
                (None, true) => {
                    let refusal = Refusal::new(ErrorCode::ToolFailed, "as the script says");
                    Ok(GuestOutcome::Failure(refusal))
                }
                (None, false) => Ok(GuestOutcome::Success(GuestOutput {
                    content: "[]".to_owned(),
                    ..GuestOutput::default()
                })),
            };
            Box::new(Execution {
                outcome,
                usage: Usage::default(),
                partial_bytes: 0,
                logs: Vec::new(),
                context_modifiers: Vec::new(),
                redacted: false,
                recorded: None,
                command: None,
            })
        })
    }
}

/// Stops the calls whose input says so.
struct Guard;

impl Hook for Guard {
    fn id(&self) -> &str {
        "guard"
    }

    fn events(&self) -> &[HookEvent] {
        &[HookEvent::PreToolUse]
    }

    fn handle<'a>(&'a self, call: &'a HookCall) -> HookFuture<'a> {
        let stop = call.input["stopped"] == json!(true);
        let outputs: Vec<HookOutput> = stop
            .then(|| HookOutput::Stop {
                reason: "as the script says".to_owned(),
            })
            .into_iter()
            .collect();
        Box::pin(async move { outputs.into() })
    }
}

impl BatchListener for Stage {
    fn event(&self, _: usize, _: &ToolEvent) {}

    fn ended(&self, at: usize, record: CallRecord) {
        self.tell(Seen::HandedOut(at));
        let before = self.records.lock().unwrap()[at].replace(record);
        assert!(before.is_none(), "two results of {at}: {:?}", self.workload);
    }

    fn modified(&self, at: usize, modifiers: Vec<ContextModifier>) {
        panic!("no tool here changes the context, and {at} did: {modifiers:?}");
    }
}

/// The tools, which every workload calls.
fn tools() -> Vec<Arc<Tool>> {
    let facts = |kind: Kind| {
        json!({
            "is_read_only": kind != Kind::Writes, "is_concurrency_safe": kind != Kind::Loner,
            "is_destructive": kind == Kind::Writes, "is_open_world": false,
        })
    };
    let declaration = |kind: Kind| {
        let name = kind.name();
        json!({
            "schema_version": "0.2.0", "tool_id": format!("work.{name}"), "namespace": "work", "name": name,
            "description": "Does what the script says", "lifecycle": "available", "tool_kind": "function",
            "input_contract": { "model_input_schema": { "type": "object" } },
            "execution_profile_ref": "work.execution",
            "interface_ref": format!("{name}.interface"), "permission_profile_ref": format!("{name}.permissions"),
        })
    };
    let interface = |kind: Kind| {
        let name = kind.name();
        let mut interface = json!({
            "schema_version": "0.2.0", "interface_id": format!("{name}.interface"),
            "tool_id": format!("work.{name}"), "name": name, "is_enabled": true,
            "execution_profile_ref": "work.execution", "permission_profile_ref": format!("{name}.permissions"),
        });
        interface
            .as_object_mut()
            .unwrap()
            .extend(facts(kind).as_object().unwrap().clone());
        interface
    };
    let profile = |kind: Kind| {
        let (kinds, effects) = match kind {
            Kind::Pure | Kind::Loner => (json!([]), "none"),
            Kind::Reads => (json!(["file_read"]), "none"),
            Kind::Writes => (json!(["file_read", "file_write"]), "local_persistent"),
        };
        json!({
            "schema_version": "0.2.0", "permission_profile_id": format!("{}.permissions", kind.name()),
            "risk_level": "low", "access_kinds": kinds, "write_effects": [effects], "network_scope": "none",
        })
    };
    let toolkit = json!({
        "declarations": Kind::ALL.map(declaration),
        "interfaces": Kind::ALL.map(interface),
        "permission_profiles": Kind::ALL.map(profile),
        "execution_profiles": [{
            "schema_version": "0.2.0", "execution_profile_id": "work.execution",
            "execution_kind": "embedded_runtime", "supports_cancel": true, "sandboxed": true,
        }],
    });
    let described = agent_tool::toolkit(&toolkit.to_string()).unwrap();
    let facts = ComponentFacts {
        component: format!("sha256:{}", "0".repeat(64)).into(),
        ..ComponentFacts::default()
    };
    Tool::from_toolkit(
        described.toolkit,
        &described.notes,
        &facts,
        Duration::from_secs(60),
    )
    .unwrap()
}

/// What all workloads share.
struct World {
    root: PathBuf,
    tools: Vec<Arc<Tool>>,
    /// For each folder, what a reading and a writing call is granted.
    grants: Vec<[Arc<Grants>; 2]>,
    open: Arc<Policy>,
    denying: Arc<Policy>,
}

impl World {
    fn new(root: &Path) -> Self {
        let grants = FOLDERS.map(|folder| {
            let folder = root.join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            let mut reads = Grants::default();
            let mut writes = Grants::default();
            reads.allow_read(folder.to_str().unwrap()).unwrap();
            writes.allow_write(folder.to_str().unwrap()).unwrap();
            [Arc::new(reads), Arc::new(writes)]
        });
        let words = RuleWords {
            behavior: "deny",
            tool: Some("work.*"),
            ..RuleWords::default()
        };
        let rule = Rule::compile(&words, &Provenance::COMMAND_LINE).unwrap();
        Self {
            root: root.to_owned(),
            tools: tools(),
            grants: grants.into(),
            open: Arc::default(),
            denying: Arc::new(Policy::new(Mode::Default, vec![rule])),
        }
    }

    fn services(&self, stage: &Arc<Stage>) -> Services {
        let catalog = Catalog::default();
        catalog.add(self.tools.clone(), "the scripts").unwrap();
        let hooks = if stage.workload.hooked {
            vec![Registration::new(Arc::new(Guard))]
        } else {
            Vec::new()
        };
        let state = |name: &str| self.root.with_file_name("state").join(name);
        let settings = LogSettings {
            keep: Keep::None,
            ..LogSettings::default()
        };
        Services {
            catalog,
            executor: Arc::new(Actors(Arc::clone(stage))),
            scheduler: Scheduler::new(stage.workload.places, 1, None),
            locks: ResourceLocks::default(),
            quotas: Quotas::default(),
            running: RunningCalls::default(),
            chains: CallChains::new(1, 1),
            hooks: HookList::new(hooks),
            payloads: PayloadStore::new(state("payloads")),
            desk: None,
            protected: Arc::default(),
            secrets: SecretStore::new(state("secrets"), state("key")),
            calls: CallLog::new(state("calls"), state("calls.key"), settings),
            listeners: Arc::default(),
            source: "toolcell/test".into(),
            engine: "wasmtime/0".into(),
            inline_bytes_max: 1 << 20,
            keeping: OutputRetention::default(),
        }
    }

    fn call(&self, stage: &Stage, at: usize) -> BatchCall {
        let script = &stage.workload.scripts[at];
        let [reads, writes] = &self.grants[script.folder];
        let grants = match script.kind {
            Kind::Pure | Kind::Loner => Arc::default(),
            Kind::Reads => Arc::clone(reads),
            Kind::Writes => Arc::clone(writes),
        };
        let policy = if script.denied {
            &self.denying
        } else {
            &self.open
        };
        let input = json!({ "call": at, "stopped": script.stopped }).to_string();
        let request = Request::new(format!("work.{}", script.kind.name()), input.as_str())
            .grants(grants)
            .policy(Arc::clone(policy))
            .cancellation(stage.cancellations[at].clone());
        BatchCall::new(at.to_string(), request).after(script.needs.iter().map(usize::to_string))
    }
}

fn own(services: &Services) -> &Services {
    services
}

/// When a call was inside its tool, as places in the list of what happened; `None` if it never was.
type Stays = Vec<Option<(usize, usize)>>;

fn stays(count: usize, seen: &[Seen]) -> Stays {
    let place = |wanted: Seen| {
        let places: Vec<usize> = seen
            .iter()
            .enumerate()
            .filter(|(_, seen)| **seen == wanted)
            .map(|(at, _)| at)
            .collect();
        assert!(places.len() <= 1, "{wanted:?} twice: {seen:?}");
        places.first().copied()
    };
    (0..count)
        .map(|at| place(Seen::Entered(at)).map(|entered| (entered, place(Seen::Left(at)).unwrap())))
        .collect()
}

/// No two calls that could notice each other overlap, no more calls run than may, and changes keep their order.
fn check_overlaps(workload: &Workload, stays: &Stays) {
    let inside: Vec<(usize, (usize, usize))> = stays
        .iter()
        .enumerate()
        .filter_map(|(at, stay)| Some((at, (*stay)?)))
        .collect();
    for (one, (entered, left)) in &inside {
        let beside = inside
            .iter()
            .filter(|(_, (other, until))| other <= entered && entered < until)
            .count();
        assert!(beside <= workload.at_once(), "{beside} calls ran at once");
        for (other, (other_entered, other_left)) in &inside {
            if one >= other || !workload.conflict(*one, *other) {
                continue;
            }
            assert!(
                left < other_entered || other_left < entered,
                "{one} and {other} overlapped"
            );
            let in_order = workload.policy.ordering != OrderingPolicy::AllowUnordered;
            let at_start = [*one, *other]
                .iter()
                .all(|at| workload.scripts[*at].needs.is_empty());
            if in_order && at_start && workload.changes(*other) {
                assert!(left < other_entered, "the change of {other} passed {one}");
            }
        }
    }
}

/// Dependencies, denials, and what the failure of a call means for the others.
fn check_causes(workload: &Workload, stays: &Stays, records: &[CallRecord]) {
    let class = |at: usize| {
        records[at]
            .result
            .error
            .as_ref()
            .map(|error| error.error_class)
    };
    let sibling = |at: usize| class(at) == Some(ErrorClass::SiblingCanceled);
    let siblings = workload.policy.siblings;
    for (at, script) in workload.scripts.iter().enumerate() {
        let stay = stays[at];
        assert!(
            stay.is_none() || !(script.denied || script.stopped),
            "{at} was refused, and ran"
        );
        assert_eq!(
            records[at].invocation.started_at().is_some(),
            stay.is_some(),
            "{at} and its record differ"
        );
        for need in &script.needs {
            if let (Some((entered, _)), Some((_, left))) = (stay, stays[*need]) {
                assert!(left < entered, "{at} did not wait for {need}");
            }
            let holds_back =
                siblings != SiblingFailurePolicy::Ignore && records[*need].result.is_error;
            assert!(
                stay.is_none() || !holds_back,
                "{at} ran, although {need} failed"
            );
        }
        match class(at) {
            None => assert!(
                stay.is_some() && !script.fails,
                "{at} succeeded without its tool"
            ),
            Some(ErrorClass::SiblingCanceled) => {
                assert_ne!(
                    siblings,
                    SiblingFailurePolicy::Ignore,
                    "{at} was canceled for another call"
                );
                let cause = |other: usize| records[other].result.is_error && !sibling(other);
                assert!(
                    (0..records.len()).any(cause),
                    "{at} was canceled, and no call failed"
                );
                let related = script
                    .needs
                    .iter()
                    .any(|need| records[*need].result.is_error);
                let whole = siblings == SiblingFailurePolicy::CancelSiblings;
                assert!(whole || related, "{at} depends on no call that failed");
            }
            Some(ErrorClass::Canceled) => {
                let scripts = workload.scripts.iter();
                let wanted = scripts
                    .clone()
                    .any(|other| other.interrupts || other.cancels == Some(at));
                assert!(wanted, "{at} was canceled without a request");
            }
            Some(ErrorClass::PermissionDenied) => {
                assert!(script.denied, "{at} was denied without a rule")
            }
            Some(ErrorClass::HookBlocked) => {
                assert!(script.stopped, "{at} was stopped without a hook")
            }
            Some(ErrorClass::ExecutionFailed) => {
                assert!(script.fails && stay.is_some(), "{at} failed by itself")
            }
            Some(other) => panic!("{at} ended as {other:?}"),
        }
        let calm = workload
            .scripts
            .iter()
            .all(|other| !other.interrupts && other.cancels.is_none());
        if calm && siblings == SiblingFailurePolicy::Ignore && !script.denied && !script.stopped {
            assert!(stay.is_some(), "{at} never ran");
        }
    }
}

/// Each call went through the graph of the requirements to one end, and its result says the same.
fn check_records(workload: &Workload, seen: &[Seen], records: &[CallRecord]) {
    for record in records {
        let mut now = "planned";
        for step in record.invocation.status_transitions() {
            let from = step.from.as_str();
            let to = step.to.as_str();
            let sources = ENTERED_FROM
                .iter()
                .find(|(known, _)| *known == to)
                .map_or("", |(_, sources)| *sources);
            assert!(
                from == now && sources.split_whitespace().any(|source| source == from),
                "{from} -> {to}"
            );
            now = to;
        }
        assert_eq!(
            (now, record.invocation.status().is_terminal()),
            (record.invocation.status().as_str(), true)
        );
        assert_eq!(record.result.is_error, now != "succeeded");
    }
    let handed: Vec<usize> = seen
        .iter()
        .filter_map(|seen| match seen {
            Seen::HandedOut(at) => Some(*at),
            _ => None,
        })
        .collect();
    if workload.policy.yields != YieldPolicy::UnorderedStreaming {
        assert!(handed.is_sorted(), "results in the order {handed:?}");
    }
}

async fn play(world: &World, seed: u64) {
    let stage = Stage::new(Workload::new(seed));
    let count = stage.workload.scripts.len();
    let calls = (0..count).map(|at| world.call(&stage, at)).collect();
    let listener = Arc::clone(&stage) as Arc<dyn BatchListener>;
    let policy = stage.workload.policy;
    let made = Batch {
        policy,
        interrupt: stage.interrupt.clone(),
        ..Batch::new(calls, listener)
    };
    let services = Arc::new(world.services(&stage));
    let played = tokio::time::timeout(PATIENCE, batch(services, own, made)).await;
    assert!(played.is_ok(), "it did not end: {:?}", stage.workload);
    played.unwrap().unwrap();
    let records: Vec<CallRecord> = stage
        .records
        .lock()
        .unwrap()
        .iter()
        .cloned()
        .map(Option::unwrap)
        .collect();
    let seen = stage.seen.lock().unwrap().clone();
    let stays = stays(count, &seen);
    check_overlaps(&stage.workload, &stays);
    check_causes(&stage.workload, &stays, &records);
    check_records(&stage.workload, &seen, &records);
}

/// Says which workload failed.
struct Blame(u64);

impl Drop for Blame {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "TOOLCELL_SEED={} repeats it: {:#?}",
                self.0,
                Workload::new(self.0)
            );
        }
    }
}

#[tokio::test]
async fn every_workload_goes_as_the_specification_says() {
    let (_guard, path) = scratch();
    let root = path.join("work");
    std::fs::create_dir(&root).unwrap();
    let world = World::new(&root);
    let only = std::env::var("TOOLCELL_SEED")
        .ok()
        .map(|seed| seed.parse().unwrap());
    let seeds = only.map_or(0..WORKLOADS, |seed| seed..seed + 1);
    for seed in seeds {
        let _blame = Blame(seed);
        play(&world, seed).await;
    }
}

#[test]
fn the_workloads_have_everything_that_the_rules_are_about() {
    let workloads: Vec<Workload> = (0..WORKLOADS).map(Workload::new).collect();
    assert!(
        workloads
            .iter()
            .enumerate()
            .all(|(at, workload)| workload.seed == at as u64)
    );
    let having = |what: fn(&Script) -> bool| {
        workloads
            .iter()
            .filter(|work| work.scripts.iter().any(what))
            .count()
    };
    let counts = [
        having(|script| !script.needs.is_empty()),
        having(|script| script.fails),
        having(|script| script.denied),
        having(|script| script.stopped),
        having(|script| script.cancels.is_some()),
        having(|script| script.interrupts),
        having(|script| script.kind == Kind::Loner),
    ];
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
    let pairs = workloads.iter().filter(|work| {
        let all = 0..work.scripts.len();
        all.clone().any(|one| {
            all.clone()
                .any(|other| one < other && work.conflict(one, other))
        })
    });
    assert!(pairs.count() > 1_000);
}
