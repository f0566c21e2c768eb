//! One call: a fresh store, limits set before any guest code runs, and an outcome in every case.

mod checks;
mod end;
mod outcome;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use toolcell_executor::{Cancellation, Execution, GuestOutcome, Observer, RunInput, SandboxDenial};
use toolcell_policy::{Capability, Limits, Permit};
use toolcell_spec::{AbortReason, ErrorClass, ErrorCode, Refusal, ToolProgress};
use wasmtime::{Store, UpdateDeadline};

use super::Sandbox;
use super::bindings::tool::exports::toolcell::tool::guest::Call;
use super::component::{LinkedComponent, LoadedComponent};
use super::cpu_clock::{CpuClock, timed};
use super::egress::{Egress, NetworkGate, RequestSecrets};
use super::engine::{GuestEngine, Meter};
use super::folder::OpenFolder;
use super::import::context_modifiers::ContextChanges;
use super::import::tools::ChildCalls;
use super::limiter::charging;
use super::nondeterminism::NondeterminismSources;
use super::own_files::{self, OpenFolders};
use super::state::{CallMeters, StoreState};
use super::trap::{self, StopReason, TrapContext};
use super::wasi::WasiInputs;
use super::world::FirstLoad;

pub(super) use checks::{classify, validate};
use end::{blank, close, failed_after, not_loaded, verdict};
pub(super) use end::{fuel_left, usage};
pub(super) use outcome::{MESSAGE_CHARS_MAX, cut, plain};

/// Guests have tasks, threads, streams and their ends in the engine's own table.
const ENTRIES_OF_HANDLE: usize = 8;
pub(super) const UNFINISHED: &str =
    "its last file operation has not ended, and may still change a file";
/// Beyond the output itself: paths, messages, a chunk of a file.
const HOST_CALL_BYTES: u64 = 2 << 20;

pub(super) async fn invoke(
    sandbox: &Sandbox,
    component: &Arc<LoadedComponent>,
    permit: &Permit,
    run: RunInput,
) -> Box<Execution> {
    let left = left(permit, &run);
    let limits = left.as_ref().unwrap_or(permit.limits());
    let (loaded, loading) = load(sandbox, component, limits.wall, &run.cancellation).await;
    let (linked, own_files) = match loaded {
        Ok(loaded) => loaded,
        Err(refusal) => return not_loaded(refusal, limits, loading, run.resumed.as_deref()),
    };
    let engine = &linked.engine;
    let from = (&**component, linked, &own_files);
    let mut store = match prepare(sandbox, from, permit, limits, &run) {
        Ok(store) => store,
        Err(refusal) => return failed_after(refusal, blank(limits), run.resumed.as_deref()),
    };
    let state = store.data_mut();
    // The time of a call includes loading its code.
    if let Some(started) = state.started.checked_sub(loading) {
        state.started = started;
    }
    state.resumed.clone_from(&run.resumed);
    if let Some(resumed) = run.resumed.as_ref().filter(|_| guard!("one_budget")) {
        state.partial_bytes_left = limits.output_bytes.saturating_sub(resumed.partial_bytes);
    }
    if let Some(caller) = &run.tools {
        state.children = Some(ChildCalls {
            caller: Arc::clone(caller),
            limits: Arc::new(limits.clone()),
            deadline: state.started.checked_add(limits.wall),
        });
    }
    state.artifacts.clone_from(&run.artifacts);
    state.configuration.clone_from(&run.configuration);
    state.modifiers = ContextChanges::new(run.modifiers_barred);
    let request = Call {
        invocation_id: run
            .nondeterminism
            .shown_id(permit.subject().invocation_id)
            .to_string(),
        tool: permit.subject().tool.to_string(),
        input: permit.guest_input().text().to_owned(),
        attempt: run.attempt,
        context: context(permit.capability(), run.user_info.as_ref()),
    };
    let result = {
        let _running = engine.running();
        let meters = store.data().meters();
        let grace = component.imported.cancellation.then(|| CancelGrace {
            time: sandbox.cancel_grace,
            expiry: store.data().expiry.clone(),
        });
        let work = pin!(linked.world.invoke(&mut store, &request));
        bounded(
            (meters, work),
            limits.wall.saturating_sub(loading),
            &run.cancellation,
            grace.as_ref(),
        )
        .await
    };
    let unsettled = store.data_mut().unsettled();
    // The limits of a call that a guest makes are what its caller has left.
    let allowed = if run.share.is_some() {
        limits
    } else {
        permit.limits()
    };
    let mut execution = close(
        store,
        (result, component.fails_with_output()),
        allowed,
        limits,
        &run,
    );
    // Writes that the guest began are finished before its call's end is reported.
    if !unsettled.settle().await {
        execution.outcome = unfinished(execution.outcome);
    }
    execution
}

/// Returns how long that took, too.
async fn load<'c>(
    sandbox: &Sandbox,
    component: &'c Arc<LoadedComponent>,
    wall: Duration,
    cancellation: &Cancellation,
) -> (
    Result<(&'c LinkedComponent, OpenFolders), Refusal>,
    Duration,
) {
    if let Some(linked) = component.linked.get()
        && component.own_files().is_empty()
    {
        return (Ok((linked, OpenFolders::default())), Duration::ZERO);
    }
    let began = Instant::now();
    let loaded = async {
        let linked = sandbox.linked(component, wall, cancellation).await?;
        let left = wall.saturating_sub(began.elapsed());
        let own_files = sandbox.own_files(component, left, cancellation).await?;
        Ok((linked, own_files))
    };
    (loaded.await, began.elapsed())
}

/// `None` if they are not lower than the permit's.
fn left(permit: &Permit, run: &RunInput) -> Option<Limits> {
    let resumed = run.resumed.as_ref().filter(|_| guard!("one_budget"));
    let spent = resumed.map(|resumed| &resumed.spent);
    match &run.share {
        Some(share) => Some(share.lower(permit.limits(), spent)),
        None => spent.map(|spent| permit.limits().less(spent)),
    }
}

fn prepare(
    sandbox: &Sandbox,
    (component, linked, own_files): (&LoadedComponent, &LinkedComponent, &OpenFolders),
    permit: &Permit,
    limits: &Limits,
    run: &RunInput,
) -> Result<Store<StoreState>, Refusal> {
    let input = permit.call_input().text();
    let process = linked.world.process(&permit.subject().tool, input)?;
    let capability = permit.capability();
    own_files::refuse_taken(own_files, capability)?;
    // A guest that calls tools has one even if it cannot send requests itself: their requests count as its own.
    let has_gate = component.imported.http || run.tools.is_some();
    let gate = || -> anyhow::Result<Arc<NetworkGate>> {
        Ok(Arc::new(NetworkGate::new(
            capability.network.clone(),
            RequestSecrets::new(&capability.secrets, run.secrets.clone())?,
            limits.network.clone(),
            Arc::clone(&sandbox.uplink),
            Arc::clone(&run.observer),
        )))
    };
    let furnish = || -> wasmtime::Result<Store<StoreState>> {
        let gate = has_gate.then(gate).transpose();
        let egress = Egress::new(gate.map_err(wasmtime::Error::from_anyhow)?);
        let sources = NondeterminismSources::new(run.nondeterminism.clone(), component.imported);
        let setup = WasiInputs {
            capability,
            own_files,
            scratch_dir: linked.engine.scratch_dir(),
            sources: &sources,
            room: run.room.clone(),
            process,
        };
        let cancellation = run.cancellation.clone();
        let observer = Arc::clone(&run.observer);
        let state = StoreState::new(setup, limits, cancellation, observer, egress)?;
        open(&linked.engine, state, limits)
    };
    furnish().map_err(|error| not_started(&error))
}

/// A deadline or a cancellation ends the wait as it ends a guest.
pub(super) async fn in_time<T>(
    load: impl Future<Output = Result<T, Refusal>>,
    wall: Duration,
    cancellation: &Cancellation,
) -> Result<T, Refusal> {
    let waited = unless_stopped(pin!(async { Ok(load.await) }), wall, cancellation, None).await;
    waited.unwrap_or_else(|error| {
        let limits = Limits {
            wall,
            ..Limits::default()
        };
        let seen = TrapContext {
            limits: &limits,
            denied: None,
            computes: false,
            stderr_tail: String::new(),
        };
        Err(trap::refusal(&error, &seen))
    })
}

/// Never a success, because a guest may report a file that is not written yet. The tool's output is kept.
fn unfinished(outcome: Result<GuestOutcome, Refusal>) -> Result<GuestOutcome, Refusal> {
    let told = |mut refusal: Refusal| {
        refusal.message.push_str("; ");
        refusal.message.push_str(UNFINISHED);
        refusal
    };
    let refused = |class, what: &str| {
        let next =
            "check the file system of the granted folders, and the files that the tool writes";
        Refusal::new(
            ErrorCode::FileOperationUnfinished,
            format!("the tool {what}, but {UNFINISHED}; {next}"),
        )
        .with_class(class)
    };
    match outcome {
        Ok(GuestOutcome::Success(output)) => Ok(GuestOutcome::Partial(
            output,
            refused(ErrorClass::PartialFailure, "answered"),
        )),
        Ok(GuestOutcome::Partial(output, refusal)) => {
            Ok(GuestOutcome::Partial(output, told(refusal)))
        }
        Ok(GuestOutcome::Failure(refusal)) => Ok(GuestOutcome::Failure(told(refusal))),
        // Resuming would be a second run beside an operation of the first.
        Ok(GuestOutcome::NeedsInput(_)) => Err(refused(
            ErrorClass::DependencyUnavailable,
            "asked its user something",
        )),
        Err(refusal) => Err(told(refusal)),
    }
}

pub(super) async fn run<T>(
    engine: &GuestEngine,
    store: &mut Store<StoreState>,
    limits: &Limits,
    cancellation: &Cancellation,
    work: impl AsyncFnOnce(&mut Store<StoreState>) -> wasmtime::Result<T>,
) -> Result<T, Refusal> {
    let _running = engine.running();
    let meters = store.data().meters();
    let result = bounded(
        (meters, pin!(work(&mut *store))),
        limits.wall,
        cancellation,
        None,
    )
    .await;
    result.map_err(|error| verdict(&error, store, limits))
}

/// Asks a tool what it is, in a world that has its own files alone.
pub(super) async fn examine<T>(
    examined: FirstLoad<'_>,
    work: impl AsyncFnOnce(&mut Store<StoreState>) -> wasmtime::Result<T>,
) -> Result<T, Refusal> {
    let FirstLoad {
        engine,
        limits,
        own_files,
        ..
    } = examined;
    ask_with(engine, own_files, limits, work).await
}

/// Asks another guest what it is, in an empty world.
pub(super) async fn ask<T>(
    engine: &GuestEngine,
    limits: &Limits,
    work: impl AsyncFnOnce(&mut Store<StoreState>) -> wasmtime::Result<T>,
) -> Result<T, Refusal> {
    ask_with(engine, &OpenFolders::default(), limits, work).await
}

async fn ask_with<T>(
    engine: &GuestEngine,
    own_files: &OpenFolders,
    limits: &Limits,
    work: impl AsyncFnOnce(&mut Store<StoreState>) -> wasmtime::Result<T>,
) -> Result<T, Refusal> {
    let cancellation = crate::never();
    let world = (&Capability::default(), own_files);
    let store = without_network(engine, world, limits, &cancellation, unheard());
    let mut store = store.map_err(|error| host_fault(&error))?;
    run(engine, &mut store, limits, &cancellation, work).await
}

pub(super) fn offline(
    engine: &GuestEngine,
    capability: &Capability,
    limits: &Limits,
    cancellation: &Cancellation,
) -> wasmtime::Result<Store<StoreState>> {
    let world = (capability, &OpenFolders::default());
    without_network(engine, world, limits, cancellation, unheard())
}

fn unheard() -> (Arc<dyn Observer>, Egress) {
    (Arc::new(NullObserver), Egress::new(None))
}

fn without_network(
    engine: &GuestEngine,
    (capability, own_files): (&Capability, &OpenFolders),
    limits: &Limits,
    cancellation: &Cancellation,
    (observer, egress): (Arc<dyn Observer>, Egress),
) -> wasmtime::Result<Store<StoreState>> {
    let cancellation = cancellation.clone();
    let sources = NondeterminismSources::default();
    let setup = WasiInputs {
        capability,
        own_files,
        scratch_dir: engine.scratch_dir(),
        sources: &sources,
        room: None,
        process: None,
    };
    let state = StoreState::new(setup, limits, cancellation, observer, egress)?;
    open(engine, state, limits)
}

/// Sets every limit before a guest's start function can run.
fn open(
    engine: &GuestEngine,
    state: StoreState,
    limits: &Limits,
) -> wasmtime::Result<Store<StoreState>> {
    let mut store = Store::new(engine.wasmtime(), state);
    store.limiter(|state| &mut state.limiter);
    match engine.kind().meter() {
        Meter::Fuel if guard!("fuel") => store.set_fuel(limits.fuel)?,
        Meter::Fuel => store.set_fuel(u64::MAX)?,
        Meter::Time => store.data_mut().cpu = Arc::new(CpuClock::limited(limits.cpu)),
    }
    let lifted = limits.output_bytes.saturating_add(HOST_CALL_BYTES);
    if guard!("hostcall_fuel") {
        store.set_hostcall_fuel(usize::try_from(lifted).unwrap_or(usize::MAX));
    }
    if guard!("handles") {
        let handles = usize::try_from(limits.handles).unwrap_or(usize::MAX);
        store.set_max_component_handles(handles);
        // A task can outlive every handle to it, and a stream has several entries. The engine's own limit is a million.
        if let Some(table) = store.concurrent_resource_table() {
            table.set_max_capacity(handles.saturating_mul(ENTRIES_OF_HANDLE));
        }
    }
    store.set_epoch_deadline(1);
    // A yield suffices, because the future around the guest then sees a cancellation or the deadline first.
    let turns = engine.turns();
    let computes = Arc::clone(&store.data().computes);
    let mut ticks = 0_u64;
    store.epoch_deadline_callback(move |_| {
        ticks = ticks.saturating_add(1);
        if !guard!("yield") {
            return Ok(UpdateDeadline::Continue(1));
        }
        let turn = turns.next(ticks);
        let computes = Arc::clone(&computes);
        let turn = async move {
            // Still set if the guest is stopped here.
            computes.store(true, Ordering::Relaxed);
            turn.await;
            computes.store(false, Ordering::Relaxed);
        };
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(turn)))
    });
    Ok(store)
}

/// Only a guest that imports the cancellation interface gets it.
pub(super) struct CancelGrace {
    time: Duration,
    /// Canceled at the guest's own deadline; the call's has other listeners too.
    expiry: Cancellation,
}

/// A guest with `grace` is asked to stop first.
async fn bounded<T>(
    (meters, work): (
        CallMeters,
        Pin<&mut impl Future<Output = wasmtime::Result<T>>>,
    ),
    wall: Duration,
    cancellation: &Cancellation,
    grace: Option<&CancelGrace>,
) -> wasmtime::Result<T> {
    let work = pin!(charging(meters.memory, work));
    let work = pin!(timed(meters.cpu, work));
    unless_stopped(work, wall, cancellation, grace).await
}

/// `work` is pinned, because each function that takes a future by value has it twice in its own.
async fn unless_stopped<T>(
    work: Pin<&mut impl Future<Output = wasmtime::Result<T>>>,
    wall: Duration,
    cancellation: &Cancellation,
    grace: Option<&CancelGrace>,
) -> wasmtime::Result<T> {
    let deadline = Instant::now()
        .checked_add(wall)
        .filter(|_| guard!("deadline"));
    let canceled = async {
        if !guard!("cancellation") {
            std::future::pending::<()>().await;
        }
        cancellation.cancelled().await;
        if let Some(grace) = grace {
            tokio::time::sleep(grace.time).await;
        }
    };
    let expired = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
        if let Some(grace) = grace {
            grace.expiry.cancel(AbortReason::Timeout);
            tokio::time::sleep(grace.time).await;
        }
    };
    let stopped = async {
        tokio::select! {
            biased;
            () = canceled => StopReason::Canceled(cancellation.reason()),
            () = expired => StopReason::Deadline,
        }
    };
    // A guest without any time left would run until the first tick.
    if wall.is_zero() && guard!("deadline") && cancellation.requested().is_none() {
        return Err(StopReason::Deadline.into());
    }
    let result = unless(stopped, work, cancellation.requested().is_none()).await;
    // An error after the guest was asked to stop is what became of that.
    let is_over = grace.is_some_and(|grace| grace.expiry.requested().is_some());
    let asked = cancellation
        .requested()
        .map(StopReason::Canceled)
        .or(is_over.then_some(StopReason::Deadline));
    match (result, asked) {
        (Err(error), Some(stop)) if error.downcast_ref::<StopReason>().is_none() => {
            Err(error.context(stop))
        }
        (result, _) => result,
    }
}

/// `stopped` is polled, if it `starts`, only once `work` has waited: to register the timer of a short call could wake a
/// thread of the runtime.
async fn unless<T>(
    stopped: impl Future<Output = StopReason>,
    mut work: Pin<&mut impl Future<Output = wasmtime::Result<T>>>,
    mut starts: bool,
) -> wasmtime::Result<T> {
    let mut stopped = pin!(stopped);
    poll_fn(move |context| {
        let starts = std::mem::take(&mut starts);
        if starts && let Poll::Ready(result) = work.as_mut().poll(context) {
            return Poll::Ready(result);
        }
        match stopped.as_mut().poll(context) {
            Poll::Ready(stop) => Poll::Ready(Err(stop.into())),
            // A guest that yields is not polled again before others had their turn.
            Poll::Pending if starts => Poll::Pending,
            Poll::Pending => work.as_mut().poll(context),
        }
    })
    .await
}

pub(super) fn host_fault(error: &wasmtime::Error) -> Refusal {
    Refusal::host_fault(format!("{error:#}"))
}

/// Opens what [`prepare`] will open, and closes it again.
pub(super) fn check_world(capability: &Capability) -> Result<(), Refusal> {
    let mut mounts = capability.mounts.iter();
    mounts
        .try_for_each(|mount| OpenFolder::open(&mount.host).map(drop))
        .map_err(|error| not_started(&error.into()))
}

fn not_started(error: &wasmtime::Error) -> Refusal {
    Refusal::new(
        ErrorCode::WorldNotAvailable,
        "something that was granted is not there any more, or cannot be opened",
    )
    .detail(format!("{error:#}"))
}

fn context(capability: &Capability, user_info: Option<&Value>) -> String {
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    let known = [
        ("cwd", text(&capability.cwd)),
        ("scratch", text(&capability.scratch)),
        ("user_info", user_info.cloned()),
    ];
    let context = known
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    Value::from_iter(context).to_string()
}

pub(super) struct NullObserver;

impl Observer for NullObserver {
    fn progress(&self, _: ToolProgress) {}
    fn log(&self, _: &str, _: &str, _: Option<&str>) {}
    fn cancel_acknowledged(&self) {}
    fn denied(&self, _: SandboxDenial) {}
}

#[cfg(test)]
mod tests;
