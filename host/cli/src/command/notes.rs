//! The parts of a component's description that have no effect on this host.

use std::path::Path;
use std::time::Duration;

use crate::runtime::Runtime;
use toolcell::{ComponentTools, Grants, Home, Host};
use toolcell_spec::{ErrorCode, Finding, Refusal};
use toolcell_system::component_file::read_component;

use super::hosts;

const WALL: Duration = Duration::from_secs(1);

/// Fails if `file` loads neither as a tool nor as a hook. A hook has no notes, because its configuration describes it.
pub(super) fn of_component(
    home: &Home,
    file: &Path,
) -> anyhow::Result<Result<Vec<Finding>, Refusal>> {
    let host = hosts::loading_host(home)?;
    Ok(Runtime::on_this_thread()?.block_on(load(&host, file)))
}

async fn load(host: &Host, file: &Path) -> Result<Vec<Finding>, Refusal> {
    let no_tool = match host.load_file(file).await {
        Ok(loaded) => {
            return Ok(ComponentTools::notes(&loaded.tools)
                .into_iter()
                .cloned()
                .collect());
        }
        Err(refusal) if refusal.code == ErrorCode::NotATool => refusal,
        Err(refusal) => return Err(refusal),
    };
    let bytes = read_component(file)?;
    match host
        .load_hook("hook", &bytes, &Grants::default(), WALL)
        .await
    {
        Ok(_) => Ok(Vec::new()),
        Err(refusal) if refusal.code == ErrorCode::NotAHook => Err(no_tool),
        Err(refusal) => Err(refusal),
    }
}
