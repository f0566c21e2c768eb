//! toolcell's own world: the contract in `wit/`.

use toolcell_spec::Refusal;
use toolcell_system::BoxFuture;
use wasmtime::Store;
use wasmtime::component::InstancePre;

use super::{Call, ComponentWorld, FirstLoad, Outcome};
use crate::bindings::configuring::ConfiguringIndices;
use crate::bindings::tool::toolcell::tool::types::{ErrorClass, ToolError};
use crate::bindings::tool::{self as contract, ToolPre};
use crate::call;
use crate::component::OptionalExports;
use crate::state::StoreState;

pub(super) const GUEST: &str = "toolcell:tool/guest@0.2.0";

pub(super) struct ToolWorld {
    tool: ToolPre<StoreState>,
    /// Indices of the instances that `tool` makes, because the one that takes the settings is the one that runs.
    configuring: Option<ConfiguringIndices>,
}

impl ToolWorld {
    pub(super) fn new(
        instance: InstancePre<StoreState>,
        exports: OptionalExports,
    ) -> wasmtime::Result<Self> {
        let configuring = exports
            .configuration
            .then(|| ConfiguringIndices::new(&instance))
            .transpose()?;
        Ok(Self {
            tool: ToolPre::new(instance)?,
            configuring,
        })
    }

    /// The error is the guest's refusal of `config`.
    async fn configured(
        &self,
        store: &mut Store<StoreState>,
        config: String,
    ) -> wasmtime::Result<Result<contract::Tool, ToolError>> {
        let Some(configuring) = &self.configuring else {
            // The catalog refuses such settings when the tool is loaded.
            return Err(wasmtime::Error::msg("the component takes no settings"));
        };
        let instance = self
            .tool
            .instance_pre()
            .instantiate_async(&mut *store)
            .await?;
        let guest = configuring.load(&mut *store, &instance)?;
        match guest
            .toolcell_tool_configuration()
            .call_configure(&mut *store, &config)
            .await?
        {
            Ok(()) => contract::Tool::new(store, &instance).map(Ok),
            // Whatever class the guest chose: what has to change is the settings.
            Err(error) => Ok(Err(ToolError {
                class: ErrorClass::SetupRequired,
                ..error
            })),
        }
    }
}

impl ComponentWorld for ToolWorld {
    fn describe<'a>(&'a self, examined: FirstLoad<'a>) -> BoxFuture<'a, Result<String, Refusal>> {
        let work = async |store: &mut Store<StoreState>| {
            let guest = self.tool.instantiate_async(&mut *store).await?;
            guest.toolcell_tool_guest().call_describe(store).await
        };
        Box::pin(call::examine(examined, work))
    }

    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<StoreState>,
        call: &'a Call,
    ) -> BoxFuture<'a, wasmtime::Result<Outcome>> {
        Box::pin(async move {
            let guest = match store.data_mut().configuration.take() {
                None => self.tool.instantiate_async(&mut *store).await?,
                // Boxed, to keep the future of all other calls small.
                Some(config) => {
                    match Box::pin(self.configured(store, config.as_ref().to_owned())).await? {
                        Ok(guest) => guest,
                        Err(error) => return Ok(Outcome::Failure(error)),
                    }
                }
            };
            guest.toolcell_tool_guest().call_invoke(store, call).await
        })
    }
}
