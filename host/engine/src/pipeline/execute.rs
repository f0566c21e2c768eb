//! Phase 9: every error of the sandbox, see `sandbox/trap.rs`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::Tool;
use toolcell_executor::{Cancellation, Execution, GuestOutcome, Observer, RunInput, SandboxDenial};
use toolcell_journal::{Artifacts, Trail};
use toolcell_policy::Permit;
use toolcell_policy::secret::REDACTED;
use toolcell_spec::{
    ARTIFACT, CLI, COMMAND_PROTOCOL, ErrorCode, EventType, ExternalMapping, ProgressStatus,
    Refusal, SANDBOX_REF, Status, Suspension, ToolProgress,
};

use super::artifacts;
use super::call_state::{CallState, StoredCallRef, phase_token};
use super::permission::CallPermission;
use super::replay;
use super::retry;
use super::schedule::Scheduled;
use super::{children, interact, modifiers, suspend};

phase_token! {
    pub Executed((Arc<Tool>, Box<Execution>))
}

pub async fn run(journey: &mut CallState<'_>, scheduled: Scheduled) -> Result<Executed, Refusal> {
    let (permission, place) = scheduled.open();
    if let Some(kept) = journey.resumed.and_then(StoredCallRef::suspension) {
        // Boxed, to keep the future of other calls small.
        return Box::pin(go_on(journey, permission, kept)).await;
    }
    let CallPermission { tool, permit } = permission;
    if let Some(gate) = journey.request.start_gate.clone() {
        gate.start(may_change(&permit)).await?;
    }
    journey.advance(Status::Running)?;
    // Before its effect: a call whose start cannot be written down does not run.
    journey.changes = !permit.changes_nothing();
    let limits = children::limits(journey, &permit).into_owned();
    journey
        .trail
        .emit(EventType::Started, retry::started(&limits, 1));
    journey.trail.reached(ProgressStatus::Started);
    journey
        .write_start()
        .await
        .inspect_err(|_| journey.changes = false)?;
    journey.artifacts = artifacts::begin(journey, &tool, &limits);
    let mut run = first_run(journey, &tool, &permit);
    let mut execution = children::invoke(journey, &permit, run.clone()).await;
    drop(place);
    if matches!(execution.outcome, Ok(GuestOutcome::NeedsInput(_))) {
        // Boxed, to keep the future of a call without questions small.
        execution = Box::pin(interact::go_on(journey, &permit, &mut run, execution, None)).await;
    }
    if journey.request.policy.retry.attempts > 1 {
        execution = Box::pin(retry::go_on(journey, &permit, run, execution)).await;
    }
    Ok(executed(journey, tool, &permit, execution))
}

/// As seen from elsewhere, where a request or a secret counts, whatever the tool says of its requests.
fn may_change(permit: &Permit) -> bool {
    let capability = permit.capability();
    !permit.changes_nothing() || !capability.network.is_empty() || !capability.secrets.is_empty()
}

async fn go_on(
    journey: &mut CallState<'_>,
    CallPermission { tool, permit }: CallPermission,
    kept: &Suspension,
) -> Result<Executed, Refusal> {
    let limits = children::limits(journey, &permit).into_owned();
    journey.artifacts = artifacts::begin(journey, &tool, &limits);
    let (asking, round) = suspend::restored(kept)?;
    let mut run = first_run(journey, &tool, &permit);
    // From here on, what the tool consumed is in the execution.
    journey.spent = None;
    let mut execution = interact::go_on(journey, &permit, &mut run, asking, Some(round)).await;
    if journey.request.policy.retry.attempts > 1 {
        execution = Box::pin(retry::go_on(journey, &permit, run, execution)).await;
    }
    Ok(executed(journey, tool, &permit, execution))
}

/// The words of the caller's client about its user (OTC-Q-08): for a tool whose profile asks for it alone. A tool's call of
/// another tool has none.
pub(super) fn user_info(journey: &CallState<'_>, tool: &Tool) -> Option<Value> {
    // From the record, which a later process has, too.
    let mappings = journey.invocation.extra.get("external_mappings");
    let declared = tool.permission_profile().user_info == Some(true);
    let mappings = mappings.filter(|_| declared)?;
    mappings.get(0)?.get("user_info").cloned()
}

fn first_run(journey: &CallState<'_>, tool: &Tool, permit: &Permit) -> RunInput {
    RunInput {
        attempt: 1,
        cancellation: journey.request.cancellation.clone(),
        secrets: journey.redaction.secrets(),
        observer: Arc::new(EventRelay {
            trail: journey.trail.clone(),
            cancellation: journey.request.cancellation.clone(),
            artifacts: journey.artifacts.clone(),
        }),
        artifacts: journey.artifacts.clone(),
        modifiers_barred: modifiers::barred(journey, tool),
        resumed: None,
        nondeterminism: replay::nondeterminism(journey, tool, permit),
        tools: None,
        share: journey
            .request
            .lineage
            .as_ref()
            .map(|lineage| lineage.share.clone()),
        configuration: tool.configuration().cloned(),
        user_info: user_info(journey, tool),
        room: None,
    }
}

fn executed(
    journey: &mut CallState<'_>,
    tool: Arc<Tool>,
    permit: &Permit,
    mut execution: Box<Execution>,
) -> Executed {
    replay::note(journey, &tool, permit, execution.recorded.take());
    note_command(journey, &tool, &execution);
    execution.usage.artifacts = journey.artifacts.as_ref().and_then(Artifacts::usage);
    if let Some(reason) = journey.request.cancellation.requested() {
        journey.trail.cancel_requested(reason);
        journey.trail.cancel_acknowledged("host");
    }
    Executed((tool, execution))
}

/// Records how a command ran (AT-MAP-05). Without signals in the sandbox, the error's code is what stopped it.
fn note_command(journey: &mut CallState<'_>, tool: &Tool, execution: &Execution) {
    let Some(end) = execution.command else { return };
    let invocation = &mut journey.invocation;
    let call = invocation.evidence_ref();
    let stopped = execution
        .outcome
        .as_ref()
        .err()
        .map(|error| error.code)
        .filter(|_| end.exit_code.is_none());
    let decision = journey
        .decisions
        .last()
        .map(|decision| format!("{call}#decision/{}", decision.decision_id));
    let allowed = journey.decisions.iter().rev();
    let sandbox = allowed
        .filter_map(|decision| decision.extra.get(SANDBOX_REF)?.as_str())
        .next();
    // Its whole input is its standard input.
    let has_arguments = !reads_json(tool);
    let argv = invocation.call_input_ref.as_ref();
    let argv = argv.filter(|_| has_arguments);
    let known = json!({
        "command_id": tool.name(),
        "argv_ref": argv.map(|input| format!("{input}#/args")),
        "cwd_ref": format!("{call}#scratch"),
        "env_policy_ref": decision,
        "exit_code": end.exit_code,
        "signal": stopped.map(ErrorCode::as_str),
        "sandbox_ref": sandbox,
    });
    if let Value::Object(fields) = known {
        invocation.add_mapping(&ExternalMapping {
            source: CLI.to_owned(),
            fields,
        });
    }
}

fn reads_json(tool: &Tool) -> bool {
    let (field, json) = COMMAND_PROTOCOL;
    let mut mappings = tool.declaration().external_mappings.iter().flatten();
    mappings.any(|mapping| {
        mapping.source == CLI && mapping.fields.get(field).is_some_and(|known| known == json)
    })
}

struct EventRelay {
    trail: Trail,
    cancellation: Cancellation,
    artifacts: Option<Artifacts>,
}

impl EventRelay {
    fn artifacts_of(&self, content: &Value) -> Vec<Value> {
        let Some(artifacts) = &self.artifacts else {
            return Vec::new();
        };
        let blocks = content
            .as_array()
            .into_iter()
            .flatten()
            .filter(|block| block.get("type").is_some_and(|kind| kind == ARTIFACT));
        blocks
            .filter_map(|block| artifacts.find(block.get("reference")?.as_str()?))
            .map(Value::Object)
            .collect()
    }
}

impl Observer for EventRelay {
    fn progress(&self, mut update: ToolProgress) {
        if let Some(content) = &update.partial_content {
            update.artifact_refs = self.artifacts_of(content);
        }
        self.trail.progress(update);
    }

    fn log(&self, level: &str, message: &str, fields: Option<&str>) {
        self.trail.logged(level, message, fields);
    }

    fn cancel_acknowledged(&self) {
        if let Some(reason) = self.cancellation.requested() {
            self.trail.cancel_requested(reason);
        }
        self.trail.cancel_acknowledged("guest");
    }

    fn denied(&self, denial: SandboxDenial) {
        tell_denied(&self.trail, denial);
    }
}

/// For the tool's checks: they have no progress, and are stopped without their help.
pub(super) struct CheckRelay(pub(super) Trail);

impl Observer for CheckRelay {
    fn progress(&self, _: ToolProgress) {}

    fn log(&self, level: &str, message: &str, fields: Option<&str>) {
        self.0.logged(level, message, fields);
    }

    fn cancel_acknowledged(&self) {}

    fn denied(&self, denial: SandboxDenial) {
        tell_denied(&self.0, denial);
    }
}

fn tell_denied(trail: &Trail, mut denial: SandboxDenial) {
    // The tool chose what it tried to reach.
    if trail.is_silent() {
        REDACTED.clone_into(&mut denial.target);
    }
    trail.emit(EventType::SandboxDenied, json!(denial));
}
