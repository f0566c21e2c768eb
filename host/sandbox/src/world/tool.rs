//! toolcell's own world: the contract in `wit/`.

use std::pin::pin;

use toolcell_core::executor::BoxFuture;
use toolcell_core::record::Refusal;
use wasmtime::Store;
use wasmtime::component::InstancePre;

use super::{Call, Examined, Outcome, World};
use crate::bindings::tool::ToolPre;
use crate::call;
use crate::state::State;

/// What every tool exports.
pub(super) const GUEST: &str = "toolcell:tool/guest@0.2.0";

pub(super) struct Tool(ToolPre<State>);

impl Tool {
    pub(super) fn new(instance: InstancePre<State>) -> wasmtime::Result<Self> {
        ToolPre::new(instance).map(Self)
    }
}

impl World for Tool {
    /// Calls `describe` in an instance with an empty world.
    fn describe<'a>(&'a self, Examined { engine, limits, .. }: Examined<'a>) -> BoxFuture<'a, Result<String, Refusal>> {
        Box::pin(async move {
            let cancellation = crate::never();
            let mut store = call::empty_world(engine, limits, &cancellation)?;
            let result = {
                let _running = engine.running();
                let work = pin!(async {
                    let guest = self.0.instantiate_async(&mut store).await?;
                    guest.toolcell_tool_guest().call_describe(&mut store).await
                });
                call::bounded(work, limits.wall, &cancellation, None).await
            };
            result.map_err(|error| call::verdict(&error, &store, limits))
        })
    }

    fn invoke<'a>(&'a self, store: &'a mut Store<State>, call: &'a Call) -> BoxFuture<'a, wasmtime::Result<Outcome>> {
        Box::pin(async move {
            let guest = self.0.instantiate_async(&mut *store).await?;
            guest.toolcell_tool_guest().call_invoke(store, call).await
        })
    }
}
