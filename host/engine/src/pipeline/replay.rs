//! Beside phase 9: what a replay needs in a call's record.

use std::path::Path;
use std::sync::Arc;

use crate::catalog::Tool;
use toolcell_executor::Nondeterminism;
use toolcell_journal::Keep;
use toolcell_policy::Permit;
use toolcell_spec::{ReplayBlocker, ReplayData, Status};

use super::call_state::CallState;
use super::execute::user_info;
use super::retry;

/// Sources of random numbers and clock readings. A call that cannot be replayed records none: a seed would only reveal
/// the guest's keys.
pub(super) fn nondeterminism(
    journey: &CallState<'_>,
    tool: &Tool,
    permit: &Permit,
) -> Nondeterminism {
    match &journey.request.replay {
        Some(replay) => Nondeterminism::Replayed(Arc::clone(replay)),
        None if is_kept(journey) && blockers(journey, tool, permit).is_empty() => {
            Nondeterminism::Recorded
        }
        None => Nondeterminism::Fresh,
    }
}

pub(super) fn note(
    journey: &mut CallState<'_>,
    tool: &Tool,
    permit: &Permit,
    recorded: Option<ReplayData>,
) {
    if journey.request.replay.is_some() || !is_kept(journey) {
        return;
    }
    let mut blocked_by = blockers(journey, tool, permit);
    if journey
        .invocation
        .status_transitions()
        .iter()
        .any(|step| step.to == Status::NeedsInput)
    {
        blocked_by.push(ReplayBlocker::QuestionsAsked);
    }
    if journey.invocation.extra.contains_key(retry::ATTEMPTS) {
        blocked_by.push(ReplayBlocker::AttemptRepeated);
    }
    let data = if blocked_by.is_empty() {
        let component_file = journey.services.catalog.origin(tool.component());
        ReplayData {
            component_file: component_file.filter(|from| Path::new(from).is_absolute()),
            blocked_by,
            ..recorded.unwrap_or_default()
        }
    } else {
        ReplayData {
            blocked_by,
            ..ReplayData::default()
        }
    };
    if let Ok(data) = serde_json::to_value(data) {
        journey.invocation.note("replay", data);
    }
}

fn is_kept(journey: &CallState<'_>) -> bool {
    let settings = journey.services.calls.settings();
    settings.replay && settings.keep != Keep::None
}

/// Obstacles to a replay. An empty world allocates nothing.
fn blockers(journey: &CallState<'_>, tool: &Tool, permit: &Permit) -> Vec<ReplayBlocker> {
    let world = permit.capability();
    let reaches = [
        (ReplayBlocker::FilesUsed, !world.mounts.is_empty()),
        (ReplayBlocker::DraftsUsed, world.scratch.is_some()),
        (ReplayBlocker::NetworkUsed, !world.network.is_empty()),
        (ReplayBlocker::SecretsUsed, !world.secrets.is_empty()),
        (
            ReplayBlocker::EnvironmentUsed,
            !world.environment.is_empty(),
        ),
        (ReplayBlocker::ToolsUsed, !world.tools.is_empty()),
        (ReplayBlocker::SettingsUsed, tool.configuration().is_some()),
        (
            ReplayBlocker::UserInfoUsed,
            user_info(journey, tool).is_some(),
        ),
        (
            ReplayBlocker::InputRedacted,
            journey.redaction.hides_input(),
        ),
        (ReplayBlocker::OutputNotKept, !journey.keeping().journal),
    ];
    reaches
        .into_iter()
        .filter_map(|(blocker, reached)| reached.then_some(blocker))
        .collect()
}
