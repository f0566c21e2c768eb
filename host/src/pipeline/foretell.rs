//! Dry run of a call: the phases up to the decision, without hooks and without listeners.

use crate::policy::Explanation;
use crate::record::{ErrorClass, HookEvent, Refusal};

use super::journey::{Journey, Prepared};
use super::{Request, Services, observe, parse, permission, resolve, schema_gate, validate};

/// Expected outcome of a call.
#[derive(Debug)]
pub struct Foretold {
    pub explanation: Explanation,
    /// The hooks that would run, in their order. Their outputs are not known.
    pub hooks: Vec<Hearing>,
}

/// A hook that would run for a call.
#[derive(Debug)]
pub struct Hearing {
    pub hook_id: String,
    pub events: Vec<HookEvent>,
}

/// Explains what would be decided on a call, or returns the refusal that would end it before. Neither the tool nor a
/// hook runs, and no listener of the host gets events. A component that checks or classifies its inputs does so with an
/// empty capability, as for a real call.
pub async fn explain(services: &Services, request: Request) -> Result<Foretold, Refusal> {
    let mut journey = Journey::unheard(services, request);
    let resolved = resolve::resolve(&mut journey).await?;
    let parsed = parse::parse(&journey, resolved).await?;
    let gated = schema_gate::gate(&mut journey, parsed)?;
    let valid = validate::validate(&mut journey, gated).await?;
    let observed = observe::observe(&mut journey, valid).await?;
    let hooks = hearing(services, &observed)?;
    Ok(Foretold { explanation: permission::explain(&journey, &observed).await?, hooks })
}

/// The hooks that match the call. Fails if a blocking hook could not be loaded, because it would fail in every call.
fn hearing(services: &Services, prepared: &Prepared) -> Result<Vec<Hearing>, Refusal> {
    let declaration = prepared.tool.declaration();
    let mut heard: Vec<Hearing> = Vec::new();
    for event in HookEvent::ALL {
        for hook in services.hooks.hearing(event, &declaration.tool_id, &declaration.namespace) {
            if let Some(why) = hook.missing() {
                if hook.blocks_at(event) {
                    let message = format!("the hook {} could not be loaded, and so the call may not go on", hook.id());
                    return Err(Refusal::new(ErrorClass::HookBlocked, "hook_not_loaded", message).detail(why));
                }
                continue;
            }
            match heard.iter_mut().find(|heard| heard.hook_id == hook.id()) {
                Some(heard) => heard.events.push(event),
                None => heard.push(Hearing { hook_id: hook.id().to_owned(), events: vec![event] }),
            }
        }
    }
    Ok(heard)
}
