//! Calls whose process has exited.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::runtime::Runtime;
use anyhow::Context;
use toolcell::{CallContext, CallSpec, Cancellation, ComponentTools, Host, ToolSet};
use toolcell_config::{self as config, ConfigLayers, Principal};
use toolcell_engine::pipeline::StoredCallRef;
use toolcell_journal::{Role, RoleLock, StoredApproval};
use toolcell_spec::{CallRecord, InvocationId, Refusal};

use super::ApprovalCommands;
use crate::ask::Origin;
use crate::exit::Stop;
use crate::exporting::{self, TelemetryGuard};
use crate::options::Settings;
use crate::protected_sources;
use crate::tool_configs::ToolConfigs;
use crate::{hooks, hosts, interrupts, surface};

impl ApprovalCommands {
    pub(super) fn close_unattended(&self) -> anyhow::Result<()> {
        for id in self.journal.with(|store| store.unfinished())? {
            if let Some(held) = self.journal.hold(id, Role::Runner)? {
                self.close(id, held)?;
            }
        }
        Ok(())
    }

    /// Ends the call only if it cannot be resumed.
    pub(super) fn close(
        &self,
        id: InvocationId,
        held: RoleLock,
    ) -> anyhow::Result<Option<CallRecord>> {
        // Read now that no other process handles the call, so what is stored no longer changes.
        let Some(kept) = self
            .journal
            .with(|store| store.kept(id))?
            .filter(|kept| kept.result.is_none())
        else {
            held.retire();
            return Ok(None);
        };
        let exporting = TelemetryGuard(exporting::of_user(&self.home));
        let host = hosts::host(&self.home, |settings| {
            let listeners = exporting::listeners(exporting.0.as_ref());
            settings.approvals(true).listeners(listeners)
        })?;
        let tools = ToolSet::new(Arc::new(host));
        let ended = Runtime::on_this_thread()?.block_on(tools.close(&kept, held));
        Ok(ended)
    }

    /// Uses the original options and folder. Fails if it cannot be tried from here, and releases `held` then.
    pub(super) fn resume(
        &self,
        kept: &StoredApproval,
        held: RoleLock,
    ) -> anyhow::Result<CallRecord> {
        let origin = kept
            .approval
            .plan
            .origin
            .clone()
            .context("the call came through a door that is closed now")?;
        let origin: Origin =
            serde_json::from_value(origin).context("cannot parse how the call was made")?;
        std::env::set_current_dir(&origin.cwd)
            .with_context(|| format!("go to the folder of the call, {}", origin.cwd.display()))?;
        let cancellation = Cancellation::new();
        // The options of the call and the current files, so that what they deny by now stays denied.
        let mut settings = origin
            .options
            .settings(&self.home)
            .map_err(|stop| match stop {
                Stop::Refused(refusal) => failed(&refusal),
                Stop::Failed(error) => error,
            })?;
        if origin.role.is_some() {
            // Without its role, the call could select every tool, and the approver was not asked about that.
            let role = origin.role.as_deref();
            settings.selection = config::selection(&settings.layers, None, role)
                .map_err(|refusal| failed(&refusal))?;
        }
        let closed = protected_sources::close(&self.home, &mut settings, &origin.named);
        let layers = std::mem::take(&mut settings.layers);
        let exporting = TelemetryGuard(exporting::start(&layers, &origin.options.grants));
        let mut host = hosts::host(&self.home, |host| {
            hosts::configure(host, &self.home, &layers, &settings.limits)
                .network(origin.options.grants.network())
                .approvals(true)
                .listeners(exporting::listeners(exporting.0.as_ref()))
        })?;
        let runtime = Runtime::on_this_thread()?;
        let record = runtime.block_on(async {
            interrupts::cancel(cancellation.clone())?;
            hooks::add(&mut host, &self.home, &layers, &closed).await?;
            let configs = ToolConfigs::new(&self.home, &layers);
            let own = load(&host, &origin, &configs)
                .await
                .map_err(|refusal| failed(&refusal))?;
            let selection = std::mem::take(&mut settings.selection);
            let mut tools = host.catalog().tools();
            if let Some(principal) = principal_of(kept, &layers) {
                tools.retain(|tool| settings.has(principal, tool));
                settings
                    .narrow(principal)
                    .map_err(|refusal| failed(&refusal))?;
            }
            let all = settings.tool_set(Arc::new(host));
            let tools = surface::select(all, tools, selection, HashMap::new()).await;
            let spec = CallSpec {
                // A tool of another component may have that name too.
                component: own.tools.first().map(|tool| Arc::clone(tool.component())),
                ..CallSpec::from(StoredCallRef::from(kept))
            };
            let workspace = origin.options.workspace.open_again(&self.home);
            let context = CallContext {
                cancellation,
                workspace: workspace.map_err(|refusal| failed(&refusal))?,
                ..CallContext::default()
            };
            let record = tools.resume(spec, kept, held, context).await;
            std::mem::forget(tools);
            record.context("this host keeps no approvals")
        })?;
        runtime.shutdown_background();
        Ok(record)
    }

    /// Succeeds if the tool cannot be loaded from here, because the process that runs the call decides.
    pub(super) fn check_edit(&self, kept: &StoredApproval, edit: &str) -> Result<(), String> {
        let origin = kept
            .approval
            .plan
            .origin
            .clone()
            .and_then(|origin| serde_json::from_value::<Origin>(origin).ok());
        let Some(origin) = origin else { return Ok(()) };
        // Files and relative paths are those of the call's folder, as when the call is resumed.
        if std::env::set_current_dir(&origin.cwd).is_err() {
            return Ok(());
        }
        let Ok(Settings { limits, layers, .. }) = origin.options.settings(&self.home) else {
            return Ok(());
        };
        let host = hosts::host(&self.home, |settings| {
            let settings = settings.memory_bytes_max(limits.memory_bytes);
            hosts::loading(settings, &self.home, &layers).journal(layers.journal)
        });
        let (Ok(host), Ok(runtime)) = (host, Runtime::on_this_thread()) else {
            return Ok(());
        };
        runtime.block_on(async {
            match load(&host, &origin, &ToolConfigs::new(&self.home, &layers)).await {
                Ok(_) => host.check_edit(&kept.approval, edit).await,
                Err(_) => Ok(()),
            }
        })
    }
}

/// Uses the settings of the current files.
async fn load(
    host: &Host,
    origin: &Origin,
    configs: &ToolConfigs,
) -> Result<ComponentTools, Refusal> {
    let own = load_one(host, &origin.component, configs).await?;
    for component in &origin.callable {
        load_one(host, component, configs).await?;
    }
    Ok(own)
}

async fn load_one(
    host: &Host,
    component: &Path,
    configs: &ToolConfigs,
) -> Result<ComponentTools, Refusal> {
    let loaded = host.load_file(component).await?;
    configs.give(component, &loaded)?;
    Ok(loaded)
}

/// The caller, if the configuration has rules of its own for it.
fn principal_of<'a>(kept: &StoredApproval, layers: &'a ConfigLayers) -> Option<&'a Principal> {
    let actor = kept.approval.actor_ref.as_deref()?;
    layers.principals.iter().find(|one| one.caller() == actor)
}

fn failed(refusal: &Refusal) -> anyhow::Error {
    anyhow::anyhow!("{} [{}]", refusal.message, refusal.code)
}
