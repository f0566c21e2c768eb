//! Calls of other tools. Written by hand, because only a function that sees the store can take what a call used from
//! its caller's fuel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use toolcell_executor::{ChildCall, ChildOutput, LimitShare, ToolCaller};
use toolcell_policy::Limits;
use toolcell_spec as record;
use toolcell_spec::{ErrorClass, ErrorCode, Refusal, Usage};
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use crate::bindings::calling::toolcell::tool::tools::{Answer, Callable};
use crate::bindings::tool::toolcell::tool::types as wit;
use crate::call::{fuel_left, usage};
use crate::state::StoreState;

const NAME_BYTES_MAX: usize = 256;
/// Arguments are kept, and written down, while the caller waits.
const INPUT_BYTES_MAX: usize = 1 << 20;
/// The deadline of a call without a time limit that a clock can show.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[derive(Clone)]
pub(crate) struct ChildCalls {
    pub(crate) caller: Arc<dyn ToolCaller>,
    pub(crate) limits: Arc<Limits>,
    /// The guest is stopped then; `None` if no clock can show it.
    pub(crate) deadline: Option<Instant>,
}

type ChildResult = Result<Answer, wit::ToolError>;

pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    let mut tools = linker.instance("toolcell:tool/tools@0.2.0")?;
    tools.func_wrap_async("list", |store: StoreContextMut<'_, StoreState>, (): ()| {
        Box::new(list(store))
    })?;
    tools.func_wrap_async(
        "call",
        |store: StoreContextMut<'_, StoreState>, (tool, input): (String, String)| {
            Box::new(call(store, tool, input))
        },
    )
}

async fn list(store: StoreContextMut<'_, StoreState>) -> wasmtime::Result<(Vec<Callable>,)> {
    let Some(children) = store.data().children.clone() else {
        return Ok((Vec::new(),));
    };
    let tools = children.caller.list().await;
    Ok((tools
        .into_iter()
        .map(|tool| Callable {
            name: tool.name,
            description: tool.description,
        })
        .collect(),))
}

async fn call(
    store: StoreContextMut<'_, StoreState>,
    tool: String,
    input: String,
) -> wasmtime::Result<(ChildResult,)> {
    let answered = answered(store, tool, input).await?;
    Ok((answered.map(output).map_err(error),))
}

/// Charges the guest with what the call used.
pub(super) async fn answered(
    mut store: StoreContextMut<'_, StoreState>,
    tool: String,
    input: String,
) -> wasmtime::Result<Result<ChildOutput, record::ToolError>> {
    let Some(children) = store.data().children.clone() else {
        return Ok(Err(none_granted().to_error()));
    };
    if tool.len() > NAME_BYTES_MAX || input.len() > INPUT_BYTES_MAX {
        return Ok(Err(too_large(&tool, &input).to_error()));
    }
    let fuel = fuel_left(&store, &children.limits);
    let share = LimitShare {
        left: Box::new(left(store.data(), fuel, &children.limits)),
        deadline: children
            .deadline
            .unwrap_or_else(|| Instant::now() + FOR_EVER),
    };
    let answer = children.caller.call(ChildCall { tool, input, share }).await;
    if guard!("child_fuel") {
        charge_computing(&mut store, fuel, &answer.used)?;
    }
    if guard!("child_quotas") {
        charge(store.data(), &answer.used);
    }
    Ok(answer.result)
}

/// A guest that waits writes nothing, and sends and receives at most what is buffered already.
fn left(state: &StoreState, fuel: u64, limits: &Limits) -> Limits {
    let mut left = limits.less(&usage(state, fuel, limits));
    left.memory_bytes = state.limiter.left() as u64;
    if let Some(artifacts) = &state.artifacts {
        (left.artifact_bytes, left.artifacts) = artifacts.left();
    }
    left
}

/// What is not measured of the guest itself is shared by the calls that it makes.
fn charge_computing(
    store: &mut StoreContextMut<'_, StoreState>,
    left: u64,
    used: &Usage,
) -> wasmtime::Result<()> {
    let state = store.data_mut();
    if let Some(cpu) = &used.cpu_ms {
        state.cpu.add(Duration::from_millis(cpu.used));
    }
    if state.cpu.limits_guest() {
        state.fuel_below = state.fuel_below.saturating_add(used.fuel.used);
        return Ok(());
    }
    store.set_fuel(left.saturating_sub(used.fuel.used))
}

fn charge(state: &StoreState, used: &Usage) {
    if let Some(files) = &used.files {
        state.file_rules.quota.charge(files);
    }
    if let (Some(gate), Some(network)) = (state.egress.gate(), &used.network) {
        gate.charge(network);
    }
    if let (Some(own), Some(below)) = (&state.artifacts, &used.artifacts) {
        own.charge(below);
    }
}

fn none_granted() -> Refusal {
    let message = "this call may call no tools; --allow-tool grants them, and the tool_calls of the profile name them";
    Refusal::new(ErrorCode::ToolNotCallable, message)
}

fn too_large(tool: &str, input: &str) -> Refusal {
    let message = format!(
        "the name of the tool has {} bytes, of at most {NAME_BYTES_MAX}, and its arguments {}, of at most \
         {INPUT_BYTES_MAX}; pass less",
        tool.len(),
        input.len()
    );
    Refusal::new(ErrorCode::ChildCallTooLarge, message)
}

fn output(output: ChildOutput) -> Answer {
    Answer {
        invocation_id: output.invocation_id.to_string(),
        content: output.content,
        structured: output.structured,
        missing: output.missing.map(error),
    }
}

fn error(error: record::ToolError) -> wit::ToolError {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float saturates"
    )]
    let retry_after_ms = error.retry_after.map(|seconds| (seconds * 1_000.0) as u64);
    wit::ToolError {
        class: class(error.error_class),
        code: error.error_code,
        message: error.message,
        detail: None,
        retry_after_ms,
    }
}

/// A verdict of the host has no case of its own, so that a guest cannot forge one.
fn class(class: ErrorClass) -> wit::ErrorClass {
    match class {
        ErrorClass::InvalidArguments => wit::ErrorClass::InvalidArguments,
        ErrorClass::CapabilityGap => wit::ErrorClass::CapabilityGap,
        ErrorClass::SetupRequired => wit::ErrorClass::SetupRequired,
        ErrorClass::CredentialMissing => wit::ErrorClass::CredentialMissing,
        ErrorClass::Timeout => wit::ErrorClass::Timeout,
        ErrorClass::RateLimited => wit::ErrorClass::RateLimited,
        ErrorClass::DependencyUnavailable => wit::ErrorClass::DependencyUnavailable,
        ErrorClass::ExecutionFailed => wit::ErrorClass::ExecutionFailed,
        ErrorClass::PartialFailure => wit::ErrorClass::PartialFailure,
        ErrorClass::ResultTooLarge => wit::ErrorClass::ResultTooLarge,
        ErrorClass::Canceled => wit::ErrorClass::Canceled,
        other => wit::ErrorClass::Other(other.as_str().to_owned()),
    }
}
