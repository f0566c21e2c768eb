//! Phase 7: permission_denied, credential_missing, capability_gap, schema_validation_failed, hook_blocked, timeout,
//! rate_limited.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::catalog::Tool;
use toolcell_executor::hook::HookOutput;
use toolcell_policy as policy;
use toolcell_policy::{
    DecisionCase, DecisionOutcome, DecisionSubject, FileUse, Grants, Permit, PolicyVerdict,
    PreflightPermit, ToolClaims,
};
use toolcell_spec::{
    ErrorClass, ErrorCode, HookEvent, Input, InputMutation, MutationSource, PermissionDecision,
    PermissionProfile, Refusal, SafetyFacts, Status, pointer_steps,
};

use super::approval;
use super::aside::{self, InputSchema};
use super::call_state::{CallState, PreparedCall, StoredCallRef, phase_token};
use super::explain::{CallExplanation, Unheard};
use super::hooks;
use super::pre_hooks::PreHooked;
use super::{schema_gate, suspend, validate};

/// `source_ref` of the change that makes relative paths absolute.
const PATHS: &str = "paths";

phase_token! {
    /// A call that may run once, with exactly what its permit carries.
    pub Permitted(CallPermission)
}

pub(super) struct CallPermission {
    pub(super) tool: Arc<Tool>,
    pub(super) permit: Box<Permit>,
}

/// Decides on exactly the input that will run, and records every decision.
pub async fn decide(journey: &mut CallState<'_>, hooked: PreHooked) -> Result<Permitted, Refusal> {
    let prepared = hooked.open();
    // Boxed, to keep the future of other calls small.
    match journey.resumed {
        Some(StoredCallRef::Approval(stored)) => {
            return Box::pin(approval::re_enter(journey, prepared, stored)).await;
        }
        Some(StoredCallRef::Suspended(stored)) => {
            return Box::pin(suspend::re_enter(journey, prepared, &stored.suspension)).await;
        }
        None => {}
    }
    let PreparedCall { tool, input } = prepared;
    accept(journey, &tool, &input).await?;
    let PolicyVerdict { decision, outcome } = judge(journey, &tool, &input).await?;
    let permit = match outcome {
        // Boxed, to keep the future of a call without an approval small.
        DecisionOutcome::Ask(question) => {
            return Box::pin(approval::ask(journey, tool, decision, question)).await;
        }
        DecisionOutcome::Allow(permit) => {
            announce(journey, &tool, &input, decision).await?;
            if journey.preflight_left {
                // Boxed, to keep the future of a plain call small.
                Box::pin(validate::preflight(journey, &tool, &permit)).await?;
            }
            journey.services.executor.check_world(permit.capability())?;
            permit
        }
        DecisionOutcome::Deny(refusal) => {
            return Err(denied(journey, &tool, &input, decision, refusal).await);
        }
    };
    journey.advance(Status::Approved)?;
    admit(journey, tool, permit).await
}

/// Makes no permit and asks no hooks.
pub(super) async fn explain(
    journey: &mut CallState<'_>,
    unheard: Unheard,
) -> Result<CallExplanation, Refusal> {
    let (PreparedCall { tool, input }, hooks) = unheard.open();
    accept(journey, &tool, &input).await?;
    let explanation = weigh(journey, &tool, &input, |case| policy::explain(&case)).await?;
    Ok(CallExplanation { explanation, hooks })
}

/// Read access for preflight, before hooks are asked.
pub(super) async fn look(
    journey: &CallState<'_>,
    tool: &Arc<Tool>,
    input: &Input,
) -> Result<Option<PreflightPermit>, Refusal> {
    weigh(journey, tool, input, policy::look).await
}

async fn accept(journey: &mut CallState<'_>, tool: &Tool, input: &Input) -> Result<(), Refusal> {
    check_call_input(journey, tool, input).await?;
    journey.invocation.permission_input = Some(journey.redaction.recorded(input).await?);
    journey.invocation.permission_input_ref = Some(journey.redaction.reference(input));
    // Checked first, so that no approver is asked about a call that could not run.
    journey.redaction.check_secrets()
}

/// Asks hooks, then the policy, about exactly the input that would run.
pub(super) async fn judge(
    journey: &mut CallState<'_>,
    tool: &Arc<Tool>,
    input: &Input,
) -> Result<PolicyVerdict, Refusal> {
    request_hooks(journey, tool, input).await?;
    weigh(journey, tool, input, policy::decide).await
}

/// Hooks can still stop an allowed call, but cannot allow a denied one.
pub(super) async fn announce(
    journey: &mut CallState<'_>,
    tool: &Tool,
    input: &Input,
    decision: Box<PermissionDecision>,
) -> Result<(), Refusal> {
    journey.record_decision(decision);
    decision_hooks(journey, tool, input).await
}

pub(super) async fn denied(
    journey: &mut CallState<'_>,
    tool: &Tool,
    input: &Input,
    decision: Box<PermissionDecision>,
    refusal: Refusal,
) -> Refusal {
    let _ = announce(journey, tool, input, decision).await;
    refusal
}

/// Records what the guest gets as `call_input` (AT-INP-04): the input that was decided on, with absolute paths.
pub(super) async fn admit(
    journey: &mut CallState<'_>,
    tool: Arc<Tool>,
    permit: Box<Permit>,
) -> Result<Permitted, Refusal> {
    let decided = permit.call_input();
    let mut recorded = journey.redaction.recorded(decided).await?;
    let given = permit.guest_input();
    if !given.is(decided) {
        if guard!("absolute_terms") {
            // The guest can repeat a sensitive path as it gets it. A short name is not searched for inside of that.
            recorded = journey.redaction.recorded(given).await?;
        }
        // A call that asked its user something is admitted again.
        if !journey
            .mutations
            .iter()
            .any(|mutation| mutation.source_ref == PATHS)
        {
            let source = (MutationSource::Runtime, PATHS);
            journey.mutated(source, [decided, given], "paths are absolute for the guest");
        }
    }
    journey.invocation.call_input = Some(recorded);
    journey.invocation.call_input_ref = Some(journey.redaction.reference(given));
    Ok(Permitted(CallPermission { tool, permit }))
}

async fn request_hooks(
    journey: &mut CallState<'_>,
    tool: &Tool,
    input: &Input,
) -> Result<(), Refusal> {
    let services = journey.services;
    let event = HookEvent::PermissionRequest;
    for hook in services.hooks.hearing(event, tool.declaration()) {
        journey.heed_cancellation()?;
        for output in hooks::ask(journey, tool, hook, event, input).await? {
            match output {
                HookOutput::PermissionResult(result) => journey.hear(hook.id(), result),
                HookOutput::Stop { reason } => return Err(hooks::stopped(hook, &reason)),
                _ => {}
            }
        }
    }
    Ok(())
}

async fn decision_hooks(
    journey: &mut CallState<'_>,
    tool: &Tool,
    input: &Input,
) -> Result<(), Refusal> {
    let services = journey.services;
    let event = HookEvent::PermissionDecision;
    let mut stopped = Ok(());
    for hook in services.hooks.hearing(event, tool.declaration()) {
        match hooks::ask(journey, tool, hook, event, input).await {
            // Every hook gets the decision, even if one of them ends the call.
            Err(refusal) => stopped = stopped.and(Err(refusal)),
            Ok(outputs) => {
                for output in outputs {
                    if let HookOutput::Stop { reason } = output {
                        stopped = stopped.and(Err(hooks::stopped(hook, &reason)));
                    }
                }
            }
        }
    }
    stopped
}

/// Applies the policy's `look`; on a thread for checks unless quick, because each path is resolved on the disk, and
/// each URL compared with every rule. Fails as [`LongChecks::run`](aside::LongChecks::run).
async fn weigh<T: Send + 'static>(
    journey: &CallState<'_>,
    tool: &Arc<Tool>,
    input: &Input,
    look: fn(DecisionCase<'_>) -> T,
) -> Result<T, Refusal> {
    let classified = classify(journey, tool, input).await?;
    let terms = PermissionTerms::from_call(journey, tool);
    let names_much = policy::names_much(tool.subjects(), input);
    let request = &journey.request;
    let subject = DecisionSubject {
        invocation_id: journey.invocation.invocation_id,
        component: Arc::clone(tool.component()),
        tool: Arc::clone(tool.name()),
    };
    let limits = request.limits.clone().with_timeout_ms(tool.timeout_ms());
    let tool = Arc::clone(tool);
    let input = input.clone();
    let rules = Arc::clone(&request.policy);
    let opinion = journey.opinion.clone();
    let protected = Arc::clone(&journey.services.protected);
    let lineage = request.lineage.clone();
    let actor = request.actor_ref.clone();
    let decide = move || {
        look(DecisionCase {
            subject,
            actor,
            input,
            limits,
            declared: declared(&tool, &terms),
            classified,
            grants: &terms.grants,
            policy: &rules,
            opinion: opinion.as_ref(),
            protected: &protected,
            ceiling: lineage.as_deref().map(|lineage| &lineage.ceiling),
        })
    };
    let checks = &journey.checks;
    checks
        .run_if(names_much, "deciding on the call", decide)
        .await
}

struct PermissionTerms {
    grants: Arc<Grants>,
    profile: Option<Box<PermissionProfile>>,
    files: FileUse,
}

impl PermissionTerms {
    fn from_call(journey: &CallState<'_>, tool: &Tool) -> Self {
        let grants = &journey.request.grants;
        let catalog = &journey.services.catalog;
        let component = tool.component();
        let plain = |files| Self {
            grants: Arc::clone(grants),
            profile: None,
            files,
        };
        if !tool.takes_granted_files() {
            return plain(FileUse::Declared);
        }
        if !(grants.for_one && catalog.has_only(component)) && guard!("unsaid_files") {
            return plain(FileUse::Unsaid);
        }
        match policy::as_granted(tool.permission_profile(), grants) {
            Some((profile, grants)) => Self {
                grants: Arc::new(grants),
                profile: Some(Box::new(profile)),
                files: FileUse::AsGranted,
            },
            None => plain(FileUse::Declared),
        }
    }
}

fn declared<'a>(tool: &'a Tool, terms: &'a PermissionTerms) -> ToolClaims<'a> {
    ToolClaims {
        tool: tool.declaration(),
        profile: terms
            .profile
            .as_deref()
            .unwrap_or(tool.permission_profile()),
        facts: tool.facts(),
        subjects: tool.subjects(),
        hides_input: tool.contract().has_sensitive_fields(),
        native_ids: tool.operation_ids(),
        needs_user: tool.needs_user(),
        files: terms.files,
        unheard: tool.unheard(),
    }
}

/// Can restrict the call, never extend it.
async fn classify(
    journey: &CallState<'_>,
    tool: &Tool,
    input: &Input,
) -> Result<Option<SafetyFacts>, Refusal> {
    if !tool.classifies() {
        return Ok(None);
    }
    let limits = journey.request.limits.for_checks();
    let named = tool
        .classifier_input()
        .and_then(|named| only(input, &named));
    let input = named.as_ref().unwrap_or(input);
    journey
        .services
        .executor
        .classify(journey.check(tool, input, &limits))
        .await
}

/// The arguments `named`, by name or JSON Pointer; `None` if the input is no object.
fn only(input: &Input, named: &[String]) -> Option<Input> {
    let given = input.value().ok().filter(|given| given.is_object())?;
    let mut kept = Map::new();
    for argument in named {
        let steps = match argument.strip_prefix('/') {
            Some(pointer) => pointer_steps(pointer),
            None => vec![argument.clone()],
        };
        keep(given, &steps, &mut kept);
    }
    Some(input.with_value(Value::Object(kept)))
}

/// A pointer into a list keeps all of the list.
fn keep(given: &Value, steps: &[String], kept: &mut Map<String, Value>) {
    let Some((step, rest)) = steps.split_first() else {
        return;
    };
    let Some(value) = given.get(step) else {
        return;
    };
    if rest.is_empty() || !value.is_object() {
        kept.insert(step.clone(), value.clone());
    } else if let Value::Object(kept) = kept
        .entry(step.as_str())
        .or_insert_with(|| Value::Object(Map::new()))
    {
        keep(value, rest, kept);
    }
}

/// The contract must hold also after hooks changed the input (AT-IN-02).
async fn check_call_input(
    journey: &CallState<'_>,
    tool: &Tool,
    input: &Input,
) -> Result<(), Refusal> {
    if input.is(&journey.request.input) && !tool.contract().has_runtime_schema() {
        return Ok(());
    }
    input.value().map_err(Refusal::host_fault)?;
    let checked = aside::check_input(journey, tool.contract(), input, InputSchema::Call).await?;
    checked.map_err(|mismatch| {
        let (class, message) = blame(&journey.mutations);
        let mut refusal = Refusal::new(ErrorCode::CallInputMismatch, message).with_class(class);
        let mut changes = journey.mutations.iter().rev();
        let by_hook = changes.find(|change| change.source_type == MutationSource::Hook);
        if let Some(change) = by_hook {
            refusal = refusal.by_policy(format!("hook:{}", change.source_ref));
        }
        let refusal = if tool.contract().has_internal_fields() {
            // The mismatch may name an internal field, which no model may see.
            refusal.detail(mismatch.to_string())
        } else {
            Refusal {
                message: format!("{message}: {mismatch}"),
                ..refusal
            }
        };
        schema_gate::tell(journey, input, &refusal.message, &mismatch);
        refusal
    })
}

/// Blames the contract if only its defaults changed an input that satisfied it, otherwise the hook.
fn blame(mutations: &[InputMutation]) -> (ErrorClass, &'static str) {
    let by_contract = |mutation: &InputMutation| {
        matches!(
            mutation.source_type,
            MutationSource::Runtime | MutationSource::Adapter
        )
    };
    if mutations.iter().all(by_contract) {
        let message = "the input, with the defaults of the tool's contract, does not satisfy the tool's schema";
        return (ErrorClass::SchemaValidationFailed, message);
    }
    let message = "the input, as it was changed on its way, does not satisfy the tool's schema";
    (ErrorClass::HookBlocked, message)
}
