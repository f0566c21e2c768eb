//! Dry run of a call up to the decision, without hooks and listeners.

use toolcell_policy::Explanation;
use toolcell_spec::{ErrorCode, HookEvent, Refusal};

use super::call_state::{CallState, PreparedCall, phase_token};
use super::observe::Observed;
use super::{Request, Services, permission, take_in};

/// Expected outcome of a call.
///
/// ```
/// use toolcell_engine::pipeline::CallExplanation;
///
/// fn why(foretold: &CallExplanation) -> &str {
///     let explanation = &foretold.explanation;
///     explanation.refusal.as_ref().map_or(&explanation.decision.reason.message, |refusal| &refusal.message)
/// }
/// ```
#[derive(Debug)]
pub struct CallExplanation {
    pub explanation: Explanation,
    /// In running order; their outputs are unknown.
    pub hooks: Vec<HookPreview>,
}

/// A hook that would run for a call.
///
/// ```
/// use toolcell_engine::pipeline::HookPreview;
///
/// fn line(hook: &HookPreview) -> String {
///     let events: Vec<&str> = hook.events.iter().map(|event| event.as_str()).collect();
///     format!("{} at {}", hook.hook_id, events.join(", "))
/// }
/// ```
#[derive(Debug)]
pub struct HookPreview {
    pub hook_id: String,
    pub events: Vec<HookEvent>,
}

phase_token! {
    /// None of the hooks ran, so the call can be explained, and never permitted.
    pub(super) Unheard((PreparedCall, Vec<HookPreview>))
}

/// Explains the decision, or returns an earlier refusal. No tool, hook or listener runs; a component's own checks and
/// classification run with an empty capability, as for a real call.
pub async fn explain(services: &Services, request: Request) -> Result<CallExplanation, Refusal> {
    let mut journey = CallState::unheard(services, request);
    let observed = take_in(&mut journey).await?;
    let unheard = hearing(services, observed)?;
    permission::explain(&mut journey, unheard).await
}

/// Fails if a blocking hook could not be loaded, because it would fail in every call.
fn hearing(services: &Services, observed: Observed) -> Result<Unheard, Refusal> {
    let prepared = observed.open();
    let declaration = prepared.tool.declaration();
    let mut heard: Vec<HookPreview> = Vec::new();
    for event in HookEvent::ALL {
        for hook in services.hooks.hearing(event, declaration) {
            if let Some(why) = hook.missing() {
                if hook.blocks_at(event) {
                    let message = format!(
                        "the hook {} could not be loaded, and so the call may not go on",
                        hook.id()
                    );
                    return Err(Refusal::new(ErrorCode::HookNotLoaded, message).detail(why));
                }
                continue;
            }
            match heard.iter_mut().find(|heard| heard.hook_id == hook.id()) {
                Some(heard) => heard.events.push(event),
                None => heard.push(HookPreview {
                    hook_id: hook.id().to_owned(),
                    events: vec![event],
                }),
            }
        }
    }
    Ok(Unheard((prepared, heard)))
}
