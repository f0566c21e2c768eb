//! Hook components: the world `hook`, with the machinery of tools. Each event gets a fresh store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcell_executor::hook::{
    Hook, HookAnswer, HookCall, HookFuture, HookOutput, HookProgress, UpdatedOutput,
};
use toolcell_policy::{HookPermit, Limits};
use toolcell_spec::{
    Behavior, Content, ErrorCode, HookEvent, Input, PermissionResult, Refusal, check_numbers,
};
use wasmtime::Store;
use wasmtime::component::Component;

use super::bindings::hook::HookPre;
use super::bindings::hook::exports::toolcell::tool::hook_handler as wit;
use super::compile::CompileOrder;
use super::component::link_handler;
use super::engine::{GuestEngine, Meter};
use super::loader::CachedCode;
use super::state::StoreState;
use super::{Sandbox, call, linking, never};

const HANDLER: &str = "toolcell:tool/hook-handler@0.2.0";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HookDescription {
    /// An unverified claim, for people.
    id: String,
    events: Vec<HookEvent>,
}

pub struct SandboxedHook {
    sandbox: Arc<Sandbox>,
    id: String,
    engine: GuestEngine,
    component: HookPre<StoreState>,
    description: HookDescription,
    permit: HookPermit,
}

impl SandboxedHook {
    /// Every run of the hook gets what `permit` gives, and nothing else.
    pub async fn load(
        sandbox: &Arc<Sandbox>,
        id: &str,
        bytes: &[u8],
        permit: HookPermit,
    ) -> Result<Self, Refusal> {
        let loader = &sandbox.loader;
        // A separate entry from the one that the same bytes would have as a tool, because their descriptions differ.
        let name = blake3::hash(&[blake3::hash(bytes).as_bytes().as_slice(), b"hook"].concat());
        let mut entry: Option<CachedCode<HookDescription>> =
            loader.cached(&name, Meter::Fuel).await?;
        let known = entry
            .as_mut()
            .and_then(|(_, entry)| entry.take_description());
        let order = CompileOrder::thorough(Meter::Fuel);
        let code = loader.code(entry, bytes, order).await?;
        let is_new = known.is_none();
        let loaded = async {
            let (engine, component) = code.component(&loader.engines)?;
            let component = link(engine, &component)?;
            let description = match known {
                Some(description) => description,
                None => {
                    let _place = sandbox.checks.acquire().await;
                    examine(engine, &component, &permit.limits().for_checks()).await?
                }
            };
            Ok::<_, Refusal>((engine.clone(), component, description))
        };
        let loaded = loaded.await;
        if is_new {
            let description = loaded.as_ref().ok().map(|(_, _, known)| known.clone());
            loader.keep_code(&name, code, description).await;
        }
        let (engine, component, description) = loaded?;
        Ok(Self {
            sandbox: Arc::clone(sandbox),
            id: id.to_owned(),
            engine,
            component,
            description,
            permit,
        })
    }

    async fn run(&self, call: wit::HookCall) -> HookAnswer {
        let _place = self.sandbox.checks.acquire().await;
        let limits = self.permit.limits();
        let engine = &self.engine;
        let cancellation = never();
        let mut store = match call::offline(engine, self.permit.capability(), limits, &cancellation)
        {
            Ok(store) => store,
            Err(error) => {
                return Err(format!(
                    "what the hook was granted cannot be opened: {error:#}"
                ))
                .into();
            }
        };
        let work = async |store: &mut Store<StoreState>| {
            let guest = self.component.instantiate_async(&mut *store).await?;
            let guest = guest.toolcell_tool_hook_handler();
            guest.call_handle(store, &call).await
        };
        let outputs = match call::run(engine, &mut store, limits, &cancellation, work).await {
            Ok(Ok(outputs)) => accept(outputs, limits.output_bytes),
            Ok(Err(why)) => Err(call::cut(why, call::MESSAGE_CHARS_MAX)),
            Err(Refusal {
                message, detail, ..
            }) => Err(detail.map_or(message.clone(), |detail| format!("{message}: {detail}"))),
        };
        let unsettled = store.data_mut().unsettled();
        let logs = store.into_data().logs.into_content();
        let settled = unsettled.settle().await;
        HookAnswer {
            outputs: if settled {
                outputs
            } else {
                Err(unfinished(outputs))
            },
            logs,
        }
    }
}

impl Hook for SandboxedHook {
    fn id(&self) -> &str {
        &self.id
    }

    fn events(&self) -> &[HookEvent] {
        &self.description.events
    }

    fn handle<'a>(&'a self, call: &'a HookCall) -> HookFuture<'a> {
        Box::pin(self.run(lowered(call)))
    }
}

/// The hook may answer for a file that is not written yet.
fn unfinished(outputs: Result<Vec<HookOutput>, String>) -> String {
    match outputs {
        Ok(_) => format!("the hook answered, but {}", call::UNFINISHED),
        Err(why) => format!("{why}; {}", call::UNFINISHED),
    }
}

fn link(engine: &GuestEngine, component: &Component) -> Result<HookPre<StoreState>, Refusal> {
    let what = ("hook", ErrorCode::NotAHook, HANDLER);
    link_handler(engine, component, what, linking::for_hook, HookPre::new)
}

/// Calls `describe` twice, in an empty world, and refuses different results.
async fn examine(
    engine: &GuestEngine,
    component: &HookPre<StoreState>,
    limits: &Limits,
) -> Result<HookDescription, Refusal> {
    let first = describe(engine, component, limits).await?;
    if first != describe(engine, component, limits).await? {
        return Err(Refusal::new(
            ErrorCode::DescriptionChanges,
            "the hook describes itself differently each time".to_owned(),
        ));
    }
    if first.events.is_empty() {
        return Err(Refusal::new(
            ErrorCode::DescriptionInvalid,
            "the hook wants to hear of no event".to_owned(),
        ));
    }
    Ok(first)
}

async fn describe(
    engine: &GuestEngine,
    component: &HookPre<StoreState>,
    limits: &Limits,
) -> Result<HookDescription, Refusal> {
    let work = async |store: &mut Store<StoreState>| {
        let guest = component.instantiate_async(&mut *store).await?;
        let guest = guest.toolcell_tool_hook_handler();
        guest.call_describe(store).await
    };
    let said = call::ask(engine, limits, work).await?;
    let events = HookEvent::ALL
        .into_iter()
        .filter(|event| said.events.contains(&event_of(*event)))
        .collect();
    Ok(HookDescription {
        id: call::plain(&said.id),
        events,
    })
}

fn event_of(event: HookEvent) -> wit::HookEvent {
    match event {
        HookEvent::PreToolUse => wit::HookEvent::PreToolUse,
        HookEvent::PostToolUse => wit::HookEvent::PostToolUse,
        HookEvent::PostToolUseFailure => wit::HookEvent::PostToolUseFailure,
        HookEvent::PermissionRequest => wit::HookEvent::PermissionRequest,
        HookEvent::PermissionDecision => wit::HookEvent::PermissionDecision,
        HookEvent::ResultPersistence => wit::HookEvent::ResultPersistence,
    }
}

fn lowered(call: &HookCall) -> wit::HookCall {
    let context = json!({
        "permission_profile": call.permission_profile,
        "actor_ref": call.actor_ref,
        "decision": call.decision,
        "result": call.result,
    });
    wit::HookCall {
        event: event_of(call.event),
        invocation_id: call.invocation_id.to_string(),
        tool_id: call.tool_id.clone(),
        input: call.input.to_string(),
        context: context.to_string(),
    }
}

/// One unreadable output fails all, because a guard's answer must take effect as a whole.
fn accept(outputs: Vec<wit::HookOutput>, bytes_max: u64) -> Result<Vec<HookOutput>, String> {
    let bytes = outputs.iter().map(size).fold(0, u64::saturating_add);
    if bytes > bytes_max {
        return Err(format!(
            "the hook answered {bytes} bytes; {bytes_max} are allowed"
        ));
    }
    outputs.into_iter().map(lifted).collect()
}

fn lifted(output: wit::HookOutput) -> Result<HookOutput, String> {
    Ok(match output {
        wit::HookOutput::Message(text) => HookOutput::Message(text),
        wit::HookOutput::Progress(wit::HookProgress { message, percent }) => {
            HookOutput::Progress(HookProgress { message, percent })
        }
        wit::HookOutput::UpdatedInput(text) => {
            HookOutput::UpdatedInput(parsed("updated_input", text)?)
        }
        wit::HookOutput::PermissionResult(wit::PermissionResult { behavior, reason }) => {
            HookOutput::PermissionResult(PermissionResult {
                behavior: behavior_of(behavior),
                reason,
            })
        }
        wit::HookOutput::AdditionalContext(text) => {
            HookOutput::AdditionalContext(parsed("additional_context", text)?)
        }
        wit::HookOutput::Stop(reason) => HookOutput::Stop { reason },
        wit::HookOutput::UpdatedOutput(wit::ToolOutput {
            content,
            structured,
        }) => {
            let content = exactly(content)?;
            let content: Vec<Content> = serde_json::from_value(content)
                .map_err(|error| format!("updated_output is not an output: {error}"))?;
            let structured = structured.map(exactly).transpose()?;
            HookOutput::UpdatedOutput(UpdatedOutput {
                content,
                structured,
            })
        }
    })
}

fn behavior_of(behavior: wit::Behavior) -> Behavior {
    match behavior {
        wit::Behavior::Allow => Behavior::Allow,
        wit::Behavior::Ask => Behavior::Ask,
        wit::Behavior::Deny => Behavior::Deny,
        wit::Behavior::Passthrough => Behavior::Passthrough,
    }
}

/// A duplicate key is an error, because it is ambiguous.
fn parsed(what: &str, text: String) -> Result<Value, String> {
    Input::from_text(text)
        .value()
        .cloned()
        .map_err(|error| format!("{what} is not JSON: {error}"))
}

/// Keeps every number as it was written; see [`parsed`].
fn exactly(text: String) -> Result<Value, String> {
    check_numbers(&text)?;
    parsed("updated_output", text)
}

fn size(output: &wit::HookOutput) -> u64 {
    let bytes = match output {
        wit::HookOutput::Message(text)
        | wit::HookOutput::UpdatedInput(text)
        | wit::HookOutput::AdditionalContext(text)
        | wit::HookOutput::Stop(text) => text.len(),
        wit::HookOutput::Progress(progress) => progress.message.len(),
        wit::HookOutput::PermissionResult(result) => result.reason.len(),
        wit::HookOutput::UpdatedOutput(output) => {
            output.content.len() + output.structured.as_ref().map_or(0, String::len)
        }
    };
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_fails_whose_last_file_operation_has_not_ended() {
        let said = unfinished(Ok(vec![HookOutput::Message("done".to_owned())]));
        assert_eq!(said, format!("the hook answered, but {}", call::UNFINISHED));
        assert_eq!(
            unfinished(Err("it crashed".to_owned())),
            format!("it crashed; {}", call::UNFINISHED)
        );
    }
}
