//! The end of a call: its outcome, and what it used.

use std::sync::atomic::Ordering;
use std::time::Duration;

use toolcell_executor::{Execution, GuestOutcome, ResumedState, RunInput, SandboxDenial, canceled};
use toolcell_policy::Limits;
use toolcell_spec::{ErrorClass, MeteredUsage, Refusal, Usage};
use wasmtime::{AsContext, Store};

use super::outcome::{accept, has_failed, heed_denials, heed_stop, name_cause, size};
use crate::bindings::tool::exports::toolcell::tool::guest::Outcome;
use crate::egress::NetworkGate;
use crate::engine::WASM_STACK_BYTES;
use crate::nondeterminism::ReplayRecorder;
use crate::state::StoreState;
use crate::trap::{self, CallDenial, StopReason, TrapContext};

/// `fails_with_output`: the world has no other way to keep a failed call's output. `allowed` is for the whole call,
/// `left` for this instance.
pub(super) fn close(
    mut store: Store<StoreState>,
    (result, fails_with_output): (wasmtime::Result<Outcome>, bool),
    allowed: &Limits,
    left: &Limits,
    run: &RunInput,
) -> Box<Execution> {
    if let Some(last) = store.data_mut().progress.finish() {
        run.observer.progress(last);
    }
    // An answer has what a command printed; without one that is accepted, it is a log. JSON can be longer than what was printed.
    let output_bytes = result.as_ref().ok().map(size);
    match output_bytes {
        Some(bytes) if bytes <= left.output_bytes => store.data().logs.drop_output(),
        _ => store.data().logs.keep_output(),
    }
    let mut usage = usage(store.data(), fuel_left(&store, left), left);
    let has_failed = fails_with_output && result.as_ref().is_ok_and(has_failed);
    let outcome = match result {
        Ok(outcome) => {
            usage.output_bytes.used = output_bytes.unwrap_or_default();
            accept(outcome, usage.output_bytes)
                .map(|outcome| heed_stop(outcome, asked_to_stop(run, &store, allowed)))
        }
        Err(error) => needed(&error, &mut store).ok_or_else(|| verdict(&error, &store, allowed)),
    };
    if let Some(resumed) = &run.resumed {
        usage.add(&resumed.spent);
    }
    let gate = store.data().egress.gate();
    let redacted = gate.is_some_and(NetworkGate::redacted);
    let of_files = tell_denied_files(store.data());
    let outcome = name_cause(outcome, store.data());
    let denied = gate
        .and_then(NetworkGate::denied)
        .or(of_files)
        .or_else(|| denied_space(&outcome, &store, allowed));
    let outcome = heed_denials(outcome, denied, has_failed);
    let partial_bytes = left
        .output_bytes
        .saturating_sub(store.data().partial_bytes_left);
    let recorded = store
        .data_mut()
        .recorder
        .take()
        .map(ReplayRecorder::into_data);
    let context_modifiers = store.data_mut().modifiers.take();
    let command = store.data().command;
    let logs = store.into_data().logs.into_content();
    Box::new(Execution {
        outcome,
        usage,
        partial_bytes,
        logs,
        context_modifiers,
        redacted,
        recorded,
        command,
    })
}

pub(super) fn asked_to_stop(
    run: &RunInput,
    store: &Store<StoreState>,
    allowed: &Limits,
) -> Option<Refusal> {
    let is_over = store.data().expiry.requested().is_some();
    let late = || is_over.then(|| verdict(&StopReason::Deadline.into(), store, allowed));
    run.cancellation.requested().map(canceled).or_else(late)
}

pub(super) fn needed(
    error: &wasmtime::Error,
    store: &mut Store<StoreState>,
) -> Option<GuestOutcome> {
    matches!(error.downcast_ref(), Some(StopReason::NeedsInput))
        .then(|| store.data_mut().needed.take())
        .flatten()
        .map(GuestOutcome::NeedsInput)
}

/// Its code was not there within its time, or cannot be loaded.
pub(super) fn not_loaded(
    refusal: Refusal,
    limits: &Limits,
    loading: Duration,
    resumed: Option<&ResumedState>,
) -> Box<Execution> {
    let mut usage = blank(limits);
    usage.wall_ms.used = millis(loading);
    failed_after(refusal, usage, resumed)
}

pub(super) fn failed_after(
    refusal: Refusal,
    mut usage: Usage,
    resumed: Option<&ResumedState>,
) -> Box<Execution> {
    resumed
        .into_iter()
        .for_each(|resumed| usage.add(&resumed.spent));
    let partial_bytes = resumed.map_or(0, |resumed| resumed.partial_bytes);
    let mut failed = Execution::failed(refusal, usage);
    failed.partial_bytes = partial_bytes;
    failed
}

pub(super) fn verdict(
    error: &wasmtime::Error,
    store: &Store<StoreState>,
    limits: &Limits,
) -> Refusal {
    trap::refusal(error, &seen(store.data(), limits))
}

fn seen<'a>(state: &StoreState, limits: &'a Limits) -> TrapContext<'a> {
    TrapContext {
        limits,
        denied: state.limiter.denied(),
        computes: state.computes.load(Ordering::Relaxed),
        stderr_tail: state.logs.stderr_tail(),
    }
}

/// QuickJS throws `null` if it has no memory for an exception. A guest that has words for what it was refused keeps them.
fn denied_space(
    outcome: &Result<GuestOutcome, Refusal>,
    store: &Store<StoreState>,
    limits: &Limits,
) -> Option<CallDenial> {
    match outcome {
        Ok(GuestOutcome::Failure(failure))
            if failure.class == ErrorClass::ExecutionFailed
                && matches!(&*failure.message, "" | "null") =>
        {
            trap::denied_space(&seen(store.data(), limits))
        }
        _ => None,
    }
}

/// A guest that counts none leaves all to the calls that it makes.
pub(crate) fn fuel_left(store: impl AsContext<Data = StoreState>, limits: &Limits) -> u64 {
    let store = store.as_context();
    let below = store.data().fuel_below;
    store
        .get_fuel()
        .unwrap_or_else(|_| limits.fuel.saturating_sub(below))
}

pub(crate) fn usage(state: &StoreState, fuel: u64, limits: &Limits) -> Usage {
    let mut usage = blank(limits);
    usage.fuel.used = limits.fuel.saturating_sub(fuel);
    let cpu = state.cpu.used();
    usage.cpu_ms = (state.cpu.limits_guest() || !cpu.is_zero()).then(|| MeteredUsage {
        used: millis(cpu),
        limit: millis(limits.cpu),
    });
    usage.wall_ms.used = millis(state.started.elapsed());
    usage.memory_bytes.used = state.limiter.memory_peak as u64;
    usage.table_elements.used = state.limiter.tables_peak as u64;
    usage.log_bytes.used = state.logs.written();
    usage.files = state.file_rules.quota.usage(limits);
    usage.network = state.egress.gate().and_then(NetworkGate::usage);
    let mut touched = state.file_rules.touched();
    touched.append(
        state
            .egress
            .gate()
            .map(NetworkGate::touched)
            .unwrap_or_default(),
    );
    usage.touched = touched.into_some();
    usage
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Nothing was used yet.
pub(super) fn blank(limits: &Limits) -> Usage {
    let metered = |limit| MeteredUsage { used: 0, limit };
    Usage {
        fuel: metered(limits.fuel),
        cpu_ms: None,
        wall_ms: metered(millis(limits.wall)),
        memory_bytes: metered(limits.memory_bytes),
        table_elements: metered(limits.table_elements),
        output_bytes: metered(limits.output_bytes),
        log_bytes: metered(limits.log_bytes),
        instances_limit: limits.instances,
        handles_limit: limits.handles,
        descriptors_limit: limits.descriptors,
        files: None,
        network: None,
        artifacts: None,
        touched: None,
        stack_bytes_limit: WASM_STACK_BYTES as u64,
    }
}

/// Returns the denial.
pub(super) fn tell_denied_files(state: &StoreState) -> Option<CallDenial> {
    let denied = state.file_rules.denied()?;
    state.observer.denied(SandboxDenial {
        capability: "file_read",
        target: "a file that has several names".to_owned(),
        target_class: "hard link".to_owned(),
        rule: denied.message.clone(),
    });
    Some(denied)
}
