//! The bindings of world `hook`. Only in WebAssembly.
#![allow(missing_docs, unreachable_pub, clippy::all)]

use serde_json::Value;

use crate::hook::{Call, Event, Hook, Output};
use crate::output::content_json;

pub mod world {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "hook",
        with: {
            "toolcell:tool/types@0.2.0": crate::component::tool::toolcell::tool::types,
            "toolcell:tool/log@0.2.0": crate::component::tool::toolcell::tool::log,
        },
        pub_export_macro: true,
        export_macro_name: "export_hook",
        default_bindings_module: "::toolcell_guest::__private::hook",
    });
}

use world::exports::toolcell::tool::hook_handler as wit;

impl<H: Hook> wit::Guest for H {
    fn describe() -> wit::Description {
        wit::Description {
            id: H::ID.to_owned(),
            events: H::EVENTS
                .iter()
                .copied()
                .map(wit::HookEvent::from)
                .collect(),
        }
    }

    fn handle(call: wit::HookCall) -> Result<Vec<wit::HookOutput>, String> {
        let mut context: Value = parse("context", &call.context)?;
        let mut take = |name: &str| context.get_mut(name).map(Value::take).unwrap_or_default();
        let call = Call {
            event: call.event.into(),
            input: parse("input", &call.input)?,
            permission_profile: take("permission_profile"),
            actor_ref: take("actor_ref").as_str().map(str::to_owned),
            decision: take("decision"),
            result: take("result"),
            invocation_id: call.invocation_id,
            tool_id: call.tool_id,
        };
        Ok(H::handle(call)?
            .into_iter()
            .map(wit::HookOutput::from)
            .collect())
    }
}

fn parse(what: &str, text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("the host's {what} is not JSON: {error}"))
}

impl From<Output> for wit::HookOutput {
    fn from(output: Output) -> Self {
        let opinion =
            |behavior, reason| Self::PermissionResult(wit::PermissionResult { behavior, reason });
        match output {
            Output::Message(text) => Self::Message(text),
            Output::Progress(message, percent) => {
                Self::Progress(wit::HookProgress { message, percent })
            }
            Output::UpdatedInput(value) => Self::UpdatedInput(value.to_string()),
            Output::Allow(reason) => opinion(wit::Behavior::Allow, reason),
            Output::Ask(reason) => opinion(wit::Behavior::Ask, reason),
            Output::Deny(reason) => opinion(wit::Behavior::Deny, reason),
            Output::AdditionalContext(value) => Self::AdditionalContext(value.to_string()),
            Output::Stop(reason) => Self::Stop(reason),
            Output::UpdatedOutput(content, structured) => Self::UpdatedOutput(wit::ToolOutput {
                content: content_json(&content),
                structured: structured.map(|value| value.to_string()),
            }),
        }
    }
}

impl From<Event> for wit::HookEvent {
    fn from(event: Event) -> Self {
        match event {
            Event::PreToolUse => Self::PreToolUse,
            Event::PermissionRequest => Self::PermissionRequest,
            Event::PermissionDecision => Self::PermissionDecision,
            Event::PostToolUse => Self::PostToolUse,
            Event::PostToolUseFailure => Self::PostToolUseFailure,
            Event::ResultPersistence => Self::ResultPersistence,
        }
    }
}

impl From<wit::HookEvent> for Event {
    fn from(event: wit::HookEvent) -> Self {
        match event {
            wit::HookEvent::PreToolUse => Self::PreToolUse,
            wit::HookEvent::PermissionRequest => Self::PermissionRequest,
            wit::HookEvent::PermissionDecision => Self::PermissionDecision,
            wit::HookEvent::PostToolUse => Self::PostToolUse,
            wit::HookEvent::PostToolUseFailure => Self::PostToolUseFailure,
            wit::HookEvent::ResultPersistence => Self::ResultPersistence,
        }
    }
}
