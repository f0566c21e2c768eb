//! Components of ACT (actcore.dev): `act:tools@0.1.0` and `@0.2.0`.

mod cbor;
mod denied;
mod describe;
mod outcome;
mod section;
mod session;
mod stream;
mod types;

use std::collections::HashMap;

use serde_json::{Value, json};
use toolcell_spec::dialect::sections;
use toolcell_spec::{ErrorCode, JSON_VALUES_MAX, Refusal, read_json};
use toolcell_system::BoxFuture;
use wasmtime::Store;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{
    ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower,
};
use wasmtime::error::Context;

use super::{Call, ComponentWorld, FirstLoad, Outcome};
use crate::call;
use crate::state::StoreState;

use section::ActSection;
use session::SessionExports;
use types::{ActError, ActMetadata, ListToolsResponse, ToolEvent, ToolResult};

pub(super) use denied::{link_consent, link_credentials};

/// An ACT component exports one of them.
pub(super) const PROVIDERS: [&str; 2] = [
    "act:tools/tool-provider@0.2.0",
    "act:tools/tool-provider@0.1.0",
];

type ListParams<'a> = (&'a [(String, Vec<u8>)],);
type ListResults = (Result<ListToolsResponse, ActError>,);
type CallParams<'a> = (&'a str, &'a [u8], &'a [(String, Vec<u8>)]);

pub(super) struct ActWorld {
    instance: InstancePre<StoreState>,
    list_tools: ComponentExportIndex,
    call_tool: ComponentExportIndex,
    sessions: Option<SessionExports>,
    /// Names of tools that have another one here.
    own_names: HashMap<String, String>,
}

impl ActWorld {
    pub(super) fn new(instance: InstancePre<StoreState>) -> wasmtime::Result<Self> {
        let provider = PROVIDERS
            .iter()
            .find_map(|name| instance.component().get_export_index(None, *name));
        let provider =
            provider.ok_or_else(|| wasmtime::format_err!("it exports no tool-provider"))?;
        Ok(Self {
            list_tools: function::<ListParams<'_>, ListResults>(
                &instance,
                &provider,
                "list-tools",
            )?,
            call_tool: function::<CallParams<'_>, (ToolResult,)>(
                &instance,
                &provider,
                "call-tool",
            )?,
            sessions: SessionExports::find(&instance)?,
            own_names: HashMap::new(),
            instance,
        })
    }

    async fn events(
        &self,
        store: &mut Store<StoreState>,
        guest: Instance,
        (tool, arguments): (&str, &[u8]),
        metadata: &ActMetadata,
    ) -> wasmtime::Result<Vec<ToolEvent>> {
        let call_tool =
            guest.get_typed_func::<CallParams<'_>, (ToolResult,)>(&mut *store, &self.call_tool)?;
        match call_tool
            .call_async(&mut *store, (tool, arguments, metadata.as_slice()))
            .await?
        {
            (ToolResult::Immediate(events),) => {
                let progress = events.iter().filter_map(|event| match event {
                    ToolEvent::Content(part) => outcome::progress(part),
                    ToolEvent::Error(_) => None,
                });
                progress.for_each(|update| store.data_mut().pass(update));
                stream::bounded(events)
            }
            (ToolResult::Streaming(events),) => stream::collect(store, events, seen).await,
        }
    }
}

fn seen(state: &mut StoreState, event: &ToolEvent) {
    let ToolEvent::Content(part) = event else {
        return;
    };
    match outcome::progress(part) {
        Some(update) => state.pass(update),
        None => {
            let block = outcome::piece(part.clone()).into_block();
            state.offer_partial(json!([block]).to_string());
        }
    }
}

fn function<Params, Results>(
    instance: &InstancePre<StoreState>,
    interface: &ComponentExportIndex,
    name: &str,
) -> wasmtime::Result<ComponentExportIndex>
where
    Params: ComponentNamedList + Lower,
    Results: ComponentNamedList + Lift,
{
    match instance.component().get_export(Some(interface), name) {
        Some((ComponentItem::ComponentFunc(function), index)) => {
            let types = instance.instance_type();
            function
                .typecheck::<Params, Results>(&types)
                .with_context(|| format!("the types of `{name}`"))?;
            Ok(index)
        }
        _ => Err(wasmtime::format_err!("it has no function `{name}`")),
    }
}

impl ComponentWorld for ActWorld {
    /// Combines `list-tools`, in an empty world, with the section `act:component`.
    fn describe<'a>(&'a self, examined: FirstLoad<'a>) -> BoxFuture<'a, Result<String, Refusal>> {
        Box::pin(async move {
            let FirstLoad {
                bytes,
                imports,
                namespace,
                ..
            } = examined;
            let unreadable = |why: String| Refusal::new(ErrorCode::DescriptionInvalid, why);
            let section = sections::custom(bytes, section::NAME).map_err(unreadable)?;
            let section = section
                .map(ActSection::read)
                .transpose()
                .map_err(unreadable)?;
            let work = async |store: &mut Store<StoreState>| {
                let guest = self.instance.instantiate_async(&mut *store).await?;
                let list_tools = guest
                    .get_typed_func::<ListParams<'_>, ListResults>(&mut *store, &self.list_tools)?;
                list_tools.call_async(store, (&[],)).await
            };
            let (listed,) = call::examine(examined, work).await?;
            let tools = listed.map_err(|error| {
                let why = format!("{}: {}", error.kind, error.message.into_text());
                let why = call::cut(why, call::MESSAGE_CHARS_MAX);
                unreadable(format!("the component cannot list its tools: {why}"))
            })?;
            describe::toolkit(tools.tools, section.as_ref(), imports, namespace).map_err(unreadable)
        })
    }

    fn described(&mut self, toolkit: &str) {
        self.own_names = describe::own_names(toolkit);
    }

    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<StoreState>,
        call: &'a Call,
    ) -> BoxFuture<'a, wasmtime::Result<Outcome>> {
        Box::pin(async move {
            let input = read_json::<Value>(&call.input, JSON_VALUES_MAX);
            let arguments = match input.and_then(|input| cbor::from_json(&input)) {
                Ok(arguments) => arguments,
                Err(why) => return Ok(outcome::invalid_arguments(why)),
            };
            let tool = self.own_names.get(&call.tool).unwrap_or(&call.tool);
            let guest = self.instance.instantiate_async(&mut *store).await?;
            let called = (tool.as_str(), arguments.as_slice());
            let events = self
                .events(store, guest, called, &ActMetadata::new())
                .await?;
            let events = match &self.sessions {
                Some(sessions) if session::is_needed(&events) => {
                    sessions.events(self, store, guest, called).await?
                }
                _ => events,
            };
            Ok(outcome::outcome(events))
        })
    }
}
