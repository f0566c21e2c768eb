//! Phase 1: unknown_tool, policy_blocked, capability_gap, setup_required. From here on it is known what to redact.

use std::sync::Arc;

use serde_json::json;

use crate::catalog::Tool;
use toolcell_spec::{ErrorCode, EventType, HookEvent, Lifecycle, Plan, Refusal, Status};

use super::call_state::{CallState, phase_token};
use super::redaction::brought;
use super::{children, modifiers, redaction};

phase_token! {
    pub(super) Resolved(Arc<Tool>)
}

pub(super) async fn resolve(journey: &mut CallState<'_>) -> Result<Resolved, Refusal> {
    if let Some(stored) = journey.resumed {
        return again(journey, stored.plan()).await;
    }
    let tool = find(journey)?;
    let declaration = Arc::clone(tool.declaration());
    journey.invocation.tool_id.clone_from(&declaration.tool_id);
    journey.invocation.runtime_refs = tool.runtime_refs().to_vec();
    journey
        .invocation
        .runtime_refs
        .push(journey.services.source.to_string());
    let engine = journey.services.engine.to_string();
    journey.invocation.runtime_refs.push(engine);
    let session = journey.invocation.session_runtime();
    journey.invocation.runtime_refs.extend(session);
    journey.trail.resolved(&declaration.tool_id);
    keep_quiet(journey, &tool);
    begin_redaction(journey, &tool).await?;
    children::admit(&mut journey.request, &tool)?;
    let unavailable =
        |code, why: &str| Err(Refusal::new(code, format!("{} {why}", declaration.tool_id)));
    match declaration.lifecycle {
        Lifecycle::Draft => {
            return unavailable(ErrorCode::ToolDraft, "is a draft");
        }
        Lifecycle::Retired => {
            return unavailable(ErrorCode::ToolRetired, "was retired");
        }
        Lifecycle::Disabled => {
            return unavailable(ErrorCode::ToolDisabled, "is disabled here")
                .map_err(|refusal| refusal.by_policy("lifecycle:disabled".to_owned()));
        }
        Lifecycle::RequiresSetup => {
            return unavailable(ErrorCode::ToolRequiresSetup, "has to be set up first");
        }
        Lifecycle::Available | Lifecycle::Deferred | Lifecycle::Deprecated => {}
    }
    if let Some(refusal) = tool.gap() {
        return Err(refusal);
    }
    if tool.is_internal() && journey.request.lineage.is_none() {
        return unavailable(
            ErrorCode::SchemaInternal,
            "is internal: only other tools can call it",
        );
    }
    if let Some(refusal) = journey.request.tool.withheld(&tool) {
        return Err(refusal);
    }
    check_folders(journey, &tool)?;
    journey.advance(Status::Selected)?;
    let called = journey.request.tool.name();
    let via = if declaration.aliases.iter().any(|alias| alias == called) {
        "alias"
    } else {
        "name"
    };
    let deprecated = declaration.lifecycle == Lifecycle::Deprecated;
    journey.trail.emit(
        EventType::Selected,
        json!({ "via": via, "deprecated": deprecated }),
    );
    Ok(Resolved(tool))
}

/// Fails if a tool selected in another process is withheld by now, or its secret is not set any more.
async fn again(journey: &mut CallState<'_>, plan: &Plan) -> Result<Resolved, Refusal> {
    let tool = find(journey)?;
    keep_quiet(journey, &tool);
    journey.redaction.reuse(plan.reference_key.as_deref())?;
    begin_redaction(journey, &tool).await?;
    // That process checked the arguments.
    redaction::show_input(journey);
    // Checked first, so that no hook runs for a call that could not.
    if let Some(refusal) = journey.request.tool.withheld(&tool) {
        return Err(refusal);
    }
    check_folders(journey, &tool)?;
    // Before the stored secrets are missed: setting those would not help.
    if brought::is_lost(&journey.invocation) {
        return Err(brought::lost());
    }
    journey.redaction.check_secrets()?;
    Ok(Resolved(tool))
}

/// Fails for a tool with files while a granted folder does not exist (AT-EC-10).
fn check_folders(journey: &CallState<'_>, tool: &Tool) -> Result<(), Refusal> {
    let missing = journey.request.grants.missing.first();
    let Some(missing) = missing.filter(|_| tool.needs_folders()) else {
        return Ok(());
    };
    let message = format!(
        "{} has to be set up first: a folder that is granted does not exist",
        tool.declaration().tool_id
    );
    let refusal = Refusal::new(ErrorCode::ToolRequiresSetup, message);
    Err(refusal.detail(missing.rule.clone()))
}

/// Fails for a canceled call only after redaction began, because its record shows the input too.
async fn begin_redaction(journey: &mut CallState<'_>, tool: &Tool) -> Result<(), Refusal> {
    let begun = redaction::begin(journey, tool).await;
    journey.heed_cancellation()?;
    begun
}

/// Keeps the running tool's words off the log if its output may be on no disk, or a hook may still say so; and out of
/// events and records if no result may have it (AT-STRAT-03, AT-STRAT-04).
fn keep_quiet(journey: &CallState<'_>, tool: &Tool) {
    let keeping = journey.keeping();
    if !(keeping.output && keeping.inline) && guard!("quiet_results") {
        journey.trail.silence();
    }
    if tool.contract().redacts_fields() && guard!("quiet_results") {
        journey.trail.silence_logs();
    }
    if !may_be_noted(journey, tool) && guard!("never_persisted") {
        journey.trail.keep_unnoted();
    }
}

/// Returns whether messages may be on disk before the tool ends.
pub(super) fn may_be_noted(journey: &CallState<'_>, tool: &Tool) -> bool {
    let keeping = journey.keeping();
    let hooks = &journey.services.hooks;
    let may_stop = || hooks.are_told(HookEvent::ResultPersistence, tool.declaration());
    keeping.journal && keeping.output && !may_stop()
}

fn find(journey: &mut CallState<'_>) -> Result<Arc<Tool>, Refusal> {
    let request = &journey.request;
    let found = request.tool.find(&journey.services.catalog);
    if found.is_err() {
        journey.heed_cancellation()?;
    }
    let tool = found.map_err(|refusal| match request.lineage {
        Some(_) => children::not_callable(request.tool.name()),
        None => refusal,
    })?;
    journey.tool = Some(Arc::clone(&tool));
    modifiers::note(journey, &tool);
    Ok(tool)
}
