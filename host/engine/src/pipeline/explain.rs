//! Dry run of a call: the phases up to the decision, without hooks and without listeners.

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
    /// The decision that would be made, and why.
    pub explanation: Explanation,
    /// The hooks that would run, in their order. Their outputs are not known.
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
    /// The hook's name in records.
    pub hook_id: String,
    /// The events of this call that the hook would get, in their order.
    pub events: Vec<HookEvent>,
}

phase_token! {
    /// A call, and the hooks that would run. None of them ran, so it can be explained, and never permitted.
    pub(super) Unheard((PreparedCall, Vec<HookPreview>))
}

/// Explains what would be decided on a call, or returns the refusal that would end it before. Neither the tool nor a
/// hook runs, and no listener of the host gets events. A component that checks or classifies its inputs does so with an
/// empty capability, as for a real call.
pub async fn explain(services: &Services, request: Request) -> Result<CallExplanation, Refusal> {
    let mut journey = CallState::unheard(services, request);
    let observed = take_in(&mut journey).await?;
    let unheard = hearing(services, observed)?;
    permission::explain(&mut journey, unheard).await
}

/// Finds the hooks that match the call. Fails if a blocking hook could not be loaded, because it would fail in every
/// call.
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
