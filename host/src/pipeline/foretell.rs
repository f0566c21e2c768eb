//! What would come of a call that is not made: the phases up to the decision, without hooks, and without anybody hearing.

use crate::policy::Explanation;
use crate::record::{ErrorClass, HookEvent, Refusal};

use super::journey::{Journey, Prepared};
use super::{Request, Services, observe, parse, permission, resolve, schema_gate, validate};

/// What would come of a call.
#[derive(Debug)]
pub struct Foretold {
    pub explanation: Explanation,
    /// The hooks that would hear of it, in their order. What they would say is not known.
    pub hooks: Vec<Hearing>,
}

/// A hook that would hear of a call.
#[derive(Debug)]
pub struct Hearing {
    pub hook_id: String,
    pub events: Vec<HookEvent>,
}

/// What would be decided on a call, and why; or what would stop it before. The tool does not run, no hook does, and
/// nobody hears of it. A component that checks or classifies its inputs is asked, in an empty world, as it would be by a
/// call.
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

/// The hooks that fit the call. One that could not be loaded fails wherever it is asked, which is known before.
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
