//! Phase 1: unknown_tool, policy_blocked, capability_gap, setup_required. From here on it is known what to redact.

use std::sync::Arc;

use serde_json::json;

use crate::catalog::Tool;
use crate::record::{ErrorClass, EventType, Lifecycle, Refusal, Status};

use super::journey::Journey;
use super::redaction;

pub(super) struct Resolved {
    pub(super) tool: Arc<Tool>,
}

/// Finds the tool by name or alias, and checks that it can be selected.
pub(super) async fn resolve(journey: &mut Journey<'_>) -> Result<Resolved, Refusal> {
    if let Some(refusal) = journey.request.unavailable.take() {
        return Err(refusal);
    }
    journey.heed_cancellation()?;
    let tool = journey.services.catalog.resolve(&journey.request.tool)?;
    let declaration = Arc::clone(tool.declaration());
    journey.invocation.tool_id.clone_from(&declaration.tool_id);
    journey.invocation.runtime_refs = tool.runtime_refs().to_vec();
    journey.trail.resolved(&declaration.tool_id);
    journey.tool = Some(Arc::clone(&tool));
    redaction::begin(journey, &tool).await?;
    let unavailable = |class, code, why: &str| Err(Refusal::new(class, code, format!("{} {why}", declaration.tool_id)));
    match declaration.lifecycle {
        Lifecycle::Draft => return unavailable(ErrorClass::CapabilityGap, "tool_draft", "is a draft"),
        Lifecycle::Retired => return unavailable(ErrorClass::CapabilityGap, "tool_retired", "was retired"),
        Lifecycle::Disabled => return unavailable(ErrorClass::PolicyBlocked, "tool_disabled", "is disabled here"),
        Lifecycle::RequiresSetup => {
            return unavailable(ErrorClass::SetupRequired, "tool_requires_setup", "has to be set up first");
        }
        Lifecycle::Available | Lifecycle::Deferred | Lifecycle::Deprecated => {}
    }
    if !tool.is_enabled() && guard!("is_enabled") {
        return unavailable(ErrorClass::PolicyBlocked, "tool_disabled", "is disabled by its own interface");
    }
    journey.advance(Status::Selected)?;
    let via = if declaration.aliases.contains(&journey.request.tool) { "alias" } else { "name" };
    let deprecated = declaration.lifecycle == Lifecycle::Deprecated;
    journey.trail.emit(EventType::Selected, json!({ "via": via, "deprecated": deprecated }));
    Ok(Resolved { tool })
}
